//! What a group was not given, as long as it has not been given that.

use muster_cgroup::{Occasion, Plan, Unapplied};
use muster_engine::ids::UnitId;
use muster_unit_file::config::UnitConfig;

use super::super::{Asked, is_stated};
use crate::core::Core;

/// What a group lacks since it was last given its limits. A disk, a node or an interface that was missing then may be there by
/// now, and the group lacks its limits all the same.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// What could not even be asked for.
    planned: Vec<Unapplied>,
    /// What the kernel refused.
    refused: Vec<Unapplied>,
}

impl Missing {
    pub(super) fn new(asked: &Asked, plan: &Plan, refused: Vec<Unapplied>) -> Self {
        let planned = planned(asked, plan);
        Self { planned, refused }
    }
}

fn planned(asked: &Asked, plan: &Plan) -> Vec<Unapplied> {
    let unapplied = asked.unapplied.iter().chain(&asked.closed);
    unapplied.chain(&plan.unapplied).cloned().collect()
}

impl Core {
    /// Settings about resources that have no effect, with the reason, for people.
    pub(crate) fn unapplied_resources(&mut self, unit: UnitId, config: &UnitConfig) -> Vec<String> {
        let asked = self.asked(unit, config);
        let plan = Plan::new(&asked.resources, self.platform.offer(), Occasion::New);
        let mut planned = planned(&asked, &plan);
        if let Some((config, path)) = self.group_that_runs(unit) {
            // What the kernel refused an earlier manager it is asked for once more; and what could not be asked for before
            // may be there by now.
            let known = self.limited.missing.get(&unit);
            let is_other = known.is_some_and(|known| known.planned != planned);
            if is_other || self.lacks_limits(unit, &path) {
                // It was said when the unit was started.
                let _ = self.apply_limits(unit, &config, &path, Occasion::Change);
            }
            if let Some(known) = self.limited.missing.get(&unit) {
                planned.clone_from(&known.planned);
            }
        }
        let refused = self.limited.missing.get(&unit);
        let refused = refused.into_iter().flat_map(|known| &known.refused);
        let mut said: Vec<String> = Vec::new();
        for one in planned.iter().chain(refused) {
            let text = one.to_string();
            if is_stated(config, one.setting) && !said.contains(&text) {
                said.push(text);
            }
        }
        said
    }
}
