//! Who may make a call: tables that daemons write down once, and a pure check against them.

use std::collections::BTreeSet;
use std::fmt;

use tonic::{Request, Status};

use crate::identity::PeerIdentity;
use crate::peer::{Peer, TlsConnectInfo};
use crate::spiffe::{NodeId, Role, SystemId};

/// The identity of the peer behind a request; `UNAUTHENTICATED` with the reason if it has none.
pub fn peer_identity<T>(request: &Request<T>) -> Result<&PeerIdentity, Status> {
    let Some(info) = request.extensions().get::<TlsConnectInfo>() else {
        return Err(Status::unauthenticated(
            "the request came over a connection that tells nothing about the peer",
        ));
    };
    let why = match info.peer() {
        Peer::Identified { identity, .. } => return Ok(identity),
        Peer::Unidentified { certificate } => {
            format!("its certificate \"{}\" gives it none", certificate.subject)
        }
        Peer::WithoutCertificate => "this port does not ask for certificates".to_owned(),
        Peer::Insecure => "this port runs in insecure mode".to_owned(),
    };
    Err(Status::unauthenticated(format!(
        "peer {} has no identity: {why}",
        info.peer_addr()
    )))
}

/// Who is allowed: one of the roles, and where given only of this system and on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    roles: BTreeSet<Role>,
    system: Option<SystemId>,
    node: Option<NodeId>,
}

/// Why a peer may not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    peer: String,
    lacks: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not allowed to do this: it lacks {}",
            self.peer, self.lacks
        )
    }
}

impl std::error::Error for Denied {}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Self::permission_denied(denied.to_string())
    }
}

impl Allow {
    /// Peers with one of these roles; with none, nobody.
    pub fn roles(roles: impl IntoIterator<Item = Role>) -> Self {
        Self {
            roles: roles.into_iter().collect(),
            system: None,
            node: None,
        }
    }

    /// Only peers of this system. To be set wherever more than one system's CA is trusted.
    #[must_use]
    pub fn in_system(mut self, system: SystemId) -> Self {
        self.system = Some(system);
        self
    }

    /// Only peers on this node.
    #[must_use]
    pub fn on_node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// Whether the peer is allowed.
    pub fn check(&self, peer: &PeerIdentity) -> Result<(), Denied> {
        let mut lacks = Vec::new();
        if !self.roles.contains(&peer.id.role) {
            let roles: Vec<&str> = self.roles.iter().map(Role::as_str).collect();
            lacks.push(match roles.as_slice() {
                [] => "any role, nobody is allowed".to_owned(),
                [only] => format!("the role {only}"),
                several => format!("one of the roles {}", several.join(", ")),
            });
        }
        if let Some(system) = self
            .system
            .as_ref()
            .filter(|wanted| **wanted != peer.id.system)
        {
            lacks.push(format!("membership of system {system}"));
        }
        if let Some(node) = self.node.as_ref().filter(|wanted| **wanted != peer.id.node) {
            lacks.push(format!("a place on node {node}"));
        }
        if lacks.is_empty() {
            return Ok(());
        }
        Err(Denied {
            peer: peer.id.to_string(),
            lacks: lacks.join(" and "),
        })
    }

    /// The identity behind the request, if it is allowed; otherwise `UNAUTHENTICATED` or
    /// `PERMISSION_DENIED` with the reason.
    pub fn authorize<'a, T>(&self, request: &'a Request<T>) -> Result<&'a PeerIdentity, Status> {
        let peer = peer_identity(request)?;
        self.check(peer)?;
        Ok(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::IdentityOrigin;
    use tonic::Code;

    fn peer(text: &str) -> PeerIdentity {
        PeerIdentity {
            id: text.parse().unwrap(),
            origin: IdentityOrigin::Spiffe,
        }
    }

    fn request(peer: Peer) -> Request<()> {
        let mut request = Request::new(());
        let address = "192.0.2.1:7".parse().unwrap();
        request
            .extensions_mut()
            .insert(TlsConnectInfo::new(address, peer));
        request
    }

    #[test]
    fn denial_names_the_peer_and_everything_it_lacks() {
        let allow = Allow::roles([Role::Sm, Role::Cm])
            .in_system(SystemId::new("other").unwrap())
            .on_node(NodeId::new("main").unwrap());
        let denied = allow
            .check(&peer("spiffe://system-1/node/n/mp"))
            .unwrap_err();
        assert_eq!(
            denied.to_string(),
            "spiffe://system-1/node/n/mp is not allowed to do this: it lacks one of the roles cm, sm \
             and membership of system other and a place on node main"
        );
        assert_eq!(Status::from(denied).code(), Code::PermissionDenied);
        assert_eq!(allow.check(&peer("spiffe://other/node/main/sm")), Ok(()));
    }

    #[test]
    fn an_empty_table_allows_nobody() {
        assert!(
            Allow::roles([])
                .check(&peer("spiffe://s/node/n/iam"))
                .is_err()
        );
    }

    #[test]
    fn peers_without_identity_are_told_why() {
        let without = peer_identity(&request(Peer::WithoutCertificate)).unwrap_err();
        assert_eq!(without.code(), Code::Unauthenticated);
        assert!(without.message().contains("192.0.2.1:7"), "{without}");
        assert!(
            peer_identity(&request(Peer::Insecure))
                .unwrap_err()
                .message()
                .contains("insecure")
        );
        assert_eq!(
            peer_identity(&Request::new(())).unwrap_err().code(),
            Code::Unauthenticated
        );
    }
}
