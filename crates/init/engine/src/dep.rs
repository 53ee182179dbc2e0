//! Dependencies: the kinds that unit files know, their inverses, and what each of them does.
//!
//! A kind never decides anything by itself. [`DepKind::effects`] translates it into [`Effect`]s, and the code that builds
//! transactions or reacts to a unit's state asks only for effects. So "what does BindsTo do?" has one answer in one table.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, inverse $inverse:ident;)*) => {
        /// A directed relation between two units. Every kind has an inverse, and both ends always know of the edge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum DepKind {
            $($(#[$doc])* $name,)*
        }

        impl DepKind {
            /// Every kind, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The property's name as systemd shows it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What the unit at the other end has towards this one.
            #[must_use]
            pub fn inverse(self) -> Self {
                match self { $(Self::$name => Self::$inverse,)* }
            }
        }
    };
}

kinds! {
    /// Pulls the other in and fails with it.
    Requires = "Requires", inverse RequiredBy;
    /// The other must already be up.
    Requisite = "Requisite", inverse RequisiteOf;
    /// Pulls the other in and does not mind its failure.
    Wants = "Wants", inverse WantedBy;
    /// Requires, and goes down whenever the other does.
    BindsTo = "BindsTo", inverse BoundBy;
    /// Stops and restarts with the other.
    PartOf = "PartOf", inverse ConsistsOf;
    /// Wants, and starts the other again whenever it is down.
    Upholds = "Upholds", inverse UpheldBy;
    /// Inverse of `Requires`.
    RequiredBy = "RequiredBy", inverse Requires;
    /// Inverse of `Requisite`.
    RequisiteOf = "RequisiteOf", inverse Requisite;
    /// Inverse of `Wants`.
    WantedBy = "WantedBy", inverse Wants;
    /// Inverse of `BindsTo`.
    BoundBy = "BoundBy", inverse BindsTo;
    /// Inverse of `PartOf`.
    ConsistsOf = "ConsistsOf", inverse PartOf;
    /// Inverse of `Upholds`.
    UpheldBy = "UpheldBy", inverse Upholds;
    /// The two are never up together.
    Conflicts = "Conflicts", inverse ConflictedBy;
    /// Inverse of `Conflicts`.
    ConflictedBy = "ConflictedBy", inverse Conflicts;
    /// This one's start job runs first.
    Before = "Before", inverse After;
    /// The other's start job runs first.
    After = "After", inverse Before;
    /// Started when this one has failed.
    OnFailure = "OnFailure", inverse OnFailureOf;
    /// Inverse of `OnFailure`.
    OnFailureOf = "OnFailureOf", inverse OnFailure;
    /// Started when this one has ended well.
    OnSuccess = "OnSuccess", inverse OnSuccessOf;
    /// Inverse of `OnSuccess`.
    OnSuccessOf = "OnSuccessOf", inverse OnSuccess;
    /// A socket, timer, path or automount and what it activates.
    Triggers = "Triggers", inverse TriggeredBy;
    /// Inverse of `Triggers`.
    TriggeredBy = "TriggeredBy", inverse Triggers;
    /// A reload of this one reloads the other.
    PropagatesReloadTo = "PropagatesReloadTo", inverse ReloadPropagatedFrom;
    /// Inverse of `PropagatesReloadTo`.
    ReloadPropagatedFrom = "ReloadPropagatedFrom", inverse PropagatesReloadTo;
    /// A stop of this one stops the other.
    PropagatesStopTo = "PropagatesStopTo", inverse StopPropagatedFrom;
    /// Inverse of `PropagatesStopTo`.
    StopPropagatedFrom = "StopPropagatedFrom", inverse PropagatesStopTo;
    /// Shares the other's private namespaces.
    JoinsNamespaceOf = "JoinsNamespaceOf", inverse JoinsNamespaceOf;
    /// The slice that this unit's cgroup lies in.
    InSlice = "Slice", inverse SliceOf;
    /// Inverse of `InSlice`.
    SliceOf = "SliceOf", inverse InSlice;
    /// Mentioned without any effect, so that the other stays known.
    References = "References", inverse ReferencedBy;
    /// Inverse of `References`.
    ReferencedBy = "ReferencedBy", inverse References;
}

