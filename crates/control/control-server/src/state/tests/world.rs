//! Facts for tests, and a watcher that puts together what it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::{
    AlertRules, AosCode, AosError, ArchInfo, Gid, InstanceIdent, InstanceInfo, InstanceMonitoring,
    InstanceState, InstanceStatus, ItemState, ItemType, MonitoringData, NetworkParameters, NodeId,
    NodeInfo, NodeMonitoring, NodeState, OsInfo, RuntimeId, RuntimeInfo, RuntimeType, SmInfo,
    Timestamp, Uid,
};
use muster_api::servicemanager::v5::UpdateNetworkParameters;
use muster_control_api::v1;
use muster_desired::seams::NodeShare;
use muster_desired::{
    Bytes, Condition, InstanceProgress, ItemProgress, Progress, UpdateId, UpdateStep,
};
use v1::watch_event::Event;

use crate::facts::{Note, UnitAbout};
use crate::state::{Cursor, FellBehind, Kinds, Notes, ProgressChanges, UnitState};
use crate::wire;

pub(super) fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

pub(super) fn ident(item: &str, number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: item.parse().unwrap(),
        subject_id: "local".parse().unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

pub(super) fn sm_info(name: &str, kind: &str) -> SmInfo {
    let (node, kind) = (node(name), RuntimeType::new(kind).unwrap());
    let runtime = RuntimeInfo {
        // The same id with another type is what a changed runtime looks like.
        runtime_id: RuntimeId::new(&format!("runtime-{name}")).unwrap(),
        runtime_type: kind,
        max_dmips: None,
        allowed_dmips: None,
        total_ram: None,
        allowed_ram: None,
        max_instances: 0,
        os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
        arch_info: ArchInfo::new("amd64", "").unwrap(),
    };
    SmInfo {
        node_id: node,
        runtimes: vec![runtime],
        resources: Vec::new(),
    }
}

pub(super) fn node_info(name: &str, state: NodeState) -> NodeInfo {
    NodeInfo {
        node_id: node(name),
        node_type: "board".parse().unwrap(),
        title: format!("the {name}"),
        max_dmips: 1000,
        total_ram: 1 << 30,
        physical_ram: None,
        os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
        cpus: Vec::new(),
        partitions: Vec::new(),
        attrs: BTreeMap::new(),
        state,
        error: None,
    }
}

pub(super) fn status(ident: &InstanceIdent, node: &NodeId, state: InstanceState) -> InstanceStatus {
    let failed = state == InstanceState::Failed;
    InstanceStatus {
        instance: ident.clone(),
        version: "1.0.0".to_owned(),
        runtime_id: Some(RuntimeId::new(&format!("runtime-{node}")).unwrap()),
        manifest_digest: None,
        env_vars: Vec::new(),
        state,
        error: failed.then(|| AosError::new(AosCode::Failed, "it crashed")),
    }
}

pub(super) fn info(ident: &InstanceIdent, node: &NodeId, network: Option<&str>) -> InstanceInfo {
    let network = network.map(|network| NetworkParameters {
        network_id: network.parse().unwrap(),
        subnet: "172.17.0.0/16".parse().unwrap(),
        ip: "172.17.0.5".parse().unwrap(),
        dns_servers: Vec::new(),
        rules: Vec::new(),
    });
    InstanceInfo {
        instance: ident.clone(),
        version: "1.0.0".to_owned(),
        manifest_digest: format!("sha256:{}", "0".repeat(64)).parse().unwrap(),
        owner_id: None,
        runtime_id: RuntimeId::new(&format!("runtime-{node}")).unwrap(),
        uid: Uid::new(5000).unwrap(),
        gid: Gid::new(5000).unwrap(),
        priority: 7,
        storage_path: None,
        state_path: None,
        env_vars: Vec::new(),
        network,
        alert_rules: AlertRules::default(),
    }
}

pub(super) fn share(node: &NodeId, instances: &[(InstanceIdent, Option<&str>)]) -> NodeShare {
    let networks: BTreeSet<&str> = instances
        .iter()
        .filter_map(|(_, network)| *network)
        .collect();
    let networks = networks.into_iter().map(|network| UpdateNetworkParameters {
        network_id: network.to_owned(),
        subnet: "172.17.0.0/16".to_owned(),
        ip: "172.17.0.1".to_owned(),
        vlan_id: 5,
    });
    let infos = instances
        .iter()
        .map(|(ident, network)| info(ident, node, *network));
    NodeShare {
        networks: networks.collect(),
        instances: infos.collect(),
    }
}

pub(super) fn progress(
    update: u64,
    done: bool,
    instances: &[(InstanceIdent, Option<NodeId>)],
) -> Arc<Progress> {
    let items: BTreeSet<_> = instances.iter().map(|(ident, _)| &ident.item_id).collect();
    let item = |version: String| ItemProgress {
        version,
        state: if done {
            ItemState::Installed
        } else {
            ItemState::Downloading
        },
        bytes: Bytes { done: 5, total: 10 },
        error: None,
    };
    let instance = |node: &Option<NodeId>| InstanceProgress {
        version: format!("{update}.0.0"),
        node: node.clone(),
        condition: if node.is_some() {
            Condition::Waiting
        } else {
            Condition::Unplaced
        },
        error: None,
    };
    let items = items
        .into_iter()
        .map(|id| (id.clone(), item(format!("{update}.0.0"))));
    // Each has one place, the last one that was said.
    let wanted: BTreeMap<_, _> = instances
        .iter()
        .map(|(ident, node)| (ident.clone(), instance(node)))
        .collect();
    Arc::new(Progress {
        update: (update > 0).then_some(UpdateId(update)),
        step: if done {
            UpdateStep::None
        } else {
            UpdateStep::Downloading
        },
        done,
        items: items.collect(),
        instances: wanted.into_iter().collect(),
        configuration: None,
        placement: None,
    })
}

pub(super) fn monitoring(cpu: u64, instances: &[InstanceIdent]) -> NodeMonitoring {
    let data = MonitoringData {
        timestamp: Timestamp::try_from(SystemTime::UNIX_EPOCH).unwrap(),
        ram: 1,
        cpu,
        partitions: Vec::new(),
        download: 2,
        upload: 3,
    };
    let measured = |ident: &InstanceIdent| InstanceMonitoring {
        instance: ident.clone(),
        runtime_id: None,
        data: data.clone(),
    };
    NodeMonitoring {
        instances: instances.iter().map(measured).collect(),
        node: data,
    }
}

/// The model with a clock that ticks with every fact.
pub(super) struct Model {
    pub(super) state: UnitState,
    now: SystemTime,
}

impl Model {
    pub(super) fn new(gone_kept: usize) -> Self {
        let about = UnitAbout {
            main_node: Some(node("n0")),
            ..UnitAbout::default()
        };
        Self {
            state: UnitState::new(about, gone_kept),
            now: SystemTime::UNIX_EPOCH,
        }
    }

    /// What a fact leaves for the history.
    pub(super) fn fact(
        &mut self,
        fact: impl FnOnce(&mut UnitState, SystemTime, &mut Notes),
    ) -> Vec<Note> {
        self.now += Duration::from_secs(1);
        let mut notes = Notes::default();
        fact(&mut self.state, self.now, &mut notes);
        self.state.settle();
        notes.into_vec()
    }

    pub(super) fn progress(&mut self, progress: &Arc<Progress>) -> Vec<Note> {
        let changes = ProgressChanges::between(self.state.progress(), progress);
        let failures = progress.failures();
        self.fact(|state, now, notes| state.progressed(progress, changes, failures, now, notes))
    }

    pub(super) fn connect(&mut self, name: &str) -> Vec<Note> {
        let info = sm_info(name, "container");
        self.fact(|state, now, notes| state.node_connected(info, now, notes))
    }

    pub(super) fn told(
        &mut self,
        name: &str,
        whole: bool,
        instances: &[(InstanceIdent, InstanceState)],
    ) -> Vec<Note> {
        let node = node(name);
        let statuses = instances
            .iter()
            .map(|(ident, it)| status(ident, &node, *it));
        let statuses = statuses.collect();
        self.fact(|state, now, notes| state.statuses(&node, whole, statuses, now, notes))
    }

    pub(super) fn instance(&self, ident: &InstanceIdent) -> v1::Instance {
        wire::instance(&self.state, ident).expect("it is known")
    }

    /// Everything, as lists tell it.
    pub(super) fn listed(&self) -> Seen {
        let (state, all) = (&self.state, usize::MAX / 16);
        let mut seen = Seen::default();
        for key in state.list_nodes(None, all).keys {
            let shown = wire::node(state, &key).expect("listed");
            seen.put(Event::Node(shown));
        }
        for key in state
            .list_instances(&Default::default(), None, None, None, all)
            .keys
        {
            let shown = wire::instance(state, &key).expect("listed");
            seen.put(Event::Instance(shown));
        }
        for key in state.list_items(None, all).keys {
            seen.put(Event::Item(wire::item(state, &key).expect("listed")));
        }
        for key in state.list_networks(None, all).keys {
            let shown = wire::network(state, &key).expect("listed");
            seen.put(Event::Network(shown));
        }
        seen.put(Event::Overview(wire::overview(state)));
        seen
    }
}

/// What somebody knows who was told events.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    nodes: BTreeMap<String, v1::Node>,
    instances: BTreeMap<String, v1::Instance>,
    items: BTreeMap<(String, String), v1::Item>,
    networks: BTreeMap<String, v1::Network>,
    overview: Option<v1::Overview>,
}

