//! Units that are instances: what they are called, and what happens to them in the launcher's words.
//!
//! `PREFIX-INSTANCE-RUN.service`: the instance's id and the number of the start are in the name. So a start is known again
//! by anybody at any time, what is told about an earlier start is never taken for the present one's, and every start has a
//! fresh cgroup.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use muster_api::domain::InstanceIdent;
use muster_runtime::{EVENT_QUEUE, Ended, RunEvent, RunId, RunState};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::spec::UnitName;
use crate::state::{UnitEnd, UnitEvent, UnitState};
use crate::{Observation, UnitError, UnitRunner};

/// Knows better how a run ended than the init system does.
pub trait EndRecords: Send + Sync + fmt::Debug + 'static {
    /// How the last process of this run ended, if that was recorded.
    fn end_of(&self, instance: Uuid, run: RunId) -> Option<Ended>;
}

/// All instances of one runtime, as units.
#[derive(Debug)]
pub struct InstanceUnits {
    runner: Arc<dyn UnitRunner>,
    prefix: &'static str,
    ends: Arc<dyn EndRecords>,
    /// Instances by id, as far as somebody named them.
    known: Arc<Mutex<HashMap<Uuid, InstanceIdent>>>,
}

/// A unit that is an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceUnit {
    /// Its name.
    pub name: UnitName,
    /// The instance's id.
    pub instance: Uuid,
    /// The start.
    pub run: RunId,
    /// How it is.
    pub seen: Observation,
}

impl InstanceUnits {
    /// Instances whose units begin with `prefix` (letters only).
    #[must_use]
    pub fn new(
        runner: Arc<dyn UnitRunner>,
        prefix: &'static str,
        ends: Arc<dyn EndRecords>,
    ) -> Self {
        Self {
            runner,
            prefix,
            ends,
            known: Arc::default(),
        }
    }

    /// Who runs the units.
    #[must_use]
    pub fn runner(&self) -> &dyn UnitRunner {
        &*self.runner
    }

    /// The unit of a start.
    ///
    /// # Panics
    /// Never: a prefix of letters, a UUID and a number are a name.
    #[must_use]
    pub fn name(&self, instance: Uuid, run: RunId) -> UnitName {
        let name = format!("{}-{instance}-{}.service", self.prefix, run.0);
        UnitName::new(name).expect("a prefix, a UUID and a number are a name")
    }

    /// From now on, events about this instance can be told.
    pub fn know(&self, instance: &InstanceIdent) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(instance.instance_id(), instance.clone());
    }

    /// Nothing more is told about this instance.
    pub fn forget(&self, instance: &InstanceIdent) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&instance.instance_id());
    }

    /// All units that are instances of this runtime.
    pub async fn list(&self) -> Result<Vec<InstanceUnit>, UnitError> {
        self.beginning_with(format!("{}-", self.prefix)).await
    }

    /// All starts of one instance.
    pub async fn of(&self, instance: Uuid) -> Result<Vec<InstanceUnit>, UnitError> {
        self.beginning_with(format!("{}-{instance}-", self.prefix))
            .await
    }

    async fn beginning_with(&self, prefix: String) -> Result<Vec<InstanceUnit>, UnitError> {
        let units = self.runner.list(prefix).await?;
        let instance = |(name, seen): (UnitName, Observation)| {
            let (instance, run) = parse(self.prefix, &name)?;
            Some(InstanceUnit {
                name,
                instance,
                run,
                seen,
            })
        };
        Ok(units.into_iter().filter_map(instance).collect())
    }

    /// How a run is, if that means anything.
    #[must_use]
    pub fn state(&self, unit: &InstanceUnit) -> Option<RunState> {
        run_state(&*self.ends, unit.instance, unit.run, unit.seen.state()?)
    }

    /// What happens to known instances. Spawns a task that ends with the receiver.
    #[must_use]
    pub fn events(&self) -> mpsc::Receiver<RunEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_QUEUE);
        let mut units = self.runner.watch(format!("{}-", self.prefix));
        let (prefix, ends, known) = (self.prefix, self.ends.clone(), self.known.clone());
        tokio::spawn(async move {
            while let Some(UnitEvent { unit, state }) = units.recv().await {
                let Some((id, run)) = parse(prefix, &unit) else {
                    continue;
                };
                let instance = {
                    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.get(&id).cloned()
                };
                let state = run_state(&*ends, id, run, state);
                if let (Some(instance), Some(state)) = (instance, state) {
                    let event = RunEvent {
                        instance,
                        run,
                        state,
                    };
                    if sender.send(event).await.is_err() {
                        return;
                    }
                }
            }
        });
        receiver
    }
}

/// The instance and start that a unit's name tells.
fn parse(prefix: &str, name: &UnitName) -> Option<(Uuid, RunId)> {
    let rest = name.stem().strip_prefix(prefix)?.strip_prefix('-')?;
    let (instance, run) = rest.rsplit_once('-')?;
    let canonical = |id: &Uuid| id.to_string() == instance;
    let instance = Uuid::parse_str(instance).ok().filter(canonical)?;
    Some((instance, RunId(run.parse().ok()?)))
}

fn run_state(ends: &dyn EndRecords, id: Uuid, run: RunId, state: UnitState) -> Option<RunState> {
    let end = |end: UnitEnd| {
        ends.end_of(id, run).unwrap_or(match end {
            UnitEnd::Exited(code) => Ended::Exited(code),
            UnitEnd::Signalled(signal) => Ended::Signalled(signal),
            UnitEnd::OutOfMemory => Ended::OutOfMemory,
            UnitEnd::NotStarted(why) => Ended::NotStarted(why),
        })
    };
    Some(match state {
        UnitState::Starting => RunState::Starting,
        UnitState::Running => RunState::Running,
        UnitState::Restarting { last, restarts } => RunState::Restarting {
            last: end(last),
            restarts,
        },
        UnitState::Ended(last) => RunState::Ended(end(last)),
        // Its end follows.
        UnitState::Stopping => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_name_tells_the_instance_and_the_start() {
        let id = Uuid::from_u128(7);
        let name = UnitName::new(format!("muster-c-{id}-12.service")).unwrap();
        assert_eq!(parse("muster-c", &name), Some((id, RunId(12))));
        assert_eq!(parse("muster", &name), None);
        for odd in [
            format!("muster-c-{id}.service"),
            format!("muster-c-{}-1.service", id.simple()),
        ] {
            assert_eq!(parse("muster-c", &UnitName::new(odd).unwrap()), None);
        }
    }

    #[derive(Debug)]
    struct Recorded(Option<Ended>);

    impl EndRecords for Recorded {
        fn end_of(&self, _: Uuid, _: RunId) -> Option<Ended> {
            self.0.clone()
        }
    }

    #[test]
    fn what_was_recorded_goes_before_what_the_init_system_says() {
        let state = || UnitState::Ended(UnitEnd::Signalled(9));
        let told = |ends| run_state(&ends, Uuid::nil(), RunId(1), state());
        assert_eq!(
            told(Recorded(None)),
            Some(RunState::Ended(Ended::Signalled(9)))
        );
        assert_eq!(
            told(Recorded(Some(Ended::OutOfMemory))),
            Some(RunState::Ended(Ended::OutOfMemory))
        );
    }
}
