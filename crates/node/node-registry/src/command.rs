//! What the Main Node can ask of a node: the eight commands, when each is allowed, and what it leads to.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosError, NodeState, fault_from_wire};
use muster_api::iamanager::v6 as wire;
use muster_rpc::slots::ReplyKind;

/// A command to a node, as the wire has it. Its `Debug` shows no password.
pub type Command = wire::iam_incoming_messages::IamIncomingMessage;

/// A node's answer, as the wire has it.
pub type Answer = wire::iam_outgoing_messages::IamOutgoingMessage;

/// Carries commands out on the node that this process runs on.
///
/// The Main Node's services and a Secondary Node's stream use the same one. Two commands may be
/// carried out at once (a local caller and the stream); what must not overlap is the
/// implementation's business. A command is never dropped half way, also when its stream breaks.
pub trait NodeCommands: Send + Sync + 'static {
    /// Carries a command out. The answer is of the type that belongs to the command; a failure is in
    /// its `error` field.
    fn carry_out(&self, command: Command) -> BoxFuture<'_, Answer>;
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandDeadlines {
    /// For most commands.
    pub ordinary: Duration,
    /// For those that start, finish or undo provisioning: they may encrypt a disk.
    pub provisioning: Duration,
}

impl Default for CommandDeadlines {
    fn default() -> Self {
        Self {
            ordinary: Duration::from_mins(1),
            provisioning: Duration::from_mins(5),
        }
    }
}

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// `StartProvisioning`.
    StartProvisioning,
    /// `GetCertTypes`.
    GetCertTypes,
    /// `FinishProvisioning`.
    FinishProvisioning,
    /// `Deprovision`.
    Deprovision,
    /// `PauseNode`.
    PauseNode,
    /// `ResumeNode`.
    ResumeNode,
    /// `CreateKey`.
    CreateKey,
    /// `ApplyCert`.
    ApplyCert,
}

impl CommandKind {
    /// Every command.
    pub const ALL: &'static [Self] = &[
        Self::StartProvisioning,
        Self::GetCertTypes,
        Self::FinishProvisioning,
        Self::Deprovision,
        Self::PauseNode,
        Self::ResumeNode,
        Self::CreateKey,
        Self::ApplyCert,
    ];

    /// Which command `command` is.
    pub fn of(command: &Command) -> Self {
        match command {
            Command::StartProvisioningRequest(_) => Self::StartProvisioning,
            Command::GetCertTypesRequest(_) => Self::GetCertTypes,
            Command::FinishProvisioningRequest(_) => Self::FinishProvisioning,
            Command::DeprovisionRequest(_) => Self::Deprovision,
            Command::PauseNodeRequest(_) => Self::PauseNode,
            Command::ResumeNodeRequest(_) => Self::ResumeNode,
            Command::CreateKeyRequest(_) => Self::CreateKey,
            Command::ApplyCertRequest(_) => Self::ApplyCert,
        }
    }

    /// Which command `answer` is the answer to; none for a node's description.
    pub fn answered_by(answer: &Answer) -> Option<Self> {
        Some(match answer {
            Answer::NodeInfo(_) => return None,
            Answer::StartProvisioningResponse(_) => Self::StartProvisioning,
            Answer::CertTypesResponse(_) => Self::GetCertTypes,
            Answer::FinishProvisioningResponse(_) => Self::FinishProvisioning,
            Answer::DeprovisionResponse(_) => Self::Deprovision,
            Answer::PauseNodeResponse(_) => Self::PauseNode,
            Answer::ResumeNodeResponse(_) => Self::ResumeNode,
            Answer::CreateKeyResponse(_) => Self::CreateKey,
            Answer::ApplyCertResponse(_) => Self::ApplyCert,
        })
    }

    /// The command's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartProvisioning => "StartProvisioning",
            Self::GetCertTypes => "GetCertTypes",
            Self::FinishProvisioning => "FinishProvisioning",
            Self::Deprovision => "Deprovision",
            Self::PauseNode => "PauseNode",
            Self::ResumeNode => "ResumeNode",
            Self::CreateKey => "CreateKey",
            Self::ApplyCert => "ApplyCert",
        }
    }

    /// Whether the command makes sense for a node in this state, and if not, why.
    ///
    /// | command | unprovisioned | provisioned | paused | error |
    /// |---|---|---|---|---|
    /// | StartProvisioning | yes | no | no | yes |
    /// | FinishProvisioning | yes | yes: its answer may have been lost | no | yes |
    /// | Deprovision | yes: undoes half of a provisioning | yes | yes | yes |
    /// | PauseNode | no | yes | no | no |
    /// | ResumeNode | no | no | yes | no |
    /// | GetCertTypes, CreateKey, ApplyCert | yes | yes: renewal | yes: renewal | yes |
    pub fn check(self, state: NodeState) -> Result<(), WrongState> {
        let why = match (self, state) {
            (Self::StartProvisioning, NodeState::Provisioned | NodeState::Paused) => {
                "it is provisioned already; deprovision it first"
            }
            (Self::FinishProvisioning, NodeState::Paused) => "it is provisioned already",
            (Self::PauseNode, NodeState::Unprovisioned) => "it is not provisioned",
            (Self::PauseNode, NodeState::Paused) => "it is paused already",
            (Self::PauseNode, NodeState::Error) => "it has failed; provision it again first",
            (
                Self::ResumeNode,
                NodeState::Unprovisioned | NodeState::Provisioned | NodeState::Error,
            ) => "it is not paused",
            _ => return Ok(()),
        };
        Err(WrongState {
            command: self,
            state,
            why,
        })
    }

    /// The state of a node that has carried the command out, if the command decides it.
    pub fn leads_to(self) -> Option<NodeState> {
        match self {
            Self::FinishProvisioning | Self::ResumeNode => Some(NodeState::Provisioned),
            Self::Deprovision => Some(NodeState::Unprovisioned),
            Self::PauseNode => Some(NodeState::Paused),
            Self::StartProvisioning | Self::GetCertTypes | Self::CreateKey | Self::ApplyCert => {
                None
            }
        }
    }

    /// How long an answer is waited for.
    pub fn deadline(self, deadlines: &CommandDeadlines) -> Duration {
        match self {
            Self::StartProvisioning | Self::FinishProvisioning | Self::Deprovision => {
                deadlines.provisioning
            }
            Self::GetCertTypes
            | Self::PauseNode
            | Self::ResumeNode
            | Self::CreateKey
            | Self::ApplyCert => deadlines.ordinary,
        }
    }

    pub(crate) fn reply_kind(self) -> ReplyKind {
        ReplyKind(match self {
            Self::StartProvisioning => "StartProvisioningResponse",
            Self::GetCertTypes => "CertTypes",
            Self::FinishProvisioning => "FinishProvisioningResponse",
            Self::Deprovision => "DeprovisionResponse",
            Self::PauseNode => "PauseNodeResponse",
            Self::ResumeNode => "ResumeNodeResponse",
            Self::CreateKey => "CreateKeyResponse",
            Self::ApplyCert => "ApplyCertResponse",
        })
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A command that makes no sense for a node in its present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command} is refused for a node that is {state}: {why}")]
pub struct WrongState {
    /// The command.
    pub command: CommandKind,
    /// The node's state.
    pub state: NodeState,
    why: &'static str,
}

