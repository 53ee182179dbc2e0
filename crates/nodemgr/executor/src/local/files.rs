//! Files of this machine, below a folder that nothing leads out of: every name is resolved by the kernel below the folder and
//! through no link.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::Answer;
use crate::files::{Change, Content, Digest, Entry, Files, Kind, RelPath, SmallFile, Tree};
use crate::transfer::plan::part_of;

/// How much is read at once.
const PIECE: usize = 256 * 1024;

/// How many pieces wait while the other side is slow.
const AHEAD: usize = 4;

/// The files below a folder of this machine.
#[derive(Debug, Clone)]
pub struct LocalFiles {
    root: PathBuf,
}

impl LocalFiles {
    /// The files below a folder, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn error(
        &self,
        operation: Operation,
        path: &RelPath,
        source: impl Into<crate::BoxError>,
    ) -> ExecutorError {
        let source = source.into();
        let left = |it: &io::Error| {
            let code = it.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
            matches!(
                code,
                Some(rustix::io::Errno::LOOP | rustix::io::Errno::XDEV)
            )
        };
        // The kernel refuses to follow a link, or to leave the folder.
        let class = match source.downcast_ref::<io::Error>().is_some_and(left) {
            true => FailureClass::Refused,
            false => FailureClass::Io,
        };
        let object = self.root.join(path.as_path()).display().to_string();
        ExecutorError::new(operation, object, class, source)
    }

    /// Does blocking work elsewhere.
    fn blocking<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ExecutorError> + Send + 'static,
    ) -> Answer<'a, T> {
        let this = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&this));
        Box::pin(async move {
            task.await.unwrap_or_else(|source| {
                let class = FailureClass::Interrupted;
                Err(ExecutorError::new(
                    Operation::Copy,
                    "a folder",
                    class,
                    source,
                ))
            })
        })
    }

    fn folder(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, &self.root, flags, Mode::empty())?)
    }

    fn open(&self, path: &RelPath, flags: OFlags) -> io::Result<OwnedFd> {
        let folder = self.folder()?;
        if path.is_root() {
            let flags = flags | OFlags::CLOEXEC;
            return Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?);
        }
        open_below(&folder, path, flags)
    }

    /// The folder that something is in, and its name there.
    fn parent<'p>(&self, path: &'p RelPath) -> io::Result<(OwnedFd, &'p Path)> {
        let (parent, _) = path.split().ok_or(rustix::io::Errno::INVAL)?;
        let folder = self.open(&parent, OFlags::PATH | OFlags::DIRECTORY)?;
        let name = path.as_path().file_name().ok_or(rustix::io::Errno::INVAL)?;
        Ok((folder, Path::new(name)))
    }

    /// A regular file.
    fn open_file(&self, path: &RelPath, flags: OFlags) -> io::Result<File> {
        // A pipe in its place must not hold us up.
        let file = self.open(path, flags | OFlags::NONBLOCK)?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(io::Error::other("it is not a file")),
        }
    }

    fn look_now(&self, path: &RelPath) -> io::Result<Option<Entry>> {
        let looked = if path.is_root() {
            let stat = rustix::fs::stat(&self.root).map_err(io::Error::from);
            stat.and_then(|stat| entry_of(&stat, CWD, &self.root))
        } else {
            self.parent(path).and_then(|(folder, name)| {
                let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                entry_of(&stat, &folder, name)
            })
        };
        match looked {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list_now(&self) -> Result<Option<Tree>, ExecutorError> {
        let mut tree = Tree::default();
        let mut folders = vec![RelPath::root()];
        while let Some(folder) = folders.pop() {
            let failed = |source: io::Error| self.error(Operation::List, &folder, source);
            let opened = match self.open(&folder, OFlags::RDONLY | OFlags::DIRECTORY) {
                Err(error) if folder.is_root() && is_missing(&error) => return Ok(None),
                opened => opened.map_err(failed)?,
            };
            let names = Dir::read_from(&opened).map_err(|errno| failed(errno.into()))?;
            for name in names {
                let name = name.map_err(|errno| failed(errno.into()))?;
                let bytes = name.file_name().to_bytes();
                if matches!(bytes, b"." | b"..") {
                    continue;
                }
                let child = folder.child(bytes);
                let child = child.map_err(|source| self.error(Operation::List, &folder, source))?;
                let entry =
                    rustix::fs::statat(&opened, name.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                        .map_err(io::Error::from)
                        .and_then(|stat| {
                            let name = Path::new(std::ffi::OsStr::from_bytes(bytes));
                            entry_of(&stat, &opened, name)
                        });
                let entry = match entry {
                    // It was removed while the folder was read.
                    Err(error) if is_missing(&error) => continue,
                    entry => entry.map_err(failed)?,
                };
                if entry.is_folder() {
                    folders.push(child.clone());
                }
                let added = tree.add(child, entry);
                added.map_err(|source| self.error(Operation::List, &folder, source))?;
            }
        }
        Ok(Some(tree))
    }

    fn change_now(&self, change: &Change) -> io::Result<()> {
        match change {
            Change::Folder(path) if path.is_root() => std::fs::create_dir_all(&self.root),
            Change::Folder(path) => {
                let (folder, name) = self.parent(path)?;
                match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                    Ok(()) => return Ok(()),
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let there = self.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
                let stat = rustix::fs::fstat(&there)?;
                set_mode(&there, (stat.st_mode & 0o777) | 0o700)
            }
            Change::Link { path, target } => {
                let (folder, name) = self.parent(path)?;
                let target = std::ffi::OsStr::from_bytes(target);
                match rustix::fs::symlinkat(target, &folder, name) {
                    Err(rustix::io::Errno::EXIST) => {
                        rustix::fs::unlinkat(&folder, name, AtFlags::empty())?;
                        Ok(rustix::fs::symlinkat(target, &folder, name)?)
                    }
                    made => Ok(made?),
                }
            }
            Change::Remove { path, folder } => {
                let flags = match folder {
                    true => AtFlags::REMOVEDIR,
                    false => AtFlags::empty(),
                };
                let removed = self
                    .parent(path)
                    .and_then(|(folder, name)| Ok(rustix::fs::unlinkat(&folder, name, flags)?));
                match removed {
                    Err(error) if is_missing(&error) => Ok(()),
                    removed => removed,
                }
            }
            Change::Rename { from, to } => {
                let (from_folder, from) = self.parent(from)?;
                let (to_folder, to) = self.parent(to)?;
                Ok(rustix::fs::renameat(&from_folder, from, &to_folder, to)?)
            }
            Change::Settle { path, mode, mtime } => {
                let there = self.open(path, OFlags::PATH)?;
                set_mode(&there, *mode)?;
                let times = times(*mtime);
                Ok(rustix::fs::utimensat(
                    CWD,
                    magic(&there),
                    &times,
                    AtFlags::empty(),
                )?)
            }
        }
    }

    fn write_small_now(&self, file: &SmallFile) -> io::Result<()> {
        let part = part_of(&file.path);
        let mut written = self.create(&part)?;
        written.set_len(0)?;
        written.write_all(&file.content)?;
        rustix::fs::fchmod(&written, Mode::from_raw_mode(file.mode & 0o777))?;
        rustix::fs::futimens(&written, &times(file.mtime))?;
        let (folder, name) = self.parent(&file.path)?;
        let (part_folder, part) = self.parent(&part)?;
        Ok(rustix::fs::renameat(&part_folder, part, &folder, name)?)
    }

    fn create(&self, path: &RelPath) -> io::Result<File> {
        self.open_file(path, OFlags::WRONLY | OFlags::CREATE)
    }

    fn digest_now(&self, path: &RelPath, length: u64) -> io::Result<Option<Digest>> {
        let mut file = match self.open_file(path, OFlags::RDONLY) {
            Err(error) if is_missing(&error) => return Ok(None),
            opened => opened?.take(length),
        };
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; PIECE];
        let mut left = length;
        while left > 0 {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(None);
            }
            hasher.update(&buffer[..read]);
            left -= read as u64;
        }
        Ok(Some(hasher.finalize().into()))
    }
}

