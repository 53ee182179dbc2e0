//! Transactions: the consistent set of jobs that one request needs.
//!
//! A transaction is planned without touching the state and then installed as a whole, or refused as a whole:
//!
//! ```text
//!   request -> closure -> feasible -> merged -> trimmed -> ordered -> compatible -> installed
//!              pull in    drop what   one job   drop what  break      refuse what
//!              by effect  cannot be   per unit  is done    cycles     may not be
//!                         planned               already               replaced
//! ```
//!
//! - **closure**: every job that the request pulls in, with an edge from the job that wanted it. An edge is *strict* if the
//!   wanting job makes no sense without the wanted one.
//! - **feasible**: a job that cannot be planned (no such unit, masked ...) takes with it whatever wants it strictly. If
//!   that reaches the request itself, it is refused. An optional dependency that cannot be planned is left out together
//!   with everything that only it wanted, and a message says so.
//! - **merged**: two jobs for one unit become one. A start and a stop exclude each other: the one that the request does not
//!   strictly need is dropped, and if it needs both the request is refused.
//! - **ordered**: no job may wait for itself, round any number of corners. A cycle is broken by dropping the job that
//!   matters least, and the message names the whole cycle and the job.

mod closure;
mod install;
pub(crate) mod order;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dep::DepKind;
use crate::event::LoadState;
use crate::ids::UnitId;
use crate::job::{JobMode, JobType, JobVerb, Origin};
use crate::state::EngineState;

/// Why a request cannot be carried out. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Nobody knows a unit of that name.
    UnknownUnit(Box<str>),
    /// The unit, or one that it needs, cannot be used.
    NotUsable {
        /// The unit that cannot be used.
        unit: Box<str>,
        /// How loading it went.
        load: LoadState,
        /// The units from the request to it, each wanting the next.
        path: Vec<Box<str>>,
    },
    /// RefuseManualStart= or RefuseManualStop=.
    ManualRefused {
        /// The unit.
        unit: Box<str>,
        /// What was asked.
        verb: JobVerb,
    },
    /// Isolating needs AllowIsolate=, and a start.
    CannotIsolate(Box<str>),
    /// The mode goes with another verb only.
    ModeMismatch {
        /// The mode.
        mode: JobMode,
        /// The verb it came with.
        verb: JobVerb,
    },
    /// The unit cannot do that (reload something that has no reload, stop what never stops).
    NotApplicable {
        /// The unit.
        unit: Box<str>,
        /// The job.
        job: JobType,
    },
    /// The request needs a unit both up and down.
    Contradiction {
        /// The unit.
        unit: Box<str>,
        /// Who needs it up.
        up: Box<str>,
        /// Who needs it down.
        down: Box<str>,
    },
    /// A queued job is in the way and may not be replaced.
    InTheWay {
        /// The unit.
        unit: Box<str>,
        /// The queued job.
        queued: JobType,
        /// The job that was wanted.
        wanted: JobType,
    },
    /// Only jobs that the request needs are in an ordering cycle.
    Cycle(Vec<Box<str>>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownUnit(unit) => write!(f, "Unit {unit} not found."),
            Self::NotUsable { unit, load, path } => {
                match load {
                    LoadState::NotFound => write!(f, "Unit {unit} not found")?,
                    LoadState::Masked => write!(f, "Unit {unit} is masked")?,
                    LoadState::BadSetting => write!(f, "Unit {unit} has a bad unit file setting")?,
                    _ => write!(f, "Unit {unit} could not be loaded ({})", load.as_str())?,
                }
                if path.len() > 1 {
                    write!(f, ", and is needed: {}", path.join(" -> "))?;
                }
                write!(f, ".")
            }
            Self::ManualRefused { unit, verb } => write!(
                f,
                "Unit {unit} may be requested by a dependency only: it refuses a manual {}.",
                verb.as_str()
            ),
            Self::CannotIsolate(unit) => {
                write!(
                    f,
                    "Unit {unit} may not be isolated (AllowIsolate= is not set)."
                )
            }
            Self::ModeMismatch { mode, verb } => {
                write!(
                    f,
                    "Job mode {} does not go with {}.",
                    mode.as_str(),
                    verb.as_str()
                )
            }
            Self::NotApplicable { unit, job } => {
                write!(
                    f,
                    "Job type {} is not applicable for unit {unit}.",
                    job.as_str()
                )
            }
            Self::Contradiction { unit, up, down } => write!(
                f,
                "The request contradicts itself: {up} needs {unit} up, {down} needs it down."
            ),
            Self::InTheWay {
                unit,
                queued,
                wanted,
            } => write!(
                f,
                "A {} job is queued for {unit}, and the wanted {} may not replace it.",
                queued.as_str(),
                wanted.as_str()
            ),
            Self::Cycle(units) => {
                write!(
                    f,
                    "Ordering cycle that cannot be broken: {}.",
                    units.join(" -> ")
                )
            }
        }
    }
}

