//! Updates over nodes that answer as they are told to.

use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use muster_api::domain::Cause;
use muster_smcontroller::{CommandKind, Commanded, NodeCommandError};
use tempfile::TempDir;

use super::*;

#[derive(Debug, Clone, Default)]
struct FakeNode {
    installed: String,
    refuses_check: bool,
    refuses_set: bool,
    checks: usize,
    sets: usize,
}

#[derive(Debug, Default)]
struct Nodes(StdMutex<BTreeMap<NodeId, FakeNode>>);

fn answer(version: String, refused: bool) -> NodeConfigStatus {
    NodeConfigStatus {
        state: if refused {
            NodeConfigState::Failed
        } else {
            NodeConfigState::Installed
        },
        version,
        error: refused.then(|| AosError::new(AosCode::InvalidArgument, "labels: too many")),
    }
}

impl Nodes {
    fn with<T>(
        &self,
        node: &NodeId,
        command: CommandKind,
        act: impl FnOnce(&mut FakeNode) -> T,
    ) -> Commanded<'_, T>
    where
        T: Send + 'static,
    {
        let result = match self.0.lock().unwrap().get_mut(node) {
            Some(found) => Ok(act(found)),
            None => Err(NodeCommandError::NotFound {
                node: node.clone(),
                command,
            }),
        };
        Box::pin(async move { result })
    }

    fn of(&self, node: &str) -> FakeNode {
        self.0.lock().unwrap()[&id(node)].clone()
    }

    fn set(&self, node: &str, change: impl FnOnce(&mut FakeNode)) {
        change(self.0.lock().unwrap().entry(id(node)).or_default());
    }
}

impl NodeConfigs for Nodes {
    fn node_config_status(&self, node: &NodeId) -> Commanded<'_, NodeConfigStatus> {
        self.with(node, CommandKind::GetNodeConfigStatus, |it| {
            answer(it.installed.clone(), false)
        })
    }

    fn check_node_config(
        &self,
        node: &NodeId,
        version: String,
        _: String,
    ) -> Commanded<'_, NodeConfigStatus> {
        self.with(node, CommandKind::CheckNodeConfig, |it| {
            it.checks += 1;
            answer(version, it.refuses_check)
        })
    }

    fn set_node_config(
        &self,
        node: &NodeId,
        version: String,
        _: String,
    ) -> Commanded<'_, NodeConfigStatus> {
        self.with(node, CommandKind::SetNodeConfig, |it| {
            it.sets += 1;
            if !it.refuses_set {
                it.installed = version.clone();
            }
            answer(version, it.refuses_set)
        })
    }
}

fn id(node: &str) -> NodeId {
    node.parse().unwrap()
}

fn code(code: AosCode) -> Cause {
    Cause::Code { code, exit_code: 0 }
}

fn document(version: &str) -> Vec<u8> {
    let text = format!(r#"{{"formatVersion":"7","version":"{version}","nodes":[]}}"#);
    text.into_bytes()
}

struct Rig {
    folder: TempDir,
    nodes: Arc<Nodes>,
    manager: UnitConfigManager,
    members: Vec<(NodeId, NodeType)>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nodes = Arc::new(Nodes::default());
        for node in ["a", "b"] {
            nodes.set(node, |_| {});
        }
        let kind: NodeType = "board".parse().unwrap();
        Self {
            manager: open(&folder, &nodes),
            folder,
            nodes,
            members: vec![(id("a"), kind.clone()), (id("b"), kind)],
        }
    }

    async fn update(&self, version: &str) -> Result<(), RefuseUnitConfig> {
        self.manager.update(&document(version), &self.members).await
    }
}

fn open(folder: &TempDir, nodes: &Arc<Nodes>) -> UnitConfigManager {
    let path = folder.path().join("unit-config.json");
    let nodes: Arc<dyn NodeConfigs> = nodes.clone();
    UnitConfigManager::open(path, Limits::default(), nodes).unwrap()
}

