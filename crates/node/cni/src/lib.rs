//! Runs CNI plugins: lists of them, in order up and in reverse order down, with their results kept.
//!
//! The container network interface (CNI 1.0) is a contract between whoever makes containers and small programs that each do
//! one thing to a network namespace. A list of plugins makes up a network; each gets the result of the one before. This
//! crate is the side that calls them.
//!
//! # Entry points
//! * [`NetworkList`]: the plugins of a network and their configuration, read and checked.
//! * [`Attachment`]: the container, its namespace, the link's name in it, and what else plugins are told.
//! * [`Runner`]: [`Runner::add`], [`Runner::check`], [`Runner::del`].
//!
//! ```no_run
//! use std::time::Duration;
//! use muster_cni::{Attachment, NetworkList, Runner};
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let list = NetworkList::parse(br#"{"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "loopback"}]}"#)?;
//! let runner = Runner::new(vec!["/usr/lib/cni".into()], "/run/muster/cni".into(), Duration::from_secs(30));
//! let attachment = Attachment::new("container-1", "/run/netns/one", "eth0")?;
//! let result = runner.add(&list, &attachment).await?;
//! println!("{:?}", result.addresses());
//! runner.del(&attachment).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is kept
//! One file for each attachment, replaced atomically: the list and the attachment before the first plugin runs, and the
//! latest result after each. [`Runner::del`] works from that file alone, so that a container can be taken out of its network
//! by a program that knows no more than its name: after a crash in the middle, and with the configuration by which it was
//! put in. The file goes when all plugins have succeeded in removing what is theirs.
//!
//! # Failures
//! A plugin that hangs is killed with its whole process group; one that writes more than 64 KiB, garbage, half an answer or
//! nothing, or ends in any way but well, is an error that names plugin, command and container ([`PluginError`]). When a
//! plugin's ADD fails, it and those before it are asked to DEL, the last one first. A failing DEL does not keep the others
//! from theirs.
//!
//! # Invariants
//! * A plugin is found in the configured folders only, and its name is no path.
//! * Plugins get the environment of the specification and a fixed search path, and nothing else of the caller's.
//! * Dropping a future kills the plugin that it waits for. What it has done is then undone by [`Runner::del`].
//! * A plugin that outlives a killed caller is waited for before the next one of the same container runs.
//!
//! # What this crate does not do
//! It does not make namespaces, reads no configuration folders, runs no task, and does not keep two callers from working on
//! the same attachment at the same time. Versions before 0.4.0 are not spoken.

#![forbid(unsafe_code)]

mod attachment;
mod cache;
mod error;
mod exec;
mod list;
mod result;
mod runner;

pub use attachment::{Attachment, InvalidAttachment};
pub use cache::CacheError;
pub use error::{AddError, CheckError, CniCommand, DelError, PluginError, PluginFault};
pub use list::{InvalidList, NetworkList, PluginConfig};
pub use result::{CniResult, Interface, InvalidResult};
pub use runner::{FAULT_POINTS, Runner};
