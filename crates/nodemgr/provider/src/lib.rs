//! Whoever makes machines, seen in one way: the [`Provider`] trait, what every provider promises, and the two that need
//! nobody else: this machine itself, and a simulated cloud.
//!
//! # Entry points
//! * [`Provider`] is the trait: provision, destroy, describe, list ours, and the verbs of [`muster_lifecycle`]. Calls are
//!   boxed futures, so providers are held as `Arc<dyn Provider>`.
//! * [`Profile`] is what a provider says it can do, and it says no more than that: [`VerbSet`](muster_lifecycle::VerbSet),
//!   ways to use its machines ([`Capability`]: `ssh:exec`, read in either order), spot machines, isolation.
//! * [`Mark`] is what stands on everything that is made: whose it is, which machine, which order. [`Owned`] is a machine with
//!   the mark it must bear; nothing is changed that bears another.
//! * [`ProviderError`] says which provider failed at what, and by its [`FailureClass`] what that means for the caller.
//! * [`Quota`] is how much of a provider may be used, [`Used`] how much is.
//! * [`sim::SimCloud`] is the simulated cloud: latency, failures, lost answers, capacity, quotas, interruptions, drawn from a
//!   seed; in a file, it outlives the process. [`local::LocalProvider`] is this machine, and says that it is insecure.
//! * `testing` (feature `testing`) is the conformance suite, and a clock to set.
//!
//! # What a provider promises
//! 1. A token makes at most one machine, whether calls come one after another, at the same time, or after a lost answer.
//! 2. A machine bears its mark from the first moment that it exists.
//! 3. Destroying what is gone, or never was, succeeds.
//! 4. A machine with another mark, or none, is neither listed nor changed.
//! 5. What it cannot do fails as unsupported and has changed nothing.
//! 6. It says who answers, if that can change behind its name ([`Home`]): another engine that knows a machine not says nothing
//!    about it.
//!
//! # Tasks
//! A provider does what it is asked while it is asked; retries, deadlines and order are the registry's. Only what takes longer than
//! a call may, such as fetching an image, goes on without the call that began it, in an [`Ongoing`].
//!
//! # What this crate does not do
//! It keeps nothing about machines: `muster-machines` does. It runs no commands in machines and copies no files: executors
//! do, chosen by a machine's capabilities. Providers with dependencies of their own (Docker, libvirt, EC2) are other crates.

#![forbid(unsafe_code)]

mod capability;
mod clock;
mod error;
mod fault;
pub mod local;
mod mark;
mod name;
mod ongoing;
mod provider;
mod quota;
pub mod sim;
mod ssh;
#[cfg(feature = "testing")]
pub mod testing;

pub use capability::{Capabilities, Capability, Means, Transport, UnknownCapability};
pub use clock::{Clock, SystemClock};
pub use error::{BoxError, FailureClass, Operation, ProviderError};
pub use fault::FAULT_POINTS;
pub use mark::{Mark, Owned};
pub use muster_mapping::MachineSpec;
pub use muster_template::ProviderId;
pub use name::{ClientToken, Home, InvalidName, MachineId, ManagerId, ResourceId};
pub use ongoing::Ongoing;
pub use provider::{Answer, Described, Isolation, Order, Profile, Provider, Purchase};
pub use quota::{Quota, Used};
pub use ssh::{Secret, SshSeed};
