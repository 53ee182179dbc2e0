//! What a caller can choose.

use std::fmt;
use std::sync::Arc;

/// How the layer's bytes are compressed; its media type says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// A plain tar archive.
    None,
    /// gzip, one or more members.
    Gzip,
    /// zstd, one or more frames.
    Zstd,
}

/// All choices. The default suits a layer from anywhere, unpacked by root for an overlay mount.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The SHA-256 that the compressed bytes must have. A layer that is refused before its end has not been compared:
    /// if it came over a wire, it may be that, and not the layer, which is to blame.
    pub digest: Option<[u8; 32]>,
    /// The SHA-256 that the uncompressed bytes must have.
    pub diff_id: Option<[u8; 32]>,
    /// Bounds on everything.
    pub limits: Limits,
    /// Space that is shared with others; nobody is asked where absent.
    pub budget: Option<Arc<dyn Budget>>,
    /// Who owns the files.
    pub ownership: Ownership,
    /// Set-user-id and set-group-id bits of files. On a folder the latter is not a privilege and stays.
    pub set_id: Privilege,
    /// File capabilities (`security.capability`).
    pub capabilities: Privilege,
    /// Character and block devices. Character device 0:0 is overlayfs's whiteout and always refused.
    pub devices: Special,
    /// Named pipes. They are refused by default because whoever opens one on the host waits.
    pub fifos: Special,
    /// How deleted names are recorded.
    pub whiteouts: Whiteouts,
    /// What may follow the archive, and whether its end must be marked.
    pub end: EndOfLayer,
    /// What is on disk when the call returns.
    pub durability: Durability,
}

/// Gives out space that several layers share while they are unpacked.
pub trait Budget: fmt::Debug + Send + Sync {
    /// Whether the layer may have so many bytes of uncompressed archive in all. Asked again and again as they come, before they
    /// are written; the layer is refused when it may not.
    fn covers(&self, bytes: u64) -> bool;
}

/// Bounds. A layer that needs more is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of the uncompressed archive, and, counted apart, of all files' sizes with their holes.
    pub total_bytes: u64,
    /// Bytes of one file, holes included.
    pub file_bytes: u64,
    /// Uncompressed bytes per compressed one, once [`Self::ratio_free_bytes`] have been produced.
    pub ratio: u64,
    /// Uncompressed bytes for which the ratio does not matter.
    pub ratio_free_bytes: u64,
    /// Bytes of a name or of a link's target.
    pub path_bytes: usize,
    /// Steps of a name.
    pub depth: usize,
    /// Bytes of one extended header.
    pub pax_bytes: u64,
    /// Extended attributes of one entry.
    pub xattrs: usize,
    /// Bytes of all names and values of one entry's extended attributes.
    pub xattr_bytes: usize,
    /// Pieces of data in one sparse file.
    pub sparse_pieces: usize,
    /// Memory for what folders get at the end: their names and about a hundred bytes each.
    pub folder_table_bytes: usize,
    /// Binary logarithm of the largest window that a zstd frame may need: 23 (8 MiB) suits every level below
    /// `--ultra`, 27 (128 MiB) is the most that is accepted.
    pub zstd_window_log: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            total_bytes: 32 << 30,
            file_bytes: 16 << 30,
            ratio: 250,
            ratio_free_bytes: 64 << 20,
            path_bytes: 4095,
            depth: 128,
            pax_bytes: 1 << 20,
            xattrs: 64,
            xattr_bytes: 64 << 10,
            sparse_pieces: 64 << 10,
            folder_table_bytes: 16 << 20,
            zstd_window_log: 23,
        }
    }
}

/// Who owns what is unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The ids of the layer.
    #[default]
    Keep,
    /// Whoever calls; for users without root. What a layer forbids its owner, they may all the same: files can be read, and
    /// folders listed and entered, because nobody else could verify or remove them.
    Caller,
    /// The ids of the layer, mapped. An id that no range has is refused.
    Map {
        /// Ranges of user ids.
        users: Vec<IdRange>,
        /// Ranges of group ids.
        groups: Vec<IdRange>,
    },
}

/// `count` ids from `inside` on are `outside` and following.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first id in the layer.
    pub inside: u32,
    /// The id it becomes.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// What happens to something that gives privileges to whoever runs the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Privilege {
    /// It is kept.
    Keep,
    /// It is taken off and counted.
    #[default]
    Strip,
    /// The layer is refused.
    Refuse,
}

/// What happens to a device or a named pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Special {
    /// The layer is refused.
    #[default]
    Refuse,
    /// It is left out and counted.
    Skip,
    /// It is made.
    Make,
}

/// How deleted names are recorded for overlayfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Whiteouts {
    /// What stands for a deleted name.
    pub form: WhiteoutForm,
    /// Which attributes mark folders (and files of [`WhiteoutForm::EmptyFile`]).
    pub xattrs: OverlayXattrs,
}

/// What stands for a deleted name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhiteoutForm {
    /// Character device 0:0, which every overlayfs understands.
    #[default]
    CharDevice,
    /// An empty file with an attribute, for file systems without device nodes. Linux 6.7 or later.
    EmptyFile,
}

/// The attributes' namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OverlayXattrs {
    /// `trusted.overlay.*`: needs root.
    #[default]
    Trusted,
    /// `user.overlay.*`: for mounts with the option `userxattr`.
    User,
}

impl OverlayXattrs {
    /// Those that overlay mounts of this process heed: without root, and in a user namespace, the kernel shows it no others.
    pub fn of_this_process() -> Self {
        /// The first user namespace is always this one.
        const INITIAL: &str = "user:[4026531837]";
        let namespace = std::fs::read_link("/proc/self/ns/user");
        let is_initial = namespace.is_ok_and(|it| it.as_os_str() == INITIAL);
        match rustix::process::geteuid().is_root() && is_initial {
            true => Self::Trusted,
            false => Self::User,
        }
    }
}

/// How strictly the end of a layer is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndOfLayer {
    /// Two empty blocks end the archive, only zeros follow, and nothing follows the compressed data.
    #[default]
    Strict,
    /// A missing end marker is accepted, and what follows is hashed and ignored. Only with [`Options::diff_id`] does
    /// this still notice a layer that was cut between two entries.
    Lenient,
}

/// What is on disk when the call returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Whatever the kernel has written by then.
    None,
    /// Everything: `syncfs` on the destination's file system.
    #[default]
    SyncFs,
}
