//! What watchers and followers of usage have not been told yet.

use muster_api::domain::{InstanceIdent, NetworkId, NodeId};
use muster_control_api::v1;
use v1::watch_event::Event;

use super::table::{Change, Revision};
use super::{ItemKey, UnitState};
use crate::wire;

/// What a watcher wants to know of. Alerts are the history's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) nodes: bool,
    pub(crate) instances: bool,
    pub(crate) items: bool,
    pub(crate) networks: bool,
    pub(crate) overview: bool,
}

impl Kinds {
    #[cfg(test)]
    pub(crate) const ALL: Self = Self {
        nodes: true,
        instances: true,
        items: true,
        networks: true,
        overview: true,
    };
}

/// How far a watcher has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    told: Revision,
    /// What was gone when it began never concerned it.
    began: Revision,
    /// The change of the overview that it was told last.
    overview: Option<Revision>,
}

impl Cursor {
    /// It knows everything that was there when it began.
    pub(crate) fn is_synced(&self) -> bool {
        self.told >= self.began
    }
}

/// More is gone than is remembered, so the watcher cannot be told the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FellBehind;

/// What a watcher is told next.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) events: Vec<Event>,
    /// The overview has changed.
    pub(crate) overview: bool,
    /// There is more to tell at once.
    pub(crate) more: bool,
}

/// What a follower of usage is told next.
#[derive(Debug)]
pub(crate) struct UsageTurn {
    pub(crate) snapshot: v1::UsageSnapshot,
    pub(crate) more: bool,
}

/// A change, of whatever kind.
enum Changed<'s> {
    Node(&'s Change<NodeId>),
    Instance(&'s Change<InstanceIdent>),
    Item(&'s Change<ItemKey>),
    Network(&'s Change<NetworkId>),
}

impl UnitState {
    /// A watcher that knows nothing.
    pub(crate) fn begin(&self) -> Cursor {
        Cursor {
            told: 0,
            began: self.revision,
            overview: None,
        }
    }

    /// The next changes for a watcher, about `limit` of them.
    pub(crate) fn turn(
        &self,
        cursor: &mut Cursor,
        kinds: Kinds,
        limit: usize,
    ) -> Result<Turn, FellBehind> {
        let known = cursor.told.max(cursor.began);
        let horizons = [
            (kinds.nodes, self.nodes.horizon()),
            (kinds.instances, self.instances.horizon()),
            (kinds.items, self.items.horizon()),
            (kinds.networks, self.networks.horizon()),
        ];
        if horizons
            .iter()
            .any(|(asked, horizon)| *asked && *horizon > known)
        {
            return Err(FellBehind);
        }

        let told = cursor.told;
        let mut changes: Vec<(Revision, Changed<'_>)> = Vec::new();
        if kinds.nodes {
            let since = self.nodes.since(told).take(limit);
            changes.extend(since.map(|(at, change)| (at, Changed::Node(change))));
        }
        if kinds.instances {
            let since = self.instances.since(told).take(limit);
            changes.extend(since.map(|(at, change)| (at, Changed::Instance(change))));
        }
        if kinds.items {
            let since = self.items.since(told).take(limit);
            changes.extend(since.map(|(at, change)| (at, Changed::Item(change))));
        }
        if kinds.networks {
            let since = self.networks.since(told).take(limit);
            changes.extend(since.map(|(at, change)| (at, Changed::Network(change))));
        }
        changes.sort_unstable_by_key(|(at, _)| *at);
        changes.truncate(limit);
        let more = changes.len() == limit;
        let reached = match changes.last() {
            Some((at, _)) if more => *at,
            _ => self.revision,
        };
        let began = cursor.began;
        // Whoever came and went between two turns was never told of.
        let concerns = |at: Revision, born: Revision| at > began && (born <= told || told < began);
        let events = changes.iter().filter_map(|(at, change)| match change {
            Changed::Node(change) => match change {
                Change::Live(id) => wire::node(self, id).map(Event::Node),
                Change::Gone { key, born } => {
                    concerns(*at, *born).then(|| Event::NodeGone(key.to_string()))
                }
            },
            Changed::Instance(change) => match change {
                Change::Live(ident) => wire::instance(self, ident).map(Event::Instance),
                Change::Gone { key, born } => {
                    concerns(*at, *born).then(|| Event::InstanceGone(key.clone().into()))
                }
            },
            Changed::Item(change) => match change {
                Change::Live(key) => wire::item(self, key).map(Event::Item),
                Change::Gone { key, born } => {
                    concerns(*at, *born).then(|| Event::ItemGone(wire::item_version(key)))
                }
            },
            Changed::Network(change) => match change {
                Change::Live(id) => wire::network(self, id).map(Event::Network),
                Change::Gone { key, born } => {
                    concerns(*at, *born).then(|| Event::NetworkGone(key.to_string()))
                }
            },
        });
        let events = events.collect();
        cursor.told = reached;
        // It counts what the events tell, so it comes after them.
        let overview = kinds.overview && !more && cursor.overview != Some(self.tally_changed);
        if overview {
            cursor.overview = Some(self.tally_changed);
        }
        Ok(Turn {
            events,
            overview,
            more,
        })
    }

    /// The next measurements for a follower: of as many nodes as have about `limit` instances.
    pub(crate) fn usage_turn(
        &self,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<UsageTurn, FellBehind> {
        if self.usage.horizon() > cursor.told.max(cursor.began) {
            return Err(FellBehind);
        }
        let mut snapshot = v1::UsageSnapshot::default();
        let mut reached = self.revision;
        let mut more = false;
        for (at, change) in self.usage.since(cursor.told) {
            let size = snapshot.nodes.len() + snapshot.instances.len() + snapshot.nodes_gone.len();
            if size >= limit {
                more = true;
                break;
            }
            reached = at;
            match change {
                Change::Gone { key, .. } if at > cursor.began => {
                    snapshot.nodes_gone.push(key.to_string());
                }
                Change::Gone { .. } => {}
                Change::Live(node) => {
                    snapshot.nodes.extend(wire::node_usage(self, node));
                    let placed = self.placed.get(node).into_iter().flatten();
                    let usages = placed.filter_map(|ident| wire::instance_usage(self, ident));
                    snapshot.instances.extend(usages);
                }
            }
        }
        cursor.told = if more { reached } else { self.revision };
        Ok(UsageTurn { snapshot, more })
    }
}