fn key(ident: &muster_api::common::v2::InstanceIdent) -> String {
    format!("{ident:?}")
}

impl Seen {
    fn put(&mut self, event: Event) {
        match event {
            Event::Node(mut node) => {
                // Usage alone is no change.
                node.usage = None;
                self.nodes.insert(node.node_id.clone(), node);
            }
            Event::NodeGone(id) => drop(self.nodes.remove(&id)),
            Event::Instance(mut instance) => {
                instance.usage = None;
                let ident = instance.ident.as_ref().expect("an ident");
                self.instances.insert(key(ident), instance);
            }
            Event::InstanceGone(ident) => drop(self.instances.remove(&key(&ident))),
            Event::Item(item) => {
                let key = (item.item_id.clone(), item.version.clone());
                self.items.insert(key, item);
            }
            Event::ItemGone(item) => drop(self.items.remove(&(item.item_id, item.version))),
            Event::Network(network) => {
                self.networks.insert(network.network_id.clone(), network);
            }
            Event::NetworkGone(id) => drop(self.networks.remove(&id)),
            Event::Overview(overview) => self.overview = Some(overview),
            Event::Alert(_) | Event::Synced(_) => unreachable!("the model has neither"),
        }
    }
}

pub(super) struct Watcher {
    cursor: Cursor,
    pub(super) seen: Seen,
    pub(super) restarts: usize,
}

impl Watcher {
    pub(super) fn new(model: &Model) -> Self {
        Self {
            cursor: model.state.begin(),
            seen: Seen::default(),
            restarts: 0,
        }
    }

    /// Takes a turn of at most so many events; whether there is nothing more to be told.
    pub(super) fn read(&mut self, model: &Model, limit: usize) -> bool {
        match model.state.turn(&mut self.cursor, Kinds::ALL, limit) {
            Ok(turn) => {
                assert!(turn.events.len() <= limit);
                for event in turn.events {
                    self.seen.put(event);
                }
                if turn.overview {
                    self.seen.put(Event::Overview(wire::overview(&model.state)));
                }
                !turn.more
            }
            Err(FellBehind) => {
                let restarts = self.restarts + 1;
                *self = Self {
                    restarts,
                    ..Self::new(model)
                };
                false
            }
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.cursor.is_synced()
    }
}
