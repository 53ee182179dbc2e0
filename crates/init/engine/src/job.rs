//! Jobs: a wanted change of one unit.
//!
//! A request names a [`JobVerb`]; what is queued is a [`JobType`]. Two jobs for one unit are merged where both can be had
//! by one job ([`JobType::merge`]); a start and a stop cannot, and conflict.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, RequestId, Span, Time, UnitId};
use crate::protocol::ActiveState;

/// What a queued job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobType {
    /// Bring the unit up.
    Start,
    /// Check that the unit is up, without bringing it up.
    VerifyActive,
    /// Bring the unit down.
    Stop,
    /// Reload the unit, which must be up.
    Reload,
    /// Bring the unit down and up again.
    Restart,
}

/// What a request asks for. The verbs that depend on the unit's state become a [`JobType`], or nothing, when they are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobVerb {
    /// Bring it up.
    Start,
    /// Check that it is up.
    VerifyActive,
    /// Bring it down.
    Stop,
    /// Reload it.
    Reload,
    /// Down and up, or up.
    Restart,
    /// Restart it if it runs.
    TryRestart,
    /// Reload it if it runs.
    TryReload,
    /// Reload it if it runs, else start it.
    ReloadOrStart,
    /// Nothing; only the pulled-in jobs count.
    Nop,
}

impl JobType {
    /// Every type.
    pub const ALL: [Self; 5] = [
        Self::Start,
        Self::VerifyActive,
        Self::Stop,
        Self::Reload,
        Self::Restart,
    ];

    /// As users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::VerifyActive => "verify-active",
            Self::Stop => "stop",
            Self::Reload => "reload",
            Self::Restart => "restart",
        }
    }

    /// The verb that always becomes this type.
    #[must_use]
    pub fn verb(self) -> JobVerb {
        match self {
            Self::Start => JobVerb::Start,
            Self::VerifyActive => JobVerb::VerifyActive,
            Self::Stop => JobVerb::Stop,
            Self::Reload => JobVerb::Reload,
            Self::Restart => JobVerb::Restart,
        }
    }

    /// One job that does what both would do, or `None` where they exclude each other.
    ///
    /// Reloading and starting become [`JobVerb::ReloadOrStart`], so the answer is a verb, to be settled by the unit's state.
    #[must_use]
    pub fn merge(self, other: Self) -> Option<JobVerb> {
        use JobType::*;
        Some(match (self, other) {
            (a, b) if a == b => a.verb(),
            (Stop, _) | (_, Stop) => return None,
            (Restart, _) | (_, Restart) => JobVerb::Restart,
            (Start, Reload) | (Reload, Start) => JobVerb::ReloadOrStart,
            (Start, _) | (_, Start) => JobVerb::Start,
            (Reload, _) | (_, Reload) => JobVerb::Reload,
            (VerifyActive, VerifyActive) => JobVerb::VerifyActive,
        })
    }

    /// Whether nothing is left to do for this type while the unit is in `state`.
    #[must_use]
    pub fn is_redundant(self, state: ActiveState) -> bool {
        match self {
            Self::Start | Self::VerifyActive => state.is_up(),
            Self::Stop => state.is_down(),
            Self::Reload => state == ActiveState::Reloading,
            Self::Restart => state == ActiveState::Activating,
        }
    }

    /// Whether `self`, already queued, does what `other` would do.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self == other
            || matches!(
                (self, other),
                (
                    Self::Start | Self::Reload | Self::Restart,
                    Self::VerifyActive
                ) | (Self::Restart, Self::Start | Self::Reload)
            )
    }

    /// Whether the unit is brought down by this job, at least for a while.
    #[must_use]
    pub fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::Restart)
    }
}

