use muster_api::domain::{InstanceMonitoring, MonitoringData};
use muster_store::testing::check_upgrades;
use proptest::prelude::*;

use super::*;

fn id(name: &str) -> NodeId {
    name.parse().expect("an id")
}

fn manager(name: &str, runtimes: u64) -> SmInfo {
    SmInfo {
        node_id: id(name),
        runtimes: (0..runtimes)
            .map(|nth| RuntimeInfo {
                runtime_id: format!("r{nth}").parse().expect("an id"),
                runtime_type: "runc".parse().expect("a type"),
                max_dmips: NonZeroU64::new(1000),
                allowed_dmips: None,
                total_ram: NonZeroU64::new(5000),
                allowed_ram: None,
                max_instances: 1,
                os_info: any_linux(),
                arch_info: muster_api::domain::ArchInfo::new("amd64", "").expect("one"),
            })
            .collect(),
        resources: Vec::new(),
    }
}

fn info(name: &str, state: NodeState, dmips: u64) -> NodeInfo {
    NodeInfo {
        max_dmips: dmips,
        state,
        ..NodeRecord::default().described(&id(name))
    }
}

fn all(infos: &[NodeInfo]) -> BTreeMap<NodeId, NodeInfo> {
    let infos = infos.iter();
    infos.map(|it| (it.node_id.clone(), it.clone())).collect()
}

#[test]
fn what_both_say_is_joined_and_the_identity_managers_word_counts() {
    let mut table = NodeTable::default();
    let change = table.connected(manager("a", 1)).expect("it is new");
    assert!(change.lasting && !change.replaces && change.paused.is_none());
    let record = table.get(&id("a")).expect("it is known");
    assert!(record.connected && record.is_member() && !record.is_paused());
    assert_eq!(
        (record.capacity().cpu, record.capacity().ram),
        (Some(1000), Some(5000))
    );

    let changes = table.known(&all(&[info("a", NodeState::Paused, 2000)]));
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].paused, changes[0].replaces), (Some(true), true));
    let record = table.get(&id("a")).expect("it is known");
    assert_eq!(record.capacity().cpu, Some(2000));
    // The same again is no news.
    assert!(
        table
            .known(&all(&[info("a", NodeState::Paused, 2000)]))
            .is_empty()
    );

    let error = table.known(&all(&[info("a", NodeState::Error, 2000)]));
    assert_eq!((error[0].paused, error[0].replaces), (Some(false), true));
    assert!(!table.get(&id("a")).expect("it is known").is_member());
}

#[test]
fn a_manager_that_says_something_else_places_anew_and_the_same_again_is_no_news() {
    let mut table = NodeTable::default();
    table.connected(manager("a", 1));
    assert_eq!(table.connected(manager("a", 1)), None);
    assert!(table.connected(manager("a", 2)).expect("another").replaces);
    let gone = table.disconnected(&id("a")).expect("it was there");
    assert!(!gone.lasting && !gone.replaces);
    assert_eq!(table.disconnected(&id("a")), None);
    assert_eq!(table.disconnected(&id("nobody")), None);
    let back = table.connected(manager("a", 2)).expect("it is back");
    assert!(!back.lasting && !back.replaces);
}

#[test]
fn nodes_that_nobody_knows_go_unless_they_are_connected() {
    let mut table = NodeTable::default();
    table.connected(manager("a", 1));
    table.known(&all(&[
        info("a", NodeState::Provisioned, 1),
        info("b", NodeState::Provisioned, 1),
    ]));
    let changes = table.known(&BTreeMap::new());
    let gone: Vec<bool> = changes.iter().map(|it| it.now.is_none()).collect();
    assert_eq!(gone, [false, true]);
    assert!(table.get(&id("a")).is_some_and(|it| it.info.is_none()));
    assert!(table.get(&id("b")).is_none());
}

#[test]
fn a_node_that_does_not_connect_is_shown_as_failed_until_it_does() {
    let mut table = NodeTable::default();
    table.known(&all(&[
        info("a", NodeState::Provisioned, 1),
        info("b", NodeState::Unprovisioned, 1),
    ]));
    let missing: Vec<&NodeId> = table.missing().collect();
    assert_eq!(missing, [&id("a")]);
    let change = table.silent(&id("a")).expect("it is told once");
    assert!(!change.lasting && !change.replaces);
    assert!(
        change
            .now
            .expect("it is known")
            .described(&id("a"))
            .error
            .is_some()
    );
    assert_eq!(table.silent(&id("a")), None);
    table.connected(manager("a", 1));
    assert_eq!(table.missing().count(), 0);
    assert_eq!(table.silent(&id("a")), None, "it is connected");
    assert_eq!(
        table
            .get(&id("a"))
            .expect("it is known")
            .described(&id("a"))
            .error,
        None
    );
}

