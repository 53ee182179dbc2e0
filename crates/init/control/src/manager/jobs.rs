//! Jobs.

use serde::{Deserialize, Serialize};

/// Queue a job for a unit. With varlink's `more`, the first reply names the job (`continues`), the last one its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitCall {
    /// The unit, by any of its names.
    pub unit: String,
    /// start, stop, restart, reload, try-restart, reload-or-restart, try-reload-or-restart, verify-active, isolate.
    pub verb: String,
    /// replace, fail, replace-irreversibly, isolate, flush, ignore-dependencies, ignore-requirements, triggering,
    /// restart-dependencies; empty is `replace`.
    pub mode: String,
    /// With `more`: what the last reply waits for.
    pub wait: WaitWhat,
}

/// How long a call with `more` waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitWhat {
    /// Until the job ended.
    #[default]
    Job,
    /// Until the unit is down again.
    Inactive,
}

/// Where a submitted job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitReply {
    /// The unit's main name.
    pub unit: String,
    /// The job; absent if there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// How the job ended: done, canceled, timeout, failed, dependency, skipped, invalid, assert, unsupported, collected,
    /// once. Absent while it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The unit's state now: active, failed ...
    pub active: String,
    /// The unit's state in its type's words.
    pub sub: String,
    /// How the unit's last run ended.
    pub outcome: String,
    /// Why it is so, for people; filled where the job ended badly.
    pub reason: String,
    /// The unit's run.
    pub invocation: String,
    /// How its main process ended: exited, killed, dumped; empty while it runs or where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exit_code: String,
    /// Its exit status or signal.
    pub exit_status: i32,
    /// Microseconds that the run took, once it ended.
    pub runtime: u64,
    /// Processor time of the run in microseconds, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
}

/// Wait for a job that somebody else may have queued; replies with [`SubmitReply`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitJobCall {
    /// The job.
    pub job: u32,
}

/// Cancel a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CancelCall {
    /// Which; all where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
}

/// A queued job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Its number.
    pub id: u32,
    /// Its unit.
    pub unit: String,
    /// start, stop ...
    pub kind: String,
    /// waiting or running.
    pub state: String,
    /// Microseconds since boot when it was queued.
    pub queued: u64,
    /// Jobs that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// Jobs that wait for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<u32>,
}

/// All queued jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListJobsReply {
    /// In the order of their numbers.
    pub jobs: Vec<Job>,
}
