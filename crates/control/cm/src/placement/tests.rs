use std::num::NonZeroU64;

use muster_api::domain::{ArchInfo, NodeId, OsInfo, RuntimeInfo, SmInfo};
use muster_balance::{Reason, Standing};
use muster_config::{Format, Limits};
use muster_desired::{DesiredStatus, UpdateId};
use muster_item::{ImageConfig, ItemConfig, Manifest, Platform};
use muster_items::{Described, MirroredImage};
use muster_store::testing::check_upgrades;
use muster_store::{OnDamage, StoreConfig};

use super::*;
use crate::config::parts::NetworksConfig;
use crate::nodes::table::NodeRecord;

const NOW: u64 = 1_000_000;

fn node(name: &str) -> (NodeId, NodeRecord) {
    let id: NodeId = name.parse().expect("an id");
    let runtime = RuntimeInfo {
        runtime_id: format!("runc-{name}").parse().expect("an id"),
        runtime_type: "runc".parse().expect("a type"),
        max_dmips: NonZeroU64::new(1000),
        allowed_dmips: None,
        total_ram: NonZeroU64::new(1 << 30),
        allowed_ram: None,
        max_instances: 0,
        os_info: OsInfo::new("linux", "", Vec::new()).expect("a system"),
        arch_info: ArchInfo::new("amd64", "").expect("an architecture"),
    };
    let record = NodeRecord {
        sm: Some(SmInfo {
            node_id: id.clone(),
            runtimes: vec![runtime],
            resources: Vec::new(),
        }),
        connected: true,
        ..NodeRecord::default()
    };
    (id, record)
}

