//! The handle of the one task that gives resources out.

mod inventory;
mod owner;

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_alert::AlertSink;
use muster_api::domain::{AosCode, InstanceIdent, ResourceInfo};
use muster_item::{ItemConfig, ResourceRequest};
use muster_launcher::seams::{Resources, SeamError};
use muster_runtime::ResourceGrant;
use muster_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use self::inventory::Inventory;
use self::owner::Owner;
use crate::database::{self, LoadHoldsError};
use crate::refusal::AllocateError;

/// Requests that wait before those who ask do.
const QUEUE: usize = 32;

/// Where resources are described, and how changes are noticed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The resources file. It may be missing.
    pub file: PathBuf,
    /// How long changes are gathered before they are looked at.
    pub settle: Duration,
    /// Between two looks where changes cannot be watched.
    pub look_every: Duration,
}

impl Settings {
    /// A quarter of a second to settle, half a minute between looks.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            settle: Duration::from_millis(250),
            look_every: Duration::from_secs(30),
        }
    }
}

/// Why resources are not given out.
#[derive(Debug, thiserror::Error)]
#[error("cannot take over the resources that instances have")]
pub struct StartResourcesError {
    /// What is wrong.
    pub source: LoadHoldsError,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Refused(AllocateError),
    #[error("cannot write down the resources of {instance}")]
    Store {
        instance: InstanceIdent,
        source: StoreError,
    },
    #[error("the resources are not given out any more: the node is shutting down")]
    Gone,
}

impl From<RequestError> for SeamError {
    fn from(error: RequestError) -> Self {
        let code = match &error {
            RequestError::Refused(refused) => refused.code(),
            RequestError::Store { .. } => AosCode::Failed,
            RequestError::Gone => AosCode::Cancelled,
        };
        Self::new(code, error)
    }
}

#[derive(Debug)]
enum Request {
    Take {
        instance: InstanceIdent,
        requests: Vec<ResourceRequest>,
        answer: oneshot::Sender<Result<Vec<ResourceGrant>, RequestError>>,
    },
    Release {
        instance: InstanceIdent,
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    KeepOnly {
        instances: BTreeSet<InstanceIdent>,
        answer: oneshot::Sender<()>,
    },
}

/// Gives out what the node has. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct ResourceManager {
    requests: mpsc::Sender<Request>,
    announced: watch::Receiver<Vec<ResourceInfo>>,
}

impl ResourceManager {
    /// Recovers who has what from a store that was opened with [`SCHEMA`](crate::SCHEMA), reads the resources file, and gives
    /// the handle and the task, which ends when the last handle is gone. Nothing is answered before the task runs.
    ///
    /// # Errors
    /// When it cannot be told who has what. A resources file that cannot be used is an error in the log.
    pub async fn start(
        store: Store,
        settings: Settings,
        alerts: Arc<dyn AlertSink>,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartResourcesError> {
        let ledger = database::load(&store).await;
        let ledger = ledger.map_err(|source| StartResourcesError { source })?;
        let (announced_out, announced) = watch::channel(Vec::new());
        let inventory = Inventory::watched(settings.file.clone());
        let owner = Owner::new(store, settings, alerts, ledger, inventory, announced_out).await;
        let (requests, queue) = mpsc::channel(QUEUE);
        let handle = Self {
            requests,
            announced,
        };
        Ok((handle, owner.run(queue)))
    }

    /// What the node has, for its announcement to the controller.
    pub fn resources(&self) -> Vec<ResourceInfo> {
        self.announced.borrow().clone()
    }

    /// What the node has, now and whenever a device comes or goes or the resources file changes.
    pub fn subscribe(&self) -> watch::Receiver<Vec<ResourceInfo>> {
        let mut subscribed = self.announced.clone();
        subscribed.mark_unchanged();
        subscribed
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.ok()?;
        answered.await.ok()
    }
}

impl Resources for ResourceManager {
    fn keep_only(&self, instances: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Without an answer the node is shutting down, and the next start asks again.
            let _ = self
                .ask(|answer| Request::KeepOnly { instances, answer })
                .await;
        })
    }

    fn scarce(&self, item: &ItemConfig) -> Vec<String> {
        let announced = self.announced.borrow();
        let counted = |name: &str| {
            let mut found = announced.iter().filter(|it| it.name() == name);
            found.next().is_some_and(|it| it.shared_count().is_some())
        };
        let names = item.resources.iter().map(|it| &it.name);
        names.filter(|name| counted(name)).cloned().collect()
    }

    fn take<'a>(
        &'a self,
        instance: &'a InstanceIdent,
        item: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Vec<ResourceGrant>, SeamError>> {
        Box::pin(async move {
            let asked = self.ask(|answer| Request::Take {
                instance: instance.clone(),
                requests: item.resources.clone(),
                answer,
            });
            let answered = asked.await.unwrap_or(Err(RequestError::Gone));
            answered.map_err(SeamError::from)
        })
    }

    fn release<'a>(&'a self, instance: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async move {
            let asked = self.ask(|answer| Request::Release {
                instance: instance.clone(),
                answer,
            });
            let answered = asked.await.unwrap_or(Err(RequestError::Gone));
            answered.map_err(SeamError::from)
        })
    }
}