/// What an edge of some kind means to the unit that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Starting this one starts the other, and fails if that cannot be planned.
    PullInStart,
    /// Starting this one starts the other if that can be planned.
    PullInStartIfPossible,
    /// Starting this one demands that the other is up already.
    PullInVerify,
    /// Starting this one stops the other, and fails if that cannot be planned.
    PullInStop,
    /// Starting this one stops the other if that can be planned.
    PullInStopIfPossible,
    /// This one came up without a job: start the other, replacing what is in the way.
    FollowStartReplace,
    /// This one came up without a job: start the other unless something is in the way.
    FollowStartFail,
    /// This one came up without a job: stop the other.
    FollowStopOnStart,
    /// This one went down without a job: stop the other.
    FollowStopOnStop,
    /// Stopping this one stops the other.
    PropagateStop,
    /// Restarting this one restarts the other if it runs.
    PropagateRestart,
    /// Reloading this one reloads the other if it runs.
    PropagateReload,
    /// A start of this one that fails takes the other's start job with it.
    PropagateStartFailure,
    /// A stop of this one that fails takes the other's start job with it.
    PropagateStopFailure,
    /// A start job that ends with this one down (a failed condition, say) fails the other.
    PropagateInactiveStartAsFailure,
    /// This one may not be up while the other is down.
    NeedsOtherActive,
    /// The other is re-checked for `NeedsOtherActive` when this one changes.
    RecheckOtherNeeds,
    /// The other counts as a reason for this one to stay up (StopWhenUnneeded).
    IsNeededBy,
    /// The other is re-checked for StopWhenUnneeded when this one goes down.
    RecheckOtherUnneeded,
    /// The other is started whenever it is down while this one is up.
    KeepOtherUp,
    /// Whether the other is up decides whether this one is started again.
    StartedWhileOtherUp,
}

impl DepKind {
    /// What this kind does.
    #[must_use]
    pub fn effects(self) -> &'static [Effect] {
        use Effect::*;
        match self {
            Self::Requires => &[PullInStart, FollowStartReplace, RecheckOtherUnneeded],
            Self::Requisite => &[PullInVerify, RecheckOtherUnneeded],
            Self::Wants => &[PullInStartIfPossible, FollowStartFail, RecheckOtherUnneeded],
            Self::BindsTo => &[
                PullInStart,
                FollowStartReplace,
                NeedsOtherActive,
                RecheckOtherUnneeded,
            ],
            Self::Upholds => &[
                PullInStartIfPossible,
                FollowStartReplace,
                KeepOtherUp,
                RecheckOtherUnneeded,
            ],
            Self::RequiredBy => &[
                PropagateStop,
                PropagateRestart,
                PropagateStartFailure,
                IsNeededBy,
            ],
            Self::RequisiteOf => &[
                PropagateStop,
                PropagateRestart,
                PropagateStartFailure,
                PropagateInactiveStartAsFailure,
                IsNeededBy,
            ],
            Self::WantedBy => &[IsNeededBy],
            Self::BoundBy => &[
                FollowStopOnStop,
                PropagateStop,
                PropagateRestart,
                PropagateStartFailure,
                IsNeededBy,
                RecheckOtherNeeds,
            ],
            Self::UpheldBy => &[StartedWhileOtherUp, IsNeededBy],
            Self::ConsistsOf => &[PropagateStop, PropagateRestart],
            Self::Conflicts => &[PullInStop, FollowStopOnStart],
            Self::ConflictedBy => &[
                PullInStopIfPossible,
                FollowStopOnStart,
                PropagateStopFailure,
            ],
            Self::PropagatesReloadTo => &[PropagateReload],
            Self::PropagatesStopTo => &[FollowStopOnStop, PropagateStop],
            Self::PartOf
            | Self::Before
            | Self::After
            | Self::OnFailure
            | Self::OnFailureOf
            | Self::OnSuccess
            | Self::OnSuccessOf
            | Self::Triggers
            | Self::TriggeredBy
            | Self::ReloadPropagatedFrom
            | Self::StopPropagatedFrom
            | Self::JoinsNamespaceOf
            | Self::InSlice
            | Self::SliceOf
            | Self::References
            | Self::ReferencedBy => &[],
        }
    }

    /// Whether edges of this kind have `effect`.
    #[must_use]
    pub fn has(self, effect: Effect) -> bool {
        self.effects().contains(&effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_is_its_own_inverse() {
        for kind in DepKind::ALL {
            assert_eq!(kind.inverse().inverse(), *kind, "{kind:?}");
        }
    }

    #[test]
    fn what_pulls_in_strictly_is_told_of_failure() {
        for kind in DepKind::ALL {
            let strict = kind.has(Effect::PullInStart) || kind.has(Effect::PullInVerify);
            assert_eq!(
                strict,
                kind.inverse().has(Effect::PropagateStartFailure),
                "{kind:?} pulls in strictly: {strict}"
            );
        }
    }
}
