//! The link between a Unit and its cloud, version 7 of the Unit's protocol.
//!
//! What the cloud says reaches whoever acts on it, and is acknowledged when it is durable there. What the Unit has to say is
//! kept on disk until the cloud has acknowledged it, however long the cloud is away, within a configured size.
//!
//! # Entry points
//! * [`CloudLink::start`] gives the handle, a bounded stream of [`Delivery`]s, and the [`Worker`] that the daemon runs.
//! * [`CloudLink`] is the handle: [`send`](CloudLink::send) and [`alerts`](CloudLink::alerts) keep messages,
//!   [`monitoring`](CloudLink::monitoring) takes note, [`publish`](CloudLink::publish) says how the Unit is,
//!   [`blob_urls`](CloudLink::blob_urls) asks and waits, [`connection`](CloudLink::connection) tells whether the cloud is
//!   there.
//! * [`message`] has all messages of both directions as types.
//! * `testing::TestCloud` (feature `testing`) speaks the protocol from the other side.
//!
//! # How messages get to the cloud
//! | what | where it waits | what happens while the cloud is away |
//! |---|---|---|
//! | alerts | database, put together when they are sent | kept longest |
//! | states, answers, confirmations | database; a newer state of an instance takes the place of an unsent one | kept |
//! | parts of logs | database | kept |
//! | monitoring | memory for [`Settings::monitoring_kept_after`], then database | thinned first: what is left spans all of the time, the finer the younger |
//! | status | memory, the newest only | said in full at the next connection |
//! | requests | memory | fail after [`Settings::request_timeout`] |
//!
//! A message gets its name (`txn`) when it is first taken for sending, and keeps it over connections and restarts, so that the
//! cloud can tell a repetition. At most [`Settings::in_flight`] wait for their acknowledgement. One that is late or refused
//! is sent again after a growing time, for ever, and holds up no other, as long as fewer than eight times as many are refused
//! for good.
//!
//! When there is no room, `thin` (pure) says what goes: monitoring, then logs, then answers, then alerts. Messages that were
//! sent are never dropped. Every loss is counted in the database in the same transaction ([`CloudLink::losses`]), and told to
//! the cloud as an alert at the next connection.
//!
//! # How messages come from the cloud
//! A message is handed on once, also if the cloud repeats it, and acknowledged by [`Delivery::accept`]. There are at most
//! 64 that nobody has said anything about; for others, and for what is dropped, the cloud is asked to send again. What has the
//! right envelope and is not understood is acknowledged and reported as an alert: it would not be understood the next time
//! either.
//!
//! # Connections
//! The Unit's certificate names the host that knows where the cloud is, unless the configuration insists on its own
//! ([`DiscoveryHost`]); it is looked at anew each time, so that a renewed certificate can lead elsewhere. Discovery (`POST`,
//! mutual TLS) names addresses and a token; a WebSocket to the first one carries everything. An address that fails is dropped, a token that is refused drops the whole answer. Pauses double from 1 s to 10 min, with chance; the
//! cloud can ask for a longer one. A silent cloud is pinged; one that does not take a message in time is left.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | [`Worker::run`], driver: the one owner of the connection and of what is on its way | the WebSocket, kept messages (a `Notify` says that there are), the newest status (`watch`), requests (bounded to 16), verdicts about deliveries (bounded to 64) | the WebSocket, deliveries (bounded to 32), [`ConnectionState`] (`watch`) |
//! | [`Worker::run`], keeper of monitoring | samples (bounded to 256) | database |
//!
//! Whatever of it is dropped at whatever moment: what was kept is sent by the next one.
//!
//! # Invariants
//! * What [`send`](CloudLink::send) has returned for is delivered at least once, or counted as lost.
//! * A message of the cloud is acknowledged only after it was accepted.
//! * Messages of one kind are first sent in the order in which they were kept, on each connection.
//! * Nothing that comes from the cloud panics, and its size, depth and number of values are bounded.
//! * Passwords, tokens and keys are in no log and no Debug output, and are wiped from memory.
//! * A protected link never becomes an unprotected one because discovery says so.
//!
//! # What this crate does not do
//! It acts on no message, and does not know where certificates come from. It does not upload logs by HTTPS: the protocol says
//! where to, but not how. It asks nobody about revocation (OCSP): the revocation lists of the TLS client are what counts. It
//! does not encrypt what it keeps.

#![forbid(unsafe_code)]

mod database;
mod delivery;
mod discovery;
mod driver;
mod fault;
mod home;
mod link;
pub mod message;
mod monitoring;
mod reconnect;
mod report;
mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thin;
mod window;

pub use self::database::{Class, Losses, SCHEMA};
pub use self::delivery::Delivery;
pub use self::fault::FAULT_POINTS;
pub use self::link::{
    CloudLink, ConnectionState, Extent, KeepError, RequestError, Started, Worker,
};
pub use self::settings::{Access, DiscoveryHost, Settings, discovery_url};
