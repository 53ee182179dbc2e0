//! Units and the edges between them, both ways.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_engine::dep::DepKind;
use muster_unit_file::config::{LoadState, UnitConfig};
use muster_unit_file::name::{UnitName, UnitType};

use crate::host::Host;
use crate::implicit::{self, Own};

/// The place of a unit in a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Slot(u32);

#[derive(Debug)]
struct Node {
    name: UnitName,
    /// `None` where a unit is only mentioned.
    config: Option<Arc<UnitConfig>>,
    /// `true` for its own edges, `false` for the inverse of another unit's.
    edges: BTreeMap<(DepKind, Slot), bool>,
    mounts_for: Vec<Box<str>>,
    slice: Option<UnitName>,
}

/// All units that are known, with every edge at both of its ends.
///
/// A graph is built once from what the loader found and never changes; a reload builds the next one.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    slots: HashMap<UnitName, Slot>,
}

/// One unit of a [`Graph`].
#[derive(Clone, Copy, Debug)]
pub struct Unit<'g> {
    graph: &'g Graph,
    node: &'g Node,
}

impl Graph {
    /// Joins units. Names that they mention and that are not among them become units that nothing is
    /// known about.
    pub fn new(units: impl IntoIterator<Item = Arc<UnitConfig>>, host: &Host) -> Self {
        let mut graph = Self::default();
        for config in units {
            graph.insert(config);
        }
        graph.add_own_edges(host);
        graph.add_mount_edges();
        graph.add_target_order();
        graph
    }

    /// A unit by any of its names.
    #[must_use]
    pub fn unit(&self, name: &UnitName) -> Option<Unit<'_>> {
        let slot = self.slots.get(name)?;
        Some(Unit {
            graph: self,
            node: &self.nodes[slot.0 as usize],
        })
    }

    /// Every unit, also those that are only mentioned.
    pub fn units(&self) -> impl Iterator<Item = Unit<'_>> {
        self.nodes.iter().map(|node| Unit { graph: self, node })
    }

    /// Names that units mention and that were not handed in.
    pub fn mentioned(&self) -> impl Iterator<Item = &UnitName> {
        self.nodes
            .iter()
            .filter(|node| node.config.is_none())
            .map(|node| &node.name)
    }

    fn insert(&mut self, config: Arc<UnitConfig>) {
        let slot = self.slot(&config.name);
        for alias in &config.aliases {
            // A name that two units claim stays with the first.
            self.slots.entry(alias.clone()).or_insert(slot);
        }
        self.nodes[slot.0 as usize].config.get_or_insert(config);
    }

    fn slot(&mut self, name: &UnitName) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        // A graph of four thousand million units does not fit into memory.
        let slot = Slot(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.slots.insert(name.clone(), slot);
        self.nodes.push(Node {
            name: name.clone(),
            config: None,
            edges: BTreeMap::new(),
            mounts_for: Vec::new(),
            slice: None,
        });
        slot
    }

    fn add_own_edges(&mut self, host: &Host) {
        for at in 0..self.nodes.len() {
            let Some(config) = self.nodes[at].config.clone() else {
                continue;
            };
            let own = implicit::own(&config, host);
            let from = self.slot(&config.name);
            let Own {
                edges,
                mounts_for,
                slice,
            } = own;
            for (kind, name) in edges {
                let to = self.slot(&name);
                self.connect(from, kind, to);
            }
            if let Some(slice) = &slice {
                let to = self.slot(slice);
                self.connect(from, DepKind::InSlice, to);
            }
            let node = &mut self.nodes[from.0 as usize];
            node.mounts_for = mounts_for;
            node.slice = slice;
        }
    }

    /// An edge and its inverse, unless the two units cannot have it.
    fn connect(&mut self, from: Slot, kind: DepKind, to: Slot) {
        let type_of = |slot: Slot| self.nodes[slot.0 as usize].name.unit_type();
        // Devices appear by themselves: nothing can be ordered before them.
        let delays_device = (kind == DepKind::Before && type_of(to) == UnitType::Device)
            || (kind == DepKind::After && type_of(from) == UnitType::Device);
        if from == to || delays_device {
            return;
        }
        self.nodes[from.0 as usize].edges.insert((kind, to), true);
        let inverse = &mut self.nodes[to.0 as usize].edges;
        inverse.entry((kind.inverse(), from)).or_insert(false);
    }

    /// A unit that needs a path comes after the mounts above it, and needs those that have a file.
    fn add_mount_edges(&mut self) {
        let mounts: HashMap<&str, (Slot, bool)> = self
            .nodes
            .iter()
            .filter_map(|node| {
                let config = node.config.as_ref()?;
                let usable = config.load_state == LoadState::Loaded
                    && node.name.unit_type() == UnitType::Mount;
                usable.then_some((
                    node.name.as_str(),
                    (self.slots[&node.name], config.fragment.is_some()),
                ))
            })
            .collect();
        let mut found = Vec::new();
        for node in &self.nodes {
            let loaded = node
                .config
                .as_ref()
                .is_some_and(|config| config.load_state == LoadState::Loaded);
            if !loaded {
                continue;
            }
            for path in &node.mounts_for {
                for name in implicit::mount_names(path) {
                    if let Some((mount, has_file)) = mounts.get(name.as_str()) {
                        found.push((self.slots[&node.name], *mount, *has_file));
                    }
                }
            }
        }
        for (unit, mount, has_file) in found {
            self.connect(unit, DepKind::After, mount);
            if has_file {
                self.connect(unit, DepKind::Requires, mount);
            }
        }
    }

    /// A target comes after what it pulls in, unless one of the two has no default dependencies or
    /// the files order them the other way round.
    fn add_target_order(&mut self) {
        const PULLS: [DepKind; 5] = [
            DepKind::Requires,
            DepKind::Requisite,
            DepKind::Wants,
            DepKind::BindsTo,
            DepKind::Upholds,
        ];
        let orderable = |node: &Node| {
            node.config.as_ref().is_some_and(|config| {
                config.load_state == LoadState::Loaded && config.default_dependencies
            })
        };
        let mut found = Vec::new();
        for node in &self.nodes {
            if node.name.unit_type() != UnitType::Target || !orderable(node) {
                continue;
            }
            let target = self.slots[&node.name];
            for (_, other) in node.edges.keys().filter(|(kind, _)| PULLS.contains(kind)) {
                let contradicts = node.edges.contains_key(&(DepKind::Before, *other));
                if !contradicts && orderable(&self.nodes[other.0 as usize]) {
                    found.push((target, *other));
                }
            }
        }
        for (target, other) in found {
            self.connect(target, DepKind::After, other);
        }
    }
}

