//! Why opening or using a store failed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ErrorCode;

/// What is wrong with a database file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file has no content; Muster never leaves an empty one behind.
    #[error("the file is empty")]
    Empty,
    /// The file does not begin like a database.
    #[error("the file is not an SQLite database")]
    NotADatabase,
    /// The file is shorter than its own header says.
    #[error("the file has {found} bytes where its header says {expected}")]
    Truncated {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The write-ahead log is there, the database is not.
    #[error("the database is missing and only its write-ahead log is there")]
    LogWithoutDatabase,
    /// Acknowledged transactions stand behind a place in the log that cannot be read.
    #[error("the write-ahead log is damaged before its end{}", frame_text(*.frame))]
    Log {
        /// The first unreadable frame, or `None` for the header.
        frame: Option<u64>,
    },
    /// SQLite's own check found something.
    #[error("the check found: {finding}")]
    Check {
        /// The first finding.
        finding: String,
    },
    /// SQLite refused to read on.
    #[error("SQLite reports: {message}")]
    Refused {
        /// Its message.
        message: String,
    },
    /// The file says that Muster made it, but its record of migrations is not whole.
    #[error("the record of migrations is not whole")]
    Records,
    /// Found by an earlier run, which was stopped while it set the database aside.
    #[error("found by an earlier run: {reason}")]
    Earlier {
        /// The reason as that run noted it.
        reason: String,
    },
}

fn frame_text(frame: Option<u64>) -> String {
    frame.map_or_else(
        || ", in its header".to_owned(),
        |frame| format!(", in frame {frame}"),
    )
}

impl Damage {
    /// The damage that an SQLite error is a sign of, if it is.
    pub(crate) fn from_sqlite(error: &rusqlite::Error) -> Option<Self> {
        match error.sqlite_error_code()? {
            ErrorCode::NotADatabase => Some(Self::NotADatabase),
            ErrorCode::DatabaseCorrupt => Some(Self::Refused {
                message: error.to_string(),
            }),
            _ => None,
        }
    }
}

/// Why a path is not used for a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsafePath {
    /// A symbolic link could make a privileged daemon write elsewhere.
    #[error("it is a symbolic link")]
    SymbolicLink,
    /// Something that is neither a regular file nor absent.
    #[error("it is not a regular file")]
    NotAFile,
    /// Content made by somebody else is not trusted.
    #[error("it belongs to another user")]
    OtherOwner,
    /// Whoever can write to the folder can replace the database.
    #[error("its group or others may write to it; run chmod go-w on it")]
    WritableByOthers,
    /// No file name, or one that is not UTF-8.
    #[error("it does not name a file in UTF-8")]
    NoFileName,
}

/// Why a store could not be opened. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The folder could not be made or read.
    #[error("cannot use folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The path could be used to trick the daemon.
    #[error("refuse to use {}", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: UnsafePath,
    },
    /// Another process, or another store in this one, has the database.
    #[error("{} is in use{}", path.display(), owner_text(*.owner))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process that has it, if it could be told.
        owner: Option<u32>,
    },
    /// A file operation failed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The database is damaged, and the policy is [`OnDamage::Refuse`](crate::OnDamage::Refuse).
    #[error("{} is damaged; it was left as it is", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Damage,
    },
    /// The note about an unfinished set-aside cannot be understood.
    #[error("cannot read {}: move the damaged database away by hand, then remove the note",
            path.display())]
    Note {
        /// The note.
        path: PathBuf,
    },
    /// A sound SQLite database that Muster did not make.
    #[error("{} is an SQLite database of another program (application id {application_id:#x})",
            path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What it says it is.
        application_id: i32,
    },
    /// A newer program has written the database.
    #[error("{} has version {found} of schema {schema:?}, written by {writer}; \
             this program knows version {known}: start the newer program", path.display())]
    Future {
        /// The database.
        path: PathBuf,
        /// The schema that is too new; one that this program does not have is known in version 0.
        schema: String,
        /// Its version in the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
        /// The program that wrote it.
        writer: String,
    },
    /// A migration was changed after it had been applied here.
    #[error("{}: migration {number} ({name}) of schema {schema:?} is not the one that was applied \
             here; released migrations are never edited, add a new one", path.display())]
    Edited {
        /// The database.
        path: PathBuf,
        /// The schema.
        schema: String,
        /// The migration's number.
        number: u32,
        /// Its name in this program.
        name: String,
    },
    /// A migration failed and was rolled back; those before it stay.
    #[error("{}: migration {number} ({name}) of schema {schema:?} failed", path.display())]
    Migration {
        /// The database.
        path: PathBuf,
        /// The schema.
        schema: &'static str,
        /// The migration's number.
        number: u32,
        /// Its name.
        name: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A migration left rows that refer to nothing; it was rolled back, those before it stay.
    #[error("{}: migration {number} ({name}) of schema {schema:?} leaves rows of table {table:?} \
             that refer to nothing", path.display())]
    DanglingRows {
        /// The database.
        path: PathBuf,
        /// The schema.
        schema: &'static str,
        /// The migration's number.
        number: u32,
        /// Its name.
        name: &'static str,
        /// The table with such rows.
        table: String,
    },
    /// SQLite failed.
    #[error("cannot {doing} {}", path.display())]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
}

fn owner_text(owner: Option<u32>) -> String {
    owner.map_or_else(
        || " by another process".to_owned(),
        |pid| format!(" by process {pid}"),
    )
}

/// Why a read or a write failed. What was written is rolled back.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database is damaged. The next open checks it in full and applies the policy, so a daemon
    /// that wants to go on closes the store and opens it again.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// No space is left. The store works again when there is.
    #[error("no space is left for {}", path.display())]
    DiskFull {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The disk failed. A write that was being committed may or may not be found after a restart.
    #[error("input or output failed on {}", path.display())]
    Io {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// A statement failed: a constraint, a missing row, a wrong type, wrong SQL.
    #[error("a statement on {} failed", path.display())]
    Statement {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The closure panicked. The store goes on.
    #[error("a job on {} panicked: {message}", path.display())]
    Panicked {
        /// The database.
        path: PathBuf,
        /// The panic's message.
        message: String,
    },
    /// SQLite gave the transaction up, and the closure hid the error that says why.
    #[error("a transaction on {} was rolled back under a job", path.display())]
    RolledBack {
        /// The database.
        path: PathBuf,
    },
    /// The store was closed, or its thread could not go on.
    #[error("{} is closed", path.display())]
    Closed {
        /// The database.
        path: PathBuf,
    },
}

impl StoreError {
    pub(crate) fn from_sqlite(path: &std::path::Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let code = source.sqlite_error_code();
        let source = Arc::new(source);
        match code {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, source }
            }
            Some(ErrorCode::DiskFull) => Self::DiskFull { path, source },
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                Self::Io { path, source }
            }
            _ => Self::Statement { path, source },
        }
    }
}

/// Why [`Store::attempt`](crate::Store::attempt) changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError<E> {
    /// The closure decided against it.
    #[error("the change was given up")]
    Refused(#[source] E),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

/// How a closure given to [`Store::attempt`](crate::Store::attempt) fails.
#[derive(Debug)]
pub enum Abort<E> {
    /// It decided against the change.
    Refuse(E),
    /// A statement failed.
    Sql(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Abort<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}
