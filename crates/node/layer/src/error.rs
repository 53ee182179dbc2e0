//! Why a layer was not unpacked.

use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::decode::DamageKind;

/// Why a layer was not unpacked. The destination may hold part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The folder to unpack into has something in it.
    #[error("the destination folder is not empty")]
    DestinationNotEmpty,
    /// The folder to unpack into cannot be used.
    #[error("cannot {operation} the destination folder")]
    Destination {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The reader failed, or gave up because it was told to.
    #[error("cannot read the layer at {near}")]
    Read {
        /// Where the unpacking was.
        near: EntryRef,
        /// What the reader said.
        #[source]
        source: io::Error,
    },
    /// The compressed data or the archive is broken.
    #[error("the layer is damaged at {near}")]
    Damaged {
        /// Where the unpacking was.
        near: EntryRef,
        /// In which way.
        #[source]
        kind: DamageKind,
    },
    /// An entry breaks a rule or a limit.
    #[error("{entry} is refused")]
    Refused {
        /// Which entry.
        entry: EntryRef,
        /// Which rule.
        #[source]
        rule: Rule,
    },
    /// The compressed bytes are not those that were asked for.
    #[error(
        "the layer has digest sha256:{}, not sha256:{}",
        hex::encode(actual),
        hex::encode(expected)
    )]
    WrongDigest {
        /// From the options.
        expected: [u8; 32],
        /// Of the bytes read.
        actual: [u8; 32],
    },
    /// The uncompressed bytes are not those that were asked for.
    #[error(
        "the layer has diff id sha256:{}, not sha256:{}",
        hex::encode(actual),
        hex::encode(expected)
    )]
    WrongDiffId {
        /// From the options.
        expected: [u8; 32],
        /// Of the uncompressed archive.
        actual: [u8; 32],
    },
    /// The file system refused something that the rules allow.
    #[error("cannot {operation} for {entry}")]
    FileSystem {
        /// What was tried.
        operation: &'static str,
        /// For which entry.
        entry: EntryRef,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The tree is complete but may not be on disk.
    #[error("cannot sync the destination's file system")]
    Sync(#[source] io::Error),
    /// No thread could be started.
    #[error("cannot start the thread that writes the layer's files")]
    Thread(#[source] io::Error),
}

/// Which entry of a layer is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryRef {
    /// Counted from 1; 0 before the first.
    pub number: u64,
    /// Its name as far as it is known, escaped and shortened.
    pub name: Option<String>,
}

impl EntryRef {
    const SHOWN: usize = 200;

    pub(crate) fn new(number: u64, name: &[u8]) -> Self {
        let shown = &name[..name.len().min(Self::SHOWN)];
        let mut text = shown.escape_ascii().to_string();
        if shown.len() < name.len() {
            text.push_str("...");
        }
        Self {
            number,
            name: Some(text),
        }
    }

    pub(crate) fn unnamed(number: u64) -> Self {
        Self { number, name: None }
    }
}

impl fmt::Display for EntryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.number)?;
        match &self.name {
            Some(name) => write!(f, " \"{name}\""),
            None => Ok(()),
        }
    }
}

/// What a name must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameRule {
    /// There is none.
    #[error("it is empty")]
    Empty,
    /// It could lead out.
    #[error("it has a `..` step")]
    Traversal,
    /// Programs would disagree about where it ends.
    #[error("it contains a NUL byte")]
    Nul,
    /// Longer than the limit.
    #[error("it has more than {limit} bytes")]
    TooLong {
        /// [`crate::Limits::path_bytes`].
        limit: usize,
    },
    /// One step is longer than file systems allow.
    #[error("one of its steps has more than 255 bytes")]
    StepTooLong,
    /// Deeper than the limit.
    #[error("it has more than {limit} steps")]
    TooDeep {
        /// [`crate::Limits::depth`].
        limit: usize,
    },
    /// Names that start with `.wh.` are for whiteouts.
    #[error("it has a step that starts with `.wh.` and is no whiteout")]
    Reserved,
}

