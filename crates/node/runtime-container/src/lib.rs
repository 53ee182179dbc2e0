//! Instances as containers of an OCI runtime, each a unit of the init system at hand. runc and crun are tested; youki is called in
//! the same way, and is not.
//!
//! ```text
//!   launcher --InstanceSpec--> ContainerRuntime --UnitSpec--> muster-core | systemd
//!                                   |                               |
//!                       bundle + overlay in FOLDER/ID      muster-container start -> OCI runtime -> the program
//!                                                          muster-container end   (after each end)
//! ```
//!
//! # Who does what
//! * [`specification`] decides: an instance and facts about the host in, an OCI specification out. Pure.
//! * [`Containers`] is what [`muster_bundle::Supervised`] needs to know about containers; the two together are the
//!   [`ContainerRuntime`], a [`muster_runtime::Runtime`]. [`Containers::runtime`] makes one.
//! * The unit's command (`muster-container`, module [`unit`]) makes room in the unit's cgroup and becomes the OCI runtime,
//!   which starts the program and ends. From then on the program itself is the unit's main process: the init system signals
//!   it, sees its end and restarts it, whether or not a Service Manager is there, and nothing of ours or of the OCI runtime's
//!   stays in memory beside it.
//!
//! # Tasks and channels
//! None of its own; see [`muster_bundle`].
//!
//! # Invariants
//! * Exactly one writer sets an instance's limits: the OCI runtime, in a cgroup below the unit's, which is delegated to it.
//! * What an item asks for is given or refused by name, never left out.
//! * The specification, which holds the instance's secret, is readable by root only.
//!
//! # Deliberately absent
//! Making networks and storage (the instance comes with them), images (their layers are folders here), and a process that
//! stays beside each container. A program that runs as process 1 of its namespace and does not handle SIGTERM is killed after
//! its grace, as everywhere.

mod facts;
mod oci;
mod runtime;
pub mod specification;
pub mod unit;

pub use self::oci::FindRuntimeError;
pub use self::runtime::{
    ContainerConfig, ContainerError, ContainerRuntime, Containers, UNIT_PREFIX, WRITABLE_ROOT,
};
