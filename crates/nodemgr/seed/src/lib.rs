//! What a new machine is told at its first boot: who may log in, and how it proves that it is the machine that was ordered.
//!
//! # Entry points
//! * [`ManagerKeys`] are a manager's keys: [`open`](ManagerKeys::open) reads its one secret, or draws it.
//!   [`seed`](ManagerKeys::seed) gives a machine's keys, [`client`](ManagerKeys::client) the key that the manager logs in with,
//!   [`host_public`](ManagerKeys::host_public) what a machine is known by.
//! * [`user_data`] and [`meta_data`] are documents of cloud-init that say it.
//!
//! # Where keys come from
//! All follow from the manager's secret: the client's key from it alone, a machine's host key from it and the token of its order.
//! Nothing has to be written down before a machine is ordered, an order that is repeated after a crash gives the same key, and
//! what a machine is known by is certain before it answers for the first time: nobody is ever trusted because he was first.
//!
//! # Invariants
//! * The secret is readable by the manager's user only, and neither it nor a private key is shown by `Debug`.
//! * User data of the template cannot take the machine's keys or the manager's access away: it is merged into ours.
//!
//! # What this crate does not do
//! It speaks no ssh and makes no disks; executors and providers do.

#![forbid(unsafe_code)]

mod documents;
mod keys;
mod openssh;

pub use documents::{DEFAULT_USER, meta_data, user_data};
pub use keys::{ClientKey, ManagerKeys, OpenKeysError};