impl JobVerb {
    /// Every verb.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::VerifyActive,
        Self::Stop,
        Self::Reload,
        Self::Restart,
        Self::TryRestart,
        Self::TryReload,
        Self::ReloadOrStart,
        Self::Nop,
    ];

    /// What is to be queued for a unit in `state`; `None` for nothing.
    #[must_use]
    pub fn settle(self, state: ActiveState) -> Option<JobType> {
        let down = state.is_down_or_falling();
        match self {
            Self::Start => Some(JobType::Start),
            Self::VerifyActive => Some(JobType::VerifyActive),
            Self::Stop => Some(JobType::Stop),
            Self::Reload => Some(JobType::Reload),
            Self::Restart => Some(JobType::Restart),
            Self::TryRestart => (!down).then_some(JobType::Restart),
            Self::TryReload => (!down).then_some(JobType::Reload),
            Self::ReloadOrStart => Some(if down {
                JobType::Start
            } else {
                JobType::Reload
            }),
            Self::Nop => None,
        }
    }

    /// As users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::VerifyActive => "verify-active",
            Self::Stop => "stop",
            Self::Reload => "reload",
            Self::Restart => "restart",
            Self::TryRestart => "try-restart",
            Self::TryReload => "try-reload",
            Self::ReloadOrStart => "reload-or-start",
            Self::Nop => "nop",
        }
    }
}

/// How a request behaves towards jobs that are queued already, and towards dependencies.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum JobMode {
    /// Replaces queued jobs that are in the way.
    #[default]
    Replace,
    /// Replaces, and cannot be replaced by later requests.
    ReplaceIrreversibly,
    /// Refused when a queued job is in the way.
    Fail,
    /// Everything that is not needed is stopped.
    Isolate,
    /// Every other queued job is dropped.
    Flush,
    /// Only this one job, in no order.
    IgnoreDependencies,
    /// Only this one job, in order.
    IgnoreRequirements,
    /// With a stop: what would trigger the unit is stopped too.
    Triggering,
    /// With a start: what depends on it is restarted as if this were a restart.
    RestartDependencies,
}

impl JobMode {
    /// Every mode.
    pub const ALL: [Self; 9] = [
        Self::Replace,
        Self::ReplaceIrreversibly,
        Self::Fail,
        Self::Isolate,
        Self::Flush,
        Self::IgnoreDependencies,
        Self::IgnoreRequirements,
        Self::Triggering,
        Self::RestartDependencies,
    ];

    /// As users write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::ReplaceIrreversibly => "replace-irreversibly",
            Self::Fail => "fail",
            Self::Isolate => "isolate",
            Self::Flush => "flush",
            Self::IgnoreDependencies => "ignore-dependencies",
            Self::IgnoreRequirements => "ignore-requirements",
            Self::Triggering => "triggering",
            Self::RestartDependencies => "restart-dependencies",
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobResult {
    /// As wanted.
    Done,
    /// Somebody cancelled it, or a later request replaced it.
    Canceled,
    /// It took too long.
    Timeout,
    /// The unit did not get there.
    Failed,
    /// Something that the unit needs did not get there.
    Dependency,
    /// A condition did not hold, or there was nothing to do.
    Skipped,
    /// A reload of something that is not up, or a verify of it.
    Invalid,
    /// An assert did not hold.
    Assert,
    /// The unit's type cannot do that.
    Unsupported,
    /// What the unit depends on was collected meanwhile.
    Collected,
    /// The unit may run once per boot and has.
    Once,
}

impl JobResult {
    /// As users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Canceled => "canceled",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
            Self::Dependency => "dependency",
            Self::Skipped => "skipped",
            Self::Invalid => "invalid",
            Self::Assert => "assert",
            Self::Unsupported => "unsupported",
            Self::Collected => "collected",
            Self::Once => "once",
        }
    }

    /// Whether what depends on the job may go on.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPhase {
    /// Something else must come first.
    Waiting,
    /// Conditions are being looked at by the executor.
    Checking,
    /// The unit's type works on it.
    Running {
        /// Since when.
        since: Time,
    },
}

