//! The FUSE side of a logged disk: a folder with the single file `disk.img`.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use rustix::fs::OFlags;

use super::blocks::Blocks;
use super::log::{Record, WriteLog};

/// Name of the disk's file in the served folder.
pub(super) const FILE_NAME: &str = "disk.img";
const FILE: INodeNo = INodeNo(2);
/// The file never changes its attributes, so the kernel may keep them.
const TTL: Duration = Duration::from_secs(3600);
/// Bound on the data that one log holds; further writes fail.
const MAX_LOGGED: u64 = 1 << 30;

/// The disk's content and history, shared by the server thread and the rig.
#[derive(Clone, Debug)]
pub(super) struct SharedDisk {
    base: Blocks,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    content: Blocks,
    records: Vec<Record>,
    logged: u64,
}

impl SharedDisk {
    pub(super) fn new(base: Blocks) -> Self {
        let state = State {
            content: base.clone(),
            records: Vec::new(),
            logged: 0,
        };
        Self {
            base,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// How many requests were logged so far.
    pub(super) fn position(&self) -> usize {
        self.state().records.len()
    }

    pub(super) fn log(&self) -> WriteLog {
        WriteLog::new(self.base.clone(), self.state().records.clone())
    }

    /// Logs a write; one of a file opened for synchronous writing is flushed before it completes.
    fn write(&self, offset: u64, data: &[u8], synchronous: bool) -> Result<(), Errno> {
        let mut state = self.state();
        let length = data.len() as u64;
        if !state.content.contains(offset, length) || state.logged + length > MAX_LOGGED {
            return Err(Errno::ENOSPC);
        }
        state.logged += length;
        state.content.write(offset, data);
        state.records.push(Record::Write {
            offset,
            data: data.into(),
        });
        if synchronous {
            state.records.push(Record::Flush);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 2),
            FILE => (FileType::RegularFile, 0o600, self.base.size(), 1),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for SharedDisk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&TTL, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (next, (inode, kind, name)) in
            (1..).zip(entries).skip_while(|(next, _)| *next <= offset)
        {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode == FILE {
            // No page cache in between: a write is logged before its caller sees it completed.
            reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
        } else {
            reply.error(Errno::EISDIR);
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        reply.data(&self.state().content.read(offset, wanted));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let synchronous = OFlags::from_bits_retain(flags.0.cast_unsigned())
            .intersects(OFlags::SYNC | OFlags::DSYNC);
        match (
            self.write(offset, data, synchronous),
            u32::try_from(data.len()),
        ) {
            (Ok(()), Ok(length)) => reply.written(length),
            (Err(error), _) => reply.error(error),
            (_, Err(_)) => reply.error(Errno::EINVAL),
        }
    }

    /// A close of the file says nothing about durability.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.state().records.push(Record::Flush);
        reply.ok();
    }

    /// The block layer writes zeros itself when a range cannot be discarded.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
