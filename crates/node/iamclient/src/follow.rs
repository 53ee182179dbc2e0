//! Following a value: a stream of changes and a call for the value, made one, and made again after
//! every loss.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::time::Duration;

use muster_telemetry::ErrorChain;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::{Response, Status, Streaming};
use tracing::{debug, warn};

use crate::error::IamCallError;

/// How long a stream's headers are waited for before the value is asked for without them.
const HEADERS: Duration = Duration::from_millis(300);
/// The pause after a loss; it doubles up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// The pause after a refused call for the value, while the stream is open.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What is known of a followed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed<T> {
    /// The latest, once there is one. It stays while IAM is away.
    pub value: Option<T>,
    /// Why it is missing or may be old, if so.
    pub problem: Option<String>,
}

/// A value that is followed until this is dropped.
#[derive(Debug)]
pub struct Follow<T> {
    latest: watch::Receiver<Followed<T>>,
    task: JoinHandle<()>,
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Follow<T> {
    pub(crate) fn start(feed: impl Feed<Value = T>) -> Self {
        let nothing = Followed {
            value: None,
            problem: None,
        };
        let (sender, latest) = watch::channel(nothing);
        let task = tokio::spawn(run(feed, sender));
        Self { latest, task }
    }

    /// What is known now.
    #[must_use]
    pub fn latest(&self) -> Followed<T> {
        self.latest.borrow().clone()
    }

    /// What is known now and every change from now on, as long as this is not dropped.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Followed<T>> {
        self.latest.clone()
    }

    /// Waits for the first value, if there is none.
    pub async fn first(&self) -> T {
        let mut latest = self.latest.clone();
        loop {
            if let Some(value) = &latest.borrow_and_update().value {
                return value.clone();
            }
            if latest.changed().await.is_err() {
                // The task ends only when it is dropped with this, which is borrowed.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl<T> Drop for Follow<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A boxed future that borrows its feed.
pub(crate) type FeedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// What opens a stream of changes.
pub(crate) type Opened<T> = Result<Response<Streaming<T>>, Status>;

/// Where a value comes from.
pub(crate) trait Feed: Send + Sync + 'static {
    /// What is followed.
    type Value: Clone + PartialEq + Send + Sync + 'static;
    /// What the stream carries.
    type Change: Send + 'static;

    /// For logs.
    fn name(&self) -> String;

    /// Opens the stream of changes.
    fn changes(&self) -> FeedFuture<'_, Opened<Self::Change>>;

    /// Asks for the value.
    fn ask(&self) -> FeedFuture<'_, Result<Self::Value, IamCallError>>;

    /// The value after a change; nothing when the change is only a part of it, and the rest is not
    /// known.
    fn apply(
        &self,
        before: Option<&Self::Value>,
        change: Self::Change,
    ) -> Result<Option<Self::Value>, String>;
}

/// Why a stream is over.
struct Lost {
    reason: String,
    /// Whether IAM had answered anything.
    had_answer: bool,
}

async fn run<F: Feed>(feed: F, latest: watch::Sender<Followed<F::Value>>) {
    let mut pause = PAUSES.0;
    loop {
        let Err(lost) = follow(&feed, &latest).await;
        if lost.had_answer {
            pause = PAUSES.0;
        }
        report(&feed, &latest, lost.reason);
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// One stream, from its opening to its loss.
async fn follow<F: Feed>(
    feed: &F,
    latest: &watch::Sender<Followed<F::Value>>,
) -> Result<Infallible, Lost> {
    let mut had_answer = false;
    let lost = |reason: String, had_answer| Lost { reason, had_answer };
    let mut opening = pin!(feed.changes());
    let mut stream = match timeout(HEADERS, &mut opening).await {
        Ok(Ok(response)) => Some(response.into_inner()),
        Ok(Err(status)) => return Err(lost(ErrorChain(&status).to_string(), had_answer)),
        Err(_) => None,
    };
    let mut pause = ASK_AGAIN.0;
    let mut ask_at = Some(Instant::now());
    loop {
        tokio::select! {
            biased;
            opened = &mut opening, if stream.is_none() => match opened {
                Ok(response) => {
                    stream = Some(response.into_inner());
                    // What changed before the server had the stream was not told on it.
                    ask_at = Some(Instant::now());
                }
                Err(status) => return Err(lost(ErrorChain(&status).to_string(), had_answer)),
            },
            change = next(&mut stream) => match change {
                Ok(Some(change)) => {
                    had_answer = true;
                    let value = feed.apply(latest.borrow().value.as_ref(), change);
                    match value {
                        Ok(Some(value)) => publish(latest, value),
                        Ok(None) => {}
                        Err(problem) => report(feed, latest, problem),
                    }
                }
                Ok(None) => return Err(lost("IAM ended the stream".to_owned(), had_answer)),
                Err(status) => return Err(lost(ErrorChain(&status).to_string(), had_answer)),
            },
            () = at(ask_at) => match feed.ask().await {
                Ok(value) => {
                    had_answer = true;
                    ask_at = None;
                    pause = ASK_AGAIN.0;
                    publish(latest, value);
                }
                Err(error) if error.is_unreachable() => return Err(lost(ErrorChain(&error).to_string(), had_answer)),
                Err(error) => {
                    had_answer = true;
                    report(feed, latest, ErrorChain(&error).to_string());
                    ask_at = Some(Instant::now() + pause);
                    pause = (pause * 2).min(ASK_AGAIN.1);
                }
            },
        }
    }
}

async fn next<T>(stream: &mut Option<Streaming<T>>) -> Result<Option<T>, Status> {
    match stream {
        Some(stream) => stream.message().await,
        None => std::future::pending().await,
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

fn publish<T: PartialEq>(latest: &watch::Sender<Followed<T>>, value: T) {
    latest.send_if_modified(|known| {
        let same = known.problem.is_none() && known.value.as_ref() == Some(&value);
        known.value = Some(value);
        known.problem = None;
        !same
    });
}

fn report<F: Feed>(feed: &F, latest: &watch::Sender<Followed<F::Value>>, reason: String) {
    latest.send_if_modified(|known| {
        if known.problem.as_ref() == Some(&reason) {
            return false;
        }
        let what = feed.name();
        // The first loss is worth a line, each further reason only to whoever looks for it.
        match known.problem {
            None => warn!(%what, %reason, "IAM is not heard; what was known stays"),
            Some(_) => debug!(%what, %reason, "IAM is still not heard"),
        }
        known.problem = Some(reason);
        true
    });
}