/// A plan that can be installed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The unit that the request is about.
    pub(crate) anchor: UnitId,
    /// One job per unit. The anchor's is absent if there is nothing to do for it.
    pub(crate) jobs: BTreeMap<UnitId, Planned>,
    /// Drop every queued job that is not part of the plan (isolate, flush).
    pub(crate) drop_others: bool,
    /// What the user should know: dependencies left out, cycles broken.
    pub(crate) remarks: Vec<(UnitId, String)>,
}

/// A job of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) job_type: JobType,
    pub(crate) origin: Origin,
    /// The request makes no sense without this job.
    pub(crate) needed: bool,
    pub(crate) irreversible: bool,
    pub(crate) ignore_order: bool,
}

/// What a plan is made from.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) unit: UnitId,
    pub(crate) verb: JobVerb,
    pub(crate) mode: JobMode,
    pub(crate) origin: Origin,
}

impl EngineState {
    /// Plans a request. Pure: the state is only read.
    pub(crate) fn plan(&self, wanted: &Wanted) -> Result<Plan, Refusal> {
        let anchor = self.unit(wanted.unit);
        match wanted.mode {
            JobMode::Isolate if wanted.verb != JobVerb::Start => {
                return Err(Refusal::ModeMismatch {
                    mode: wanted.mode,
                    verb: wanted.verb,
                });
            }
            JobMode::Isolate if !anchor.settings().allow_isolate => {
                return Err(Refusal::CannotIsolate(anchor.name.clone()));
            }
            JobMode::Triggering if wanted.verb != JobVerb::Stop => {
                return Err(Refusal::ModeMismatch {
                    mode: wanted.mode,
                    verb: wanted.verb,
                });
            }
            JobMode::RestartDependencies if wanted.verb != JobVerb::Start => {
                return Err(Refusal::ModeMismatch {
                    mode: wanted.mode,
                    verb: wanted.verb,
                });
            }
            _ => {}
        }
        let mut draft = closure::draft(self, wanted);
        closure::drop_infeasible(self, &mut draft)?;
        let plan = loop {
            let mut plan = closure::merge(self, &mut draft, wanted)?;
            // What is done already waits for nobody, so it goes before anything is said about order.
            install::trim(self, &mut plan, wanted.mode);
            match order::find_victim(self, &plan)? {
                Some((victim, remark)) => draft.give_up(victim, remark),
                None => break plan,
            }
        };
        install::check_replaceable(self, &plan, wanted.mode)?;
        Ok(plan)
    }

    pub(crate) fn name(&self, id: UnitId) -> Box<str> {
        self.unit(id).name.clone()
    }
}

impl Planned {
    fn rank(&self) -> (bool, bool) {
        let by_wants = matches!(
            self.origin,
            Origin::Dependency {
                kind: DepKind::Wants | DepKind::Upholds,
                ..
            }
        );
        (self.needed, !by_wants)
    }
}
