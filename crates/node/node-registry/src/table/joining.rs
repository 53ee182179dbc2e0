//! Who may have which node's place.

use std::sync::Arc;

use muster_api::domain::{NodeInfo, NodeState};

use super::outlet::Outlet;
use super::{At, Claim, Contender, Effect, Link, Node, NodeTable, PeerKind, StreamId};
use crate::refusal::JoinRefused;

impl NodeTable {
    pub(super) fn join(
        &mut self,
        at: At,
        stream: StreamId,
        peer: &PeerKind,
        info: NodeInfo,
        effects: &mut Vec<Effect>,
    ) {
        let public = matches!(peer, PeerKind::Public);
        let permitted = match peer {
            PeerKind::Protected { node } if node.as_str() != info.node_id.as_str() => {
                Err(JoinRefused::OtherCertificate {
                    claimed: info.node_id.clone(),
                    certified: node.to_string(),
                })
            }
            PeerKind::Public if !self.public_joins.take(at.now) => Err(JoinRefused::TooFast),
            PeerKind::Public | PeerKind::Protected { .. } => self.permit(public, &info),
        };
        if let Err(refused) = permitted {
            effects.push(Effect::Close(stream, refused));
            return;
        }
        let id = info.node_id.clone();
        let claim = Claim { stream, public };
        let info = Arc::new(info);
        match self.nodes.get_mut(&id).map(|node| &mut node.link) {
            Some(Link::Joined {
                claim: present,
                busy,
                contender,
            }) => {
                if present.public && !public {
                    // A certificate outweighs a word: this is the node, freshly provisioned.
                    let replaced = JoinRefused::Replaced { node: id.clone() };
                    self.drop_contender(&id, replaced.clone(), effects);
                    self.close(at, &id, replaced, effects);
                    self.admit(at, claim, info, effects);
                } else if *busy > 0 || contender.is_some() {
                    // A node at work answers nothing else. If it is gone, the keepalive notices.
                    effects.push(Effect::Close(
                        stream,
                        JoinRefused::AlreadyConnected { node: id },
                    ));
                } else {
                    effects.push(Effect::Probe(present.stream));
                    *contender = Some(Contender { claim, info });
                    self.streams.insert(stream, id);
                }
            }
            Some(Link::Local | Link::Away { .. }) | None => {
                self.admit(at, claim, info, effects);
            }
        }
    }

    /// Whether a peer may be this node, as far as its port decides that.
    pub(super) fn permit(&self, public: bool, info: &NodeInfo) -> Result<(), JoinRefused> {
        let node = info.node_id.clone();
        if node == self.local {
            return Err(JoinRefused::IsMainNode { node });
        }
        if !public {
            return Ok(());
        }
        if info.state != NodeState::Unprovisioned {
            let state = info.state;
            return Err(JoinRefused::NeedsCertificate { node, state });
        }
        match self.nodes.get(&node).map(|node| node.info.state) {
            None | Some(NodeState::Unprovisioned) => Ok(()),
            Some(known) => Err(JoinRefused::IsMember { node, known }),
        }
    }

    pub(super) fn admit(
        &mut self,
        at: At,
        claim: Claim,
        info: Arc<NodeInfo>,
        effects: &mut Vec<Effect>,
    ) {
        let id = info.node_id.clone();
        let stream = claim.stream;
        self.streams.insert(stream, id.clone());
        let link = Link::Joined {
            claim,
            busy: 0,
            contender: None,
        };
        match self.nodes.get_mut(&id) {
            Some(node) => {
                node.info = info;
                node.link = link;
                node.described_by = Some(stream);
            }
            None => {
                let node = Node {
                    info,
                    link,
                    described_by: Some(stream),
                    outlet: Outlet::default(),
                };
                self.nodes.insert(id.clone(), node);
            }
        }
        effects.push(Effect::Admit {
            stream,
            node: id.clone(),
        });
        self.touch(at, &id, false);
    }
}
