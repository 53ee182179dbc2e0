//! Keys and certificates of a node: who makes keys, which certificate belongs to which, and signing
//! with keys that never leave their token.
//!
//! # Entry points
//! * [`CertHandler`] owns the keys and certificates of every type of a node. It makes keys and signing
//!   requests, takes certificates, finds them, and tells subscribers when one is replaced.
//!   Its configuration is [`ModuleConfig`], read from [`RawModuleConfig`] (`certModules`).
//! * [`KeyModule`] is a place for keys. There are two: [`FileModule`] and [`Pkcs11Module`].
//! * [`UrlCertSource`] gives [`muster_tls::CertStore`] the certificate and key behind two URLs, also
//!   ones in a token: TLS then signs in there ([`TokenSigningKey`]).
//! * [`CertUrl`] parses and prints `file:` and `pkcs11:` URLs.
//!
//! ```no_run
//! # fn example(config: Vec<muster_keys::ModuleConfig>) -> Result<(), Box<dyn std::error::Error>> {
//! use muster_keys::{CertHandler, CertType, CsrSubject};
//!
//! let handler = CertHandler::new(config, "/var/lib/muster/iam/keys".as_ref())?;
//! let sm = CertType::new("sm")?;
//! handler.set_owner(&sm, "")?;
//! let subject = CsrSubject::new("system-1").uri("spiffe://system-1/node/n1/sm");
//! let csr = handler.create_key(&sm, &subject)?;
//! # let sign = |_: &str| String::new();
//! let info = handler.apply_cert(&sm, &sign(csr.as_pem()))?;
//! println!("{} is at {}", info.cert_type, info.cert_url);
//! # Ok(())
//! # }
//! ```
//!
//! # Tasks and channels
//! There are no tasks. Everything that touches a disk or a token blocks the caller; asynchronous callers
//! use a blocking thread. Calls for one type wait for each other, calls for different types do not.
//! [`CertHandler::subscribe`] is a `watch` channel of the newest certificate: it is sent after the
//! certificate is durable and before the call that applied it returns.
//!
//! # How keys and certificates live
//! ```text
//!             create_key            apply_cert              maxItems newer ones
//! (nothing) -----------> pending --------------> newest ... -------------------> removed
//!                          | create_key for another subject
//!                          +-----------------------------------------------------> removed
//! ```
//! A type has at most one pending key. Asking for the same again gives the same request for the same
//! key. A certificate is taken if it belongs to the pending key or renews one of a key that has one, if
//! its chain holds together, and if it is valid now and for what the configuration wants. It is stored
//! and recorded before the oldest is removed, so at every moment there is a certificate with its key.
//!
//! # Invariants
//! * The module is the truth about which keys and certificates exist. Beside it, each type has an index
//!   (`<type>.json`) for what a module cannot tell: order, the pending request, and what is to be
//!   removed. A lost or damaged index costs no certificate.
//! * Each step is durable before the next one begins, and a process killed between two of them
//!   ([`FAULT_POINTS`]) leaves something that the next start completes or takes back.
//! * After a failed call, what the store really has is looked at anew.
//! * Private keys are signing objects. Keys, PINs and passwords are in no log, error or `Debug` output.
//! * Keys in a token are made there, sensitive and not extractable. A token that exists is never
//!   initialised again.
//! * What comes from outside (chains, URLs, index and PIN files) is bounded and parsed without panics.
//!
//! # Time that signing takes
//! rustls asks for the signature while a handshake is polled, so the thread waits for the token. Measured
//! with SoftHSM 2.6 on a busy machine with two cores: 1.2 ms for EC P-384 and 1.4 ms for RSA 2048
//! (medians). A slow token (a smart card takes 100 ms and more) holds up everything else on a runtime
//! with one thread; servers with such a token use several.
//!
//! # What this crate does not do
//! It is no certificate authority and does not judge whether an issuer is to be trusted: peers do, by
//! their roots. It renews nothing by itself. It makes no RSA keys in files (the cryptography in use
//! cannot; a token can) and does not encrypt key files: whoever may read the folder owns the keys.
//! Owners of other kinds of tokens (TPM) reach them through a PKCS#11 library.

mod chain;
mod clock;
mod config;
mod durable;
mod faults;
mod file_module;
mod handler;
mod index;
mod info;
mod module;
mod names;
mod pkcs11;
mod reconcile;
mod request;
mod source;
mod url;

pub use chain::CheckChainError;
pub use config::{
    AlternativeName, KeyPurpose, ModuleConfig, ModuleConfigError, RawModuleConfig, RawModuleParams,
    Storage, TokenConfig, TokenPlace,
};
pub use faults::FAULT_POINTS;
pub use file_module::{FileModule, FileModuleError};
pub use handler::{
    ApplyCertError, CertHandler, CreateKeyError, FindCertError, KeyStoreError, OpenHandlerError,
    OwnerError,
};
pub use index::IndexError;
pub use info::CertInfo;
pub use module::{Contents, KeyModule, KeyModuleError};
pub use names::{CertType, KeyAlgorithm, KeyId, ParseCertTypeError, ParseKeyIdError};
pub use pkcs11::{Pkcs11Module, TokenError, TokenSigningKey};
pub use request::{Csr, CsrSubject, MakeRequestError};
pub use source::UrlCertSource;
pub use url::{CertUrl, ObjectKind, ParseUrlError, PinSource, Pkcs11Uri};
