//! The items of a Unit on its Main Node: got from wherever they are, verified, and kept as long as somebody needs them.
//!
//! An item in one version is an OCI index (or a single manifest) with all that it leads to, for all platforms. It comes as
//! blobs into a content-addressed folder, from which the file server hands them on to nodes. Nothing is unpacked here.
//!
//! # Entry points
//! * [`Items::open`] with [`ItemsSettings`] and a database that has [`SCHEMA`] and [`muster_image::SCHEMA`].
//! * [`Items::download`] makes an item whole; [`Items::retain`] says which are needed. Both are also
//!   [`muster_desired::seams::Downloads`], so that updates take an [`Items`] as it is.
//! * [`Items::describe`] says what an item is on each platform: what the balancer, networks and nodes need to know.
//! * [`Items::inspect`] says the same of an item that is not here, without bringing it here.
//! * [`Items::blob_folder`] is where blobs are by digest; `muster_file_server::BlobFolder` opens it.
//! * [`BlobInfos`] and [`DownloadEvents`] are what this crate needs from the link to the cloud ([`Cloud`]).
//!
//! # Where items come from
//! | source | found by | trusted because |
//! |---|---|---|
//! | OCI image layout, folder or tar | its name in the layout, or digest | the operator named the path |
//! | registry | tag or digest, over `https` | the operator named it; a digest if one is said |
//! | cloud | digest of the index | every blob is signed by a chain of the desired status that leads to a configured authority, with nobody in it whom a revocation list names |
//!
//! # How a blob of the cloud comes
//! ```text
//!  BlobInfos -> signature over the digest, before a byte is asked for
//!    | URLs in turn, by range from where the last one broke off
//!    v
//!  decryption as it streams (CBC and GCM can start anywhere) -> muster_image: hash, partial file, flush, name, record
//! ```
//! What is signed is the content, and a digest is the content's SHA-256; so the signature is checked before the download, and the
//! download is checked against the digest. Encrypted bytes and keys never reach the disk.
//!
//! # Tasks
//! | task | started by | ends |
//! |---|---|---|
//! | downloads | the caller, as futures; a thread per blob, at most [`ItemsSettings::parallel`] | with the download, or soon after it was dropped |
//! | [`Items::maintain`] | the caller | when dropped |
//!
//! There is no actor: which item is which index is a map behind a lock that is held for moments; blobs and their records belong to
//! [`muster_image::ImageStore`].
//!
//! # Invariants
//! * **One version, one content.** While an item is needed and whole, its index stays the one that was found first, whatever
//!   happens to a tag or a folder in the meantime. To bring other content, give it another version or say its digest. An item
//!   that was not needed for a while is looked up again.
//! * **Acknowledged is durable.** When a download has answered, blobs and records are on disk; a kill before that costs at most
//!   what was not flushed of one part per blob.
//! * **Needed stays.** Only items that [`Items::retain`] left out go: after [`ItemsSettings::item_ttl`], or before if space is
//!   short.
//! * **Bounded.** Space by a reservation before the first byte, documents by [`muster_item::Limits`], memory by buffers, tries by
//!   number, answers of the cloud by time.
//!
//! # What this crate does not do
//! It does not unpack, serve files, choose platforms for nodes, or speak the cloud's protocol. It speaks no OCSP, and the answers
//! that a cloud may send beside a signature are not looked at: who is revoked is said by [revocation
//! lists](SignaturePolicy::revocation_lists).

#![forbid(unsafe_code)]

mod cloud;
mod cloud_source;
mod database;
mod decrypt;
mod describe;
mod error;
mod fault;
mod items;
mod report;
mod seam;
mod settings;
mod signature;
mod source;

pub use self::cloud::{
    BlobInfo, BlobInfos, BlockCipher, Cloud, DecryptInfo, DownloadEvent, DownloadEvents,
    DownloadState, SignInfo, SignatureAlgorithm, UnknownMethod,
};
pub use self::cloud_source::BlobInfoError;
pub use self::database::SCHEMA;
pub use self::decrypt::DecryptBlobError;
pub use self::describe::Described;
pub use self::error::{
    DescribeItemError, DownloadItemError, MaintainItemsError, OpenItemsError, OpenSourceError,
};
pub use self::fault::FAULT_POINTS;
pub use self::items::{InspectItemError, Items};
pub use self::settings::{ItemsSettings, SignaturePolicy};
pub use self::signature::VerifySignatureError;
// Part of this crate's interface.
pub use muster_image::{BoxError, HttpSettings, MirroredImage, Progress, Usage};
