//! The nodes and their streams as a pure state machine.
//!
//! ```text
//!            Join                      Join, same id          Probed: no answer, or Left
//!   Away ------------> Joined ----------------------> contested ------------------------> Joined
//!     ^                  |                                |                     (the newcomer)
//!     +--- Left, Close --+            Probed: answered ---+--> Joined, the newcomer is refused
//! ```
//!
//! [`NodeTable`] has no clock and no I/O: every [`Event`] comes with the time ([`At`]) and leaves
//! [`Effect`]s to carry out in order. What became of a node reaches the outside in three steps, of
//! which the table decides when: [`NodeTable::begin_write`] gives what to store, and only
//! [`NodeTable::end_write`] gives what to show. A node that changes often is stored and shown at most
//! once per [`RegistryLimits::damping`], always with its last state.

mod joining;
mod outlet;
mod publishing;
mod rate;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::{NodeId, NodeInfo, NodeState};

use crate::command::CommandKind;
use crate::limits::RegistryLimits;
use crate::record::{Connection, NodeRecord};
use crate::refusal::JoinRefused;
use outlet::Outlet;
use rate::Rate;
pub use vocabulary::{
    At, Batch, Effect, Event, ForgetError, PeerKind, Publication, Route, RouteRefused, StreamId,
};

#[derive(Debug)]
struct Claim {
    stream: StreamId,
    public: bool,
}

#[derive(Debug)]
struct Contender {
    claim: Claim,
    info: Arc<NodeInfo>,
}

#[derive(Debug)]
enum Link {
    /// The node that the registry runs on.
    Local,
    Away {
        since: SystemTime,
    },
    Joined {
        claim: Claim,
        /// Commands that wait for an answer.
        busy: u32,
        /// Waits until it is known whether the present stream still answers.
        contender: Option<Contender>,
    },
}

#[derive(Debug)]
struct Node {
    info: Arc<NodeInfo>,
    link: Link,
    /// The stream that `info` came on last.
    described_by: Option<StreamId>,
    outlet: Outlet,
}

impl Node {
    fn record(&self) -> NodeRecord {
        let connection = match self.link {
            Link::Away { since } => Connection::Disconnected { since },
            Link::Local | Link::Joined { .. } => Connection::Connected,
        };
        NodeRecord {
            info: Arc::clone(&self.info),
            connection,
        }
    }
}

/// All nodes of a system. See the module documentation.
#[derive(Debug)]
pub struct NodeTable {
    limits: RegistryLimits,
    local: NodeId,
    nodes: BTreeMap<NodeId, Node>,
    /// Joined streams and contenders.
    streams: HashMap<StreamId, NodeId>,
    public_joins: Rate,
    /// When which node is to be stored and shown.
    due: BTreeSet<(Duration, NodeId)>,
    forgotten: BTreeSet<NodeId>,
    in_flight: Option<Batch>,
}

impl NodeTable {
    /// A table with what was stored, everybody away, and the node that the registry runs on.
    pub fn new(
        limits: RegistryLimits,
        local: NodeInfo,
        stored: impl IntoIterator<Item = (NodeInfo, SystemTime)>,
    ) -> Self {
        let node = |info: NodeInfo, link| {
            let mut node = Node {
                info: Arc::new(info),
                link,
                described_by: None,
                outlet: Outlet::default(),
            };
            node.outlet.start_shown(node.record());
            (node.info.node_id.clone(), node)
        };
        let mut nodes: BTreeMap<NodeId, Node> = stored
            .into_iter()
            .map(|(info, since)| node(info, Link::Away { since }))
            .collect();
        let (id, local) = node(local, Link::Local);
        nodes.insert(id.clone(), local);
        Self {
            limits,
            local: id,
            nodes,
            streams: HashMap::new(),
            public_joins: Rate::new(limits.public_burst, limits.public_interval),
            due: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            in_flight: None,
        }
    }

    /// What is known of every node at this moment.
    pub fn records(&self) -> impl Iterator<Item = NodeRecord> {
        self.nodes.values().map(Node::record)
    }

