//! The files that images are: opened and read.

use std::os::fd::OwnedFd;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fstat, getxattr, open,
    openat2, stat, statx,
};
use rustix::io::{Errno, pread};

use crate::mounts::calls::copy_alone;

/// How something is opened that may be anything.
const HARMLESS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// The file, and whether it can be written.
pub(super) fn open_file(path: &str, read_only: bool) -> Result<(OwnedFd, bool), Errno> {
    let read = || open(path, OFlags::RDONLY | HARMLESS, Mode::empty()).map(|file| (file, false));
    if read_only {
        return read();
    }
    match open_writable(path) {
        Ok(file) => Ok((file, true)),
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => read(),
        Err(errno) => Err(errno),
    }
}

/// Opens a file for writing in a copy of its mount that nobody sees: a loop device keeps it open, and the kernel makes no
/// mount read-only in which something is open for writing.
fn open_writable(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | HARMLESS;
    let apart = open_apart(path, flags);
    let same = |file: &OwnedFd| -> Result<bool, Errno> {
        let (one, other) = (stat(path)?, fstat(file)?);
        Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    };
    match apart {
        Ok(Some(file)) if same(&file)? => Ok(file),
        // It is a mount itself, or on one that cannot be copied.
        Ok(_) | Err(Errno::INVAL) => open(path, flags, Mode::empty()),
        Err(errno) => Err(errno),
    }
}

fn open_apart(path: &str, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let real = std::fs::canonicalize(path)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    for folder in real.ancestors().skip(1) {
        let place = open(
            folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let stat = statx(&place, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        if !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            continue;
        }
        // All of the mount is copied, so that the device shows where its file is in it.
        let copy = copy_alone(place.as_fd())?;
        let inside = real.strip_prefix(folder).map_err(|_| Errno::INVAL)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        return openat2(copy, inside, flags, Mode::empty(), resolve).map(Some);
    }
    Ok(None)
}

/// A file or attribute beside an image that says which hash it must have, and with which systemd would check it.
pub(super) fn verity_beside(path: &str) -> Option<String> {
    let stem = path.strip_suffix(".raw").unwrap_or(path);
    let files = ["roothash", "usrhash", "verity"].map(|suffix| format!("{stem}.{suffix}"));
    let found = files.into_iter().find(|file| stat(file.as_str()).is_ok());
    found.or_else(|| {
        let attributes = ["user.verity.roothash", "user.verity.usrhash"];
        let mut there = attributes.into_iter().filter(|name| {
            let mut nothing: [u8; 0] = [];
            getxattr(path, *name, &mut nothing).is_ok()
        });
        there.next().map(|name| format!("the attribute {name}"))
    })
}

/// What is at a place in a file, as far as that goes.
pub(super) fn read(file: BorrowedFd<'_>, start: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let at = u64::try_from(filled).map_or(None, |filled| start.checked_add(filled));
        match pread(file, &mut bytes[filled..], at.ok_or(Errno::OVERFLOW)?) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Which file system begins at a place in a file, by its magic number.
pub(super) fn file_system_of(
    file: BorrowedFd<'_>,
    start: u64,
) -> Result<Option<&'static str>, Errno> {
    const SUPERBLOCK: u64 = 1024;
    const EXT_MAGIC: u64 = SUPERBLOCK + 56;
    let matches = |offset: u64, magic: &[u8]| -> Result<bool, Errno> {
        let at = start.checked_add(offset).ok_or(Errno::OVERFLOW)?;
        read(file, at, magic.len()).map(|bytes| bytes == magic)
    };
    if matches(0, b"hsqs")? {
        return Ok(Some("squashfs"));
    }
    if matches(SUPERBLOCK, &0xE0F5_E1E2_u32.to_le_bytes())? {
        return Ok(Some("erofs"));
    }
    Ok(matches(EXT_MAGIC, &0xEF53_u16.to_le_bytes())?.then_some("ext4"))
}
