//! What an image store is told.

use std::path::PathBuf;
use std::time::Duration;

use muster_item::Platform;

use crate::folders::Weakness;

/// How an image store works.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Its folder. Belongs to the store alone.
    pub folder: PathBuf,
    /// What the node runs.
    pub platform: Platform,
    /// The most that the store may hold, in bytes; as much as the file system has if absent. A twentieth of the file system, and
    /// at most 256 MiB, is left to others in any case, and a twentieth of the files that it may hold.
    pub max_bytes: Option<u64>,
    /// How long a removed item can come back without a download.
    pub item_ttl: Duration,
    /// How long what has come of a blob is kept for a later try.
    pub partial_ttl: Duration,
    /// Keep layers in their compressed form as well.
    pub keep_layer_blobs: bool,
    /// Blobs that are downloaded at the same time.
    pub parallel: usize,
    /// Tries of one blob that bring nothing before it is given up.
    pub tries: u32,
    /// Before the second of such tries; doubles with each one, up to a minute.
    pub retry_delay: Duration,
    /// How documents are read.
    pub documents: muster_item::Limits,
    /// How layers are unpacked; digests and durability are the store's own.
    pub unpack: muster_layer::Options,
    pub(crate) weakness: Option<Weakness>,
}

impl StoreSettings {
    /// Settings for a node, with 30 days for removed items, a day for parts, three downloads at a time, and five tries.
    pub fn new(folder: impl Into<PathBuf>, platform: Platform) -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            folder: folder.into(),
            platform,
            max_bytes: None,
            item_ttl: 30 * DAY,
            partial_ttl: DAY,
            keep_layer_blobs: false,
            parallel: 3,
            tries: 5,
            retry_delay: Duration::from_secs(1),
            documents: muster_item::Limits::default(),
            unpack: possible_options(),
            weakness: None,
        }
    }

    /// Leaves a flush out, to show that a test notices.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn weakened(mut self, weakness: Weakness) -> Self {
        self.weakness = Some(weakness);
        self
    }
}

/// How layers are unpacked, as far as this user can: without root there are no other owners and no trusted attributes. The device
/// that stands for a deleted name may be made by everybody.
pub(crate) fn possible_options() -> muster_layer::Options {
    let mut options = muster_layer::Options::default();
    options.whiteouts.xattrs = muster_layer::OverlayXattrs::of_this_process();
    if !rustix::process::geteuid().is_root() {
        options.ownership = muster_layer::Ownership::Caller;
    }
    options
}
