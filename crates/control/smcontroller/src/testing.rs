//! Simulated nodes for measurements: many in one process, each with its own certificate, connection and stream.
//!
//! [`Fleet::new`] takes what nodes are known by, [`Fleet::start`] connects them. A node says what it has, takes whatever it is told
//! to run, says that it runs, and answers what it is asked about its configuration. It runs nothing. A stream that breaks is made
//! again, as that of a real Service Manager is.
//!
//! Whatever cannot be set up panics: that is the report of a measurement.

mod credentials;
mod messages;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use muster_api::servicemanager::v5 as wire;
use muster_rpc::slots::ReplyKind;
use muster_rpc::{
    BoxFuture, Dial, DialError, LinkStatus, Protocol, StreamBuilder, StreamConfig, StreamHandle,
    StreamIncoming, Target, Transport,
};
use muster_tls::ClientTls;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use wire::sm_incoming_messages::SmIncomingMessage as Command;

pub use self::credentials::Credentials;

/// Connections that are being made at a time: more than the kernel's queue holds would be made by nobody sooner.
const DIALLING: usize = 256;
/// Partitions in a long measurement: about a kilobyte, if there is an instance.
const LONG: u64 = 24;
/// Between two looks at a counter.
const LOOK: Duration = Duration::from_millis(1);

/// A node's end of the stream.
#[derive(Debug)]
enum NodeEnd {}

impl Protocol for NodeEnd {
    type Out = wire::SmOutgoingMessages;
    type In = wire::SmIncomingMessages;
    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    fn reply_kind(_: &Self::In) -> Option<ReplyKind> {
        None
    }
}

/// Waits for its turn before it dials.
struct InTurn {
    target: Arc<Target>,
    turns: Arc<Semaphore>,
}

impl Dial for InTurn {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let (target, turns) = (Arc::clone(&self.target), Arc::clone(&self.turns));
        Box::pin(async move {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            target.dial().await
        })
    }

    fn origin(&self) -> Uri {
        self.target.origin()
    }
}

/// What a node was told to run.
type Given = Arc<Mutex<Vec<wire::InstanceInfo>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Node {
    stream: StreamHandle<NodeEnd>,
    given: Given,
}

/// When updates of instances arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals {
    /// How many.
    pub count: usize,
    /// The first of them.
    pub first: Instant,
    /// The last of them.
    pub last: Instant,
}

/// Simulated nodes.
pub struct Fleet {
    waiting: std::vec::IntoIter<(String, ClientTls)>,
    runtime: wire::RuntimeInfo,
    nodes: Vec<Node>,
    turns: Arc<Semaphore>,
    arrivals: Arc<Mutex<Option<Arrivals>>>,
    asked: Arc<AtomicUsize>,
    /// Whose turn it is to send a measurement.
    next: usize,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = formatter.debug_struct("Fleet");
        let fields = fields.field("nodes", &self.nodes.len());
        fields
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Nodes with this runtime, whose controller is certified by this authority (PEM). None is connected yet.
    pub async fn new(
        authority: &str,
        runtime: wire::RuntimeInfo,
        nodes: impl IntoIterator<Item = Credentials>,
    ) -> Self {
        let trust = credentials::trust(authority);
        let mut waiting = Vec::new();
        for node in nodes {
            let tls = node.client_tls(&trust).await;
            waiting.push((node.node, tls));
        }
        Self {
            waiting: waiting.into_iter(),
            runtime,
            nodes: Vec::new(),
            turns: Arc::new(Semaphore::new(DIALLING)),
            arrivals: Arc::default(),
            asked: Arc::default(),
            next: 0,
        }
    }

