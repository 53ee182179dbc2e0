//! What instances may do with functional servers, and the secrets by which they prove who they are.
//!
//! An instance that may use a functional server (a vehicle signal server, a database) is registered
//! with its permissions and gets a secret in its environment. It shows the secret to the server; the
//! server asks what the holder may do.
//!
//! # Entry points
//! * [`Permissions::open`] over a store that has [`SCHEMA`], and the file of the node's key.
//! * [`Permissions::register`], [`Permissions::look_up`], [`Permissions::unregister`].
//!
//! ```
//! use muster_api::domain::{InstanceIdent, ItemId, ItemType, SubjectId};
//! use muster_permissions::{Grants, Limits, Permissions, SCHEMA};
//! use muster_store::{OnDamage, Store, StoreConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let config = StoreConfig::new(folder.path().join("iam.db"), "doc", OnDamage::StartEmpty);
//! let store = Store::open(&config.schema(&SCHEMA))?.store;
//! let key = folder.path().join("permissions.key");
//! let permissions = Permissions::open(store, &key, Limits::default())?;
//!
//! let instance = InstanceIdent {
//!     item_id: ItemId::new("navigation")?,
//!     subject_id: SubjectId::new("driver")?,
//!     instance: 0,
//!     item_type: ItemType::Service,
//!     preinstalled: false,
//! };
//! let mut grants = Grants::default();
//! grants.allow("vis", "Signal.Speed", "r")?;
//! let secret = permissions.register(&instance, &grants).await?;
//! let granted = permissions.look_up(secret.expose(), "vis").await?;
//! assert_eq!(granted.instance, instance);
//! assert_eq!(granted.permissions["Signal.Speed"], "r");
//! # Ok(())
//! # }
//! ```
//!
//! # Secrets
//! Registering an instance again has to answer the same secret: a Service Manager that was restarted
//! registers what it runs, while the instances go on with what they were given. Yet no secret may
//! lie on the disk. So a secret is not kept but made again:
//!
//! > secret = HMAC-SHA-256 (node key, nonce, instance), in hexadecimal
//!
//! The *node key* is 256 bits from the kernel's generator in a file of its own (mode 0600, made once).
//! The *nonce* is 256 bits from the same generator, drawn at every first registration and kept in the
//! database, so an instance that was unregistered never gets its old secret again. Beside it the
//! database keeps SHA-256 of the secret, by which a shown secret is found. Whoever reads only the
//! database, or only the key, has no secret.
//!
//! When the key file is lost, running instances stay recognised, since their hashes are in the
//! database; an instance registered again then gets a new secret, and a warning says so.
//!
//! Looking up compares hashes: what an attacker could learn from the time an index takes is how much
//! of the *hash* of his guess was right, which says nothing about the secret. The final comparison
//! takes the same time for every value.
//!
//! # Invariants
//! * What [`Permissions::register`] has answered is on the disk, and found again after a `kill -9` or
//!   a restart; what [`Permissions::unregister`] has answered is gone.
//! * One instance has one secret, and two instances never the same. Whose secret it is does not
//!   depend on the item's type or on being preinstalled, as with the instance's id.
//! * Registering again replaces what is allowed as a whole, and keeps the secret.
//! * Secrets and keys are in no log, no error and no `Debug` output, and memory that held one is
//!   wiped.
//! * Sizes and numbers are bounded by [`Limits`], and a refusal says which.
//!
//! # What this crate does not do
//! It runs no task; the store's thread is the one owner of the data. It does not know what a
//! permission or its mode means: that is between the functional server and the item. It does not
//! decide who may register: that is the identity manager's table of callers.

#![forbid(unsafe_code)]

mod error;
mod fault;
mod grants;
mod key_file;
mod permissions;
mod schema;
mod secret;

pub use error::{LookUpError, RegisterError, UnregisterError};
pub use fault::FAULT_POINTS;
pub use grants::{Grants, InvalidGrant, Limits, OverLimit};
pub use permissions::{Granted, Permissions};
pub use schema::SCHEMA;
pub use secret::{NoRandomness, Secret};
