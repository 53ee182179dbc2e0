//! Who may make which call: one table, and a pure check against it.
//!
//! | caller | may |
//! |---|---|
//! | anybody on the public port | ask who and what the node is; a node that is not provisioned may register |
//! | any peer with an identity | ask the same over the protected port |
//! | `iam` of another node | register that node |
//! | `sm` of this node | register and unregister instances |
//! | `cm` of this node | provision, renew, deprovision, pause and resume nodes |
//! | `nodemgr`, `operator`, root on the local socket | the same, from any node |
//! | anybody on a protected port in the clear | provision this node: it is not provisioned yet, and its configuration allows it |
//!
//! A peer of another system may do nothing that needs an identity. `cm` and `sm` are bound to this
//! node, because each node's identity manager serves its own: the Communication Manager reaches other
//! nodes through the identity manager of the Main Node.

use std::fmt;

use muster_tls::{NodeId, PeerIdentity, Role, SystemId};
use tonic::Status;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident => $group:ident,)+) => {
        /// Every rpc of the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Call {
            $($(#[$doc])* $name,)+
        }

        impl Call {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            fn group(self) -> Group {
                match self {
                    $(Self::$name => Group::$group,)+
                }
            }
        }

        impl fmt::Display for Call {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$name => stringify!($name),)+
                })
            }
        }
    };
}

calls! {
    /// `IAMVersionService.GetAPIVersion`
    GetApiVersion => Look,
    /// `IAMPublicIdentityService.GetSystemInfo`
    GetSystemInfo => Look,
    /// `IAMPublicIdentityService.GetSubjects`
    GetSubjects => Look,
    /// `IAMPublicIdentityService.SubscribeSubjectsChanged`
    SubscribeSubjectsChanged => Look,
    /// `IAMPublicCurrentNodeService.GetCurrentNodeInfo`
    GetCurrentNodeInfo => Look,
    /// `IAMPublicCurrentNodeService.SubscribeCurrentNodeChanged`
    SubscribeCurrentNodeChanged => Look,
    /// `IAMPublicCertService.GetCert`
    GetCert => Look,
    /// `IAMPublicCertService.SubscribeCertChanged`
    SubscribeCertChanged => Look,
    /// `IAMPublicPermissionsService.GetPermissions`; the secret in the request is what authorises
    GetPermissions => Look,
    /// `IAMPublicNodesService.GetAllNodeIDs`
    GetAllNodeIds => Look,
    /// `IAMPublicNodesService.GetNodeInfo`
    GetNodeInfo => Look,
    /// `IAMPublicNodesService.SubscribeNodeChanged`
    SubscribeNodeChanged => Look,
    /// `IAMPublicNodesService.RegisterNode`
    RegisterNode => Join,
    /// `IAMNodesService.PauseNode`
    PauseNode => Manage,
    /// `IAMNodesService.ResumeNode`
    ResumeNode => Manage,
    /// `IAMProvisioningService.GetCertTypes`
    GetCertTypes => Provision,
    /// `IAMProvisioningService.StartProvisioning`
    StartProvisioning => Provision,
    /// `IAMProvisioningService.FinishProvisioning`
    FinishProvisioning => Provision,
    /// `IAMProvisioningService.Deprovision`
    Deprovision => Manage,
    /// `IAMCertificateService.CreateKey`
    CreateKey => Provision,
    /// `IAMCertificateService.ApplyCert`
    ApplyCert => Provision,
    /// `IAMPermissionsService.RegisterInstance`
    RegisterInstance => Instances,
    /// `IAMPermissionsService.UnregisterInstance`
    UnregisterInstance => Instances,
}

/// Calls with the same callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Changes nothing and tells nothing that a peer of the device must not know.
    Look,
    /// A node's own stream.
    Join,
    /// Makes a node a member, or renews what makes it one.
    Provision,
    /// Takes nodes out, for a while or for good.
    Manage,
    /// What instances may do.
    Instances,
}

