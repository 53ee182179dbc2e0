//! The handle, and how everything starts.

use std::sync::Arc;
use std::time::Duration;

use muster_store::{Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::database::{Class, Losses, Outbox, Row};
use crate::delivery::Delivery;
use crate::driver::{Driver, Ends, Request};
use crate::message::Outgoing;
use crate::message::incoming::BlobInfo;
use crate::message::outgoing::RequestBlobUrls;
use crate::message::status::UnitStatus;
use crate::message::telemetry::{Alert, MonitoringData};
use crate::monitoring;
use crate::settings::{Access, Settings};

/// Messages of the cloud that wait for their receiver.
const DELIVERIES: usize = 32;
/// Requests that wait for the link.
const REQUESTS: usize = 16;
/// Monitoring that waits for the link.
const SAMPLES: usize = 256;

/// How the link to the cloud is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// There is none; it is tried again.
    Away {
        /// What went wrong last; `None` before the first attempt.
        problem: Option<String>,
    },
    /// The cloud can be spoken to.
    Connected,
}

/// How a status is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What changed, with other changes.
    Changes,
    /// All of it, at once.
    Full,
}

/// Why a message was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The database failed.
    #[error("cannot keep a message of type {message_type} for the cloud")]
    Store {
        /// Which type.
        message_type: &'static str,
        /// What the database said.
        source: StoreError,
    },
    /// It is longer than messages may be.
    #[error(
        "a message of type {message_type} for the cloud has {bytes} bytes, more than can be kept or sent"
    )]
    TooLarge {
        /// Which type.
        message_type: &'static str,
        /// How long it is.
        bytes: usize,
    },
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing came in time.
    #[error("the cloud did not answer {message_type} within {after:?}")]
    Late {
        /// What was asked.
        message_type: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The link has ended.
    #[error("{message_type} was not answered before the link to the cloud ended")]
    Ended {
        /// What was asked.
        message_type: &'static str,
    },
}

/// The link to the cloud. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CloudLink {
    outbox: Outbox,
    news: Arc<Notify>,
    status: watch::Sender<Published>,
    samples: mpsc::Sender<MonitoringData>,
    requests: mpsc::Sender<Request>,
    connection: watch::Receiver<ConnectionState>,
    largest_message: usize,
    request_timeout: Duration,
}

/// The newest status.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) status: Option<Arc<UnitStatus>>,
    /// How often all of it was asked for.
    pub(crate) full: u64,
}

/// What [`CloudLink::start`] gives.
#[derive(Debug)]
pub struct Started {
    /// The handle.
    pub link: CloudLink,
    /// What the cloud says. Whoever reads it too slowly has the cloud send again.
    pub deliveries: mpsc::Receiver<Delivery>,
    /// The work.
    pub worker: Worker,
}

/// The link's work; see [`run`](Self::run).
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    ends: Ends,
    keeper: monitoring::Keeper,
}

impl Worker {
    /// Speaks to the cloud for ever, from when it is known how. May be dropped at any time: what must last is on disk.
    pub async fn run(self, access: impl Future<Output = Access>) {
        let driver = async {
            let access = access.await;
            Driver::new(self.settings, access, self.ends).run().await;
        };
        tokio::join!(driver, self.keeper.run());
    }
}

