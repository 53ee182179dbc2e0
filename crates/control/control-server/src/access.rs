//! Who may make which call: one table, and a pure check against it.
//!
//! | caller | may |
//! |---|---|
//! | root, or whoever the daemon runs as, on the local socket | everything |
//! | role `operator` of this system | everything |
//! | whoever is granted [`Permission::View`] | look: lists, watches, progress, usage, events, explanations |
//! | whoever is granted [`Permission::Read`] | also read logs and the desired status, which may hold values of variables |
//! | whoever is granted [`Permission::Change`] | everything |
//! | other users of the machine, other roles, other systems, peers without an identity | nothing |

use std::fmt;

use muster_tls::{Peer, Role, SpiffeId, SystemId, TlsConnectInfo};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};
use tracing::warn;

/// How much somebody may do; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// See what is there and how it is.
    View,
    /// Also read what instances write, and the desired status.
    Read,
    /// Also change what runs.
    Change,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::View => "view",
            Self::Read => "read",
            Self::Change => "change",
        })
    }
}

macro_rules! calls {
    ($($name:ident => $permission:ident,)+) => {
        /// Every rpc of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the contract describes each")]
        pub enum Call {
            $($name,)+
        }

        impl Call {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// What it needs.
            pub fn needs(self) -> Permission {
                match self {
                    $(Self::$name => Permission::$permission,)+
                }
            }
        }

        impl fmt::Display for Call {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$name => stringify!($name),)+
                })
            }
        }
    };
}

calls! {
    GetOverview => View,
    ListNodes => View,
    ListInstances => View,
    ListItems => View,
    ListAlerts => View,
    ListNetworks => View,
    Watch => View,
    FollowUpdate => View,
    Explain => View,
    FollowUsage => View,
    ReadEvents => View,
    GetDesired => Read,
    ReadLogs => Read,
    Apply => Change,
    Rollback => Change,
    SetNodePaused => Change,
    DrainNode => Change,
}

/// Who makes a call, as the connection tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A user of this machine, on the local socket.
    Local {
        /// The user's id.
        user: u32,
    },
    /// A peer with an identity from its certificate.
    Identified(SpiffeId),
    /// Nobody in particular.
    Unknown,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { user } => write!(f, "user {user} of this machine"),
            Self::Identified(id) => id.fmt(f),
            Self::Unknown => f.write_str("a peer without an identity"),
        }
    }
}

/// Lets somebody in who is no operator of this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Exactly this identity.
    pub who: SpiffeId,
    /// May do this.
    pub may: Permission,
}

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{caller} may not call {call}: {why}")]
pub struct CallDenied {
    /// Who called.
    pub caller: Caller,
    /// What was called.
    pub call: Call,
    why: String,
}

impl From<CallDenied> for Status {
    fn from(denied: CallDenied) -> Self {
        match denied.caller {
            Caller::Unknown => Self::unauthenticated(denied.to_string()),
            Caller::Local { .. } | Caller::Identified(_) => {
                Self::permission_denied(denied.to_string())
            }
        }
    }
}

/// The table, for one system.
#[derive(Debug, Clone)]
pub struct Access {
    own_user: u32,
    system: Option<SystemId>,
    grants: Vec<Grant>,
}

impl Access {
    /// Only the local socket: whoever the daemon runs as, and root.
    pub fn local_only() -> Self {
        Self {
            own_user: rustix::process::geteuid().as_raw(),
            system: None,
            grants: Vec::new(),
        }
    }

    /// Also operators of this system, and whoever is granted something.
    #[must_use]
    pub fn operators_of(mut self, system: SystemId, grants: Vec<Grant>) -> Self {
        self.system = Some(system);
        self.grants = grants;
        self
    }

    /// Whether the caller may make the call.
    ///
    /// # Errors
    /// With the caller, the call, and what is missing.
    pub fn check(&self, caller: &Caller, call: Call) -> Result<(), CallDenied> {
        let denied = |why: String| CallDenied {
            caller: caller.clone(),
            call,
            why,
        };
        let may = match caller {
            Caller::Local { user } if *user == 0 || *user == self.own_user => {
                Some(Permission::Change)
            }
            Caller::Local { .. } => {
                let own = self.own_user;
                return Err(denied(format!("only root and user {own} may")));
            }
            Caller::Identified(id) => self.permission(id),
            Caller::Unknown => {
                return Err(denied(
                    "come with a certificate of this system, role operator".to_owned(),
                ));
            }
        };
        let needs = call.needs();
        match may {
            Some(may) if may >= needs => Ok(()),
            Some(may) => Err(denied(format!("it is granted {may}, and needs {needs}"))),
            None => {
                let system = self.system.as_ref().map_or("this system", SystemId::as_str);
                Err(denied(format!(
                    "it has neither the role operator of {system} nor a grant in the configuration"
                )))
            }
        }
    }

    fn permission(&self, id: &SpiffeId) -> Option<Permission> {
        if id.role == Role::Operator && self.system.as_ref() == Some(&id.system) {
            return Some(Permission::Change);
        }
        let grants = self.grants.iter().filter(|grant| grant.who == *id);
        grants.map(|grant| grant.may).max()
    }

    /// Lets the caller of a request in, or says why not; a refusal is logged, since somebody may be trying doors.
    pub(crate) fn admit<T>(&self, request: &Request<T>, call: Call) -> Result<Caller, Status> {
        let caller = caller(request);
        match self.check(&caller, call) {
            Ok(()) => Ok(caller),
            Err(denied) => {
                warn!(%call, %caller, reason = denied.why, "a call was refused");
                Err(denied.into())
            }
        }
    }
}

fn caller<T>(request: &Request<T>) -> Caller {
    let extensions = request.extensions();
    if let Some(local) = extensions.get::<UdsConnectInfo>() {
        let user = local.peer_cred.map(|cred| cred.uid());
        return user.map_or(Caller::Unknown, |user| Caller::Local { user });
    }
    let peer = extensions.get::<TlsConnectInfo>().map(TlsConnectInfo::peer);
    match peer.and_then(Peer::identity) {
        Some(identity) => Caller::Identified(identity.id.clone()),
        None => Caller::Unknown,
    }
}

#[cfg(test)]
mod tests;