fn described(config: &str) -> Described {
    let digest = muster_api::domain::Digest::from_sha256([7; 32]);
    let limits = muster_item::Limits::default();
    let blob = muster_item::Descriptor {
        media_type: muster_item::MediaType::from_name("application/vnd.oci.image.config.v1+json"),
        digest,
        size: 1,
    };
    let image = MirroredImage {
        manifest_digest: digest,
        platform: Some(Platform::new("linux", "amd64")),
        manifest: Manifest {
            config: blob,
            item_config: None,
            layers: Vec::new(),
        },
        image_config: ImageConfig::read(br#"{"config": {"ExposedPorts": {"80/tcp": {}}}, "rootfs": {"type": "layers", "diff_ids": []}}"#, &limits)
            .expect("a configuration"),
        item_config: ItemConfig::read(config.as_bytes(), &limits).expect("a configuration"),
    };
    Described {
        index: digest,
        images: vec![image],
    }
}

/// Two nodes, and what a document wants; each item has this configuration.
struct World {
    question: Question,
    around: Surroundings,
}

fn world(document: &str, config: &str) -> World {
    let desired = DesiredStatus::read(
        "/d.yaml",
        Format::Yaml,
        document.as_bytes(),
        Limits::default(),
    );
    let desired = Arc::new(desired.expect("a document"));
    let nodes = vec![node("n1"), node("n2")];
    let standings = nodes.iter().map(|(id, _)| (id.clone(), Standing::Ready));
    let items = desired.items().keys();
    let items = items.map(|id| (id.clone(), ItemFacts::new(described(config))));
    World {
        around: Surroundings {
            items: items.collect(),
            nodes: nodes.clone(),
            ..Surroundings::default()
        },
        question: Question {
            update: UpdateId(1),
            items: desired.items().clone(),
            desired,
            nodes: standings.collect(),
            running: Default::default(),
            reason: Reason::NewDesired,
        },
    }
}

impl World {
    fn plan(
        &self,
        books: &Books,
        networks: Option<&NetworksConfig>,
        now: u64,
    ) -> (Planned, Vec<InstanceIdent>) {
        let expired = now.saturating_sub(100);
        plan::plan(&self.question, &self.around, books, networks, now, expired).expect("a plan")
    }

    fn assignment(&self, planned: &Planned) -> Assignment {
        plan::assignment(&self.question, &self.around, planned, BTreeMap::new())
    }
}

const WEB: &str = "
items:
- {id: web, version: 1.0.0, owner: acme, image: {layout: /web}}
instances:
- {item: web, subject: s1, count: 2, priority: 7, distribution: spread}
env:
- {item: web, instance: 1, variables: {COLOUR: red}}
";

#[test]
fn nodes_are_told_everything_about_their_instances() {
    let world = world(
        WEB,
        r#"{"runtimes": [{"codename": "runc"}], "hostname": "web"}"#,
    );
    let networks = NetworksConfig {
        settings: Default::default(),
        dns_servers: vec!["10.0.0.53".parse().expect("an address")],
    };
    let (planned, _) = world.plan(&Books::default(), Some(&networks), NOW);
    let assignment = world.assignment(&planned);
    assert_eq!(assignment.nodes.len(), 2);
    assert!(assignment.unplaced.is_empty());
    let mut uids = BTreeSet::new();
    for share in assignment.nodes.values() {
        assert_eq!((share.instances.len(), share.networks.len()), (1, 1));
        let info = &share.instances[0];
        assert_eq!((info.version.as_str(), info.priority), ("1.0.0", 7));
        assert_eq!(info.owner_id.as_ref().map(|it| it.as_str()), Some("acme"));
        let network = info.network.as_ref().expect("a network");
        assert_eq!(network.network_id.as_str(), "acme");
        assert_eq!(network.dns_servers, networks.dns_servers);
        let variables: Vec<&str> = info.env_vars.iter().map(|it| it.value()).collect();
        let expected: &[&str] = if info.instance.instance == 1 {
            &["red"]
        } else {
            &[]
        };
        assert_eq!(variables, expected);
        uids.insert(info.uid);
    }
    assert_eq!(uids.len(), 2);
    // The same question with what was given out gives the same answer.
    let (again, _) = world.plan(&planned.books, Some(&networks), NOW + 1);
    assert_eq!(again.books, planned.books);
    assert_eq!(world.assignment(&again), assignment);
    // Without networks nobody has one.
    let (without, _) = world.plan(&planned.books, None, NOW);
    let without = world.assignment(&without);
    let infos = without.nodes.values().flat_map(|it| &it.instances);
    assert!(infos.clone().all(|it| it.network.is_none()));
}

#[test]
fn subjects_that_are_not_here_run_nothing() {
    let document = format!("{WEB}subjects:\n- {{id: s1, reportedFromUnit: true}}\n");
    let mut world = world(&document, "{\"runtimes\": [{\"codename\": \"runc\"}]}");
    let (planned, _) = world.plan(&Books::default(), None, NOW);
    assert_eq!(
        (planned.plan.placed.len(), planned.plan.unplaced.len()),
        (0, 0)
    );
    world.around.subjects.insert("s1".parse().expect("an id"));
    let (planned, _) = world.plan(&Books::default(), None, NOW);
    assert_eq!(planned.plan.placed.len(), 2);
}

#[test]
fn an_item_that_cannot_be_read_is_told_and_others_run() {
    let document = "
items:
- {id: web, version: 1.0.0, image: {layout: /web}}
- {id: bad, version: 1.0.0, image: {layout: /bad}}
instances: [{item: web}, {item: bad, count: 2}]
";
    let mut world = world(document, "{\"runtimes\": [{\"codename\": \"runc\"}]}");
    let bad = "bad".parse().expect("an id");
    world.around.items.remove(&bad);
    world
        .around
        .unreadable
        .insert(bad, AosError::new(AosCode::NotFound, "it is torn"));
    let (planned, _) = world.plan(&Books::default(), None, NOW);
    let assignment = world.assignment(&planned);
    assert_eq!(assignment.placement().len(), 1);
    let reasons: Vec<&str> = assignment
        .unplaced
        .values()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(reasons, ["it is torn", "it is torn"]);
}

#[test]
fn what_is_not_wanted_for_long_is_forgotten_and_what_comes_back_in_time_is_not() {
    let wanted = world(WEB, "{\"runtimes\": [{\"codename\": \"runc\"}]}");
    let (first, _) = wanted.plan(&Books::default(), None, NOW);
    let running = first.plan.placement();
    let mut empty = world("{}", "{}");
    empty.question.running = running.clone();
    let (second, forgotten) = empty.plan(&first.books, None, NOW);
    assert_eq!((second.books.retired.len(), forgotten.len()), (2, 0));
    empty.question.running = Default::default();

    // In time: the same users again.
    let (back, _) = wanted.plan(&second.books, None, NOW + 50);
    assert!(back.books.retired.is_empty());
    for (instance, placed) in &back.plan.placed {
        assert_eq!(first.plan.placed[instance].uid, placed.uid);
    }
    // Too late.
    let (third, forgotten) = empty.plan(&second.books, None, NOW + 101);
    assert_eq!(forgotten.len(), 2);
    assert!(third.books.retired.is_empty());
    assert!(
        forgotten
            .iter()
            .all(|it| third.books.ledger.uid(it).is_none())
    );
}

#[test]
fn an_emptied_node_gives_away_what_nobody_has_measured() {
    let mut world = world(WEB, "{\"runtimes\": [{\"codename\": \"runc\"}]}");
    let (first, _) = world.plan(&Books::default(), None, NOW);
    world.question.running = first.plan.placement();
    world.question.reason = Reason::QuotaAlert(vec![muster_balance::Relief {
        node: "n1".parse().expect("an id"),
        target: muster_balance::Capacity {
            cpu: Some(0),
            ram: Some(0),
        },
    }]);
    let (planned, _) = world.plan(&first.books, None, NOW);
    let nodes: BTreeSet<String> = (planned.plan.placed.values())
        .map(|it| it.place.node.to_string())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["n2".to_owned()]));
}

