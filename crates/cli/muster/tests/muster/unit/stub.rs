//! A Unit that says what a test wants it to say, and remembers what it was asked.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_util::stream::{self, Stream, StreamExt as _};
use muster_control_api::FILE_DESCRIPTOR_SET;
use muster_control_api::v1::control_service_server::{ControlService, ControlServiceServer};
use muster_control_api::v1::{self, WatchEvent, watch_event::Event as News};
use muster_rpc::server::{ServerBuilder, ServerConfig};
use tokio::net::UnixListener;
use tokio::sync::{broadcast, oneshot};
use tonic::{Request, Response, Status};

use crate::rig::{Run, Site, run};

type Answer<T> = Result<Response<T>, Status>;
type Many<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Lists come in pages of so many.
const PAGE: usize = 2;

/// What the Unit says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) overview: v1::Overview,
    pub(crate) nodes: Vec<v1::Node>,
    pub(crate) instances: Vec<v1::Instance>,
    pub(crate) items: Vec<v1::Item>,
    pub(crate) alerts: Vec<v1::Alert>,
    pub(crate) networks: Vec<v1::Network>,
    /// To `Apply` and `Rollback`.
    pub(crate) plan: v1::ApplyResponse,
    pub(crate) desired: v1::GetDesiredResponse,
    /// Each call of `FollowUpdate` gets the next of these.
    pub(crate) progress: Vec<Vec<v1::UpdateProgress>>,
    /// A follower is told no end after the last of them.
    pub(crate) endless: bool,
    pub(crate) explanation: v1::ExplainResponse,
    pub(crate) logs: Vec<v1::LogChunk>,
    pub(crate) usage: Vec<v1::UsageSnapshot>,
    pub(crate) events: Vec<v1::Event>,
    pub(crate) drain: v1::DrainNodeResponse,
    /// Instead of any answer.
    pub(crate) refusal: Option<Status>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    asked: Mutex<Vec<String>>,
    news: broadcast::Sender<Result<WatchEvent, Status>>,
}

#[derive(Debug, Clone)]
struct Service(Arc<Shared>);

impl Service {
    /// Notes the question, and gives what there is to say.
    fn script(&self, call: &str, request: &impl std::fmt::Debug) -> Result<Script, Status> {
        let mut asked = self.0.asked.lock().expect("not poisoned");
        asked.push(format!("{call} {request:?}"));
        let script = self.0.script.lock().expect("not poisoned").clone();
        match script.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(script),
        }
    }
}

fn page<T>(all: Vec<T>, token: &[u8]) -> (Vec<T>, Vec<u8>) {
    let start = usize::from(token.first().copied().unwrap_or(0));
    let end = (start + PAGE).min(all.len());
    let next = match end < all.len() {
        true => vec![u8::try_from(end).expect("few")],
        false => Vec::new(),
    };
    let things = all.into_iter().skip(start).take(PAGE).collect();
    (things, next)
}

fn all<T: Send + 'static>(things: Vec<T>, endless: bool) -> Many<T> {
    let things = stream::iter(things.into_iter().map(Ok));
    match endless {
        true => Box::pin(things.chain(stream::pending())),
        false => Box::pin(things),
    }
}

#[tonic::async_trait]
impl ControlService for Service {
    async fn get_overview(&self, it: Request<v1::GetOverviewRequest>) -> Answer<v1::Overview> {
        Ok(Response::new(
            self.script("GetOverview", it.get_ref())?.overview,
        ))
    }

    async fn list_nodes(&self, it: Request<v1::ListNodesRequest>) -> Answer<v1::ListNodesResponse> {
        let script = self.script("ListNodes", it.get_ref())?;
        let (nodes, next_page_token) = page(script.nodes, &it.get_ref().page_token);
        Ok(Response::new(v1::ListNodesResponse {
            nodes,
            next_page_token,
        }))
    }

