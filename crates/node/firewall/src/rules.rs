//! From a policy to rules, before they become the text of a backend.
//!
//! Three chains per instance. These rules see only packets of connections that are new; each chain is read from the top, and
//! ends with a rule that meets everything.

use muster_api::domain::{PortRange, TransportProtocol};

use crate::policy::InstancePolicy;
use crate::subnet::{Ipv4Subnet, is_local};

/// The other end of a connection: where it goes for what an instance sends, where it comes from for what it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Any,
    Within(Ipv4Subnet),
    /// One of [`LOCAL_NETWORKS`](crate::LOCAL_NETWORKS).
    Local,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Permit,
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) peer: Peer,
    pub(crate) transport: Option<(TransportProtocol, PortRange)>,
    pub(crate) verdict: Verdict,
}

impl Rule {
    fn permit(peer: Peer) -> Self {
        Self {
            peer,
            transport: None,
            verdict: Verdict::Permit,
        }
    }

    fn refuse(peer: Peer) -> Self {
        Self {
            peer,
            transport: None,
            verdict: Verdict::Refuse,
        }
    }
}

/// What an instance's policy comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceRules {
    /// New connections of the instance that the node forwards.
    pub(crate) outgoing: Vec<Rule>,
    /// New connections to the instance that the node forwards.
    pub(crate) incoming: Vec<Rule>,
    /// New connections of the instance to the node itself, other than to its name server.
    pub(crate) to_node: Vec<Rule>,
}

pub(crate) fn compile(policy: &InstancePolicy) -> InstanceRules {
    let subnet = policy
        .same_subnet
        .then(|| Rule::permit(Peer::Within(policy.subnet)));
    let allowed = policy.allowed.iter().map(|connection| Rule {
        transport: Some((connection.protocol, connection.ports)),
        ..Rule::permit(Peer::Within(Ipv4Subnet::host(connection.to)))
    });
    let exposed = policy.exposed.iter().map(|transport| Rule {
        transport: Some(*transport),
        ..Rule::permit(Peer::Any)
    });
    // A network of public addresses is inside all the same.
    let inside = (!is_local(policy.subnet.network()) && !policy.same_subnet)
        .then(|| Rule::refuse(Peer::Within(policy.subnet)));
    InstanceRules {
        outgoing: subnet
            .into_iter()
            .chain(allowed.clone())
            .chain(inside)
            .chain([Rule::refuse(Peer::Local), Rule::permit(Peer::Any)])
            .collect(),
        incoming: subnet
            .into_iter()
            .chain(exposed)
            .chain([Rule::refuse(Peer::Any)])
            .collect(),
        to_node: allowed.chain([Rule::refuse(Peer::Any)]).collect(),
    }
}

#[cfg(test)]
mod tests;
