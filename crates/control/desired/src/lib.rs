//! What a Unit shall run, and the way there.
//!
//! A desired status comes from the cloud or from an operator. This crate knows what it means, what it changes, and what was
//! wanted before; and it brings the Unit there: items are downloaded, instances are placed and given to nodes, and everybody is
//! told what became of each. It goes on after its own death, after restarts of nodes, and when a part of it fails.
//!
//! # Entry points
//! * [`DesiredStatus`] is what is wanted. [`DesiredStatus::read`] makes it from YAML or JSON that people write, with errors that
//!   name line and key; [`Document::check`] from a [`Document`], which is what a converter of the cloud's message fills.
//! * [`diff`] tells what one changes about another, a line for each change.
//! * [`Updates::start`] recovers from the database and gives the handle and the one task. [`Updates`] is the handle:
//!   [`apply`](Updates::apply), [`rollback`](Updates::rollback), [`preview`](Updates::preview),
//!   [`versions`](Updates::versions), [`progress`](Updates::progress), and what nodes tell.
//! * [`seams`] are the parts of the Communication Manager that it uses: downloads, the balancer, nodes, reports.
//! * [`machine::Machine`] decides, without clock and I/O. Its documentation has the steps and how they follow each other.
//!
//! # The document
//! ```yaml
//! items:
//! - id: web                       # its name
//!   version: 1.2.0
//!   owner: acme                   # [default: nobody]
//!   type: service                 # or component [default: service]
//!   image:                        # one of these:
//!     layout: web.tar             #   an OCI image layout, folder or tar; name: which of its images
//!     registry: host/web:1.2      #   a registry; also user, passwordFile, ca, insecure
//!     digest: sha256:...          #   of the index; alone: the cloud has it
//! instances:
//! - item: web
//!   subject: local                # whom it runs for [default: local]
//!   count: 2                      # [default: 1]
//!   priority: 10                  # higher is more important [default: 0]
//!   labels: [gpu]                 # a node must have all of them
//!   node: node-2                  # the only node that may run it
//!   distribution: spread          # best or spread [default: best]
//! nodes:
//! - {id: node-3, paused: true}    # keeps what it runs, gets nothing new
//! env:
//! - {item: web, subject: local, instance: 0, variables: {COLOUR: red}}
//! unitConfig: {formatVersion: "1", version: 2.0.0, nodes: []}
//! ```
//! Also `subjects`, `certificates` and `certificateChains`, which the cloud sends. Paths are relative to the document.
//!
//! # Failures
//! An item that cannot be had is told, and what ran of it in an earlier version goes on. An instance that has no place, or
//! fails, is told; the others are not touched. A balancer that fails leaves everything as it is. An update that hangs never
//! holds up the next: a wish that differs takes its place at once. Asking for the same again tries again what failed.
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | updates, one | the daemon, from [`Updates::start`] | commands (bounded to 64), ends of actions, deadlines | database, actions, [`seams::Reports`], a `watch` of [`Progress`] | when every handle is gone, or it is dropped, which is safe at any time |
//! | actions: [`Limits::downloads`] downloads, one question, [`Limits::sends`] messages to nodes, one each | the task | a seam | its end | with its answer, or after [`Limits::answer`] |
//!
//! # Invariants
//! * What is decided is on disk before it is done or reported; [`Updates::apply`] answers when the wish is.
//! * All actions that change something (not downloads) belong to one update at any time.
//! * A wish that was accepted comes to its end, if it is not replaced: every wait has a limit.
//! * The newest wish is what is in force, whatever dies.
//! * A paused node is sent nothing.
//!
//! # What this crate does not do
//! It downloads nothing itself, places nothing and opens no connection; it does not know how the cloud's message looks, and
//! does not keep which subjects are there or what nodes can do: the balancer's seam does.

#![forbid(unsafe_code)]

mod database;
mod diff;
mod document;
mod driver;
mod fault;
mod handle;
mod limits;
pub mod machine;
mod progress;
pub mod seams;

pub use self::database::{LoadError, SCHEMA};
pub use self::diff::{Change, ChangedObject, Difference, diff};
pub use self::document::{
    CertificateEntry, ChainEntry, DesiredStatus, DistributionName, Document, DocumentProblem,
    EnvEntry, EnvOverride, EnvText, ImageEntry, ImageSource, Instances, InstancesEntry,
    InstancesKey, InvalidDocument, Item, ItemEntry, ItemKind, LOCAL_SUBJECT, NodeEntry,
    RegistryAccess, Subject, SubjectEntry, SubjectKind, Trust, UnitConfigText, to_yaml,
};
pub use self::driver::Parts;
pub use self::fault::FAULT_POINTS;
pub use self::handle::{ApplyError, Preview, StartUpdatesError, Updates};
pub use self::limits::Limits;
pub use self::machine::{Accepted, Origin, RollbackError, UpdateId, UpdateStep, Version};
pub use self::progress::{
    Bytes, Condition, InstanceChange, InstanceProgress, InstanceTable, ItemProgress, Progress,
};
