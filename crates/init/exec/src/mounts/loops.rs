//! Loop devices: a file, or a part of one, as a disk.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fd::BorrowedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::{Errno, retry_on_intr};

use super::calls::done;

/// How often a free loop device is looked for: others look too, and one of them gets it.
const MAX_ATTEMPTS: usize = 64;

/// What of a file is behind a loop device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) offset: u64,
    /// Zero is all of it.
    pub(super) size: u64,
}

/// A loop device with a file behind it.
pub(super) struct LoopDevice {
    pub(super) path: String,
    /// It can be written through, whoever asked for it.
    pub(super) writable: bool,
    /// As long as somebody has it open, its file stays behind it.
    _open: OwnedFd,
}

/// A loop device with this file behind it.
///
/// What is written through one device is not seen through another, and two file systems on the same blocks destroy each other.
/// So one that can be written, as another process of the same unit may have, is used by everybody.
pub(super) fn loop_device(
    file: BorrowedFd<'_>,
    extent: Extent,
    read_only: bool,
) -> Result<LoopDevice, Errno> {
    let control = open(
        "/dev/loop-control",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // Nobody else of ours gives the file to a device between the look and the act.
    retry_on_intr(|| flock(&control, FlockOperation::LockExclusive))?;
    if let Some(known) = writable_device_of(file, extent)? {
        return Ok(known);
    }
    let access = if read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    for _ in 0..MAX_ATTEMPTS {
        let number = free_loop_device(control.as_fd())?;
        let path = format!("/dev/loop{number}");
        let device = open(&path, access | OFlags::CLOEXEC, Mode::empty())?;
        match configure_loop_device(device.as_fd(), file, extent, read_only) {
            Err(Errno::BUSY) => {}
            configured => {
                return configured.map(|()| LoopDevice {
                    path,
                    writable: !read_only,
                    _open: device,
                });
            }
        }
    }
    Err(Errno::BUSY)
}

/// A device that writes to the same part of the same file.
fn writable_device_of(file: BorrowedFd<'_>, extent: Extent) -> Result<Option<LoopDevice>, Errno> {
    let wanted = fstat(file)?;
    let Ok(blocks) = std::fs::read_dir("/sys/block") else {
        return Ok(None);
    };
    for block in blocks.flatten() {
        let name = block.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        // Only those that are in use have it.
        if !block.path().join("loop").is_dir() {
            continue;
        }
        let path = format!("/dev/{name}");
        let Ok(device) = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            continue;
        };
        // From here on it keeps its file.
        let Ok(info) = status_of(device.as_fd()) else {
            continue;
        };
        let same = (info.device, info.inode) == (wanted.st_dev, wanted.st_ino)
            && (info.offset, info.size_limit) == (extent.offset, extent.size);
        if same && info.flags & LO_FLAGS_READ_ONLY == 0 {
            return Ok(Some(LoopDevice {
                path,
                writable: true,
                _open: device,
            }));
        }
    }
    Ok(None)
}

/// `struct loop_info64` of the kernel.
#[repr(C)]
#[derive(Debug)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const NONE: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config` of the kernel.
#[repr(C)]
#[derive(Debug)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// The number of a loop device that nobody uses at this moment.
#[expect(unsafe_code, reason = "no library knows these requests")]
fn free_loop_device(control: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: the request has no argument.
    let result = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
    done(i64::from(result))?;
    u32::try_from(result).map_err(|_| Errno::NODEV)
}

/// Puts a file behind a loop device, which is free again when nobody has it open or mounted any more.
#[expect(unsafe_code, reason = "no library knows these requests")]
fn configure_loop_device(
    device: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    extent: Extent,
    read_only: bool,
) -> Result<(), Errno> {
    let config = LoopConfig {
        fd: file.as_raw_fd().cast_unsigned(),
        block_size: 0,
        info: LoopInfo {
            offset: extent.offset,
            size_limit: extent.size,
            flags: LO_FLAGS_AUTOCLEAR | if read_only { LO_FLAGS_READ_ONLY } else { 0 },
            ..LoopInfo::NONE
        },
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads one `struct loop_config`, which is what the pointer leads to.
    let result = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            LOOP_CONFIGURE as _,
            std::ptr::from_ref(&config),
        )
    };
    done(i64::from(result))
}

/// What is behind a loop device.
#[expect(unsafe_code, reason = "no library knows these requests")]
fn status_of(device: BorrowedFd<'_>) -> Result<LoopInfo, Errno> {
    let mut info = LoopInfo::NONE;
    // SAFETY: the kernel writes one `struct loop_info64`, which is what the pointer leads to; it has only numbers.
    let result = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            LOOP_GET_STATUS64 as _,
            std::ptr::from_mut(&mut info),
        )
    };
    done(i64::from(result)).map(|()| info)
}
