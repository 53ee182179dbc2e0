//! Why requests are refused or fail.

use muster_store::StoreError;

use crate::grants::OverLimit;
use crate::secret::NoRandomness;

/// Why an instance is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// More than the limits allow.
    #[error("cannot register instance {instance}")]
    OverLimit {
        /// Which instance.
        instance: String,
        /// Which limit.
        source: OverLimit,
    },
    /// The system gives no randomness for a secret.
    #[error("cannot draw a secret for instance {instance}")]
    Randomness {
        /// Which instance.
        instance: String,
        /// What is wrong.
        source: NoRandomness,
    },
    /// The registration cannot be kept.
    #[error("cannot keep the permissions of instance {instance}")]
    Store {
        /// Which instance.
        instance: String,
        /// What the store said.
        source: StoreError,
    },
}

/// Why a secret is answered nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookUpError {
    /// It is nobody's secret, or not any more.
    #[error("the secret is not one of a registered instance")]
    UnknownSecret,
    /// Its holder may do nothing at this functional server.
    #[error("instance {instance} has no permissions for the functional server {server:?}")]
    NotGranted {
        /// Whose secret it is.
        instance: String,
        /// The server.
        server: String,
    },
    /// What is kept cannot be read; registering the instance again mends it.
    #[error("the kept permissions of instance {instance} cannot be read; register it again")]
    Unreadable {
        /// Which instance.
        instance: String,
    },
    /// The store failed.
    #[error("cannot look permissions up")]
    Store(#[source] StoreError),
}

/// Why an instance is not unregistered.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove the permissions of instance {instance}")]
pub struct UnregisterError {
    /// Which instance.
    pub instance: String,
    /// What the store said.
    pub source: StoreError,
}