/// Who wanted a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A request from outside.
    Request(RequestId),
    /// Another unit's job, through a dependency.
    Dependency {
        /// The unit whose job pulled this one in.
        unit: UnitId,
        /// The dependency, as the puller has it.
        kind: crate::dep::DepKind,
    },
    /// The unit's own restart policy.
    AutoRestart,
    /// A socket, timer, path or automount.
    Trigger(UnitId),
    /// The engine itself: isolate, an unneeded unit, OnFailure= and the like, named in words.
    Rule(Box<str>),
}

/// A queued job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The unit it is for.
    pub unit: UnitId,
    /// What it does. A restart becomes a start once the unit is down.
    pub job_type: JobType,
    /// Set by replace-irreversibly: a conflicting request is refused.
    pub irreversible: bool,
    /// Set by ignore-dependencies: waits for nobody.
    pub ignore_order: bool,
    /// Something that its unit needs could not start: a restart ends after its first half.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doomed: bool,
    /// How far it is.
    pub phase: JobPhase,
    /// When it was queued.
    pub queued: Time,
    /// JobTimeoutSec= of its unit at that moment.
    #[serde(default = "Span::infinity", skip_serializing_if = "Span::is_infinite")]
    pub timeout: Span,
    /// JobRunningTimeoutSec= of its unit at that moment.
    #[serde(default = "Span::infinity", skip_serializing_if = "Span::is_infinite")]
    pub running_timeout: Span,
    /// Who wanted it first.
    pub origin: Origin,
    /// Everybody who is to be told of its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<RequestId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobType::*;

    /// Every cell of the merge table.
    #[test]
    fn merge_table() {
        let expected = [
            (Start, Start, Some(JobVerb::Start)),
            (Start, VerifyActive, Some(JobVerb::Start)),
            (Start, Stop, None),
            (Start, Reload, Some(JobVerb::ReloadOrStart)),
            (Start, Restart, Some(JobVerb::Restart)),
            (VerifyActive, VerifyActive, Some(JobVerb::VerifyActive)),
            (VerifyActive, Stop, None),
            (VerifyActive, Reload, Some(JobVerb::Reload)),
            (VerifyActive, Restart, Some(JobVerb::Restart)),
            (Stop, Stop, Some(JobVerb::Stop)),
            (Stop, Reload, None),
            (Stop, Restart, None),
            (Reload, Reload, Some(JobVerb::Reload)),
            (Reload, Restart, Some(JobVerb::Restart)),
            (Restart, Restart, Some(JobVerb::Restart)),
        ];
        for (a, b, merged) in expected {
            assert_eq!(a.merge(b), merged, "{a:?} + {b:?}");
            assert_eq!(b.merge(a), merged, "{b:?} + {a:?}");
        }
        assert_eq!(
            expected.len(),
            JobType::ALL.len() * (JobType::ALL.len() + 1) / 2
        );
    }

    fn merge_in(state: ActiveState, a: Option<JobType>, b: JobType) -> Option<JobType> {
        a?.merge(b)?.settle(state)
    }

    #[test]
    fn merge_is_associative_in_every_state() {
        let states = [
            ActiveState::Active,
            ActiveState::Reloading,
            ActiveState::Inactive,
            ActiveState::Failed,
            ActiveState::Activating,
            ActiveState::Deactivating,
        ];
        for state in states {
            for a in JobType::ALL {
                for b in JobType::ALL {
                    for c in JobType::ALL {
                        let left = merge_in(state, merge_in(state, Some(a), b), c);
                        let right = merge_in(state, b.merge(c).and_then(|v| v.settle(state)), a);
                        assert_eq!(left, right, "{a:?} {b:?} {c:?} in {state:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_covers_merges_into_itself() {
        for a in JobType::ALL {
            for b in JobType::ALL {
                if a.covers(b) {
                    assert_eq!(a.merge(b), Some(a.verb()), "{a:?} covers {b:?}");
                }
            }
        }
    }
}
