//! Keys in PKCS#11 tokens.
//!
//! # What is in the token
//! | object | `CKA_LABEL` | `CKA_ID` | marks |
//! |---|---|---|---|
//! | private key | certificate type | key id, 16 bytes | private, sensitive, not extractable |
//! | public key | the same | the same | |
//! | certificate | the same | the same | |
//! | each issuer of its chain | the same | key id and one byte: its place in the chain | |
//!
//! So types can share a token, and other programs find a chain as they do elsewhere: by id, then from
//! issuer to subject.
//!
//! # Sessions
//! A PKCS#11 library belongs to the process: it is loaded once, however many modules and sources use it,
//! and stays loaded. Sessions of one token come from a pool of at most four and are logged in when they
//! are handed out. When the token turns out to have been removed, reset or logged out by somebody else,
//! they are made anew and the work is tried once more; when it is not there, the library is made to look
//! for tokens again, at most once a second. A process made by `fork` starts its own pool.
//! A PIN that the token refused is not tried again, since tokens lock themselves after a few of those.

mod error;
mod library;
mod lookup;
mod module;
mod objects;
mod owner;
mod pin;
mod signing;
mod token;

pub use self::error::TokenError;
pub use self::module::Pkcs11Module;
pub use self::signing::TokenSigningKey;

pub(crate) use self::lookup::{load_chain, load_key};
