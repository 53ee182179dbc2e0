//! Images of a node: fetched, verified, unpacked, kept as long as somebody wants them, and made anew when the disk damages them.
//!
//! # Entry points
//! * [`ImageStore::open`] with [`StoreSettings`] and a database that has [`SCHEMA`].
//! * [`ImageStore::install`] makes an item present, by the digest of its manifest or index, from a [`BlobSource`];
//!   [`ImageStore::installed`] finds one that is, without asking anybody.
//! * [`ImageStore::mirror`] makes everything of an item present as blobs, for all platforms and without unpacking: what a
//!   controller hands on to nodes; [`ImageStore::mirrored`] reads one that is, [`ImageStore::inspect`] looks at one that is not.
//! * Sources: [`UrlSource`] (URLs that a controller gives: `https`, `http`, `file`), [`LayoutSource`] (an OCI image layout, as a
//!   folder or a tar archive), and with the feature `registry` `RegistrySource`.
//! * [`ImageStore::keep`] says what is wanted, [`ImageStore::collect`] removes what is not, [`ImageStore::keep_checked`] looks for
//!   damage.
//! * [`build`] makes images, looks into them and judges them, for the command line.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use muster_image::{ImageStore, LayoutSource, SCHEMA, StoreSettings};
//! use muster_item::Platform;
//! use muster_store::{OnDamage, Store, StoreConfig};
//!
//! let config = StoreConfig::new("/var/lib/muster/sm.db", "muster-sm 0.1.0", OnDamage::StartEmpty).schema(&SCHEMA);
//! let settings = StoreSettings::new("/var/lib/muster/images", Platform::of_this_program());
//! let (images, _report) = ImageStore::open(settings, Store::open(&config)?.store).await?;
//!
//! let layout = LayoutSource::open("web.tar")?;
//! let digest = layout.image(None)?;
//! let image = images.install(digest, Arc::new(layout), None).await?;
//! println!("{:?} over {} layers", image.image_config.entrypoint, image.layers.len());
//! # Ok(())
//! # }
//! ```
//!
//! # How a blob comes
//! ```text
//!  places, in turn, from where the last one broke off
//!    | pieces of at most 64 KiB, 8 waiting
//!    v
//!  a thread per download: hash -> partial file -> muster_layer::unpack (layers only)
//!    | all of it has come, digest right, diff id right, seal computed
//!    v
//!  flush, rename, flush the folder, record in the database: only now it is there
//! ```
//! A download that breaks off goes on where it was, at the next place, by HTTP range; the unpacking does not notice. After a restart
//! the partial file's bytes go the same way again (hashed, unpacked) before the first new one is asked for. A blob that is wrong in
//! the end is dropped, and its places come last in the next try. A place that answers 403 is no longer valid: new ones are asked for.
//!
//! # Tasks and threads
//! | what | started by | ends |
//! |---|---|---|
//! | one blocking thread per download (and one more of `muster-layer` for a layer), at most [`StoreSettings::parallel`] | [`ImageStore::install`] | with the download; also soon after the caller has stopped waiting |
//! | the check | the caller, with [`ImageStore::keep_checked`] | when dropped |
//!
//! There is no actor: the inventory is a value behind a lock that is held for moments, each digest has one worker at a time, and
//! everything that must not be done by halves is done by a thread that owns what it needs.
//!
//! # Invariants
//! * **There means there.** A blob or layer is believed present only when its content, its name and its record are on disk, in this
//!   order. What a kill or a power cut leaves in between is a part (blobs, verified again when wanted), or is compared with its
//!   seal (layers, which carry it with them). So is everything when the database is lost.
//! * **Verified.** Nothing gets its name before its digest was computed from the very bytes that were written. Documents are compared
//!   again whenever they are read: one that the disk damaged is got anew, and not believed.
//! * **Damage is of the disk.** What is found damaged is set aside: a layer until the machine boots anew or no item needs it, because
//!   an instance may run on it, a blob until there is a good one. Whoever lacks descriptors or memory to look finds no damage.
//! * **Wanted is safe.** [`gc_plan`] never takes what a wanted item needs or an installation uses. An item is wanted from its
//!   installation until [`ImageStore::keep`] is called without it, and stays [`StoreSettings::item_ttl`] beyond that unless space is
//!   short.
//! * **Bounded.** Documents by their limits, whatever their descriptors say; memory by buffers (about 2 MiB per download, and for
//!   a layer the window of its compression and the table of its folders: at most 32 MiB in all); space by a reservation before
//!   the first byte is asked for, of which the file system is asked for what is not written yet, and by what is left to others while
//!   layers grow; tries by number; downloads, and with them threads and memory, by [`StoreSettings::parallel`].
//! * **One owner.** A lock on the folder keeps other processes out.
//!
//! # Security
//! The folder is for its owner only (0700). Bytes from outside are hashed, parsed within limits by `muster-item`, and unpacked by
//! `muster-layer`, which never leaves its folder. URLs are logged without user, password and query.
//!
//! # What this crate does not do
//! It does not mount anything, check signatures, decrypt, or talk to a controller. It does not compare times of files when it looks
//! for damage.

#![forbid(unsafe_code)]

pub mod build;
mod check;
mod db;
mod documents;
mod error;
mod fault;
mod fetch;
mod folders;
mod hash;
mod imprint;
mod inspect;
mod install;
mod intake;
mod inventory;
mod ledger;
mod look;
mod mirror;
mod open;
mod progress;
mod quarantine;
mod seal;
mod settings;
mod source;
mod store;
mod take;
mod transfer;

pub use self::check::{CheckReport, CheckSettings};
pub use self::db::SCHEMA;
pub use self::error::{InstallError, MaintainError, OpenImagesError, SpaceLimit};
pub use self::fault::FAULT_POINTS;
pub use self::fetch::FetchBlobError;
pub use self::folders::DiskError;
#[cfg(feature = "testing")]
pub use self::folders::Weakness;
pub use self::inventory::{
    GcPlan, GcRules, Inventory, ItemRecord, LayerRecord, PartialRecord, gc_plan,
};
pub use self::mirror::{MirrorState, MirroredImage};
pub use self::open::OpenReport;
pub use self::progress::Progress;
pub use self::settings::StoreSettings;
pub use self::source::{
    BlobPlace, BlobSource, BlobStream, BlobUrls, BoxError, HttpSettings, HttpSetupError,
    LayoutError, LayoutSource, OpenBlobError, UrlClient, UrlSource,
};
#[cfg(feature = "registry")]
pub use self::source::{Login, RegistryError, RegistryImage, RegistrySource};
pub use self::store::{ImageStore, InstalledImage, Usage};