    async fn list_instances(
        &self,
        it: Request<v1::ListInstancesRequest>,
    ) -> Answer<v1::ListInstancesResponse> {
        let mut all = self.script("ListInstances", it.get_ref())?.instances;
        let request = it.get_ref();
        all.retain(|it| request.node_id.is_empty() || it.node_id == request.node_id);
        let (instances, next_page_token) = page(all, &request.page_token);
        Ok(Response::new(v1::ListInstancesResponse {
            instances,
            next_page_token,
        }))
    }

    async fn list_items(&self, it: Request<v1::ListItemsRequest>) -> Answer<v1::ListItemsResponse> {
        let script = self.script("ListItems", it.get_ref())?;
        let (items, next_page_token) = page(script.items, &it.get_ref().page_token);
        Ok(Response::new(v1::ListItemsResponse {
            items,
            next_page_token,
        }))
    }

    async fn list_alerts(
        &self,
        it: Request<v1::ListAlertsRequest>,
    ) -> Answer<v1::ListAlertsResponse> {
        let alerts = self.script("ListAlerts", it.get_ref())?.alerts;
        Ok(Response::new(v1::ListAlertsResponse { alerts }))
    }

    async fn list_networks(
        &self,
        it: Request<v1::ListNetworksRequest>,
    ) -> Answer<v1::ListNetworksResponse> {
        let script = self.script("ListNetworks", it.get_ref())?;
        let (networks, next_page_token) = page(script.networks, &it.get_ref().page_token);
        Ok(Response::new(v1::ListNetworksResponse {
            networks,
            next_page_token,
        }))
    }

    type WatchStream = Many<WatchEvent>;

    async fn watch(&self, it: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        let news = self.0.news.subscribe();
        let script = self.script("Watch", it.get_ref())?;
        let mut first = Vec::new();
        for kind in it.get_ref().kinds() {
            match kind {
                v1::Kind::Nodes => first.extend(script.nodes.iter().cloned().map(News::Node)),
                v1::Kind::Instances => {
                    first.extend(script.instances.iter().cloned().map(News::Instance));
                }
                v1::Kind::Items => first.extend(script.items.iter().cloned().map(News::Item)),
                v1::Kind::Alerts => first.extend(script.alerts.iter().cloned().map(News::Alert)),
                v1::Kind::Networks => {
                    first.extend(script.networks.iter().cloned().map(News::Network));
                }
                v1::Kind::Overview | v1::Kind::Unspecified => {}
            }
        }
        first.push(News::Synced(v1::Synced {}));
        let first = first
            .into_iter()
            .map(|event| Ok(WatchEvent { event: Some(event) }));
        let later = stream::unfold(news, |mut news| async move {
            let next = news.recv().await.ok()?;
            Some((next, news))
        });
        Ok(Response::new(Box::pin(stream::iter(first).chain(later))))
    }

    async fn apply(&self, it: Request<v1::ApplyRequest>) -> Answer<v1::ApplyResponse> {
        let request = it.get_ref();
        let name = (&request.name, request.format(), request.dry_run);
        Ok(Response::new(self.script("Apply", &name)?.plan))
    }

    async fn rollback(&self, it: Request<v1::RollbackRequest>) -> Answer<v1::ApplyResponse> {
        Ok(Response::new(self.script("Rollback", it.get_ref())?.plan))
    }

    async fn get_desired(
        &self,
        it: Request<v1::GetDesiredRequest>,
    ) -> Answer<v1::GetDesiredResponse> {
        Ok(Response::new(
            self.script("GetDesired", it.get_ref())?.desired,
        ))
    }

    type FollowUpdateStream = Many<v1::UpdateProgress>;

    async fn follow_update(
        &self,
        it: Request<v1::FollowUpdateRequest>,
    ) -> Answer<Self::FollowUpdateStream> {
        let script = self.script("FollowUpdate", it.get_ref())?;
        let mut kept = self.0.script.lock().expect("not poisoned");
        let next = match kept.progress.is_empty() {
            true => Vec::new(),
            false => kept.progress.remove(0),
        };
        Ok(Response::new(all(next, script.endless)))
    }

