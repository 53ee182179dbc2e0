//! A keeper over a real store.

use std::path::Path;
use std::sync::Arc;

use muster_api::domain::{AosCode, Cause, NodeConfigState, NodeConfigStatus, NodeId, NodeType};
use muster_node_config::{Identity, NodeConfig, NodeConfigKeeper, SCHEMA, Settings};
use muster_store::testing::{Weakness, check_upgrades};
use muster_store::{OnDamage, Store, StoreConfig};
use tokio::sync::watch;

fn identity(node_type: &str) -> Identity {
    Identity {
        node_id: NodeId::new("node-1").expect("an id"),
        node_type: NodeType::new(node_type).expect("a type"),
    }
}

fn store(folder: &Path) -> Store {
    // These tests are about content; durability has tests of its own.
    let config = StoreConfig::new(folder.join("sm.db"), "test 1", OnDamage::Refuse)
        .schema(&SCHEMA)
        .weakened(Weakness::NoFlush);
    Store::open(&config).expect("the store").store
}

struct Rig {
    store: Store,
    keeper: NodeConfigKeeper,
    task: tokio::task::JoinHandle<()>,
}

async fn start_as(folder: &Path, node_type: &str) -> Rig {
    let store = store(folder);
    let settings = Settings::new(identity(node_type));
    let started = NodeConfigKeeper::start(store.clone(), settings).await;
    let (keeper, task) = started.expect("a keeper");
    let task = tokio::spawn(task);
    Rig {
        store,
        keeper,
        task,
    }
}

async fn start(folder: &Path) -> Rig {
    start_as(folder, "main").await
}

impl Rig {
    async fn set(&self, version: &str, document: &str) -> NodeConfigStatus {
        self.keeper
            .set(version.to_owned(), document.to_owned())
            .await
    }

    async fn stop(self) {
        drop(self.keeper);
        self.task.await.expect("the task ends with its last handle");
        self.store.close().await.expect("a clean close");
    }
}

fn is_installed(status: &NodeConfigStatus, version: &str) -> bool {
    status.state == NodeConfigState::Installed
        && status.version == version
        && status.error.is_none()
}

fn code(status: &NodeConfigStatus) -> Option<AosCode> {
    assert_eq!(status.state, NodeConfigState::Failed);
    match status.error.as_ref()?.cause {
        Cause::Code { code, .. } => Some(code),
        _ => None,
    }
}

fn has_changed(receiver: &mut watch::Receiver<Arc<NodeConfig>>) -> bool {
    let changed = receiver.has_changed().expect("the keeper lives");
    receiver.mark_unchanged();
    changed
}

const RULES: &str =
    r#"{"alertRules": {"cpu": {"minThreshold": 70, "maxThreshold": 80}}, "labels": ["gpu"]}"#;

#[tokio::test]
async fn a_configuration_is_in_force_when_it_is_answered_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    assert_eq!(rig.keeper.status().state, NodeConfigState::Absent);
    let mut rules = rig.keeper.subscribe();
    assert_eq!(**rules.borrow(), NodeConfig::default());
    assert!(is_installed(&rig.keeper.check("1.0.0", RULES), "1.0.0"));
    assert_eq!(
        rig.keeper.status().state,
        NodeConfigState::Absent,
        "a check changes nothing"
    );

    assert!(is_installed(&rig.set("1.0.0", RULES).await, "1.0.0"));
    assert!(is_installed(&rig.keeper.status(), "1.0.0"));
    assert!(has_changed(&mut rules));
    let in_force = rules.borrow().clone();
    assert!(in_force.alert_rules.cpu.is_some() && in_force.labels.contains("gpu"));
    drop(rules);
    rig.stop().await;

    let rig = start(folder.path()).await;
    assert!(is_installed(&rig.keeper.status(), "1.0.0"));
    assert_eq!(*rig.keeper.subscribe().borrow(), in_force);
}

#[tokio::test]
async fn a_configuration_of_many_rules_is_taken_and_one_over_the_limit_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    let document = |partitions: usize| {
        let rule = |number| {
            format!(
                r#"{{"name":"p{number}","minTimeout":"PT1M","minThreshold":1,"maxThreshold":2}}"#
            )
        };
        let rules: Vec<String> = (0..partitions).map(rule).collect();
        format!(r#"{{"alertRules":{{"partitions":[{}]}}}}"#, rules.join(","))
    };
    let large = document(1500);
    assert!(large.len() > 100 << 10);
    assert!(is_installed(&rig.set("1.0.0", &large).await, "1.0.0"));
    let in_force = rig.keeper.subscribe();
    assert_eq!(in_force.borrow().alert_rules.partitions.len(), 1500);
    for partitions in [2500, 10_000] {
        let refused = rig.set("2.0.0", &document(partitions)).await;
        assert_eq!(code(&refused), Some(AosCode::InvalidArgument));
        assert!(refused.error.expect("an error").message.len() < 500);
    }
}

