//! What was done.

/// What a layer contained and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries of the archive, whatever became of them.
    pub entries: u64,
    /// Files made, without hard links.
    pub files: u64,
    /// Folder entries.
    pub folders: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Hard links made.
    pub hard_links: u64,
    /// Devices and named pipes made.
    pub specials: u64,
    /// Whiteouts and opaque markers.
    pub whiteouts: u64,
    /// Folders below the root that no entry describes. They belong to root, with mode 0755 and the epoch as their time, and where
    /// layers below have them, that is what an overlay shows: it takes a folder's attributes from the uppermost layer.
    pub undescribed_folders: u64,
    /// Devices and named pipes left out.
    pub skipped_specials: u64,
    /// Files whose set-id bits were taken off.
    pub stripped_set_id: u64,
    /// Files whose capabilities were taken off.
    pub stripped_capabilities: u64,
    /// Extended attributes left out.
    pub dropped_xattrs: u64,
    /// Sizes of all files, holes included.
    pub file_bytes: u64,
    /// Bytes read from the reader.
    pub compressed_bytes: u64,
    /// Bytes of the uncompressed archive.
    pub archive_bytes: u64,
    /// SHA-256 of the bytes read.
    pub digest: [u8; 32],
    /// SHA-256 of the uncompressed archive.
    pub diff_id: [u8; 32],
}