/// Who makes a call, as the connection tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A client of the public port, over TLS or not: nothing is known about it.
    Public,
    /// A client of the protected port while that is in the clear.
    UnprotectedPort,
    /// A peer with an identity from its certificate.
    Identified(PeerIdentity),
    /// The superuser of this machine, on the local socket.
    LocalRoot,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("a client of the public port"),
            Self::UnprotectedPort => f.write_str("a client without TLS"),
            Self::Identified(peer) => peer.id.fmt(f),
            Self::LocalRoot => f.write_str("root on this node"),
        }
    }
}

/// Why a call was refused. The text names the caller, the call and what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{caller} may not call {call}: {why}")]
pub struct CallDenied {
    caller: Caller,
    call: Call,
    why: String,
}

impl From<CallDenied> for Status {
    fn from(denied: CallDenied) -> Self {
        match denied.caller {
            Caller::Public | Caller::UnprotectedPort => Self::unauthenticated(denied.to_string()),
            Caller::Identified(_) | Caller::LocalRoot => {
                Self::permission_denied(denied.to_string())
            }
        }
    }
}

/// The table, for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The system this node belongs to. Without one that can stand in an identity, peers of any
    /// system that the configured authorities vouch for are its own.
    system: Option<SystemId>,
    node: NodeId,
}

impl Authority {
    /// The table of the node `node` of `system`.
    pub fn new(system: Option<SystemId>, node: NodeId) -> Self {
        Self { system, node }
    }

    /// Whether `caller` may make `call`.
    ///
    /// # Errors
    /// What the caller lacks.
    pub fn check(&self, caller: &Caller, call: Call) -> Result<(), CallDenied> {
        let lacks = match caller {
            Caller::Public => public(call.group()),
            Caller::UnprotectedPort => unprotected(call.group()),
            Caller::LocalRoot => local_root(call.group()),
            Caller::Identified(peer) => self.identified(peer, call.group()),
        };
        match lacks {
            None => Ok(()),
            Some(why) => Err(CallDenied {
                caller: caller.clone(),
                call,
                why,
            }),
        }
    }

    /// What an identified peer lacks.
    fn identified(&self, peer: &PeerIdentity, group: Group) -> Option<String> {
        if let Some(system) = self.system.as_ref().filter(|own| **own != peer.id.system) {
            return Some(format!("it is not of the system {system}"));
        }
        let here = peer.id.node == self.node;
        let own_node = || {
            (!here).then(|| {
                format!(
                    "a {} may only do this on its own node, and this is {}",
                    peer.id.role, self.node
                )
            })
        };
        match (group, &peer.id.role) {
            (Group::Look, _) => None,
            (Group::Join, Role::Iam) => here.then(|| {
                format!(
                    "{} is this node, and cannot register with itself",
                    self.node
                )
            }),
            (Group::Join, _) => Some("it needs the role iam".to_owned()),
            (Group::Provision | Group::Manage, Role::NodeMgr | Role::Operator) => None,
            (Group::Provision | Group::Manage, Role::Cm) => own_node(),
            (Group::Provision | Group::Manage, _) => {
                Some("it needs one of the roles cm, nodemgr, operator".to_owned())
            }
            (Group::Instances, Role::Sm) => own_node(),
            (Group::Instances, _) => Some("it needs the role sm".to_owned()),
        }
    }
}

/// What an unknown client lacks. Whether a node that registers here is unprovisioned is checked when
/// it says who it is.
fn public(group: Group) -> Option<String> {
    match group {
        Group::Look | Group::Join => None,
        Group::Provision | Group::Manage | Group::Instances => {
            Some("it is served on the protected port only".to_owned())
        }
    }
}

/// What a client of a protected port in the clear lacks. There is one only while the node is not
/// provisioned, so there is nothing to take away yet but the node itself.
fn unprotected(group: Group) -> Option<String> {
    match group {
        Group::Look | Group::Provision => None,
        Group::Join | Group::Manage | Group::Instances => {
            Some("it needs an identity, which only TLS gives".to_owned())
        }
    }
}

/// What the superuser lacks.
fn local_root(group: Group) -> Option<String> {
    match group {
        Group::Look | Group::Provision | Group::Manage => None,
        Group::Join => Some("nodes register over the network".to_owned()),
        Group::Instances => Some("it needs the role sm".to_owned()),
    }
}

#[cfg(test)]
mod tests;
