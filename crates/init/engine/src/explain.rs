//! Answers to "why?": the state of a unit, who wanted its job, and what the job waits for.

use std::fmt;

use crate::dep::DepKind;
use crate::event::LoadState;
use crate::ids::{JobId, Time, UnitId};
use crate::job::{JobPhase, JobType, Origin};
use crate::protocol::{ActiveState, Outcome};
use crate::state::EngineState;

/// Why a unit is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The unit.
    pub unit: Box<str>,
    /// Whether its settings are known.
    pub load: LoadState,
    /// Its state.
    pub active: ActiveState,
    /// Its state in its type's words.
    pub sub_state: &'static str,
    /// How its last run ended.
    pub outcome: Outcome,
    /// The check that kept it from starting last time.
    pub failed_check: Option<Box<str>>,
    /// Its job, if it has one.
    pub job: Option<WhyJob>,
    /// Units that are up and want it up, with the dependency they have.
    pub needed_by: Vec<(Box<str>, DepKind)>,
}

/// Why a job is there and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyJob {
    /// Its number.
    pub id: JobId,
    /// What it does.
    pub job_type: JobType,
    /// Since when it is queued.
    pub queued: Time,
    /// Who wanted it, from the unit itself back to the first cause.
    pub wanted_by: Vec<Cause>,
    /// What it waits for.
    pub waits_for: Vec<Wait>,
}

/// One step of the chain of causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request from outside.
    Request(u64),
    /// A unit's dependency.
    Dependency {
        /// The unit that has it.
        unit: Box<str>,
        /// Which.
        kind: DepKind,
    },
    /// The unit's restart policy.
    AutoRestart,
    /// A unit that triggers it.
    Trigger(Box<str>),
    /// A rule of the engine.
    Rule(Box<str>),
}

/// One thing that a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Another unit's job must end first.
    Job {
        /// The other unit.
        unit: Box<str>,
        /// Its job.
        job_type: JobType,
        /// The ordering between the two.
        kind: DepKind,
    },
    /// Its conditions are being looked at.
    Checks,
    /// The unit itself is on its way; this is the state it is in.
    Unit(&'static str),
    /// The unit must be down before it can start.
    StopFirst,
}

impl EngineState {
    /// Why `unit` is in its state, who pulled its job in, and what that waits for.
    #[must_use]
    pub fn why(&self, unit: UnitId) -> Why {
        let record = self.unit(unit);
        let failed_check = record.checked.as_ref().and_then(|checked| {
            let index = checked.failed_assert.or(checked.failed_condition)?;
            Some(
                record
                    .spec
                    .as_ref()?
                    .checks
                    .get(usize::from(index))?
                    .text
                    .clone(),
            )
        });
        let needed_by = record
            .with_effect(crate::dep::Effect::IsNeededBy)
            .filter(|(_, other)| self.unit(*other).active().is_up_or_rising())
            .map(|(kind, other)| (self.name(other), kind.inverse()))
            .collect();
        Why {
            unit: record.name.clone(),
            load: record.load,
            active: record.active(),
            sub_state: record.machine.sub_state(),
            outcome: record.machine.outcome(),
            failed_check,
            job: record.job.map(|job| self.why_job(job)),
            needed_by,
        }
    }

    fn why_job(&self, id: JobId) -> WhyJob {
        let job = self.job(id).expect("a unit's job is queued");
        let mut wanted_by = Vec::new();
        let mut origin = &job.origin;
        // The chain cannot be longer than there are units; a job that was replaced meanwhile ends it early.
        for _ in 0..=self.units.len() {
            match origin {
                Origin::Request(request) => {
                    wanted_by.push(Cause::Request(request.0));
                    break;
                }
                Origin::AutoRestart => {
                    wanted_by.push(Cause::AutoRestart);
                    break;
                }
                Origin::Rule(rule) => {
                    wanted_by.push(Cause::Rule(rule.clone()));
                    break;
                }
                Origin::Trigger(unit) => {
                    let name = self.get(*unit).map_or("?".into(), |unit| unit.name.clone());
                    wanted_by.push(Cause::Trigger(name));
                    break;
                }
                Origin::Dependency { unit, kind } => {
                    let name = self.get(*unit).map_or("?".into(), |unit| unit.name.clone());
                    wanted_by.push(Cause::Dependency {
                        unit: name,
                        kind: *kind,
                    });
                    match self
                        .get(*unit)
                        .and_then(|unit| unit.job)
                        .and_then(|job| self.job(job))
                    {
                        Some(parent) if parent.origin != *origin => origin = &parent.origin,
                        _ => break,
                    }
                }
            }
        }
        let record = self.unit(job.unit);
        let mut waits_for: Vec<Wait> = self
            .waits_of(id)
            .into_iter()
            .filter_map(|(kind, other)| self.job(other).map(|other| (kind, other)))
            .map(|(kind, other)| Wait::Job {
                unit: self.name(other.unit),
                job_type: other.job_type,
                kind,
            })
            .collect();
        match job.phase {
            JobPhase::Checking => waits_for.push(Wait::Checks),
            JobPhase::Running { .. } => {
                waits_for = vec![Wait::Unit(record.machine.sub_state())];
            }
            JobPhase::Waiting if waits_for.is_empty() => waits_for.push(Wait::StopFirst),
            JobPhase::Waiting => {}
        }
        WhyJob {
            id,
            job_type: job.job_type,
            queued: job.queued,
            wanted_by,
            waits_for,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {} ({})",
            self.unit,
            self.active.as_str(),
            self.sub_state
        )?;
        if self.load != LoadState::Loaded {
            write!(f, ", {}", self.load.as_str())?;
        }
        if self.active == ActiveState::Failed {
            write!(f, ": {}", self.outcome.as_str())?;
        }
        writeln!(f)?;
        if let Some(check) = &self.failed_check {
            writeln!(f, "  last start skipped: {check} does not hold")?;
        }
        for (unit, kind) in &self.needed_by {
            writeln!(f, "  needed by {unit} ({})", kind.as_str())?;
        }
        if let Some(job) = &self.job {
            writeln!(f, "  job {}: {}", job.id, job.job_type.as_str())?;
            for cause in &job.wanted_by {
                match cause {
                    Cause::Request(id) => writeln!(f, "    wanted by request {id}")?,
                    Cause::Dependency { unit, kind } => {
                        writeln!(f, "    wanted by {unit} ({})", kind.as_str())?;
                    }
                    Cause::AutoRestart => writeln!(f, "    wanted by its own Restart=")?,
                    Cause::Trigger(unit) => writeln!(f, "    triggered by {unit}")?,
                    Cause::Rule(rule) => writeln!(f, "    wanted by the rule {rule}")?,
                }
            }
            for wait in &job.waits_for {
                match wait {
                    Wait::Job {
                        unit,
                        job_type,
                        kind,
                    } => writeln!(
                        f,
                        "    waits for the {} job of {unit} ({})",
                        job_type.as_str(),
                        kind.as_str()
                    )?,
                    Wait::Checks => writeln!(f, "    waits for its conditions to be looked at")?,
                    Wait::Unit(sub) => writeln!(f, "    waits for the unit, which is {sub}")?,
                    Wait::StopFirst => writeln!(f, "    waits for the unit to be down first")?,
                }
            }
        }
        Ok(())
    }
}
