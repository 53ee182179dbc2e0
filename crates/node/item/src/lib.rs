//! What can be deployed, as documents: OCI index, image manifest, image configuration and item configuration, read without
//! trust.
//!
//! Everything here is pure: bytes in, types that cannot be wrong out. Where the bytes come from, and whether they have the
//! digest that they should have, is `muster-image`'s business.
//!
//! # Entry points
//! * [`Document::read`] reads what a digest of an item leads to: an [`Index`] or a [`Manifest`].
//! * [`Index::select`] picks the manifest for a [`Platform`].
//! * [`ImageConfig::read`] says how an image is run, [`ItemConfig::read`] what its provider wants around it.
//! * [`MediaType`] knows the kinds of blobs: OCI's, Docker's second version, and those of components.
//!
//! ```
//! use muster_item::{Document, ItemConfig, Limits, Platform};
//!
//! let index = br#"{"schemaVersion": 2, "manifests": [{
//!     "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 7682,
//!     "digest": "sha256:5b0bcabd1ed22e9fb1310cf6c2dec7cdef19f0ad69efa1f392e94a4333501270",
//!     "platform": {"architecture": "arm64", "os": "linux"}}]}"#;
//! let Document::Index(index) = Document::read(index, &Limits::default())? else { unreachable!() };
//! let node = Platform::new("linux", "arm64").with_variant("v8");
//! assert_eq!(index.select(&node)?.size, 7682);
//!
//! let item = ItemConfig::read(br#"{"runParameters": {"startInterval": "PT10S"}}"#, &Limits::default())?;
//! assert_eq!(item.run_parameters.start_interval.as_secs(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How documents are read
//! * **Bounded.** [`Limits`] holds for the bytes of a document, its nesting, the number of its values, and its layers. Memory
//!   is bounded by these, not by what a document claims.
//! * **One meaning.** A key that stands twice in one object is refused, and so is a key that is looked for without regard to case
//!   and found in two spellings: two readers could take different ones. For the same reason a document that is both an index
//!   and a manifest is refused.
//! * **Lenient where the field is.** Unknown keys are ignored (specifications grow), `null` is the same as absent, and keys are
//!   found without regard to upper and lower case: the image configurations that are around do not agree.
//! * **Strict where it matters.** A known key with a value that it cannot have is an error with its path
//!   (`quotas.ramLimit: ...`), never a default: an item that asked for a limit must not run without it. A quota of 0 asks for
//!   none: writers that leave nothing out write it for "not said".
//!
//! The OCI specification's own types (crate `oci-spec`) are not used for reading: they match keys exactly, take what stands
//! last when a key stands twice, know no limits and no `aosItemConfig`, and refuse Docker's documents.
//!
//! # What this crate does not do
//! It does no I/O, verifies no digests and no signatures, and decides nothing about running: the defaults that it fills in are
//! those of the format.

#![forbid(unsafe_code)]

mod descriptor;
mod document;
mod image_config;
mod item_config;
mod limits;
mod media_type;
mod platform;
mod read;
mod tree;

pub use self::descriptor::Descriptor;
pub use self::document::{Document, Index, IndexEntry, Manifest, SelectManifestError};
pub use self::image_config::{ExposedPort, ImageConfig};
pub use self::item_config::{
    AllowedConnection, BalancingPolicy, ItemConfig, Quotas, RequestedResources, ResourceRequest,
    RunParameters, Sandbox,
};
pub use self::limits::Limits;
pub use self::media_type::{ComponentFormat, LayerFormat, MediaType};
pub use self::platform::{Fit, Platform};
pub use self::read::{DocumentKind, FieldProblem, ReadDocumentError};
