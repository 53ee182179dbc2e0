//! What a request means in which phase. Pure: a phase and a request in, a list of actions out.

use std::fmt;

use muster_api::domain::NodeState;

/// How far a node is. What the node's state file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Belongs to nobody. Key stores may hold leftovers of an attempt; nothing uses them.
    Unprovisioned,
    /// Key stores have their owner; keys and certificates are being made.
    Started,
    /// A member.
    Provisioned,
    /// A member that takes no work.
    Paused,
    /// A member no more: what it had is being taken away, and there is no way back.
    Deprovisioning,
}

impl Phase {
    /// Every phase.
    pub const ALL: &'static [Self] = &[
        Self::Unprovisioned,
        Self::Started,
        Self::Provisioned,
        Self::Paused,
        Self::Deprovisioning,
    ];

    /// The state that peers see.
    pub fn state(self) -> NodeState {
        match self {
            Self::Unprovisioned | Self::Started | Self::Deprovisioning => NodeState::Unprovisioned,
            Self::Provisioned => NodeState::Provisioned,
            Self::Paused => NodeState::Paused,
        }
    }

    /// Whether the node is a member, so that nothing of it may be reached in the clear.
    pub fn is_member(self) -> bool {
        match self {
            Self::Provisioned | Self::Paused => true,
            Self::Unprovisioned | Self::Started | Self::Deprovisioning => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprovisioned => "unprovisioned",
            Self::Started => "being provisioned",
            Self::Provisioned => "provisioned",
            Self::Paused => "paused",
            Self::Deprovisioning => "being deprovisioned",
        })
    }
}

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// `StartProvisioning`
    Start,
    /// `CreateKey`
    CreateKey,
    /// `ApplyCert`
    ApplyCert,
    /// `FinishProvisioning`
    Finish,
    /// `Deprovision`
    Deprovision,
    /// `PauseNode`
    Pause,
    /// `ResumeNode`
    Resume,
}

impl Request {
    /// Every request.
    pub const ALL: &'static [Self] = &[
        Self::Start,
        Self::CreateKey,
        Self::ApplyCert,
        Self::Finish,
        Self::Deprovision,
        Self::Pause,
        Self::Resume,
    ];
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "StartProvisioning",
            Self::CreateKey => "CreateKey",
            Self::ApplyCert => "ApplyCert",
            Self::Finish => "FinishProvisioning",
            Self::Deprovision => "Deprovision",
            Self::Pause => "PauseNode",
            Self::Resume => "ResumeNode",
        })
    }
}

/// Something that can be done again without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Remove every key and certificate of every type.
    ClearKeys,
    /// Run `startProvisioningCmdArgs`.
    StartHook,
    /// Give every key store its owner and password.
    TakeOwnership,
    /// Make the certificates that the node signs itself.
    SelfSign,
    /// Run `diskEncryptionCmdArgs`; the self-signed keys are there for it.
    EncryptDisks,
    /// See that the node's own server certificate is there.
    CheckOwnCert,
    /// Run `finishProvisioningCmdArgs`.
    FinishHook,
    /// Run `deprovisionCmdArgs`.
    DeprovisionHook,
    /// Forget the instances' permissions.
    ForgetPermissions,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Do it.
    Do(Step),
    /// From here on the node is in this phase, also after a crash.
    Enter(Phase),
}

/// Why a request makes no sense now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{request} is not possible while the node is {phase}{hint}")]
pub struct WrongPhase {
    /// What was asked for.
    pub request: Request,
    /// How far the node is.
    pub phase: Phase,
    hint: &'static str,
}

/// What to do for `request` in `phase`. An empty list: it has been done already.
///
/// # Errors
/// The request makes no sense in this phase.
pub fn plan(phase: Phase, request: Request) -> Result<Vec<Action>, WrongPhase> {
    use Action::{Do, Enter};
    let refused = |hint| {
        Err(WrongPhase {
            request,
            phase,
            hint,
        })
    };
    Ok(match (request, phase) {
        (Request::Start, Phase::Unprovisioned) => start(),
        // Keys made so far go with the owner they were made under.
        (Request::Start, Phase::Started) => {
            let mut actions = vec![Enter(Phase::Unprovisioned)];
            actions.extend(start());
            actions
        }
        (Request::Start, Phase::Provisioned | Phase::Paused) => {
            return refused("; deprovision it first");
        }
        (Request::CreateKey | Request::ApplyCert | Request::Finish, Phase::Unprovisioned) => {
            return refused("; start with StartProvisioning");
        }
        (
            Request::CreateKey | Request::ApplyCert,
            Phase::Started | Phase::Provisioned | Phase::Paused,
        ) => Vec::new(),
        (Request::Finish, Phase::Started) => vec![
            Do(Step::CheckOwnCert),
            Do(Step::FinishHook),
            Enter(Phase::Provisioned),
        ],
        (Request::Finish, Phase::Provisioned | Phase::Paused) => Vec::new(),
        (Request::Deprovision, Phase::Unprovisioned) => Vec::new(),
        (Request::Deprovision, Phase::Started | Phase::Provisioned | Phase::Paused) => {
            let mut actions = vec![Do(Step::DeprovisionHook), Enter(Phase::Deprovisioning)];
            actions.extend(take_away());
            actions
        }
        (Request::Deprovision, Phase::Deprovisioning) => take_away(),
        (_, Phase::Deprovisioning) => {
            return refused("; repeat Deprovision until it succeeds");
        }
        (Request::Pause, Phase::Provisioned) => vec![Enter(Phase::Paused)],
        (Request::Resume, Phase::Paused) => vec![Enter(Phase::Provisioned)],
        (Request::Pause, Phase::Paused) | (Request::Resume, Phase::Provisioned) => Vec::new(),
        (Request::Pause | Request::Resume, Phase::Unprovisioned | Phase::Started) => {
            return refused("; provision it first");
        }
    })
}

/// What a daemon does by itself when it finds this phase at its start.
pub fn resume(phase: Phase) -> Vec<Action> {
    match phase {
        Phase::Deprovisioning => take_away(),
        Phase::Unprovisioned | Phase::Started | Phase::Provisioned | Phase::Paused => Vec::new(),
    }
}

fn start() -> Vec<Action> {
    vec![
        Action::Do(Step::ClearKeys),
        Action::Do(Step::StartHook),
        Action::Do(Step::TakeOwnership),
        Action::Do(Step::SelfSign),
        Action::Do(Step::EncryptDisks),
        Action::Enter(Phase::Started),
    ]
}

fn take_away() -> Vec<Action> {
    vec![
        Action::Do(Step::ClearKeys),
        Action::Do(Step::ForgetPermissions),
        Action::Enter(Phase::Unprovisioned),
    ]
}

#[cfg(test)]
mod tests;