#[tokio::test]
async fn one_refusal_and_nothing_has_happened() {
    let rig = Rig::new();
    rig.update("1.0.0").await.unwrap();
    rig.nodes.set("b", |it| it.refuses_check = true);
    let refused = rig.update("2.0.0").await.unwrap_err();
    assert!(refused.to_string().contains("b: "), "{refused}");
    assert!(
        refused.to_string().contains("labels: too many"),
        "{refused}"
    );
    for node in ["a", "b"] {
        let it = rig.nodes.of(node);
        assert_eq!(
            (it.installed.as_str(), it.checks, it.sets),
            ("1.0.0", 2, 1),
            "{node}"
        );
    }
    assert_eq!(rig.manager.status().version, "1.0.0");
    assert_eq!(open(&rig.folder, &rig.nodes).status().version, "1.0.0");
}

#[tokio::test]
async fn only_a_higher_version_is_taken() {
    let rig = Rig::new();
    assert_eq!(rig.manager.status().state, NodeConfigState::Absent);
    rig.update("1.10.0").await.unwrap();
    let same = rig.update("1.10.0").await.unwrap_err();
    assert_eq!(same.fault().cause, code(AosCode::AlreadyExists));
    let older = rig.update("1.9.0").await.unwrap_err();
    assert_eq!(older.fault().cause, code(AosCode::WrongState));
    let invalid = rig.manager.update(b"{}", &rig.members).await.unwrap_err();
    assert_eq!(invalid.fault().cause, code(AosCode::InvalidArgument));
    rig.update("1.11.0").await.unwrap();
    assert_eq!(rig.manager.status().version, "1.11.0");
}

#[tokio::test]
async fn who_fails_to_set_it_is_named_and_gets_it_again() {
    let rig = Rig::new();
    rig.nodes.set("b", |it| it.refuses_set = true);
    rig.update("1.0.0").await.unwrap();
    let status = rig.manager.status();
    assert_eq!(
        (status.state, status.version.as_str()),
        (NodeConfigState::Failed, "1.0.0")
    );
    assert!(status.error.unwrap().message.contains("b: "));

    rig.nodes.set("b", |it| it.refuses_set = false);
    let (node, kind) = &rig.members[1];
    rig.manager.node_connected(node, kind).await;
    assert_eq!(rig.nodes.of("b").installed, "1.0.0");
    assert_eq!(rig.manager.status().state, NodeConfigState::Installed);
    // Whoever has it is left alone.
    rig.manager.node_connected(node, kind).await;
    assert_eq!(rig.nodes.of("b").sets, 2);
}

#[tokio::test]
async fn a_node_that_takes_it_later_does_not_hide_another_that_does_not() {
    let rig = Rig::new();
    for node in ["a", "b"] {
        rig.nodes.set(node, |it| it.refuses_set = true);
    }
    rig.update("1.0.0").await.unwrap();
    rig.nodes.set("a", |it| it.refuses_set = false);
    let (node, kind) = &rig.members[0];
    rig.manager.node_connected(node, kind).await;
    let told = rig.manager.status().error.unwrap().message;
    assert!(told.contains("b: ") && !told.contains("a: "), "{told}");
    // It has it by another way, as by hand.
    rig.nodes.set("b", |it| it.installed = "1.0.0".to_owned());
    let (node, kind) = &rig.members[1];
    rig.manager.node_connected(node, kind).await;
    assert_eq!(rig.manager.status().state, NodeConfigState::Installed);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_told_and_replaced() {
    let rig = Rig::new();
    std::fs::write(rig.folder.path().join("unit-config.json"), "{").unwrap();
    let manager = open(&rig.folder, &rig.nodes);
    assert_eq!(manager.status().state, NodeConfigState::Failed);
    manager
        .update(&document("0.1.0"), &rig.members)
        .await
        .unwrap();
    assert_eq!(manager.status().state, NodeConfigState::Installed);
}

#[tokio::test]
async fn a_node_that_is_gone_refuses_for_all() {
    let rig = Rig::new();
    let mut members = rig.members.clone();
    members.push((id("gone"), "board".parse().unwrap()));
    let refused = rig.manager.update(&document("1.0.0"), &members).await;
    assert!(refused.unwrap_err().to_string().contains("gone"));
    assert_eq!(rig.manager.status().state, NodeConfigState::Absent);
}
