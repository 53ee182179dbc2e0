//! How operators see and steer a Unit: the server of `muster.control.v1`.
//!
//! The Communication Manager's parts tell this crate what they learn; it keeps one model of what is true about the Unit now,
//! remembers what happened, and serves both to the `muster` command line and to anybody else's tools, together with the few
//! things that an operator can ask for.
//!
//! # Entry points
//! * [`UnitView`] is the model. The daemon's receivers put typed facts in: nodes that come and go, what they say about their
//!   instances, what they were given to run, measurements, alerts, how updates go. A cheap clone; every call is short and
//!   never waits.
//! * [`History::open`] keeps events and alerts in the daemon's database ([`SCHEMA`]) and gives the one task that writes.
//! * [`Operations`] is what the daemon does for operators; it implements the trait.
//! * [`ControlServer`] is the service. [`ControlServer::serve_unix`] and [`ControlServer::serve_tcp`] start listeners;
//!   [`Access`] says who may call what.
//!
//! # What watchers get
//! Every change of an object gets the next number (a revision), and the newest number of each object is kept in order. A watcher
//! is nothing but the number up to which it has been told: it asks for what is newer, and gets each object once, as it is then.
//! So there is no queue per watcher, several changes of one object become one for whoever is slow, and the initial set is the
//! same question, asked from zero. Of what is gone the last [`Limits::gone`] of each kind are remembered; a watcher that has
//! not heard of one that is forgotten is ended with `ABORTED`, and starts again.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | history, one | the daemon, from [`History::open`] | events and alerts (bounded to [`HistoryLimits::queue`]; what does not fit is counted and told) | database, a `watch` of the newest numbers | when every [`History`] is gone |
//! | servers, one per listener | [`ControlServer`] | connections | answers | with [`ControlSocket::shutdown`], or [`RunningServer::shutdown`](muster_rpc::server::RunningServer::shutdown) |
//!
//! Watchers and followers are streams that are polled by their connection; they wait on a `watch` and hold nothing back. A
//! connection is pinged after 10 s of silence, so that a watcher ends with its client, however that ended.
//!
//! # Invariants
//! * What a watcher has been told, put together, is what the lists say, whenever it has caught up.
//! * One fact costs what it touches: no call looks at all nodes or all instances but [`UnitView::progress`], which compares
//!   two snapshots without holding anybody up.
//! * Events and alerts are told only after they are on disk; they are the same after a restart.
//! * Everything is bounded: messages, pages, streams ([`Limits`]), and history, by count and age.
//! * Nobody calls anything without being let in by [`Access`], whose table is in its documentation.
//!
//! # What this crate does not do
//! It decides nothing about the Unit, and asks nodes nothing: it shows what it was told. It knows of no cloud protocol and
//! keeps no desired status; those are the daemon's, behind [`Operations`].

#![forbid(unsafe_code)]

mod access;
mod facts;
mod history;
mod limits;
mod listen;
mod operations;
mod service;
mod state;
mod view;
mod wire;

pub use self::access::{Access, Call, CallDenied, Caller, Grant, Permission};
pub use self::facts::{CloudFacts, NodeConfigFacts, Note, NoteKind, UnitAbout};
pub use self::history::{History, HistoryError, SCHEMA};
pub use self::limits::{HistoryLimits, Limits};
pub use self::listen::{ControlSocket, ServeControlError};
pub use self::operations::{
    LogPart, LogRequest, LogSource, Operation, OperationError, Operations, PlannedPlace, Previewed,
};
pub use self::service::{ControlServer, Parts};
pub use self::view::UnitView;