#[test]
fn data_is_prepared_for_those_with_limits() {
    let config = r#"{"runtimes": [{"codename": "runc"}], "quotas": {"storageLimit": 1000, "stateLimit": 0}}"#;
    let world = world(WEB, config);
    let (planned, _) = world.plan(&Books::default(), None, NOW);
    let needs = plan::needs(&world.around, &planned.plan);
    assert_eq!(needs.len(), 2);
    for (instance, needs) in needs {
        assert_eq!((needs.storage, needs.state), (Some(1000), None));
        assert_eq!(needs.uid, planned.plan.placed[&instance].uid.as_raw());
    }
}

#[tokio::test]
async fn what_was_given_out_is_there_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = StoreConfig::new(folder.path().join("cm.db"), "test", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA)).expect("a store").store;
    assert_eq!(
        database::load(&store).await.expect("nothing"),
        Books::default()
    );
    let world = world(WEB, "{\"runtimes\": [{\"codename\": \"runc\"}]}");
    let networks = NetworksConfig {
        settings: Default::default(),
        dns_servers: Vec::new(),
    };
    let (planned, _) = world.plan(&Books::default(), Some(&networks), NOW);
    let mut books = planned.books;
    let retired = planned.plan.placed.keys().next().expect("one").clone();
    books.retired.insert(retired, 17);
    database::save(&store, &books).await.expect("it is kept");
    assert_eq!(database::load(&store).await.expect("something"), books);
    let mut networks_planned = planned.networks.expect("networks");
    let mut hosts = crate::names::taken_from(&mut networks_planned);
    assert!(!hosts.is_empty());
    for _ in 0..2 {
        database::save_names(&store, hosts.clone())
            .await
            .expect("kept");
        assert_eq!(database::load_names(&store).await.expect("names"), hosts);
        hosts.clear();
    }
    let torn = store.write(|db| db.execute("UPDATE cm_books SET ledger = 'x'", []));
    torn.await.expect("it is torn");
    let error = database::load(&store).await.expect_err("it makes no sense");
    assert!(matches!(error, LoadBooksError::Text { .. }), "{error}");
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cm-placement");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            db.execute("INSERT INTO cm_books VALUES (1, '{}', '[]')", [])?;
            db.execute("INSERT INTO cm_retired VALUES (x'0a', 7)", [])?;
            db.execute(
                "INSERT INTO cm_names VALUES ('n', '172.17.0.0/16', '{}')",
                [],
            )
            .map(drop)
        },
        |db, version| {
            let sql = "SELECT ledger FROM cm_books JOIN cm_retired ON since = 7";
            let found: String = db.query_row(sql, [], |row| row.get(0)).expect("the rows");
            assert_eq!(found, "{}", "version {version}");
        },
    );
}
