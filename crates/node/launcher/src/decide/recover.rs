//! After a restart: what was written down, and what was found running, become one picture again.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::domain::InstanceIdent;
use muster_runtime::{Adopted, RunId, RunState};

use super::instance::{Have, Instance};
use super::offline::Offline;
use super::{Decider, Event, Facts, Now, Saved, Step};
use crate::limits::Limits;
use crate::takeover::remembers_nothing;

impl Decider {
    /// One that goes on where another ended; it says when that has settled. `adopted` is what the runtimes found of the
    /// instances in `saved`, with what their items say, as far as that is known.
    pub fn recover(
        limits: Limits,
        saved: Saved,
        adopted: Vec<(Adopted, Option<Facts>)>,
        now: Now,
    ) -> (Self, Step) {
        let mut found: BTreeMap<InstanceIdent, (Adopted, Option<Facts>)> = adopted
            .into_iter()
            .map(|it| (it.0.instance.clone(), it))
            .collect();
        let mut decider = Self::new(limits, now);
        if !remembers_nothing(&saved) {
            // Whoever keeps images may have missed what was said last.
            decider.kept = None;
        }
        decider.overrides = saved.overrides;
        decider.next_run = saved.next_run;
        decider.unsettled = true;
        decider.offline = Offline::new(saved.offline, saved.knows_cloud, now);
        for (ident, row) in saved.rows {
            let mut instance = Instance::from_row(&row, now);
            if let Some((target, run)) = &row.running {
                instance.last = Some(Arc::new(target.info.clone()));
                match found.remove(&ident) {
                    Some((adopted, facts)) => {
                        // Its image may be damaged, and cannot say any more what matters of it.
                        let facts = facts.unwrap_or_else(|| Facts::remembered(&row.known));
                        instance.adopt_up(Arc::clone(target), adopted.run, facts, now);
                        if adopted.run == *run {
                            instance.catch_up(adopted, row.known.ends, &decider.limits, now);
                        } else {
                            instance.outdate(adopted.run, *run);
                        }
                    }
                    // It does not run, but what belongs to it may be there: it is removed before anything is started.
                    None => {
                        instance.have = Have::Left {
                            target: Arc::clone(target),
                            run: *run,
                        };
                    }
                }
            }
            instance.saved = Some(row);
            decider.instances.insert(ident, instance);
        }
        let step = decider.step(Event::Tick, now);
        (decider, step)
    }
}

impl Instance {
    /// It went on while nobody looked. Its counter may also have begun anew (an operator started it, or reset it): how many of
    /// its ends were not counted is not known then, and those that come are counted from there.
    fn catch_up(&mut self, found: Adopted, counted: u32, limits: &Limits, now: Now) {
        if let Have::Up(up) = &mut self.have {
            match found.state {
                // What waits for its next start tells of its ends itself.
                RunState::Restarting { restarts, .. } => up.ends = counted.min(restarts),
                _ => {
                    let missed = found.restarts.saturating_sub(counted);
                    self.crashes.missed(missed, &up.facts);
                    up.ends = found.restarts;
                }
            }
        }
        self.told(found.run, found.state, limits, now);
    }

    /// What runs was started under another number than the one on record: nobody knows what it is made of.
    fn outdate(&mut self, found: RunId, recorded: RunId) {
        if let Have::Up(up) = &mut self.have {
            up.given_up = Some(super::failed(format!(
                "run {} was found where run {} was left",
                found.0, recorded.0
            )));
        }
    }
}
