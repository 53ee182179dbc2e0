//! Gives blobs to the nodes of a Unit, and to nobody else.
//!
//! # Entry points
//! * [`FileServer::start`] listens and serves; the answer is a handle that makes URLs ([`Urls::of`]) and ends the server.
//! * [`TokenKey`] signs and checks what stands in a URL; it is kept in a file, so that URLs outlive a restart.
//! * [`BlobFolder`] is where blobs are: content-addressed, so that a name cannot lead anywhere else.
//!
//! # URLs
//! `https://HOST:PORT/blobs/sha256/HEX?expires=SECONDS&token=HEX`. The token is a keyed hash over digest and expiry. Whoever has
//! a URL may fetch that one blob until it expires; the controller tells URLs only to Service Managers that it knows. An expired or
//! foreign token is answered with 403, upon which a node asks for a new URL.
//!
//! # Tasks
//! | task | does |
//! |---|---|
//! | listener | takes connections, up to a limit, and per peer up to a smaller one |
//! | one per connection | HTTP/1.1 requests one after the other; ends when the client stalls |
//!
//! # Invariants
//! * A name that is not a digest opens nothing; what it opens is a regular file directly in the store's folder.
//! * A blob is read in pieces of 64 KiB: memory does not grow with the blob or with a slow client.
//! * A request that makes no sense gets its status; no request ends the server.
//!
//! # What this crate does not do
//! It does not put blobs into the store and does not know items. It does not ask who the client is beyond its token: nodes of
//! foreign make have no certificate for this port.

mod blobs;
mod request;
mod server;
mod token;

pub use self::blobs::{Blob, BlobFolder, OpenFolderError};
pub use self::server::{FileServer, FileServerConfig, StartFileServerError, Urls};
pub use self::token::TokenKey;
