//! Which device this is and for whom it works: identifiers as plugins behind one trait.
//!
//! A device has a system id, a unit model with a version, and subjects: those for whom it runs
//! services at present. Where they come from differs by device, so an [`Identifier`] is a plugin:
//!
//! | plugin | source |
//! |---|---|
//! | `file` (also `fileidentifier`) | text files: the system id; `model;version`; subjects, one per line |
//! | `vis` (also `visidentifier`) | a vehicle's signal server: W3C VISS over a WebSocket, with TLS |
//!
//! # Entry points
//! * [`IdentifierConfig::parse`] reads the configuration's `plugin` and `params`, and names every key
//!   that is wrong.
//! * [`start`] makes the plugin's task and gives an [`Identifier`].
//! * [`Identifier::subscribe`] is the latest [`Identity`] and everything that follows.
//!
//! ```
//! use muster_identifier::{IdentifierConfig, start};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("system-id");
//! std::fs::write(&path, "unit-7\n")?;
//! let params = serde_json::json!({ "systemIDPath": path });
//! let config = IdentifierConfig::parse("file", &params)?;
//! let identifier = start(&config).await?;
//! let mut identity = identifier.subscribe();
//! let known = identity.wait_for(|identity| identity.system.is_some()).await?;
//! assert_eq!(known.system.as_ref().map(|system| system.system_id.as_str()), Some("unit-7"));
//! # Ok(())
//! # }
//! ```
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | file reader | [`start`] with `file` | inotify on the files' folders; a look every 30 s only where a folder cannot be watched | [`Identity`] on a `watch` channel | with the [`Identifier`] |
//! | VIS client | [`start`] with `vis` | one WebSocket, made again for ever with a growing pause (1 to 30 s) | [`Identity`] on a `watch` channel | with the [`Identifier`] |
//!
//! # Invariants
//! * What was known stays: a file that disappears, holds nonsense or is half written, and a server
//!   that is away or answers nonsense, leave the last good identity in place, with
//!   [`Identity::problem`] saying what is wrong. Subjects go only when the source says so.
//! * Subscribers hear of changes, and only of changes.
//! * Messages, files and the numbers of subjects are bounded; what the server sends never panics
//!   (fuzz target `vis_message`). A subject that cannot be one is left out by itself, with a word.
//! * Without TLS the VIS plugin runs only where the configuration says `"insecure": true`, and logs
//!   a warning.
//! * At rest the file reader never wakes up, and the VIS client twice in 30 s: for its ping, and for
//!   a look at the CA certificate.
//!
//! # What this crate does not do
//! It remembers nothing across restarts. It does not make system ids, and does not decide how one
//! stands in a certificate.

#![forbid(unsafe_code)]

mod config;
mod file;
mod identity;
mod plugin;
mod vis;

pub use config::{FileConfig, IdentifierConfig, IdentifierConfigError, VisConfig, VisTransport};
pub use identity::{Identity, SystemInfo};
pub use plugin::{Identifier, StartIdentifierError, start};
pub use vis::message;
