//! What a run is told about whose doing it is: `$TRIGGER_UNIT` and what goes with it.
//!
//! Timers and paths say so, as with systemd. It is known from the job that starts the unit, and kept while the unit is up; a core
//! that takes over does not know it of runs whose job has ended.

use std::collections::HashMap;

use muster_engine::ids::UnitId;
use muster_engine::job::{JobType, Origin};
use muster_engine::types::Machine;
use muster_unit_file::config::UnitKind;

use crate::core::Core;

/// Variables, and their values.
type Variables = Vec<(&'static str, String)>;

/// Whose doing runs are.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    by_unit: HashMap<UnitId, Variables>,
    /// Which of its lines made a path unit start something.
    lines: HashMap<UnitId, u16>,
}

impl Reasons {
    /// A path unit starts something because of this line.
    pub(super) fn note_line(&mut self, path: UnitId, index: u16) {
        self.lines.insert(path, index);
    }

    /// A unit has nothing to do with it any more.
    pub(super) fn forget(&mut self, unit: UnitId) {
        self.by_unit.remove(&unit);
        self.lines.remove(&unit);
    }
}

impl Core {
    /// What a process of a unit is told about why the unit is up.
    pub(in crate::execute) fn reason_of(&mut self, unit: UnitId) -> Variables {
        let job = self.engine.unit(unit).job;
        let job = job.and_then(|job| self.engine.job(job));
        let start = job.filter(|job| matches!(job.job_type, JobType::Start | JobType::Restart));
        match start.map(|job| job.origin.clone()) {
            Some(Origin::Trigger(by)) => {
                let told = self.tell_of(by);
                self.activation.reasons.by_unit.insert(unit, told);
            }
            Some(_) => self.activation.reasons.forget(unit),
            None => {}
        }
        let known = self.activation.reasons.by_unit.get(&unit);
        known.cloned().unwrap_or_default()
    }

    fn tell_of(&mut self, by: UnitId) -> Variables {
        let Some(name) = self.name_of(by) else {
            return Variables::new();
        };
        let mut told = vec![("TRIGGER_UNIT", name.as_str().to_owned())];
        match &self.engine.unit(by).machine {
            Machine::Timer(timer) => {
                let real = timer.fired_real.map(|at| at.to_string());
                told.extend(real.map(|at| ("TRIGGER_TIMER_REALTIME_USEC", at)));
                let fired = timer.fired.map(|at| at.0.to_string());
                told.extend(fired.map(|at| ("TRIGGER_TIMER_MONOTONIC_USEC", at)));
            }
            Machine::Path(_) => {
                let line = self.activation.reasons.lines.get(&by).copied();
                if let UnitKind::Path(path) = &self.units.config(&name).kind {
                    // A core that took over may not have seen which it was.
                    let only = (path.paths.len() == 1).then_some(0);
                    let line = line.map(usize::from).or(only);
                    let spec = line.and_then(|line| path.paths.get(line));
                    told.extend(spec.map(|spec| ("TRIGGER_PATH", spec.path.to_string())));
                }
            }
            _ => told.clear(),
        }
        told
    }
}
