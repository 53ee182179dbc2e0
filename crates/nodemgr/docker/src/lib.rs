//! Machines that are containers of a Docker engine: made, used and taken away through the engine's API.
//!
//! # Entry points
//! * [`Engine`] is the way to an engine at an [`Endpoint`]: a socket, or a port without encryption. The first request finds out
//!   which version of the API both sides speak. Clones are cheap and share that.
//! * [`DockerProvider`] makes and destroys containers, as a [`Provider`](muster_provider::Provider).
//! * [`DockerExecutor`] runs commands in one and moves files, as an [`Executor`](muster_executor::Executor). Its machine's name is
//!   the [`ResourceId`](muster_provider::ResourceId) that the provider gave: the container's whole id.
//!
//! # What a machine is
//! | of the description | of the container |
//! |---|---|
//! | `image`, `digest`, `arch` | the image, by its checksum where one is known; pulled without credentials if the engine lacks it |
//! | `cpus`, `memoryMB` | limits; no swap beyond the memory |
//! | `diskMB` | a limit where the storage driver has one; where not, `details` say so |
//! | `user`, `env`, `labels`, `network` | the same |
//! | `command` (extra) | what runs, as a list of words or a line for `sh`; without it, something that waits. The image's own command and health check are not used. |
//! | `init` (extra) | whether a small init reaps orphans; yes, unless the command is an init itself |
//! | `mounts` (extra) | `source:target[:ro]`, or maps with `type` (bind, volume, tmpfs), `source`, `target`, `readOnly` |
//! | `capabilities`, `dropCapabilities` (extra) | those of Linux, with or without `CAP_`, beyond or short of what the engine gives; `ALL` can be dropped |
//! | `seccomp`, `apparmor` (extra) | `unconfined`: no profile holds; otherwise, or with `default`, the engine's does |
//! | `privileged` (extra) | no, unless asked for, and then without the four above |
//!
//! Any other field in `extra` is refused. `details` say what a machine was given beyond the usual, and what Docker has no use for
//! (keys, cloud-init's data); `image` is the image as it was ordered, and `exact` the same with its digest, or `localImage` with the
//! engine's id where no registry is known to have it. Both can be ordered in its place.
//!
//! States: created is pending; running, paused and restarting are running; exited is stopped; removing and dead are shutting
//! down. Pausing is no hibernation: the memory stays in use, and goes with the power. So there is none, and asking is refused.
//!
//! # Which containers are ours
//! One that bears the mark in its labels *and* the name that goes with it, `muster-MACHINE`. The name makes an order
//! idempotent: the engine gives it to one container, whoever asks at the same time. It also tells a machine from what runs
//! from an image that was made of it, which has the same labels. A container that somebody renames is his.
//!
//! An engine forgets what it removes. An order whose machine was destroyed is therefore remembered here, as long as the
//! provider lives; beyond that it is the registry that never repeats such an order.
//!
//! # What the executor needs inside
//! A POSIX shell, and for files `find`, `stat`, `tar`, `touch` and `sha256sum` as busybox or GNU have them; for connections one
//! of `socat`, `nc`, `bash`. An image without a shell runs, but nothing can be done in it, which the error says. Files belong to
//! the container's user, as if he had made them.
//!
//! Of how a command ended the engine tells one number: a command that ends *itself* with 137 looks as if it had been killed.
//! Output beyond a megabyte that nobody has read two seconds after a command's end, the engine throws away.
//!
//! # Tasks
//! One for each connection to the engine, which ends with the exchange; one for each running command, which ends with it (and
//! kills it when nobody wants it any more); one for each forwarded connection; one for each image that is being pulled, which all who
//! want it wait for, and which ends when the engine says nothing for 5 min, or nobody wants it any more. Nothing else runs on its own, and nothing blocks.
//!
//! # Invariants
//! * Nothing that a container prints, lists or packs up makes a path on this side, costs unbounded memory, or panics.
//! * A container is changed only by its whole id, after its mark was compared.
//! * What is destroyed goes with the volumes that have no name, and with nothing else.
//!
//! # What this crate does not do
//! It logs in to no registry, builds no image, makes no network or named volume, publishes no port, and speaks no TLS: a remote
//! engine is reached over a forwarded socket.

#![forbid(unsafe_code)]

mod creation;
mod endpoint;
mod engine;
mod exec;
mod executor;
mod failure;
mod fault;
mod files;
mod image;
mod options;
mod provider;
mod pull;
mod relay;
mod seen;

pub use endpoint::{Endpoint, InvalidEndpoint};
pub use engine::{Engine, EngineError};
pub use executor::DockerExecutor;
pub use fault::FAULT_POINTS;
pub use options::InvalidOption;
pub use provider::DockerProvider;
