//! The client of an identity manager (IAM), for everybody else on a device: typed calls, values that
//! are followed for ever, and certificates that renew themselves under running servers.
//!
//! It makes calls of the wire (`iamanager.v6`) only, so it works with any IAM that serves them.
//!
//! # Entry points
//! * [`IamClient::new`] with the [`IamTarget`] of the public port, and
//!   [`IamClient::with_protected`] with that of the protected one; or [`IamClient::local`] over the
//!   unix socket of the same node, which serves both.
//! * Calls answer domain types; see [`IamClient`].
//! * [`IamClient::follow_cert`], [`follow_subjects`](IamClient::follow_subjects),
//!   [`follow_current_node`](IamClient::follow_current_node) and
//!   [`follow_nodes`](IamClient::follow_nodes) give a [`Follow`]: the latest value, and its changes.
//! * [`IamCertStore::open`] is a [`muster_tls::CertStore`] whose certificate is IAM's, kept current.
//!
//! How a daemon gets from nothing to mutual TLS:
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::PathBuf;
//! use muster_api::domain::CertType;
//! use muster_iamclient::{IamCertStore, IamClient, IamTarget};
//! use muster_rpc::Target;
//! use muster_tls::*;
//!
//! let iam = || ServerName::Spiffe(ExpectedServer::role(Role::Iam));
//! let roots = vec![PathBuf::from("/etc/muster/ca.pem")];
//! let trust = CertStore::open(FileCertSource::trust_only(&roots[0])).await?;
//! let public = ClientTls::without_certificate(&trust, iam(), ClientOptions::default())?;
//! let client = IamClient::new(IamTarget::Tcp(Target::new(public, "localhost:8090")?));
//!
//! let certs = IamCertStore::open(&client, CertType::Sm, roots, Vec::new()).await?;
//! let protected = ClientTls::mutual(certs.store(), iam(), ClientOptions::default())?;
//! let client = client.with_protected(IamTarget::Tcp(Target::new(protected, "localhost:8089")?));
//! # drop(client);
//! # Ok(())
//! # }
//! ```
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | follower, one per [`Follow`] | the `follow_` calls | a stream of changes and a call for the value, again after every loss (0.25 to 5 s) | [`Followed`] on a `watch` channel | with the [`Follow`] |
//! | renewal, one per [`IamCertStore`] | [`IamCertStore::open`] | the certificate's [`Follow`] | reloads of the store, again after a failure (1 to 30 s) | with the [`IamCertStore`] |
//!
//! # How a value is followed
//! The wire's streams tell changes only. So a follower opens the stream, asks for the value, and
//! then listens: nothing that changes in between is missed. Some servers send a stream's headers
//! only with its first message; a follower does not wait for them, and asks once more when they come
//! late. While IAM is away the last value stays, with [`Followed::problem`] saying why.
//!
//! # Invariants
//! * A call ends by its deadline: 30 s, where IAM asks another node 70 s, and 310 s for provisioning,
//!   each longer than IAM's own limit, so that its answer is heard.
//! * A failure that IAM reports inside an answer is an error like any other; the error names the call
//!   and the object.
//! * Subscribers hear of changes, and only of changes.
//! * Passwords and secrets are in no error, log or `Debug` output.
//! * A renewed certificate that cannot be loaded never replaces a working one.
//!
//! # What this crate does not do
//! It does not retry calls: whoever makes one knows whether to. It keeps nothing on disk, and decides
//! nothing about trust: targets come with their TLS. `RegisterNode` is the node registry's.

#![forbid(unsafe_code)]

mod cert_store;
mod client;
mod error;
mod feed;
mod follow;
mod protected;
mod public;
mod target;
mod types;

pub use cert_store::{IamCertStore, OpenCertStoreError};
pub use client::IamClient;
pub use error::IamCallError;
pub use follow::{Follow, Followed};
/// Answered by [`IamClient::system_info`]: plain text, nothing to be valid or invalid.
pub use muster_api::iamanager::v6::SystemInfo;
pub use target::IamTarget;
pub use types::{CertInfo, Granted, Grants, InstanceSecret};
