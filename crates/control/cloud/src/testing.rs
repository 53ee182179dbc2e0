//! A cloud for tests: it speaks the protocol from the other side, and misbehaves when it is asked to.
//!
//! [`TestCloud::start`] listens on loopback, in a thread with a runtime of its own, until it is dropped. Like a real one it
//! acknowledges what it gets, and sends what was not acknowledged again at the next connection. [`Behaviour`] is how it
//! misbehaves, and can be changed at any time.

mod connection;
mod cut;
pub mod samples;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http::Uri;
use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::message::incoming::BlobInfo;
use crate::message::{Incoming, Outgoing, envelope};

/// The token that discovery hands out.
pub const TOKEN: &str = "a-token-for-tests";

/// Files for mutual TLS.
#[derive(Debug, Clone)]
pub struct TestTls {
    /// The cloud's certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who certifies Units.
    pub ca: PathBuf,
}

/// What the cloud does with a message of the Unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reaction {
    /// It has arrived.
    #[default]
    Ack,
    /// Nothing is said.
    Silence,
    /// It is to be sent again.
    Nack {
        /// After so many milliseconds; `None` says no time.
        retry_after: Option<u64>,
    },
}

/// How the cloud behaves.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// What it does with messages.
    pub reaction: Reaction,
    /// What it does with messages of a type, instead.
    pub reactions: BTreeMap<String, Reaction>,
    /// The next connection ends after so many bytes, of both directions together.
    pub cut_after: VecDeque<u64>,
    /// Nothing is read any more.
    pub deaf: bool,
    /// The WebSocket is refused with this status.
    pub refuse_websocket: Option<u16>,
    /// Discovery answers this status.
    pub discovery_status: Option<u16>,
    /// Discovery answers this body.
    pub discovery_body: Option<String>,
    /// Addresses that discovery names before the right one.
    pub wrong_addresses: Vec<String>,
    /// What `requestBlobUrls` is answered with, by digest; others are left out.
    pub blobs: BTreeMap<String, BlobInfo>,
    /// `requestBlobUrls` is not answered.
    pub keep_blobs: bool,
}

/// A message of the Unit.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its name.
    pub txn: String,
    /// To which request it belongs.
    pub correlation: Option<String>,
    /// What it says.
    pub message: Outgoing,
    /// On which connection, from 1.
    pub connection: u64,
}

/// What the cloud has seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Every message, with repetitions.
    pub received: Vec<Received>,
    /// Messages of the cloud that the Unit has acknowledged, by name.
    pub acknowledged: BTreeSet<String>,
    /// Messages of the cloud that the Unit has refused, by name, as often as it has.
    pub refused: Vec<String>,
    /// How often discovery was asked.
    pub discoveries: u64,
    /// How often there was a connection.
    pub connections: u64,
    /// Whether there is one now.
    pub connected: bool,
    /// What of the Unit was not right.
    pub problems: Vec<String>,
}

impl Seen {
    /// The messages of a type without repetitions, in the order of their first arrival.
    pub fn once(&self, message_type: &str) -> Vec<&Received> {
        let mut names = BTreeSet::new();
        let mut once = self.received.iter().filter(|it| names.insert(&it.txn));
        let mut found = Vec::new();
        for received in once.by_ref() {
            if received.message.message_type() == message_type {
                found.push(received);
            }
        }
        found
    }
}

#[derive(Debug, Default)]
struct State {
    behaviour: Behaviour,
    seen: Seen,
    /// Messages for the Unit that it has not acknowledged, in order.
    for_unit: Vec<(String, Vec<u8>)>,
    /// Bytes for the Unit that nobody expects an acknowledgement of.
    raw: VecDeque<Vec<u8>>,
}

#[derive(Debug)]
struct Shared {
    system_id: String,
    state: Mutex<State>,
    changed: Condvar,
    /// Counts what connections shall look at.
    wake: watch::Sender<u64>,
    /// Counts the cuts.
    cuts: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state());
        self.changed.notify_all();
        self.wake.send_modify(|count| *count += 1);
        done
    }
}

/// See the module documentation.
pub struct TestCloud {
    shared: Arc<Shared>,
    discovery: Uri,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for TestCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let discovery = &self.discovery;
        f.debug_struct("TestCloud")
            .field("discovery", discovery)
            .finish_non_exhaustive()
    }
}

impl TestCloud {
    /// A cloud for the Unit of this name, with mutual TLS or without any.
    ///
    /// # Panics
    /// When it cannot listen, or the files are not right.
    pub fn start(system_id: &str, tls: Option<TestTls>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            system_id: system_id.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
        });
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let for_thread = Arc::clone(&shared);
        let life = move || server::run(for_thread, tls, stopped, &ready);
        let thread = thread::Builder::new().name("test-cloud".to_owned());
        let thread = thread.spawn(life).expect("a thread");
        let discovery = started.recv().expect("the cloud starts");
        Self {
            shared,
            discovery,
            stop,
            thread: Some(thread),
        }
    }

    /// Where the Unit asks for it.
    pub fn discovery(&self) -> Uri {
        self.discovery.clone()
    }

    /// Changes how it behaves.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        self.shared.change(|state| change(&mut state.behaviour));
    }

    /// Sends a message, now or at the next connection, until it is acknowledged. Says its name.
    pub fn send(&self, message: impl Into<Incoming>, correlation: Option<&str>) -> String {
        let data = message.into().data(correlation);
        let txn = Uuid::new_v4().to_string();
        let text = envelope(&self.shared.system_id, &txn, Timestamp::now(), &data);
        let queued = (txn.clone(), text.into_bytes());
        self.shared.change(|state| state.for_unit.push(queued));
        txn
    }

    /// Sends bytes as they are, once, when there is a connection.
    pub fn send_raw(&self, bytes: impl Into<Vec<u8>>) {
        self.shared
            .change(|state| state.raw.push_back(bytes.into()));
    }

    /// Ends every connection without a word.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// What it has seen.
    pub fn seen(&self) -> Seen {
        self.shared.state().seen.clone()
    }

    /// Waits until `found` finds what it looks for.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn wait<T>(&self, what: &str, mut found: impl FnMut(&Seen) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.state();
        loop {
            if let Some(found) = found(&state.seen) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not within a minute: {what}");
            let waited = self.shared.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for TestCloud {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed, and the test that waits for it fails.
            let _ended = thread.join();
        }
    }
}
