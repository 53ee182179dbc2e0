//! The files of one database: their names, who may touch them, and who has them now.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::process::geteuid;

use crate::error::{OpenStoreError, UnsafePath};

/// A database's path, taken apart and checked.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    folder: PathBuf,
    name: String,
    sync_folder: bool,
}

impl Files {
    /// Makes the folder if it is missing, and checks it. Links in the folder's own path are followed:
    /// an operator may put state on another disk. The database itself is never reached over one.
    pub(crate) fn resolve(path: &Path, sync_folder: bool) -> Result<Self, OpenStoreError> {
        let unsafe_path = |source| OpenStoreError::Unsafe {
            path: path.to_owned(),
            source,
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name
            .ok_or_else(|| unsafe_path(UnsafePath::NoFileName))?
            .to_owned();
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let failed = |source| OpenStoreError::Folder {
            path: parent.to_owned(),
            source,
        };
        make_folder(parent).map_err(failed)?;
        let folder = fs::canonicalize(parent).map_err(failed)?;
        let metadata = fs::metadata(&folder).map_err(failed)?;
        let refuse = |source| {
            Err(OpenStoreError::Unsafe {
                path: folder.clone(),
                source,
            })
        };
        if !is_own(&metadata) && metadata.uid() != 0 {
            return refuse(UnsafePath::OtherOwner);
        }
        if metadata.mode() & 0o022 != 0 {
            return refuse(UnsafePath::WritableByOthers);
        }
        Ok(Self {
            folder,
            name,
            sync_folder,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn with(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}{suffix}", self.name))
    }

    pub(crate) fn main(&self) -> PathBuf {
        self.with("")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.with("-wal")
    }

    /// A database that is being made; complete or worthless.
    pub(crate) fn new_main(&self) -> PathBuf {
        self.with(".new")
    }

    /// Says that a set-aside has begun.
    pub(crate) fn note(&self) -> PathBuf {
        self.with(".set-aside")
    }

    /// Says that damage was seen while the database was in use.
    pub(crate) fn suspect(&self) -> PathBuf {
        self.with(".suspect")
    }

    /// Refuses links, folders, devices and files of others in place of the database's files, and
    /// takes permissions away from everybody else.
    pub(crate) fn check(&self) -> Result<(), OpenStoreError> {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let path = self.with(suffix);
            let file_error = |doing, source| OpenStoreError::File {
                doing,
                path: path.clone(),
                source,
            };
            let Some(metadata) = look(&path).map_err(|source| file_error("examine", source))?
            else {
                continue;
            };
            let reason = match metadata.file_type() {
                kind if kind.is_symlink() => Some(UnsafePath::SymbolicLink),
                kind if !kind.is_file() => Some(UnsafePath::NotAFile),
                _ if !is_own(&metadata) => Some(UnsafePath::OtherOwner),
                _ => None,
            };
            if let Some(source) = reason {
                return Err(OpenStoreError::Unsafe { path, source });
            }
            if metadata.mode() & 0o077 != 0 {
                fs::set_permissions(&path, Permissions::from_mode(0o600))
                    .map_err(|source| file_error("restrict", source))?;
                tracing::warn!(file = %path.display(), "Permissions of a database file were too wide; others have lost access.");
            }
        }
        Ok(())
    }

    /// Removes what a killed process left half made. None of it was ever in use.
    pub(crate) fn remove_leftovers(&self) -> Result<(), OpenStoreError> {
        for suffix in [
            ".new",
            ".new-wal",
            ".new-shm",
            ".new-journal",
            ".set-aside.new",
        ] {
            let path = self.with(suffix);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenStoreError::File {
                        doing: "remove",
                        path,
                        source,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes changes of names durable.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        if !self.sync_folder {
            return Ok(());
        }
        File::open(&self.folder)?.sync_all()
    }

    /// Writes a small file so that it is there as a whole or not at all, durably.
    pub(crate) fn write_note(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let mut file = create_private(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        self.sync_folder()
    }

    pub(crate) fn remove_note(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_folder(),
        }
    }

    /// Takes the database for this process. Ends with the returned file, or with the process.
    pub(crate) fn lock(&self) -> Result<Lock, OpenStoreError> {
        let path = self.with(".lock");
        let failed = |source| OpenStoreError::File {
            doing: "lock",
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nofollow())
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                let read = (&mut file).take(32).read_to_string(&mut owner);
                let owner = read.ok().and_then(|_| owner.trim().parse().ok());
                return Err(OpenStoreError::InUse {
                    path: self.main(),
                    owner,
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        // Only for the message above; the lock itself is the kernel's and cannot be stale.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

/// Held as long as the database is in use.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// What stands at a path, links not followed.
pub(crate) fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A new file that only its owner can read. An earlier one at the path is replaced.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Renames, and fails rather than replace something.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw()
}

fn nofollow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// Makes missing folders private, each one durable before the next.
fn make_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_folder(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(parent)?.sync_all(),
    }
}