    async fn explain(&self, it: Request<v1::ExplainRequest>) -> Answer<v1::ExplainResponse> {
        Ok(Response::new(
            self.script("Explain", it.get_ref())?.explanation,
        ))
    }

    type ReadLogsStream = Many<v1::LogChunk>;

    async fn read_logs(&self, it: Request<v1::ReadLogsRequest>) -> Answer<Self::ReadLogsStream> {
        let script = self.script("ReadLogs", it.get_ref())?;
        Ok(Response::new(all(script.logs, it.get_ref().follow)))
    }

    type FollowUsageStream = Many<v1::UsageSnapshot>;

    async fn follow_usage(
        &self,
        it: Request<v1::FollowUsageRequest>,
    ) -> Answer<Self::FollowUsageStream> {
        let script = self.script("FollowUsage", it.get_ref())?;
        Ok(Response::new(all(script.usage, true)))
    }

    type ReadEventsStream = Many<v1::Event>;

    async fn read_events(
        &self,
        it: Request<v1::ReadEventsRequest>,
    ) -> Answer<Self::ReadEventsStream> {
        let script = self.script("ReadEvents", it.get_ref())?;
        Ok(Response::new(all(script.events, it.get_ref().follow)))
    }

    async fn set_node_paused(
        &self,
        it: Request<v1::SetNodePausedRequest>,
    ) -> Answer<v1::SetNodePausedResponse> {
        self.script("SetNodePaused", it.get_ref())?;
        Ok(Response::new(v1::SetNodePausedResponse {}))
    }

    async fn drain_node(&self, it: Request<v1::DrainNodeRequest>) -> Answer<v1::DrainNodeResponse> {
        Ok(Response::new(self.script("DrainNode", it.get_ref())?.drain))
    }
}

/// A running Unit of a test; it ends with the value.
pub(crate) struct Stub {
    pub(crate) site: Site,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    pub(crate) fn new(script: Script) -> Self {
        let site = Site::empty();
        let (news, _) = broadcast::channel(64);
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            asked: Mutex::default(),
            news,
        });
        let mut stub = Self {
            site,
            shared,
            stop: None,
            thread: None,
        };
        stub.start();
        stub
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.site.path("cm.sock")
    }

    /// Listens, on the same socket as before.
    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let service = Service(Arc::clone(&self.shared));
        let path = self.socket();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let listener = UnixListener::bind(&path).expect("a socket");
                let server = ServerBuilder::new(ServerConfig::default(), FILE_DESCRIPTOR_SET)
                    .service(ControlServiceServer::new(service))
                    .start_unix(listener, path)
                    .await
                    .expect("a server");
                ready.send(()).expect("somebody waits");
                let _ = stopped.await;
                drop(server);
            });
        });
        is_ready.recv().expect("the server starts");
        (self.stop, self.thread) = (Some(stop), Some(thread));
    }

    /// Goes away, as a Communication Manager that dies does.
    pub(crate) fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic");
        }
        let _ = std::fs::remove_file(self.socket());
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.site.command(arguments);
        command.env("MUSTER_UNIT", self.socket()).env("TZ", "UTC");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    /// From now on it says something else.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.shared.script.lock().expect("not poisoned"));
    }

    /// Tells watchers something, who have to be there.
    pub(crate) fn tell(&self, news: News) {
        let event = Some(news);
        let told = self.shared.news.send(Ok(WatchEvent { event }));
        told.expect("somebody watches");
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&self, status: Status) {
        self.shared
            .news
            .send(Err(status))
            .expect("somebody watches");
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().expect("not poisoned").clone()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported, and this one may be on the way already.
            let _ = thread.join();
        }
    }
}
