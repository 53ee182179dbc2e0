//! The link against a controller of the generated server code.

mod beginning;
mod offline;
mod orders;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_api::common::v2 as common;
use muster_api::domain::{NodeConfigState, NodeConfigStatus, ResourceInfo};
use muster_launcher::seams::{Absent as NoPart, Images};
use muster_launcher::{Limits, Parts, SCHEMA};
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use muster_rpc::{ListenAddress, Target};
use muster_runtime::Runtime;
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{ClientOptions, ClientTls, Insecure, ServerOptions, ServerTls};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use wire::sm_incoming_messages::SmIncomingMessage as In;
use wire::sm_outgoing_messages::SmOutgoingMessage as Out;
use wire::sm_service_server::{SmService, SmServiceServer};

use super::*;

const TIME: Duration = Duration::from_secs(20);

/// One stream of a node, from the controller's side.
struct Node {
    commands: mpsc::Sender<Result<wire::SmIncomingMessages, Status>>,
    messages: Streaming<wire::SmOutgoingMessages>,
}

impl Node {
    async fn next(&mut self) -> Out {
        let message = tokio::time::timeout(TIME, self.messages.next()).await;
        let message = message
            .expect("a message in time")
            .expect("the stream lives");
        message
            .expect("a message")
            .sm_outgoing_message
            .expect("one of the known")
    }

    async fn command(&self, command: In) {
        let message = wire::SmIncomingMessages {
            sm_incoming_message: Some(command),
        };
        self.commands
            .send(Ok(message))
            .await
            .expect("the stream lives");
    }
}

#[derive(Clone)]
struct Controller {
    nodes: mpsc::Sender<Node>,
}

#[tonic::async_trait]
impl SmService for Controller {
    type RegisterSMStream = BoxStream<'static, Result<wire::SmIncomingMessages, Status>>;

    async fn register_sm(
        &self,
        request: Request<Streaming<wire::SmOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterSMStream>, Status> {
        let (commands, queue) = mpsc::channel(8);
        let messages = request.into_inner();
        let node = Node { commands, messages };
        self.nodes
            .send(node)
            .await
            .map_err(|_| Status::aborted("over"))?;
        Ok(Response::new(receiver_stream(queue).boxed()))
    }

    async fn get_blobs_infos(
        &self,
        _: Request<wire::BlobsInfosRequest>,
    ) -> Result<Response<wire::BlobsInfos>, Status> {
        Err(Status::internal("no blobs here"))
    }
}

fn receiver_stream<T: Send + 'static>(queue: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    futures_util::stream::unfold(queue, |mut queue| async {
        let item = queue.recv().await?;
        Some((item, queue))
    })
}

struct Rig {
    link: ControllerLink,
    launcher: Launcher,
    nodes_in: mpsc::Sender<Node>,
    nodes: mpsc::Receiver<Node>,
    server: RunningServer,
    announce: watch::Sender<SmInfo>,
    folder: TempDir,
}

async fn serve(address: SocketAddr, nodes: mpsc::Sender<Node>) -> RunningServer {
    let tls = ServerTls::insecure(alone(), ServerOptions::default());
    ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .service(SmServiceServer::new(Controller { nodes }))
        .start(ListenAddress(address), &tls)
        .await
        .unwrap()
}

fn alone() -> Insecure {
    Insecure::because("a test of the link alone").unwrap()
}

/// A service manager without runtimes: every instance fails, which is all that the link needs.
async fn rig() -> Rig {
    rig_with(Vec::new(), Arc::new(NoImages)).await
}

async fn rig_with(runtimes: Vec<Arc<dyn Runtime>>, images: Arc<dyn Images>) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let (rig, task) = rig_of(folder, runtimes, images, Arc::new(Answers)).await;
    tokio::spawn(task);
    rig
}

/// The rig, and the launcher's task.
async fn rig_of(
    folder: TempDir,
    runtimes: Vec<Arc<dyn Runtime>>,
    images: Arc<dyn Images>,
    networks: Arc<dyn Networks>,
) -> (Rig, BoxFuture<'static, ()>) {
    let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
    let parts = Parts {
        store,
        runtimes,
        images,
        permissions: Arc::new(NoPart),
        network: Arc::new(NoPart),
        resources: Arc::new(NoPart),
        observers: Vec::new(),
        state_folder: folder.path().join("state"),
        storage_folder: folder.path().join("storage"),
    };
    let (launcher, reports, task) = Launcher::start(parts, Limits::default()).await.unwrap();
    let services = Services {
        launcher: launcher.clone(),
        node_config: Arc::new(Answers),
        monitoring: Arc::new(Answers),
        logs: Arc::new(Answers),
        networks,
    };
    let (nodes_in, nodes) = mpsc::channel(4);
    let server = serve("127.0.0.1:0".parse().unwrap(), nodes_in.clone()).await;
    let client = ClientTls::insecure(&alone(), ClientOptions::default());
    let target = Target::new(client, &server.address().to_string()).unwrap();
    let info = SmInfo {
        node_id: "node-1".parse().unwrap(),
        runtimes: Vec::new(),
        resources: Vec::new(),
    };
    let (announce, info) = watch::channel(info);
    let config = StreamConfig::default();
    let link = ControllerLink::start(target, config, info, services, reports, None);
    let rig = Rig {
        announce,
        link,
        launcher,
        nodes_in,
        nodes,
        server,
        folder,
    };
    (rig, Box::pin(task))
}