fn open_below(folder: &OwnedFd, path: &RelPath, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = match flags.contains(OFlags::CREATE) {
        true => Mode::RUSR | Mode::WUSR,
        false => Mode::empty(),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = path.as_path();
    Ok(rustix::fs::openat2(folder, path, flags, mode, resolve)?)
}

/// A name for what a descriptor is open on, for calls that take no descriptor that was opened without permissions.
fn magic(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn set_mode(fd: &OwnedFd, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode & 0o777);
    Ok(rustix::fs::chmodat(CWD, magic(fd), mode, AtFlags::empty())?)
}

fn times(mtime: i64) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn entry_of(stat: &Stat, folder: impl AsFd, name: &Path) -> io::Result<Entry> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File {
            size: u64::try_from(stat.st_size).unwrap_or(0),
        },
        FileType::Symlink => Kind::Link {
            target: rustix::fs::readlinkat(folder, name, Vec::new())?.into_bytes(),
        },
        _ => Kind::Special,
    };
    Ok(Entry {
        kind,
        mode: stat.st_mode & 0o777,
        mtime: stat.st_mtime,
    })
}

impl Files for LocalFiles {
    fn list(&self) -> Answer<'_, Option<Tree>> {
        self.blocking(Self::list_now)
    }

    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>> {
        let path = path.clone();
        self.blocking(move |this| {
            let looked = this.look_now(&path);
            looked.map_err(|source| this.error(Operation::List, &path, source))
        })
    }

    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content> {
        let path = path.clone();
        self.blocking(move |this| {
            let failed = |source| this.error(Operation::Read, &path, source);
            let mut file = this.open_file(&path, OFlags::RDONLY).map_err(failed)?;
            file.seek(SeekFrom::Start(offset)).map_err(failed)?;
            let (send, receive) = mpsc::channel(AHEAD);
            let (this, path) = (this.clone(), path.clone());
            let read = move || {
                loop {
                    let mut piece = BytesMut::zeroed(PIECE);
                    let read = file.read(&mut piece);
                    let read = read.map_err(|source| this.error(Operation::Read, &path, source));
                    let piece = read.map(|length| {
                        piece.truncate(length);
                        piece.freeze()
                    });
                    let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
                    let wanted = !matches!(&piece, Ok(it) if it.is_empty());
                    if (wanted && send.blocking_send(piece).is_err()) || is_last {
                        break;
                    }
                }
            };
            tokio::task::spawn_blocking(read);
            Ok(ReceiverStream::new(receive).boxed())
        })
    }

    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, mut content: Content) -> Answer<'a, ()> {
        Box::pin(async move {
            let opened = path.clone();
            let mut file = self
                .blocking(move |this| {
                    let open = || {
                        let mut file = this.create(&opened)?;
                        if file.metadata()?.len() < offset {
                            return Err(io::Error::other("it is shorter than it was"));
                        }
                        file.set_len(offset)?;
                        file.seek(SeekFrom::Start(offset))?;
                        Ok(file)
                    };
                    open().map_err(|source| this.error(Operation::Write, &opened, source))
                })
                .await?;
            let mut pieces = Vec::new();
            let mut ready = 0;
            loop {
                let piece = content.next().await.transpose()?;
                let is_last = piece.is_none();
                ready += piece.as_ref().map_or(0, Bytes::len);
                pieces.extend(piece);
                if !is_last && ready < PIECE {
                    continue;
                }
                let batch = std::mem::take(&mut pieces);
                ready = 0;
                let path = path.clone();
                file = self
                    .blocking(move |this| {
                        let written = batch.iter().try_for_each(|piece| file.write_all(piece));
                        written.map_err(|source| this.error(Operation::Write, &path, source))?;
                        Ok(file)
                    })
                    .await?;
                if is_last {
                    return Ok(());
                }
            }
        })
    }

    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()> {
        let changes = changes.to_vec();
        self.blocking(move |this| {
            for change in &changes {
                let done = this.change_now(change);
                done.map_err(|source| this.error(Operation::Change, change.path(), source))?;
            }
            Ok(())
        })
    }

    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        let files = files.to_vec();
        self.blocking(move |this| {
            let digests = files.iter().map(|(path, length)| {
                let digest = this.digest_now(path, *length);
                digest.map_err(|source| this.error(Operation::Read, path, source))
            });
            digests.collect()
        })
    }

    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()> {
        let files = files.to_vec();
        self.blocking(move |this| {
            for file in &files {
                let done = this.write_small_now(file);
                done.map_err(|source| this.error(Operation::Write, &file.path, source))?;
            }
            Ok(())
        })
    }

    fn read_small<'a>(&'a self, paths: &'a [RelPath], limit: usize) -> Answer<'a, Vec<Bytes>> {
        let paths = paths.to_vec();
        self.blocking(move |this| {
            let read = |path: &RelPath| {
                let mut bytes = Vec::new();
                let file = this.open_file(path, OFlags::RDONLY)?;
                file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
                match bytes.len() > limit {
                    true => Err(io::Error::other("it has become longer")),
                    false => Ok(Bytes::from(bytes)),
                }
            };
            let read = paths
                .iter()
                .map(|path| read(path).map_err(|source| this.error(Operation::Read, path, source)));
            read.collect()
        })
    }
}
