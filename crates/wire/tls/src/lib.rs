//! Mutual TLS for every connection between Muster's processes: certificates that renew themselves
//! under running servers, peers known by SPIFFE identity, and clear words for whoever is refused.
//!
//! # Entry points
//! * [`CertStore::open`] loads a certificate chain, its key, the CA roots and revocation lists from a
//!   [`CertSource`] ([`FileCertSource`]: PEM files) and keeps them current.
//! * [`ServerTls`] says how a server protects its port: [`mutual`](ServerTls::mutual),
//!   [`server_only`](ServerTls::server_only) or, with a reason, [`insecure`](ServerTls::insecure).
//!   [`ServerTls::incoming`] turns a listener into a stream for tonic's `serve_with_incoming`.
//! * [`ClientTls`] says how a client does, and [`ClientTls::connector`] goes into tonic's
//!   `Endpoint::connect_with_connector`. What makes a server the right one is always said:
//!   [`ServerName`].
//! * [`Allow`] is a table of who may call; [`peer_identity`] is who did.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use muster_tls::*;
//!
//! let store = CertStore::open(FileCertSource::mutual("sm.pem", "sm.key", "ca.pem")).await?;
//! let server = ServerTls::mutual(&store, IdentityPolicy::spiffe_only(), ServerOptions::default())?;
//! let incoming = server.incoming(tokio::net::TcpListener::bind("[::]:8093").await?);
//! # drop(incoming);
//! let cm = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
//! let client = ClientTls::mutual(&store, cm, ClientOptions::default())?;
//! let channel = tonic::transport::Endpoint::from_static("https://main:8093")
//!     .connect_with_connector_lazy(client.connector());
//! # drop(channel);
//! # Ok(())
//! # }
//! ```
//!
//! # Tasks and channels
//! | task | started by | in | out | ends |
//! |---|---|---|---|---|
//! | certificate watcher, one per store | [`CertStore::open`] | inotify on the files' folders, a rescan every 30 s unless the [source](CertSource::rescans) wants none, reload requests (bounded to 8) | [`Generation`]s on a `watch` channel | with the last clone of the store |
//! | accept loop, one per listener | [`ServerTls::incoming`] | the listener | ready connections (bounded to 32) | when [`Incoming`] is dropped |
//! | handshake, one per new connection, bounded | accept loop | one socket | one [`TlsIo`], or one log line | at the deadline at the latest |
//!
//! # How certificates change
//! The watcher looks at the files once their folders have been quiet for 100 ms, so that a certificate
//! and its key, replaced one after the other, are read together. What cannot be used (a key of another
//! certificate, half a file, no file) is logged once and the old generation stays; the next change is
//! another try. A new generation is used by every connection made from then on. The listener stays
//! open and running connections go on, also those of a peer revoked meanwhile: closing them is up to
//! whoever knows what they carry ([`CertStore::subscribe`]).
//!
//! # Invariants
//! * Sessions are never resumed, on either side: every connection shows and checks certificates of
//!   the current generation.
//! * A peer has an identity only if its chain was verified in this connection's handshake, and then
//!   exactly one: its SPIFFE URI, or else the first mapping rule that matches.
//! * A SPIFFE id has one spelling, and roles never come from a foreign certificate's text.
//! * Where revocation lists are given, a certificate whose CA has none is refused. A list past its
//!   renewal date stays in force, with a warning: devices are offline for long.
//! * Private keys are signing objects ([`rustls::sign::SigningKey`]). They are in no log, error or
//!   Debug output.
//! * Text from certificates is bounded and escaped before it is logged.
//!
//! # Refused peers
//! One warning each, `TLS peer refused`, with address, reason in words and what the certificate says.
//! After 20 at once, one a second; `suppressed` counts the others. The client gets the precise TLS
//! alert.
//!
//! # What this crate does not do
//! It issues no certificates, fetches no revocation lists, speaks no OCSP, and reads no configuration
//! (its types are plain, the daemons' configuration maps to them). Unix sockets need no TLS. tonic's own
//! TLS features stay off: they know neither hot swap nor identities.

mod authorize;
mod client;
mod facts;
mod files;
mod folder_watch;
mod identity;
mod incoming;
mod mapping;
mod material;
mod peer;
mod refusal;
mod server;
mod setup;
mod spiffe;
mod store;
mod verify;

pub use authorize::{Allow, Denied, peer_identity};
pub use client::{
    ClientOptions, ClientTls, ConnectTlsError, Connector, ExpectedServer, ServerName,
};
pub use facts::{CertFacts, CertNames, CertSummary, ReadCertError};
pub use files::FileCertSource;
pub use folder_watch::FolderWatch;
pub use identity::{IdentifyError, IdentityOrigin, IdentityPolicy, PeerIdentity, spiffe_id};
pub use incoming::Incoming;
pub use mapping::{
    CertField, Condition, MapIdentityError, MappedIdentity, MappingRule, Pattern, Take,
};
pub use material::{
    CertMaterial, CertSource, LoadCertError, LoadWarning, OwnCert, OwnCertError, Trust,
};
pub use peer::{Peer, TlsConnectInfo, TlsIo};
pub use server::{ServerOptions, ServerTls};
pub use setup::{Alpn, Insecure, NoReasonError, TlsSetupError};
pub use spiffe::{NodeId, ParseSpiffeError, Role, RoleName, SpiffeId, SystemId};
pub use store::{CertStore, Generation, ReloadError};

// Part of the public interface: a source of certificates is written against these versions.
pub use rustls;
pub use rustls_pki_types;
