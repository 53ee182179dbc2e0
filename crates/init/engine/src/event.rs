//! Events in, actions out: everything that crosses the engine's border.

use serde::{Deserialize, Serialize};

use crate::ids::{ActionId, Clock, InvocationId, JobId, RequestId, UnitId};
use crate::job::{JobMode, JobResult, JobType, JobVerb};
use crate::protocol::{ActiveState, Input, Output, Severity};
use crate::spec::{EmergencyAction, UnitSpec};

/// Something that happened, at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub clock: Clock,
    /// Randomness for whatever this event starts: invocation ids are derived from it, so that replaying gives the same.
    pub entropy: InvocationId,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Unit files were read: these units are as given now. Units that are not listed stay as they are.
    Loaded(Vec<LoadedUnit>),
    /// These units have no file any more. What still runs stays, marked as not found.
    Unloaded(Vec<Box<str>>),
    /// Somebody wants something.
    Request(Request),
    /// Somebody does not want a job any more.
    Cancel(JobId),
    /// Forget failures: of one unit, or of all.
    ResetFailed(Option<Box<str>>),
    /// The executor looked at a unit's conditions and asserts.
    Checked {
        /// The unit.
        unit: UnitId,
        /// One verdict per check, in the order of the spec.
        verdicts: Vec<bool>,
    },
    /// Something for a unit's type.
    Unit {
        /// The unit.
        unit: UnitId,
        /// What.
        input: Input,
    },
    /// Time has passed; deadlines may be over.
    Tick,
    /// The machine is going down: nothing is restarted any more.
    ShutdownBegun,
}

/// A unit as the loader found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedUnit {
    /// Its name.
    pub name: Box<str>,
    /// Other names for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Box<str>>,
    /// How loading went.
    pub load: LoadState,
    /// Its settings; present exactly if it was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<UnitSpec>>,
}

/// How loading a unit went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadState {
    /// Only mentioned so far.
    #[default]
    Stub,
    /// Settings are known.
    Loaded,
    /// There is no file.
    NotFound,
    /// Something in the file makes it unusable.
    BadSetting,
    /// The file could not be read.
    Error,
    /// Linked to /dev/null.
    Masked,
}

impl LoadState {
    /// As users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stub => "stub",
            Self::Loaded => "loaded",
            Self::NotFound => "not-found",
            Self::BadSetting => "bad-setting",
            Self::Error => "error",
            Self::Masked => "masked",
        }
    }
}

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the caller.
    pub id: RequestId,
    /// The unit, by any of its names.
    pub unit: Box<str>,
    /// What to do.
    pub verb: JobVerb,
    /// How.
    pub mode: JobMode,
    /// A person asked (RefuseManualStart= applies, and a start limit is lifted), not another part of the system.
    pub manual: bool,
}

/// Something to be done, numbered. The executor that crashed in the middle may be given the same number again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its number; strictly rising.
    pub id: ActionId,
    /// What.
    pub what: Do,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Do {
    /// Something that a unit's type asks for.
    Unit {
        /// The unit.
        unit: UnitId,
        /// The run it belongs to.
        invocation: InvocationId,
        /// What.
        output: Output,
    },
    /// Look at a unit's conditions and asserts and answer with [`What::Checked`].
    Check {
        /// The unit.
        unit: UnitId,
    },
    /// Find the unit files of these names and answer with [`What::Loaded`].
    Load(Vec<Box<str>>),
    /// Tell whoever asked how the request was taken.
    Answer {
        /// Which request.
        request: RequestId,
        /// The job that now does it, or why there is none.
        answer: Answer,
    },
    /// A job was queued.
    JobAdded(JobId),
    /// A job ended; everybody who watches is told.
    JobEnded {
        /// The job.
        job: JobId,
        /// Its unit.
        unit: UnitId,
        /// What it was.
        job_type: JobType,
        /// How it ended.
        result: JobResult,
        /// Who waits for it.
        waiters: Vec<RequestId>,
    },
    /// A unit's state changed.
    StateChanged {
        /// The unit.
        unit: UnitId,
        /// Before.
        old: ActiveState,
        /// Now.
        new: ActiveState,
    },
    /// The whole machine is to do something.
    Emergency {
        /// What.
        action: EmergencyAction,
        /// The unit on whose behalf.
        unit: UnitId,
        /// Why, in words.
        reason: Box<str>,
    },
    /// A line for the log.
    Log {
        /// How much it matters.
        severity: Severity,
        /// About which unit.
        unit: Option<UnitId>,
        /// What.
        message: Box<str>,
    },
}

/// How a request was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// This job does it; its end will be reported.
    Job(JobId),
    /// There is nothing to do.
    Nothing,
    /// It cannot be done.
    Refused(crate::transaction::Refusal),
}