impl CloudLink {
    /// The link, with what was kept before. `store` has [`SCHEMA`](crate::SCHEMA). Messages can be kept at once.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn start(settings: Settings, store: Store) -> Result<Started, StoreError> {
        let outbox = Outbox::open(store, settings.kept_bytes).await?;
        let news = Arc::new(Notify::new());
        let (status, statuses) = watch::channel(Published::default());
        let (samples, sampled) = mpsc::channel(SAMPLES);
        let (requests, requested) = mpsc::channel(REQUESTS);
        let (connected, connection) = watch::channel(ConnectionState::Away { problem: None });
        let (deliver, deliveries) = mpsc::channel(DELIVERIES);
        let link = Self {
            outbox: outbox.clone(),
            news: Arc::clone(&news),
            status,
            samples,
            requests,
            connection,
            largest_message: settings.largest_message,
            request_timeout: settings.request_timeout,
        };
        let keeper = monitoring::Keeper::new(
            outbox.clone(),
            Arc::clone(&news),
            sampled,
            settings.monitoring_kept_after,
            settings.largest_message,
        );
        let ends = Ends {
            outbox,
            news,
            statuses,
            requests: requested,
            connected,
            deliver,
        };
        Ok(Started {
            link,
            deliveries,
            worker: Worker {
                settings,
                ends,
                keeper,
            },
        })
    }

    /// Whether the cloud can be spoken to.
    pub fn connection(&self) -> watch::Receiver<ConnectionState> {
        self.connection.clone()
    }

    /// Keeps a message until the cloud has acknowledged it. Returns when it is on disk. Messages of one kind arrive in the
    /// order in which they were kept, as far as the cloud acknowledges them in that order.
    ///
    /// # Errors
    /// The database fails, or the message is too long.
    pub async fn send(
        &self,
        message: impl Into<Outgoing>,
        correlation: Option<&str>,
    ) -> Result<(), KeepError> {
        let message = message.into();
        let message_type = message.message_type();
        let key = message.replaces();
        let class = match &message {
            Outgoing::Alerts(alerts) => return self.alerts(&alerts.items).await,
            Outgoing::PushLog(_) => Class::Logs,
            Outgoing::Monitoring(_) => Class::Monitoring,
            _ => Class::Answers,
        };
        let body = message.data(correlation);
        self.keep(message_type, vec![Row { class, key, body }])
            .await
    }

    /// Keeps alerts until the cloud has acknowledged them; they are sent with others. Returns when they are on disk.
    ///
    /// # Errors
    /// The database fails, or one is too long; then none is kept.
    pub async fn alerts(&self, alerts: &[Alert]) -> Result<(), KeepError> {
        let row = |alert: &Alert| Row {
            class: Class::Alerts,
            key: None,
            body: serde_json::to_string(alert).expect("alerts have text keys"),
        };
        self.keep("alerts", alerts.iter().map(row).collect()).await
    }

    async fn keep(&self, message_type: &'static str, rows: Vec<Row>) -> Result<(), KeepError> {
        // Room for the envelope.
        let largest = self.largest_message.saturating_sub(1024);
        if let Some(row) = rows.iter().find(|row| row.body.len() > largest) {
            let bytes = row.body.len();
            return Err(KeepError::TooLarge {
                message_type,
                bytes,
            });
        }
        let kept = self.outbox.append(rows).await;
        kept.map_err(|source| KeepError::Store {
            message_type,
            source,
        })?;
        muster_fault::hit(crate::fault::KEPT);
        self.news.notify_one();
        Ok(())
    }

    /// Takes note of what nodes and instances used; it is sent with others. What does not fit is counted as lost.
    pub fn monitoring(&self, data: MonitoringData) {
        if self.samples.try_send(data).is_err() {
            self.outbox.count_unkept();
        }
    }

    /// This is how the Unit is, all of it. It takes the place of what was not sent yet; the link finds out what is different
    /// from what the cloud has acknowledged.
    pub fn publish(&self, status: Arc<UnitStatus>, extent: Extent) {
        self.status.send_modify(|published| {
            published.status = Some(status);
            published.full += u64::from(extent == Extent::Full);
        });
    }

    /// Asks the cloud where blobs are. The answer is in the cloud's order and may be incomplete.
    ///
    /// # Errors
    /// The cloud did not answer in time.
    pub async fn blob_urls(&self, digests: Vec<String>) -> Result<Vec<BlobInfo>, RequestError> {
        let message = Outgoing::RequestBlobUrls(RequestBlobUrls { digests });
        let message_type = message.message_type();
        let (answer, answered) = oneshot::channel();
        let request = Request { message, answer };
        let asked = async {
            let ended = |_| RequestError::Ended { message_type };
            self.requests
                .send(request)
                .await
                .map_err(|_| RequestError::Ended { message_type })?;
            answered.await.map_err(ended)
        };
        let late = |_| RequestError::Late {
            message_type,
            after: self.request_timeout,
        };
        timeout(self.request_timeout, asked).await.map_err(late)?
    }

    /// What was lost since there is a database, by kind.
    ///
    /// # Errors
    /// The database fails.
    pub async fn losses(&self) -> Result<Losses, StoreError> {
        self.outbox.losses().await
    }

    /// How many messages wait for the cloud. Alerts count one by one until they are sent.
    ///
    /// # Errors
    /// The database fails.
    pub async fn kept(&self) -> Result<u64, StoreError> {
        self.outbox.kept().await
    }
}

impl Outgoing {
    /// What an unsent message of the same name is replaced by.
    fn replaces(&self) -> Option<String> {
        let name = |kind: &str, item, subject, instance| {
            serde_json::to_string(&(kind, item, subject, instance)).ok()
        };
        match self {
            Self::NewState(it) => name("newState", &it.item, &it.subject, it.instance),
            Self::StateRequest(it) => name("stateRequest", &it.item, &it.subject, it.instance),
            _ => None,
        }
    }
}
