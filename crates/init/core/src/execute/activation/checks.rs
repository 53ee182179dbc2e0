//! Conditions and asserts of units that are about to start.

use muster_activation::conditions::{ConditionFacts, ConditionHost};
use muster_engine::event::What;
use muster_engine::ids::UnitId;
use muster_engine::protocol::Severity;

use super::chain;
use crate::core::Core;

/// What the unified mode of the cgroup tree is called.
const UNIFIED: &str = "unified";

impl Core {
    /// Looks at a unit's conditions and asserts.
    pub(crate) fn check(&mut self, unit: UnitId) {
        let verdicts = self.verdicts(unit);
        self.push(What::Checked { unit, verdicts });
    }

    fn verdicts(&mut self, unit: UnitId) -> Vec<bool> {
        let Some(name) = self.name_of(unit) else {
            return Vec::new();
        };
        let config = self.units.config(&name);
        let mut verdicts = Vec::with_capacity(config.conditions.len());
        for condition in &config.conditions {
            let held = self.condition_host().holds(condition);
            verdicts.push(held.unwrap_or_else(|error| {
                self.say(Severity::Warning, Some(unit), &chain(&error));
                false
            }));
        }
        verdicts
    }

    /// The machine, as conditions see it.
    pub(super) fn condition_host(&mut self) -> &ConditionHost {
        if self.activation.conditions.is_none() {
            let facts = self.condition_facts();
            let host = ConditionHost::new(&self.options.root, facts);
            self.activation.conditions = Some(host);
        }
        let host = self.activation.conditions.as_ref();
        host.expect("it was just put there")
    }

    fn condition_facts(&self) -> ConditionFacts {
        let (mode, root) = self.platform.cgroup_tree();
        let unified = mode == UNIFIED;
        // The root of a tree in a legacy hierarchy has no list; the kernel's own list tells what is compiled in.
        let controllers = if unified {
            std::fs::read_to_string(root.join("cgroup.controllers")).map(|text| {
                let words = text.split_whitespace();
                words.map(Into::into).collect()
            })
        } else {
            std::fs::read_to_string("/proc/cgroups").map(|text| {
                let lines = text.lines().filter(|line| !line.starts_with('#'));
                lines
                    .filter(|line| line.ends_with('1'))
                    .filter_map(|line| Some(line.split_whitespace().next()?.into()))
                    .collect()
            })
        };
        ConditionFacts {
            host: self.units.host().specifiers.clone(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            first_boot: self.is_first_boot(),
            unified_cgroups: unified,
            controllers: controllers.unwrap_or_default(),
            cgroup_root: Some(root).filter(|root| !root.as_os_str().is_empty()),
        }
    }

    /// A machine that has no identity yet was never started.
    pub(super) fn is_first_boot(&self) -> bool {
        self.units.host().specifiers.machine_id.is_none()
    }
}