impl<'g> Unit<'g> {
    /// Its main name.
    #[must_use]
    pub fn name(self) -> &'g UnitName {
        &self.node.name
    }

    /// What its files say; `None` where it is only mentioned.
    #[must_use]
    pub fn config(self) -> Option<&'g Arc<UnitConfig>> {
        self.node.config.as_ref()
    }

    /// The units at the other ends of its edges of one kind.
    pub fn dependencies(self, kind: DepKind) -> impl Iterator<Item = &'g UnitName> {
        let graph = self.graph;
        self.node
            .edges
            .range((kind, Slot(0))..=(kind, Slot(u32::MAX)))
            .map(move |((_, other), _)| &graph.nodes[other.0 as usize].name)
    }

    /// The edges that it has by its own files and settings, without the inverse of others'.
    pub fn own_edges(self) -> impl Iterator<Item = (DepKind, &'g UnitName)> {
        let graph = self.graph;
        self.node
            .edges
            .iter()
            .filter(|(_, own)| **own)
            .map(move |((kind, other), _)| (*kind, &graph.nodes[other.0 as usize].name))
    }

    /// Paths whose mounts it needs, stated or implied, each once.
    #[must_use]
    pub fn mounts_for(self) -> &'g [Box<str>] {
        &self.node.mounts_for
    }

    /// The slice that it is part of.
    #[must_use]
    pub fn slice(self) -> Option<&'g UnitName> {
        self.node.slice.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_unit_file::config::DependencyKind;

    fn unit(name: &str) -> UnitConfig {
        let mut config = UnitConfig::new(UnitName::new(name).expect("a name"));
        config.load_state = LoadState::Loaded;
        config.default_dependencies = false;
        config
    }

    fn name(text: &str) -> UnitName {
        UnitName::new(text).expect("a name")
    }

    #[test]
    fn an_alias_is_the_unit_it_stands_for() {
        let mut main = unit("main.target");
        main.aliases.push(name("other.target"));
        let mut user = unit("user.target");
        user.add_dependency(DependencyKind::Requires, name("other.target"));
        user.add_dependency(DependencyKind::After, name("user.target"));
        let graph = Graph::new([Arc::new(user), Arc::new(main)], &Host::default());
        let user = graph.unit(&name("user.target")).expect("it is there");
        let needed: Vec<_> = user.dependencies(DepKind::Requires).collect();
        assert_eq!(needed, [&name("main.target")]);
        assert_eq!(user.dependencies(DepKind::After).count(), 0);
        let by_alias = graph.unit(&name("other.target")).expect("it is there");
        let users: Vec<_> = by_alias.dependencies(DepKind::RequiredBy).collect();
        assert_eq!(users, [&name("user.target")]);
        assert_eq!(by_alias.own_edges().count(), 0);
    }

    #[test]
    fn a_target_does_not_follow_what_follows_it() {
        let mut target = unit("all.target");
        target.default_dependencies = true;
        target.add_dependency(DependencyKind::Wants, name("early.target"));
        target.add_dependency(DependencyKind::Wants, name("late.target"));
        let mut early = unit("early.target");
        early.default_dependencies = true;
        let mut late = early.clone();
        late.name = name("late.target");
        late.add_dependency(DependencyKind::After, name("all.target"));
        let units = [target, early, late].map(Arc::new);
        let graph = Graph::new(units, &Host::default());
        let target = graph.unit(&name("all.target")).expect("it is there");
        let after: Vec<_> = target.dependencies(DepKind::After).collect();
        assert_eq!(after, [&name("early.target")]);
    }
}