    /// Starts nodes until there are so many.
    pub fn start(&mut self, address: SocketAddr, count: usize) {
        let missing = count.saturating_sub(self.nodes.len());
        let waiting: Vec<_> = self.waiting.by_ref().take(missing).collect();
        for (name, tls) in waiting {
            let target = Target::new(tls, &address.to_string());
            let dial = InTurn {
                target: Arc::new(target.expect("an address is a target")),
                turns: Arc::clone(&self.turns),
            };
            let given = Given::default();
            let (said, runtime) = (Arc::clone(&given), self.runtime.clone());
            let (stream, incoming) = StreamBuilder::<NodeEnd>::new(dial, StreamConfig::default())
                .hello(move || messages::hello(&name, &runtime, &lock(&said)))
                .start();
            let listening = Listening {
                stream: stream.clone(),
                given: Arc::clone(&given),
                arrivals: Arc::clone(&self.arrivals),
                asked: Arc::clone(&self.asked),
            };
            tokio::spawn(listening.run(incoming));
            self.nodes.push(Node { stream, given });
        }
    }

    /// How many have a stream now.
    pub fn connected(&self) -> usize {
        let streams = self.nodes.iter().map(|it| it.stream.status());
        streams
            .filter(|it| *it.borrow() == LinkStatus::Connected)
            .count()
    }

    /// How often nodes were asked about their configuration.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Counts updates of instances anew.
    pub fn forget_updates(&self) {
        *lock(&self.arrivals) = None;
    }

    /// Waits until so many updates of instances have arrived.
    pub async fn updated(&self, count: usize) -> Arrivals {
        loop {
            let now = *lock(&self.arrivals);
            if let Some(arrivals) = now.filter(|it| it.count >= count) {
                return arrivals;
            }
            sleep(LOOK).await;
        }
    }

    /// Sends measurements, of one node after the other, at this rate; each says that it uses so much memory.
    pub async fn measure(&mut self, per_second: u32, messages: u32, ram: u64) {
        let began = Instant::now();
        for number in 0..messages {
            let due = began + Duration::from_secs(1) * number / per_second;
            if Instant::now() < due {
                sleep_until(due).await;
            }
            self.send_next(ram, 0).await;
        }
    }

    /// Sends long measurements, of every node so many, as fast as they are taken. A buffer takes memory only where it was written
    /// to, so that a connection grows with its first kilobytes and no further.
    pub async fn fill_buffers(&mut self, rounds: usize) {
        for _ in 0..rounds * self.nodes.len() {
            self.send_next(0, LONG).await;
        }
    }

    async fn send_next(&mut self, ram: u64, partitions: u64) {
        let node = &self.nodes[self.next];
        self.next = (self.next + 1) % self.nodes.len();
        let measurement = messages::measurement(&lock(&node.given), ram, partitions);
        let sent = node.stream.send(&measurement).await;
        sent.expect("streams last as long as the fleet");
    }
}

/// What hears the controller on behalf of a node.
struct Listening {
    stream: StreamHandle<NodeEnd>,
    given: Given,
    arrivals: Arc<Mutex<Option<Arrivals>>>,
    asked: Arc<AtomicUsize>,
}

impl Listening {
    async fn run(self, mut incoming: StreamIncoming<NodeEnd>) {
        while let Some(received) = incoming.recv().await {
            let Some(command) = received.message.sm_incoming_message else {
                continue;
            };
            if let Some(answer) = self.take(command)
                && self.stream.send(&answer).await.is_err()
            {
                return;
            }
        }
    }

    fn take(&self, command: Command) -> Option<wire::SmOutgoingMessages> {
        match command {
            Command::UpdateInstances(update) => {
                self.arrived();
                let mut given = lock(&self.given);
                *given = update.start_instances;
                Some(messages::running(&given))
            }
            Command::GetNodeConfigStatus(_)
            | Command::CheckNodeConfig(_)
            | Command::SetNodeConfig(_) => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Some(messages::config_status())
            }
            _ => None,
        }
    }

    fn arrived(&self) {
        let now = Instant::now();
        let mut arrivals = lock(&self.arrivals);
        let arrivals = arrivals.get_or_insert(Arrivals {
            count: 0,
            first: now,
            last: now,
        });
        arrivals.count += 1;
        arrivals.last = now;
    }
}
