//! Copying files and folders: what is wanted, what has to be done for it, and doing it.
//!
//! [`plan`] is pure: two trees in, a [`Plan`](plan::Plan) out. The engine reads the trees, carries the plan out over two
//! [`Files`](crate::files::Files), and tries again what a lost connection interrupted: every step may be repeated.
//!
//! A large file is written beside its place, under a name that follows from its own, and renamed when it is whole: a copy
//! that is cut goes on with what is there, after a digest of it has shown that it is the same. What such a copy leaves is
//! never copied as a file.

mod engine;
mod meter;
pub(crate) mod path;
mod patience;
pub mod plan;
pub(crate) mod tree;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

pub(crate) use engine::copy;
pub use path::RelPath;
pub(crate) use patience::{Patience, persist};

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From here to the machine.
    Up,
    /// From the machine to here.
    Down,
}

/// What is to be copied.
///
/// Both paths name the thing itself: the file or folder at `remote` becomes what is at `local`, or the other way round. Links
/// are copied as links, permissions and times go along, owners and special files do not.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// The file or folder here.
    pub local: PathBuf,
    /// The file or folder in the machine.
    pub remote: PathBuf,
    /// Whether what is only in the target is removed, and a folder may be replaced by a file.
    pub delete: bool,
    /// Whether files are compared, and verified after they were copied, by digests of what they hold. Otherwise two files
    /// are the same if their sizes and times are; those that changed in the last minutes are compared by digests all the
    /// same, since times are whole seconds for most transports, and a file may change twice in one.
    pub checksum: bool,
    /// For how long a lost connection is made again before the copy fails.
    pub patience: Duration,
    /// Where progress is shown.
    pub progress: Option<watch::Sender<Progress>>,
}

impl Transfer {
    /// A copy to the machine.
    pub fn upload(local: impl Into<PathBuf>, remote: impl Into<PathBuf>) -> Self {
        Self::new(Direction::Up, local.into(), remote.into())
    }

    /// A copy from the machine.
    pub fn download(remote: impl Into<PathBuf>, local: impl Into<PathBuf>) -> Self {
        Self::new(Direction::Down, local.into(), remote.into())
    }

    fn new(direction: Direction, local: PathBuf, remote: PathBuf) -> Self {
        Self {
            direction,
            local,
            remote,
            delete: false,
            checksum: false,
            patience: Duration::from_secs(30),
            progress: None,
        }
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many files have to be copied. Nothing is known before the folders have been listed.
    pub files: u64,
    /// How many of them have been.
    pub files_done: u64,
    /// How many bytes have to be copied.
    pub bytes: u64,
    /// How many of them have been, or were there already.
    pub bytes_done: u64,
    /// Which file is being copied.
    pub current: Option<String>,
}

/// What a copy has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many files were copied, links included. One that was cut off at its very end, and sent again, counts twice.
    pub files: u64,
    /// How many bytes were moved for them: of what files hold, or on the wire if rsync did it.
    pub bytes: u64,
    /// How many bytes of interrupted copies were used again.
    pub resumed: u64,
    /// How many files were the same already. rsync does not say.
    pub unchanged: u64,
    /// How many files and folders were removed.
    pub removed: u64,
    /// What was not copied: devices, pipes and sockets.
    pub skipped: Vec<RelPath>,
    /// Whether rsync did it.
    pub rsync: bool,
    /// Why it did not, where it would have been asked.
    pub without_rsync: Option<WithoutRsync>,
}

/// Why files were copied one by one that rsync would have made the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WithoutRsync {
    /// There is none here.
    #[error("there is no rsync here")]
    Here,
    /// The one here believes what a machine says.
    #[error("rsync here is older than 3.4 and would let a machine write outside of the folder")]
    Unsafe,
    /// The machine has none.
    #[error("the machine has no rsync")]
    There,
}