    /// Takes one event in and appends what follows from it.
    pub fn handle(&mut self, at: At, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Local(info) => self.describe_local(at, info),
            Event::Join { stream, peer, info } => self.join(at, stream, &peer, info, effects),
            Event::Info { stream, info } => self.describe(at, stream, info, effects),
            Event::Left { stream } => self.leave(at, stream, effects),
            Event::Probed { stream, answers } => self.probed(at, stream, answers, effects),
            Event::Began { stream } => self.began(stream),
            Event::Ended {
                node,
                stream,
                state,
            } => self.ended(at, &node, stream, state, effects),
        }
    }

    /// Where a command goes. An empty id is the Main Node's own.
    pub fn route(&self, id: &str, command: CommandKind) -> Result<Route, RouteRefused> {
        let id = if id.is_empty() {
            self.local.as_str()
        } else {
            id
        };
        let (id, node) = self
            .nodes
            .get_key_value(id)
            .ok_or_else(|| RouteRefused::Unknown {
                node: id.to_owned(),
            })?;
        let route = match &node.link {
            Link::Local => Route::Local { node: id.clone() },
            Link::Joined { claim, .. } => Route::Stream {
                node: id.clone(),
                stream: claim.stream,
            },
            Link::Away { .. } => return Err(RouteRefused::NotConnected { node: id.clone() }),
        };
        command
            .check(node.info.state)
            .map_err(|source| RouteRefused::WrongState {
                node: id.clone(),
                source,
            })?;
        Ok(route)
    }

    /// Removes a node that is not connected, so that its id can be used by another.
    pub fn forget(&mut self, id: &str) -> Result<(), ForgetError> {
        let (id, node) = self
            .nodes
            .get_key_value(id)
            .ok_or_else(|| ForgetError::Unknown {
                node: id.to_owned(),
            })?;
        let id = id.clone();
        match node.link {
            Link::Away { .. } => {
                self.remove(&id);
                Ok(())
            }
            Link::Local => Err(ForgetError::IsMainNode { node: id }),
            Link::Joined { .. } => Err(ForgetError::Connected { node: id }),
        }
    }

    fn describe_local(&mut self, at: At, info: NodeInfo) {
        // A node's id never changes while it runs; the certificates would not fit either.
        if info.node_id == self.local
            && let Some(node) = self.nodes.get_mut(&self.local)
        {
            node.info = Arc::new(info);
            let id = self.local.clone();
            self.touch(at, &id, true);
        }
    }

    fn describe(&mut self, at: At, stream: StreamId, info: NodeInfo, effects: &mut Vec<Effect>) {
        let Some(id) = self.streams.get(&stream).cloned() else {
            return;
        };
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let Link::Joined {
            claim, contender, ..
        } = &mut node.link
        else {
            return;
        };
        let public = match contender {
            Some(contender) if contender.claim.stream == stream => contender.claim.public,
            _ => claim.public,
        };
        let wrong = if info.node_id != id {
            Some(JoinRefused::OtherNode {
                node: id.clone(),
                claimed: info.node_id.clone(),
            })
        } else if public && info.state != NodeState::Unprovisioned {
            Some(JoinRefused::NeedsCertificate {
                node: id.clone(),
                state: info.state,
            })
        } else {
            None
        };
        if claim.stream != stream {
            match wrong {
                Some(refused) => self.drop_contender(&id, refused, effects),
                None => {
                    if let Some(contender) = contender {
                        contender.info = Arc::new(info);
                    }
                }
            }
            return;
        }
        match wrong {
            Some(refused) => self.close(at, &id, refused, effects),
            None => {
                node.info = Arc::new(info);
                node.described_by = Some(stream);
                self.touch(at, &id, false);
            }
        }
    }

    fn leave(&mut self, at: At, stream: StreamId, effects: &mut Vec<Effect>) {
        let Some(id) = self.streams.remove(&stream) else {
            return;
        };
        let Some(Link::Joined {
            claim, contender, ..
        }) = self.nodes.get_mut(&id).map(|node| &mut node.link)
        else {
            return;
        };
        if claim.stream == stream {
            self.succeed(at, &id, effects);
        } else {
            *contender = None;
        }
    }

    fn probed(&mut self, at: At, stream: StreamId, answers: bool, effects: &mut Vec<Effect>) {
        let Some(id) = self.streams.get(&stream).cloned() else {
            return;
        };
        let is_present = matches!(
            self.nodes.get(&id).map(|node| &node.link),
            Some(Link::Joined { claim, contender: Some(_), .. }) if claim.stream == stream
        );
        if !is_present {
            return;
        }
        if answers {
            let refused = JoinRefused::AlreadyConnected { node: id.clone() };
            self.drop_contender(&id, refused, effects);
        } else {
            self.close(at, &id, JoinRefused::Replaced { node: id.clone() }, effects);
        }
    }

    fn began(&mut self, stream: StreamId) {
        let id = self.streams.get(&stream);
        if let Some(Link::Joined { claim, busy, .. }) = id
            .and_then(|id| self.nodes.get_mut(id))
            .map(|node| &mut node.link)
            && claim.stream == stream
        {
            *busy += 1;
        }
    }

    fn ended(
        &mut self,
        at: At,
        id: &NodeId,
        stream: StreamId,
        state: Option<NodeState>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        let mut public = None;
        if let Link::Joined { claim, busy, .. } = &mut node.link
            && claim.stream == stream
        {
            *busy = busy.saturating_sub(1);
            public = Some(claim.public);
        }
        let Some(state) = state else {
            return;
        };
        // A stream that came later has told the node's state already.
        if node.described_by != Some(stream) {
            return;
        }
        if node.info.state != state {
            Arc::make_mut(&mut node.info).state = state;
        }
        // Also when the node itself was faster: whoever gave the command waits for it to be shown.
        self.touch(at, id, true);
        let belongs_public = state == NodeState::Unprovisioned;
        if public.is_none() {
            self.forget_surplus();
        } else if public != Some(belongs_public) {
            let port = if belongs_public {
                "public"
            } else {
                "protected"
            };
            let moved = JoinRefused::Moved {
                node: id.clone(),
                state,
                port,
            };
            self.close(at, id, moved, effects);
        }
    }

    /// Ends the present stream of a node.
    fn close(&mut self, at: At, id: &NodeId, why: JoinRefused, effects: &mut Vec<Effect>) {
        if let Some(Link::Joined { claim, .. }) = self.nodes.get(id).map(|node| &node.link) {
            let stream = claim.stream;
            self.streams.remove(&stream);
            effects.push(Effect::Close(stream, why));
            self.succeed(at, id, effects);
        }
    }

    /// The present stream is gone: its contender takes over, or the node is away.
    fn succeed(&mut self, at: At, id: &NodeId, effects: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        let Link::Joined { contender, .. } = &mut node.link else {
            return;
        };
        let contender = contender.take();
        node.link = Link::Away { since: at.wall };
        self.touch(at, id, false);
        if let Some(Contender { claim, info }) = contender {
            match self.permit(claim.public, &info) {
                Ok(()) => return self.admit(at, claim, info, effects),
                Err(refused) => {
                    self.streams.remove(&claim.stream);
                    effects.push(Effect::Close(claim.stream, refused));
                }
            }
        }
        self.forget_surplus();
    }

    fn drop_contender(&mut self, id: &NodeId, why: JoinRefused, effects: &mut Vec<Effect>) {
        if let Some(Link::Joined { contender, .. }) =
            self.nodes.get_mut(id).map(|node| &mut node.link)
            && let Some(contender) = contender.take()
        {
            self.streams.remove(&contender.claim.stream);
            effects.push(Effect::Close(contender.claim.stream, why));
        }
    }

    /// Unauthenticated peers can make up ids without end; only so many are remembered.
    fn forget_surplus(&mut self) {
        let mut away: Vec<(SystemTime, NodeId)> = self
            .nodes
            .iter()
            .filter_map(|(id, node)| match node.link {
                Link::Away { since } if node.info.state == NodeState::Unprovisioned => {
                    Some((since, id.clone()))
                }
                _ => None,
            })
            .collect();
        let surplus = away.len().saturating_sub(self.limits.remembered);
        if surplus > 0 {
            away.sort();
            for (_, id) in &away[..surplus] {
                self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: &NodeId) {
        if let Some(node) = self.nodes.remove(id) {
            if let Some(due) = node.outlet.due() {
                self.due.remove(&(due, id.clone()));
            }
            self.forgotten.insert(id.clone());
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