#[tokio::test]
async fn subscribers_are_woken_by_content_and_not_by_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    let mut rules = rig.keeper.subscribe();
    rig.set("1.0.0", RULES).await;
    assert!(has_changed(&mut rules));
    assert!(is_installed(&rig.set("1.1.0", RULES).await, "1.1.0"));
    assert!(!has_changed(&mut rules), "the content is the same");
    assert!(is_installed(&rig.set("1.1.0", RULES).await, "1.1.0"));
    assert!(is_installed(&rig.set("1.2.0", "{}").await, "1.2.0"));
    assert!(has_changed(&mut rules));
    assert_eq!(**rules.borrow(), NodeConfig::default());
}

#[tokio::test]
async fn a_refused_configuration_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    rig.set("2.0.0", RULES).await;
    let mut rules = rig.keeper.subscribe();
    let cases = [
        ("2.0.0", "{}", AosCode::AlreadyExists),
        ("1.0.0", "{}", AosCode::WrongState),
        ("3.0.0", "{", AosCode::InvalidArgument),
        (
            "3.0.0",
            r#"{"alertRules": {"cpu": {"minThreshold": "x"}}}"#,
            AosCode::InvalidArgument,
        ),
        (
            "3.0.0",
            r#"{"node": {"codename": "node-2"}}"#,
            AosCode::InvalidArgument,
        ),
        (
            "3.0.0",
            r#"{"nodeGroupSubject": {"codename": "other"}}"#,
            AosCode::InvalidArgument,
        ),
        ("3.0.0", r#"{"version": "3.0.1"}"#, AosCode::InvalidArgument),
        ("three", "{}", AosCode::InvalidArgument),
    ];
    for (version, document, expected) in cases {
        let (checked, set) = (
            rig.keeper.check(version, document),
            rig.set(version, document).await,
        );
        assert_eq!(checked, set, "{document}: a check says what a set would");
        assert_eq!(code(&set), Some(expected), "{document}");
        assert_eq!(set.version, version);
        assert!(is_installed(&rig.keeper.status(), "2.0.0"));
        assert!(!has_changed(&mut rules));
    }
    let bad = rig
        .set(
            "3.0.0",
            r#"{"alertRules": {"cpu": {"minThreshold": "x", "maxThreshold": 1}}}"#,
        )
        .await;
    let message = bad.error.expect("an error").message;
    assert!(
        message.contains("alertRules.cpu.minThreshold: `x`"),
        "{message}"
    );
}

#[tokio::test]
async fn what_cannot_be_used_any_more_is_a_status_and_can_be_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    let document = r#"{"nodeGroupSubject": {"codename": "main"}, "labels": ["gpu"]}"#;
    assert!(is_installed(&rig.set("5.0.0", document).await, "5.0.0"));
    rig.stop().await;

    let rig = start_as(folder.path(), "secondary").await;
    let status = rig.keeper.status();
    assert_eq!(code(&status), Some(AosCode::InvalidArgument));
    assert_eq!(status.version, "5.0.0");
    assert!(
        rig.keeper.subscribe().borrow().labels.is_empty(),
        "nothing of it is in force"
    );
    assert!(is_installed(&rig.set("1.0.0", "{}").await, "1.0.0"));
    assert!(is_installed(&rig.keeper.status(), "1.0.0"));
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_in_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    rig.set("1.0.0", RULES).await;
    let mut rules = rig.keeper.subscribe();
    rig.store.clone().close().await.expect("a close");
    let status = rig.set("2.0.0", "{}").await;
    assert_eq!(code(&status), Some(AosCode::Failed));
    assert!(is_installed(&rig.keeper.status(), "1.0.0"));
    assert!(!has_changed(&mut rules));
}

#[tokio::test]
async fn an_answer_comes_also_when_the_task_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    rig.task.abort();
    assert_eq!(
        code(&rig.set("1.0.0", "{}").await),
        Some(AosCode::Cancelled)
    );
}

#[tokio::test]
async fn a_set_whose_caller_goes_away_is_still_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = start(folder.path()).await;
    let mut rules = rig.keeper.subscribe();
    {
        let set = rig.set("1.0.0", RULES);
        let mut set = std::pin::pin!(set);
        // Polled once: the request is with the task, and then the link to the controller breaks.
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(set.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    rules.changed().await.expect("the keeper lives");
    assert!(rules.borrow().labels.contains("gpu"));
    // Answered after the state is told, so a second request waits for the first.
    assert!(is_installed(&rig.set("1.0.0", RULES).await, "1.0.0"));
    assert!(is_installed(&rig.keeper.status(), "1.0.0"));
}

#[test]
fn every_released_version_can_be_upgraded() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let sql = "INSERT INTO node_config_installed VALUES (1, '1.0.0', '{}')";
            db.execute(sql, []).map(drop)
        },
        |db, version| {
            let sql = "SELECT version FROM node_config_installed WHERE document = '{}'";
            let found: String = db.query_row(sql, [], |row| row.get(0)).expect("the row");
            assert_eq!(found, "1.0.0", "version {version}");
        },
    );
}