/// Parts that answer in a way that can be told from silence.
#[derive(Debug)]
struct Answers;

fn answer(state: NodeConfigState, version: String) -> NodeConfigStatus {
    NodeConfigStatus {
        state,
        version,
        error: None,
    }
}

impl crate::seams::NodeConfig for Answers {
    fn status(&self) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { answer(NodeConfigState::Absent, String::new()) })
    }

    fn check(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { answer(NodeConfigState::Failed, version) })
    }

    fn set(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Box::pin(async { answer(NodeConfigState::Failed, version) })
    }
}

impl crate::seams::Monitoring for Answers {
    fn average(&self) -> BoxFuture<'_, wire::AverageMonitoring> {
        Box::pin(async { wire::AverageMonitoring::default() })
    }
}

impl crate::seams::Logs for Answers {
    fn collect(
        &self,
        request: crate::seams::LogRequest,
        parts: mpsc::Sender<wire::LogData>,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let part = wire::LogData {
                correlation_id: request.correlation_id().to_owned(),
                part_count: 1,
                part: 1,
                status: "error".into(),
                ..wire::LogData::default()
            };
            let _ = parts.send(part).await;
        })
    }
}

impl crate::seams::Networks for Answers {
    fn update(&self, _: wire::UpdateNetworks) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[derive(Debug)]
struct NoImages;

impl muster_launcher::seams::Images for NoImages {
    fn install(
        &self,
        _: muster_api::domain::Digest,
    ) -> futures_util::future::BoxFuture<
        '_,
        Result<muster_launcher::seams::InstalledImage, muster_launcher::seams::SeamError>,
    > {
        unreachable!("there is no runtime to install for")
    }

    fn installed(
        &self,
        _: muster_api::domain::Digest,
    ) -> futures_util::future::BoxFuture<'_, Option<muster_launcher::seams::InstalledImage>> {
        Box::pin(async { None })
    }

    fn keep(&self, _: std::collections::BTreeSet<muster_api::domain::Digest>) {}
}

fn instance(item: &str) -> wire::InstanceInfo {
    wire::InstanceInfo {
        instance: Some(common::InstanceIdent {
            item_id: item.into(),
            subject_id: "subject".into(),
            ..Default::default()
        }),
        version: "1.0.0".into(),
        manifest_digest: format!("sha256:{}", "0".repeat(64)),
        runtime_id: "nowhere".into(),
        uid: 5000,
        gid: 5000,
        ..Default::default()
    }
}

fn update(items: &[&str]) -> In {
    In::UpdateInstances(wire::UpdateInstances {
        start_instances: items.iter().map(|item| instance(item)).collect(),
        stop_instances: Vec::new(),
    })
}

/// Reads until all statuses come, and answers them as `item state`.
async fn all_statuses(node: &mut Node) -> Vec<String> {
    loop {
        if let Out::NodeInstancesStatus(all) = node.next().await {
            let text = |it: wire::InstanceStatus| {
                format!("{} {}", it.instance.unwrap_or_default().item_id, it.state)
            };
            return all.instances.into_iter().map(text).collect();
        }
    }
}

#[tokio::test]
async fn a_stream_begins_with_the_node_and_all_of_its_instances() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.expect("a node");
    let Out::SmInfo(info) = node.next().await else {
        panic!("the node says first who it is");
    };
    assert_eq!(info.node_id, "node-1");
    assert!(matches!(node.next().await, Out::NodeInstancesStatus(_)));
    node.command(update(&["one", "two"])).await;
    let mut seen = all_statuses(&mut node).await;
    while seen.is_empty() {
        seen = all_statuses(&mut node).await;
    }
    assert_eq!(seen, ["one failed", "two failed"]);
    // The stream breaks: the next one begins with the same picture.
    drop(node);
    let mut node = rig.nodes.recv().await.expect("it comes again");
    assert!(matches!(node.next().await, Out::SmInfo(_)));
    assert_eq!(all_statuses(&mut node).await, ["one failed", "two failed"]);
    rig.link.stop().await;
    rig.server.shutdown().await;
}

