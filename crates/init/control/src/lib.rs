//! What the service manager's own programs say to each other: the types of the varlink interface `io.muster.Manager`
//! between `muster-core` and its clients ([`manager`]), and of the feed from `muster-core` to `muster-logd` ([`feed`]).
//!
//! Plain serde values, no transport and no behaviour. Whoever changes one thinks of the other side being a version older
//! or newer: fields are only added, with a default; unknown fields are ignored; words are open (an unknown word is shown
//! as it is, never an error for the reader).
//!
//! # Map
//! - [`manager`]: one module per theme: jobs, units, properties, transient units, events, the machine.
//! - [`feed`]: the messages that come with a descriptor or a structured log line.
//! - [`socket_path`]: where the control socket is.

#![forbid(unsafe_code)]

pub mod feed;
pub mod manager;

use std::path::PathBuf;

/// The control socket, below the runtime folder.
pub const CONTROL_SOCKET: &str = "io.muster.Manager";
/// The folder of everything that lives as long as the machine is up.
pub const RUNTIME_FOLDER: &str = "/run/muster";
/// The environment variable that names another control socket.
pub const CONTROL_VARIABLE: &str = "MUSTER_CONTROL";

/// Where the control socket is: what the caller says, else the environment, else below `/run`.
#[must_use]
pub fn socket_path(explicit: Option<PathBuf>) -> PathBuf {
    explicit
        .or_else(|| std::env::var_os(CONTROL_VARIABLE).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(RUNTIME_FOLDER).join(CONTROL_SOCKET))
}