#[test]
fn pausing_without_an_identity_manager_is_kept_here() {
    let mut table = NodeTable::default();
    assert_eq!(table.set_paused(&id("a"), true), None, "it is not known");
    table.connected(manager("a", 1));
    let change = table.set_paused(&id("a"), true).expect("it is paused");
    assert_eq!((change.paused, change.lasting), (Some(true), true));
    let record = table.get(&id("a")).expect("it is known");
    assert_eq!(record.described(&id("a")).state, NodeState::Paused);
    assert_eq!(table.set_paused(&id("a"), true), None);
}

#[test]
fn what_the_system_uses_is_what_instances_do_not() {
    let data = |cpu, ram| MonitoringData {
        timestamp: std::time::SystemTime::UNIX_EPOCH
            .try_into()
            .expect("a time"),
        ram,
        cpu,
        partitions: Vec::new(),
        download: 0,
        upload: 0,
    };
    let instance = |nth| InstanceMonitoring {
        instance: muster_api::domain::InstanceIdent {
            item_id: "i".parse().expect("an id"),
            subject_id: "s".parse().expect("an id"),
            instance: nth,
            item_type: muster_api::domain::ItemType::Service,
            preinstalled: false,
        },
        runtime_id: None,
        data: data(30, 400),
    };
    let mut table = NodeTable::default();
    table.connected(manager("a", 1));
    let usage = NodeMonitoring {
        node: data(100, 500),
        instances: vec![instance(0), instance(1)],
    };
    table.measured(&id("a"), Arc::new(usage));
    let used = table.get(&id("a")).expect("it is known").system_use();
    assert_eq!((used.cpu, used.ram), (40, 0));
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cm-nodes");
    check_upgrades(
        &crate::nodes::SCHEMA,
        &fixtures,
        |db| {
            let sql = "INSERT INTO cm_nodes VALUES ('a', x'00', NULL, 1)";
            db.execute(sql, []).map(drop)
        },
        |db, version| {
            let sql = "SELECT node FROM cm_nodes WHERE paused";
            let found: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(found, "a", "version {version}");
        },
    );
}

/// Something that becomes known.
#[derive(Debug, Clone)]
enum Fact {
    Connected(usize, u64),
    Disconnected(usize),
    Paused(usize, bool),
    Known(Vec<Option<(NodeState, u64)>>),
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn state() -> impl Strategy<Value = NodeState> {
    prop_oneof![
        Just(NodeState::Provisioned),
        Just(NodeState::Paused),
        Just(NodeState::Unprovisioned),
        Just(NodeState::Error),
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    let node = 0..NAMES.len();
    prop_oneof![
        (node.clone(), 0..3_u64).prop_map(|(node, runtimes)| Fact::Connected(node, runtimes)),
        node.clone().prop_map(Fact::Disconnected),
        (node, any::<bool>()).prop_map(|(node, paused)| Fact::Paused(node, paused)),
        proptest::collection::vec(proptest::option::of((state(), 0..3_u64)), NAMES.len())
            .prop_map(Fact::Known),
    ]
}

proptest! {
    /// Whoever follows the changes knows what the table knows.
    #[test]
    fn changes_tell_everything(facts in proptest::collection::vec(fact(), 0..40)) {
        let mut table = NodeTable::default();
        let mut told: BTreeMap<NodeId, NodeRecord> = BTreeMap::new();
        for fact in facts {
            let changes = match fact {
                Fact::Connected(node, runtimes) => {
                    table.connected(manager(NAMES[node], runtimes)).into_iter().collect()
                }
                Fact::Disconnected(node) => table.disconnected(&id(NAMES[node])).into_iter().collect(),
                Fact::Paused(node, paused) => {
                    table.set_paused(&id(NAMES[node]), paused).into_iter().collect()
                }
                Fact::Known(infos) => {
                    let named = NAMES.iter().zip(infos);
                    let known = named.filter_map(|(name, it)| it.map(|(state, dmips)| info(name, state, dmips)));
                    let known: Vec<NodeInfo> = known.collect();
                    table.known(&all(&known))
                }
            };
            for change in changes {
                let before = told.get(&change.node).is_some_and(NodeRecord::is_paused);
                match change.now {
                    Some(now) => {
                        let is_paused = now.is_paused();
                        prop_assert_eq!(change.paused, (is_paused != before).then_some(is_paused));
                        told.insert(change.node, now);
                    }
                    None => drop(told.remove(&change.node)),
                }
            }
            let now: BTreeMap<NodeId, NodeRecord> =
                table.iter().map(|(node, it)| (node.clone(), it.clone())).collect();
            prop_assert_eq!(&now, &told);
        }
    }
}
