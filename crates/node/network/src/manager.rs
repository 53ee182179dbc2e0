//! The handle that the daemon and the launcher hold, and the one task behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use muster_api::domain::{InstanceIdent, InstanceInfo};
use muster_api::servicemanager::v5 as wire;
use muster_dns::{Limits, Resolver};
use muster_launcher::seams::{InstalledImage, Network, SeamError};
use muster_runtime::NetworkAttachment;
use muster_store::Store;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use crate::error::{NetworksGone, OpenNetworksError, UpdateNetworksError};
use crate::gate::{Gate, Scope, Ticket};
use crate::instance::Wish;
use crate::settings::NetworkSettings;
use crate::worker::Worker;

/// Requests that wait for the task; callers beyond that wait themselves.
const REQUESTS: usize = 64;
/// Instances that are worked on at a time: plugins are processes, and two cores run few of them.
const AT_A_TIME: usize = 4;

/// The networks of this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NetworkManager {
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
enum Request {
    Update(
        Vec<wire::UpdateNetworkParameters>,
        oneshot::Sender<Result<(), UpdateNetworksError>>,
    ),
    KeepOnly(BTreeSet<Uuid>, oneshot::Sender<()>),
    Attach(
        Box<Wish>,
        oneshot::Sender<Result<NetworkAttachment, SeamError>>,
    ),
    Detach(Uuid, oneshot::Sender<Result<(), SeamError>>),
    LookAfter,
}

impl NetworkManager {
    /// Reads what an earlier run has made. `store` must have [`SCHEMA`](crate::SCHEMA).
    ///
    /// The answer's second part is the task that does all the work: it takes over what is there, and then answers requests.
    /// Nothing is answered before it runs, so it is spawned before the launcher starts. It may be dropped at any time:
    /// every lasting step is on disk before it is made.
    pub async fn open(
        settings: NetworkSettings,
        store: Store,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), OpenNetworksError> {
        let (resolver, names) = Resolver::new(Limits::default());
        let worker = Worker::open(settings, store, Arc::new(resolver)).await?;
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let task = async move {
            // The name servers end with the last handle of theirs, which the work has.
            let work = run(Arc::new(worker), inbox);
            let ((), ()) = tokio::join!(work, names.run());
        };
        Ok((Self { requests }, task))
    }

    /// From now on exactly these networks. Those that can be made are, also when others cannot; the error names each of them.
    pub async fn update(
        &self,
        networks: Vec<wire::UpdateNetworkParameters>,
    ) -> Result<(), UpdateNetworksError> {
        let asked = self.ask(|answer| Request::Update(networks, answer)).await;
        asked.unwrap_or(Err(UpdateNetworksError::Gone))
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, NetworksGone> {
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.send(request(answer)).await;
        sent.map_err(|_| NetworksGone)?;
        answered.await.map_err(|_| NetworksGone)
    }
}

impl Network for NetworkManager {
    fn keep_only(&self, instances: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        let ids = instances.iter().map(InstanceIdent::instance_id).collect();
        Box::pin(async move {
            let asked = self.ask(|answer| Request::KeepOnly(ids, answer)).await;
            if let Err(gone) = asked {
                tracing::warn!(error = %gone, "leftovers of instances stay");
            }
        })
    }

    fn attach<'a>(
        &'a self,
        info: &'a InstanceInfo,
        image: &'a InstalledImage,
    ) -> BoxFuture<'a, Result<Option<NetworkAttachment>, SeamError>> {
        Box::pin(async move {
            let Some(wish) = Wish::of(info, image) else {
                return Ok(None);
            };
            let asked = self
                .ask(|answer| Request::Attach(Box::new(wish), answer))
                .await;
            asked.unwrap_or_else(|gone| Err(gone.into())).map(Some)
        })
    }

    fn detach<'a>(&'a self, instance: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        let id = instance.instance_id();
        Box::pin(async move {
            let asked = self.ask(|answer| Request::Detach(id, answer)).await;
            asked.unwrap_or_else(|gone| Err(gone.into()))
        })
    }
}

/// Carries requests out until the last handle is dropped.
async fn run(worker: Arc<Worker>, mut inbox: mpsc::Receiver<Request>) {
    worker.look_after().await;
    let mut looks = interval(worker.look_period());
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.reset();
    let mut gate = Gate::new(AT_A_TIME);
    let mut waiting: BTreeMap<Ticket, Request> = BTreeMap::new();
    let mut jobs: FuturesUnordered<BoxFuture<'static, Ticket>> = FuturesUnordered::new();
    let mut last: Ticket = 0;
    let mut open = true;
    while open || !jobs.is_empty() {
        tokio::select! {
            _ = looks.tick(), if waiting.is_empty() => {
                last += 1;
                gate.enter(last, Scope::Everything);
                waiting.insert(last, Request::LookAfter);
            },
            request = inbox.recv(), if open && !gate.is_full(REQUESTS) => match request {
                Some(request) => {
                    last += 1;
                    gate.enter(last, request.scope());
                    waiting.insert(last, request);
                }
                None => open = false,
            },
            Some(done) = jobs.next() => gate.leave(done),
        }
        while let Some(ticket) = gate.next() {
            let request = waiting
                .remove(&ticket)
                .expect("every ticket has its request");
            let worker = Arc::clone(&worker);
            jobs.push(Box::pin(async move {
                request.carry_out(&worker).await;
                ticket
            }));
        }
    }
}

impl Request {
    fn scope(&self) -> Scope {
        match self {
            Self::Update(..) | Self::KeepOnly(..) | Self::LookAfter => Scope::Everything,
            Self::Attach(wish, _) => Scope::Instance(wish.instance_id()),
            Self::Detach(id, _) => Scope::Instance(*id),
        }
    }

    /// Whoever asked may have gone: the work is done all the same, and the answer dropped.
    async fn carry_out(self, worker: &Worker) {
        match self {
            Self::Update(networks, answer) => {
                let _ = answer.send(worker.update(&networks).await);
            }
            Self::KeepOnly(ids, answer) => {
                worker.keep_only(&ids).await;
                let _ = answer.send(());
            }
            Self::LookAfter => worker.look_after().await,
            Self::Attach(wish, answer) => {
                let _ = answer.send(worker.attach(&wish).await.map_err(Into::into));
            }
            Self::Detach(id, answer) => {
                let _ = answer.send(worker.detach(id).await.map_err(Into::into));
            }
        }
    }
}