#[tokio::test]
async fn sets_that_come_in_a_burst_end_in_the_last_one() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.expect("a node");
    for number in 0..50 {
        node.command(update(&[&format!("item{number}")])).await;
    }
    while all_statuses(&mut node).await != ["item49 failed"] {}
    rig.link.stop().await;
    rig.server.shutdown().await;
}

#[tokio::test]
async fn an_instance_that_makes_no_sense_is_refused_and_the_others_are_taken() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.expect("a node");
    let mut bad = instance("bad");
    bad.manifest_digest = "rubbish".into();
    let set = wire::UpdateInstances {
        start_instances: vec![bad, instance("good")],
        stop_instances: Vec::new(),
    };
    node.command(In::UpdateInstances(set)).await;
    let (mut refused, mut taken, mut whole) = (false, false, None);
    while !(refused && taken && whole == Some(2)) {
        let statuses = match node.next().await {
            Out::UpdateInstancesStatus(changed) => changed.instances,
            Out::NodeInstancesStatus(all) => {
                // What was refused is part of the picture.
                whole = Some(all.instances.len());
                continue;
            }
            _ => continue,
        };
        for status in statuses {
            let item = status.instance.unwrap_or_default().item_id;
            let why = status.error.unwrap_or_default();
            if item == "bad" {
                assert!(why.message.contains("manifest_digest"), "{why:?}");
                refused = true;
            } else if status.state == "failed" {
                assert!(why.message.contains("no runtime nowhere"), "{why:?}");
                taken = true;
            }
        }
    }
    rig.link.stop().await;
    rig.server.shutdown().await;
}

#[tokio::test]
async fn an_instance_that_does_not_say_which_it_is_costs_no_other_its_place() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.expect("a node");
    node.command(update(&["one", "two"])).await;
    while all_statuses(&mut node).await != ["one failed", "two failed"] {}
    // Of each set, one instance has no name, or one that cannot be.
    let (mut nameless, mut strange) = (instance("two"), instance("two"));
    nameless.instance = None;
    strange.instance.get_or_insert_default().item_id = String::new();
    let mut known = vec!["one failed".to_owned(), "two failed".to_owned()];
    for (bad, new) in [(nameless, "three"), (strange, "zfour")] {
        let set = wire::UpdateInstances {
            start_instances: vec![instance("one"), bad, instance(new)],
            stop_instances: Vec::new(),
        };
        node.command(In::UpdateInstances(set)).await;
        known.push(format!("{new} failed"));
        known.sort();
        while all_statuses(&mut node).await != known {}
    }
    // What can be read holds again.
    node.command(update(&["one"])).await;
    while all_statuses(&mut node).await != ["one failed"] {}
    rig.link.stop().await;
    rig.server.shutdown().await;
}

#[tokio::test]
async fn every_question_is_answered_by_a_node_without_the_part_that_knows() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.expect("a node");
    node.command(In::GetNodeConfigStatus(wire::GetNodeConfigStatus {}))
        .await;
    let config = wire::SetNodeConfig {
        node_config: "{}".into(),
        version: "2.0.0".into(),
    };
    node.command(In::SetNodeConfig(config)).await;
    node.command(In::GetAverageMonitoring(wire::GetAverageMonitoring {}))
        .await;
    let logs = wire::SystemLogRequest {
        correlation_id: "7".into(),
        ..Default::default()
    };
    node.command(In::SystemLogRequest(logs)).await;
    let mut answers = Vec::new();
    while answers.len() < 4 {
        match node.next().await {
            Out::NodeConfigStatus(it) => answers.push(format!("{} {}", it.state, it.version)),
            Out::AverageMonitoring(it) => {
                assert!(it.node_monitoring.is_none());
                answers.push("average".into());
            }
            Out::Log(it) => answers.push(format!("log {} {}", it.correlation_id, it.status)),
            _ => {}
        }
    }
    answers.sort();
    assert_eq!(
        answers,
        ["absent ", "average", "failed 2.0.0", "log 7 error"]
    );
    rig.link.stop().await;
    rig.server.shutdown().await;
}

#[tokio::test]
async fn what_changes_about_the_node_is_told_on_the_stream_and_in_the_next_hello() {
    let mut rig = rig().await;
    let mut node = rig.nodes.recv().await.unwrap();
    let resources = |said: Out| match said {
        Out::SmInfo(info) => info.resources.len(),
        other => panic!("{other:?} is no description of the node"),
    };
    assert_eq!(resources(node.next().await), 0);
    assert!(matches!(node.next().await, Out::NodeInstancesStatus(_)));
    rig.announce.send_modify(|info| {
        let camera = ResourceInfo::new("camera", std::num::NonZeroU64::new(1));
        info.resources = vec![camera.unwrap()];
    });
    assert_eq!(resources(node.next().await), 1);
    drop(node);
    let mut again = rig.nodes.recv().await.unwrap();
    assert_eq!(resources(again.next().await), 1);
}