/// What an entry must not be or do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// Its name.
    #[error("its name is not allowed")]
    Name(#[source] NameRule),
    /// A link's target.
    #[error("its target's name is not allowed")]
    Target(#[source] NameRule),
    /// The layer's root is something else than a folder.
    #[error("the root of a layer must be a folder")]
    RootNotFolder,
    /// One of the folders in its name is a symbolic link.
    #[error("its name leads through a symbolic link")]
    ThroughSymlink,
    /// One of the folders in its name is something else.
    #[error("its name leads through something that is not a folder")]
    ThroughFile,
    /// A hard link's target leads through a symbolic link.
    #[error("its target's name leads through a symbolic link")]
    TargetThroughSymlink,
    /// A hard link's target is not in this layer.
    #[error("its target is not in this layer")]
    TargetMissing,
    /// A hard link to a folder.
    #[error("its target is a folder")]
    TargetIsFolder,
    /// A hard link to something that this layer deletes.
    #[error("its target is a whiteout")]
    TargetIsWhiteout,
    /// A whiteout that is something else than an empty file.
    #[error("a whiteout must be an empty file")]
    WhiteoutNotEmpty,
    /// An opaque marker at the layer's root.
    #[error("a layer cannot hide everything below its root")]
    OpaqueRoot,
    /// Not a type that layers have.
    #[error("its type {:?} is not supported", char::from(*.0))]
    Type(u8),
    /// A device, and [`crate::Options::devices`] refuses them.
    #[error("devices are not allowed")]
    Device,
    /// Character device 0:0.
    #[error("a device that is overlayfs's whiteout is not allowed")]
    WhiteoutDevice,
    /// A named pipe, and [`crate::Options::fifos`] refuses them.
    #[error("named pipes are not allowed")]
    Fifo,
    /// Something without content that says that it has some.
    #[error("it is not a file but has content")]
    Content,
    /// Set-id bits, and [`crate::Options::set_id`] refuses them.
    #[error("set-user-id and set-group-id bits are not allowed")]
    SetId,
    /// Capabilities, and [`crate::Options::capabilities`] refuses them.
    #[error("file capabilities are not allowed")]
    Capabilities,
    /// An attribute that is the system's.
    #[error("extended attribute `{0}` is not allowed")]
    XattrName(String),
    /// Too many attributes.
    #[error("it has more than {limit} extended attributes")]
    XattrCount {
        /// [`crate::Limits::xattrs`].
        limit: usize,
    },
    /// Too large attributes.
    #[error("its extended attributes have more than {limit} bytes")]
    XattrBytes {
        /// [`crate::Limits::xattr_bytes`].
        limit: usize,
    },
    /// An owner that no range of the map has, or that no system has.
    #[error("{which} id {id} has no owner here")]
    Owner {
        /// `user` or `group`.
        which: &'static str,
        /// From the layer.
        id: u64,
    },
    /// The header is not one.
    #[error("its header has a wrong checksum")]
    Checksum,
    /// A number of the header cannot be read, is negative or too large.
    #[error("its header has no valid {0}")]
    Number(&'static str),
    /// A long name or extended header is larger than the limit.
    #[error("an extended header has more than {limit} bytes")]
    ExtensionSize {
        /// [`crate::Limits::pax_bytes`], or for long names [`crate::Limits::path_bytes`].
        limit: u64,
    },
    /// Two extended headers of the same type.
    #[error("it has two extended headers of one type")]
    ExtensionTwice,
    /// An extended header with no entry behind.
    #[error("an extended header belongs to no entry")]
    ExtensionAlone,
    /// A record of an extended header cannot be read.
    #[error("an extended header is malformed")]
    PaxRecord,
    /// Two records with one key.
    #[error("an extended header has `{0}` twice")]
    PaxTwice(String),
    /// A record's value cannot be read.
    #[error("an extended header has no valid `{0}`")]
    PaxValue(String),
    /// A record that cannot hold for all entries.
    #[error("a global extended header has `{0}`")]
    PaxGlobal(String),
    /// A sparse file's map overlaps, goes back, or does not fit sizes.
    #[error("its sparse map is inconsistent")]
    SparseMap,
    /// A sparse file's map is too long.
    #[error("its sparse map has more than {limit} pieces")]
    SparsePieces {
        /// [`crate::Limits::sparse_pieces`].
        limit: usize,
    },
    /// Too many entries.
    #[error("the layer has more than {limit} entries")]
    Entries {
        /// [`crate::Limits::entries`].
        limit: u64,
    },
    /// Too many bytes in all.
    #[error("the layer has more than {limit} bytes")]
    TotalBytes {
        /// [`crate::Limits::total_bytes`].
        limit: u64,
    },
    /// [`crate::Budget`] gives it no more.
    #[error("there is no space left for the layer's {bytes} bytes")]
    NoSpace {
        /// So many there were until then.
        bytes: u64,
    },
    /// Too large a file.
    #[error("it has more than {limit} bytes")]
    FileBytes {
        /// [`crate::Limits::file_bytes`].
        limit: u64,
    },
    /// Too well compressed to be honest.
    #[error("the layer grows to more than {limit} times its compressed size")]
    Ratio {
        /// [`crate::Limits::ratio`].
        limit: u64,
    },
    /// Too many folders, or too long names of folders.
    #[error("the layer's folders need more than {limit} bytes of memory")]
    FolderTable {
        /// [`crate::Limits::folder_table_bytes`].
        limit: usize,
    },
}

/// What went wrong, before it is known for which entry.
#[derive(Debug)]
pub(crate) enum Fault {
    Rule(Rule),
    Damaged(DamageKind),
    Read(io::Error),
    FileSystem {
        operation: &'static str,
        errno: Errno,
    },
    /// While folders get their attributes.
    Folder {
        operation: &'static str,
        path: Vec<u8>,
        errno: Errno,
    },
}

impl Fault {
    pub(crate) fn at(self, near: EntryRef) -> UnpackError {
        match self {
            Self::Rule(rule) => UnpackError::Refused { entry: near, rule },
            Self::Damaged(kind) => UnpackError::Damaged { near, kind },
            Self::Read(source) => UnpackError::Read { near, source },
            Self::FileSystem { operation, errno } => UnpackError::FileSystem {
                operation,
                entry: near,
                source: errno.into(),
            },
            Self::Folder {
                operation,
                path,
                errno,
            } => UnpackError::FileSystem {
                operation,
                entry: EntryRef::new(near.number, &path),
                source: errno.into(),
            },
        }
    }
}

impl Fault {
    /// It is about that folder, not about the entry that happens to be the last.
    pub(crate) fn of_folder(self, path: &[u8]) -> Self {
        match self {
            Self::FileSystem { operation, errno } => Self::Folder {
                operation,
                path: path.to_vec(),
                errno,
            },
            other => other,
        }
    }
}

impl From<Rule> for Fault {
    fn from(rule: Rule) -> Self {
        Self::Rule(rule)
    }
}

/// Names the operation that the kernel refused.
pub(crate) trait Operation<T> {
    fn operation(self, operation: &'static str) -> Result<T, Fault>;
}

impl<T> Operation<T> for Result<T, Errno> {
    fn operation(self, operation: &'static str) -> Result<T, Fault> {
        self.map_err(|errno| Fault::FileSystem { operation, errno })
    }
}
