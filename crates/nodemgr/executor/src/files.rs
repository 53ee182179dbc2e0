//! The files below one folder, wherever that is.

use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use sha2::{Digest as _, Sha256};

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::Answer;
pub use crate::transfer::path::{InvalidPath, RelPath};
pub use crate::transfer::tree::{Entry, Kind, Tree, TreeTooLarge};

/// What a file holds, piece by piece.
pub type Content = BoxStream<'static, Result<Bytes, ExecutorError>>;

/// The SHA-256 of some bytes.
pub type Digest = [u8; 32];

/// A change below the folder. Each is done whether or not it has been done before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A folder is to be there, that its owner can write to. The empty path is the folder itself, with all above it.
    Folder(RelPath),
    /// A symbolic link is to be there, leading where it says. What was there is no folder.
    Link {
        /// Where it is.
        path: RelPath,
        /// Where it leads, as it is written.
        target: Vec<u8>,
    },
    /// A file, link or empty folder is to be gone.
    Remove {
        /// Where it is.
        path: RelPath,
        /// Whether it is a folder.
        folder: bool,
    },
    /// A file is to have another name, in place of what has that name.
    Rename {
        /// What it is called.
        from: RelPath,
        /// What it is to be called.
        to: RelPath,
    },
    /// A file or folder is to have these permissions and this time.
    Settle {
        /// Which.
        path: RelPath,
        /// The permissions: the lowest nine bits.
        mode: u32,
        /// When it was changed, in seconds since 1970.
        mtime: i64,
    },
}

impl Change {
    /// What it changes.
    #[must_use]
    pub fn path(&self) -> &RelPath {
        match self {
            Self::Folder(path)
            | Self::Link { path, .. }
            | Self::Remove { path, .. }
            | Self::Rename { to: path, .. }
            | Self::Settle { path, .. } => path,
        }
    }
}

/// A file that is small enough to be in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallFile {
    /// Where it is.
    pub path: RelPath,
    /// The permissions: the lowest nine bits.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub mtime: i64,
    /// What it holds.
    pub content: Bytes,
}

/// The files below one folder of one machine.
///
/// No call follows a link below the folder, or leaves it, whatever stands there. Calls may be made at the same time. After
/// a lost connection the next call connects again. The batches exist because some transports are slow for one file at a
/// time; they have an implementation for those that are not.
pub trait Files: fmt::Debug + Send + Sync {
    /// Everything below the folder; nothing if there is no such folder. A tree that is larger than [`Tree::MOST`] entries
    /// or holds a name that is none is an error.
    fn list(&self) -> Answer<'_, Option<Tree>>;

    /// What is at a path. The empty path is the folder itself, which need not be one.
    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>>;

    /// What a file holds from an offset on.
    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content>;

    /// Writes a file, made if need be, from an offset on. It ends where the content ends. It can be written by its owner and
    /// read by nobody else until it is settled.
    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, content: Content) -> Answer<'a, ()>;

    /// Changes something, in this order.
    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()>;

    /// The digests of the first bytes of files; none for one that is shorter or not there.
    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        Box::pin(digest_by_reading(self, files))
    }

    /// Writes small files, each under its name with its permissions and time. Their folders exist; what has their names is
    /// no folder, and is replaced.
    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()>;

    /// What small files hold, in this order. One that has become longer than `limit` is an error.
    fn read_small<'a>(&'a self, paths: &'a [RelPath], limit: usize) -> Answer<'a, Vec<Bytes>>;
}

/// Digests by reading everything, for transports that have no better way.
pub(crate) async fn digest_by_reading<F: Files + ?Sized>(
    files: &F,
    wanted: &[(RelPath, u64)],
) -> Result<Vec<Option<Digest>>, ExecutorError> {
    let mut digests = Vec::with_capacity(wanted.len());
    for (path, length) in wanted {
        let is_long_enough = match files.look(path).await? {
            Some(Entry {
                kind: Kind::File { size },
                ..
            }) => size >= *length,
            _ => false,
        };
        if !is_long_enough {
            digests.push(None);
            continue;
        }
        let mut content = files.read(path, 0).await?;
        let mut left = *length;
        let mut hasher = Sha256::new();
        while left > 0
            && let Some(piece) = content.try_next().await?
        {
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            hasher.update(&piece[..take]);
            left -= take as u64;
        }
        digests.push((left == 0).then(|| hasher.finalize().into()));
    }
    Ok(digests)
}

/// All of a file, if it is not longer than `limit`.
pub(crate) async fn read_whole<F: Files + ?Sized>(
    files: &F,
    path: &RelPath,
    limit: usize,
) -> Result<Bytes, ExecutorError> {
    let mut content = files.read(path, 0).await?;
    let mut whole = Vec::new();
    while let Some(piece) = content.next().await {
        whole.extend_from_slice(&piece?);
        if whole.len() > limit {
            let source = format!("it has become longer than {limit} bytes");
            let class = FailureClass::Io;
            return Err(ExecutorError::new(
                Operation::Read,
                path.to_string(),
                class,
                source,
            ));
        }
    }
    Ok(whole.into())
}
