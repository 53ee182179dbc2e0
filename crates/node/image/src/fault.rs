//! Where a test may kill a program that uses an image store.

muster_fault::points! {
    /// An item and what it refers to are recorded; nothing of it need be there.
    pub(crate) ITEM_BEGUN = "image.item-begun",
    /// Everything of an item is there; it is not recorded as complete.
    pub(crate) ITEM_FETCHED = "image.item-fetched",
    /// An item is recorded as complete; nobody has been told.
    pub(crate) ITEM_COMPLETE = "image.item-complete",
    /// A first part of a blob is in its partial file.
    pub(crate) BLOB_STARTED = "image.blob-started",
    /// All bytes of a blob are written and verified; nothing is flushed.
    pub(crate) BLOB_WRITTEN = "image.blob-written",
    /// A blob's file is flushed under its temporary name.
    pub(crate) BLOB_FLUSHED = "image.blob-flushed",
    /// A blob has its name, but the folder is not flushed.
    pub(crate) BLOB_NAMED = "image.blob-named",
    /// A blob is there for good; the database does not know it.
    pub(crate) BLOB_DURABLE = "image.blob-durable",
    /// A blob is recorded.
    pub(crate) BLOB_RECORDED = "image.blob-recorded",
    /// The folder that a layer is unpacked into exists.
    pub(crate) LAYER_STARTED = "image.layer-started",
    /// A layer is unpacked, verified and flushed under its temporary name.
    pub(crate) LAYER_UNPACKED = "image.layer-unpacked",
    /// A layer has its name, but the folder is not flushed.
    pub(crate) LAYER_NAMED = "image.layer-named",
    /// A layer is there for good; the database does not know it.
    pub(crate) LAYER_DURABLE = "image.layer-durable",
    /// A layer is recorded; its compressed form is still there.
    pub(crate) LAYER_RECORDED = "image.layer-recorded",
    /// What is to be removed is no longer recorded; its files are there.
    pub(crate) REMOVAL_RECORDED = "image.removal-recorded",
    /// What is to be removed has lost its name; its files are in the trash.
    pub(crate) REMOVAL_MOVED = "image.removal-moved",
    /// Something damaged is no longer recorded; it still has its name.
    pub(crate) DAMAGE_RECORDED = "image.damage-recorded",
}