/// The failure that an answer reports.
pub fn answered_failure(answer: &Answer) -> Option<AosError> {
    let error = match answer {
        Answer::NodeInfo(_) | Answer::CertTypesResponse(_) => None,
        Answer::StartProvisioningResponse(answer) => answer.error.as_ref(),
        Answer::FinishProvisioningResponse(answer) => answer.error.as_ref(),
        Answer::DeprovisionResponse(answer) => answer.error.as_ref(),
        Answer::PauseNodeResponse(answer) => answer.error.as_ref(),
        Answer::ResumeNodeResponse(answer) => answer.error.as_ref(),
        Answer::CreateKeyResponse(answer) => answer.error.as_ref(),
        Answer::ApplyCertResponse(answer) => answer.error.as_ref(),
    };
    fault_from_wire(error.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table, cell by cell: columns are unprovisioned, provisioned, paused, error.
    #[test]
    fn what_is_allowed_in_which_state() {
        let table = [
            (CommandKind::StartProvisioning, [true, false, false, true]),
            (CommandKind::GetCertTypes, [true; 4]),
            (CommandKind::FinishProvisioning, [true, true, false, true]),
            (CommandKind::Deprovision, [true; 4]),
            (CommandKind::PauseNode, [false, true, false, false]),
            (CommandKind::ResumeNode, [false, false, true, false]),
            (CommandKind::CreateKey, [true; 4]),
            (CommandKind::ApplyCert, [true; 4]),
        ];
        assert_eq!(table.map(|(kind, _)| kind), CommandKind::ALL);
        for (kind, allowed) in table {
            for (state, allowed) in NodeState::ALL.iter().zip(allowed) {
                assert_eq!(kind.check(*state).is_ok(), allowed, "{kind} when {state}");
            }
        }
    }

    #[test]
    fn a_refusal_names_command_state_and_reason() {
        let refused = CommandKind::PauseNode
            .check(NodeState::Unprovisioned)
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "PauseNode is refused for a node that is unprovisioned: it is not provisioned"
        );
    }

    /// A command never leads to a state in which the command that undoes it would be refused.
    #[test]
    fn what_commands_lead_to() {
        for kind in CommandKind::ALL {
            let undo = match kind.leads_to() {
                Some(NodeState::Paused) => CommandKind::ResumeNode,
                Some(NodeState::Provisioned) => CommandKind::PauseNode,
                Some(NodeState::Unprovisioned) => CommandKind::StartProvisioning,
                Some(NodeState::Error) => panic!("{kind} is not meant to fail"),
                None => continue,
            };
            assert_eq!(undo.check(kind.leads_to().unwrap()), Ok(()));
        }
    }
}
