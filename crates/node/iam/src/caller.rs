//! Who is at the other end of a request, and whether the table lets it in.

use std::fmt;

use muster_tls::{NodeId, Peer, TlsConnectInfo};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};
use tracing::warn;

use crate::authorize::{Authority, Call, Caller};
use crate::config::Port;
use crate::csr::spiffe_system;
use crate::identity::Identity;

/// Which of the daemon's servers a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// One of the ports.
    Port(Port),
    /// The local socket.
    Local,
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port(Port::Public) => "public port",
            Self::Port(Port::Protected) => "protected port",
            Self::Local => "local socket",
        })
    }
}

/// The check at one door. Every handler begins with it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    door: Door,
    node: NodeId,
    identity: Identity,
    /// Besides root, whoever the daemon runs as may use the local socket.
    own_user: u32,
}

impl Gate {
    /// The gate at `door` of the node `node`.
    pub(crate) fn new(door: Door, node: NodeId, identity: Identity) -> Self {
        Self {
            door,
            node,
            identity,
            own_user: rustix::process::geteuid().as_raw(),
        }
    }

    /// Lets the caller in, or says why not; a refusal is logged, since somebody may be trying doors.
    ///
    /// # Errors
    /// The status that the caller gets.
    pub(crate) fn admit<T>(&self, request: &Request<T>, call: Call) -> Result<Caller, Status> {
        let admitted = self.caller(request).and_then(|caller| {
            self.authority().check(&caller, call)?;
            Ok(caller)
        });
        if let Err(refused) = &admitted {
            warn!(%call, door = %self.door, reason = refused.message(), "a call was refused");
        }
        admitted
    }

    /// The system may become known, or another one, while the daemon runs.
    fn authority(&self) -> Authority {
        let system = self.identity.system_id();
        Authority::new(system.as_deref().and_then(spiffe_system), self.node.clone())
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let extensions = request.extensions();
        if let Some(local) = extensions.get::<UdsConnectInfo>() {
            return match local.peer_cred.map(|cred| cred.uid()) {
                Some(uid) if uid == 0 || uid == self.own_user => Ok(Caller::LocalRoot),
                Some(uid) => Err(Status::permission_denied(format!(
                    "only root may use the local socket, not user {uid}"
                ))),
                None => Err(Status::unauthenticated(
                    "the system does not say who is at the other end of the local socket",
                )),
            };
        }
        let peer = extensions.get::<TlsConnectInfo>().map(TlsConnectInfo::peer);
        match (peer, self.door) {
            (Some(Peer::Identified { identity, .. }), _) => {
                Ok(Caller::Identified(identity.clone()))
            }
            (Some(Peer::WithoutCertificate | Peer::Insecure), Door::Port(Port::Public)) => {
                Ok(Caller::Public)
            }
            (Some(Peer::Insecure), Door::Port(Port::Protected)) => Ok(Caller::UnprotectedPort),
            _ => Err(Status::unauthenticated(
                "the connection does not say who is at its other end",
            )),
        }
    }
}
