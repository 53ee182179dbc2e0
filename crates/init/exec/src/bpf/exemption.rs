//! Processes that a restriction of file systems does not hold for yet: those that are being set up.
//!
//! A unit's program is to be kept from files, not `muster-exec`, which reads and writes files of the kernel's on the way there.
//! The filter of the group looks each process up in a map that the kernel keeps with its tasks: what is noted there is gone with
//! the process, is not inherited by others that it makes, and is nobody's to write who has not the map's descriptor. A process
//! is noted by itself before it opens anything, and crossed out as the last thing before the program is executed.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use muster_cgroup::Hook;

use super::{
    BTF_LOAD, MAP_CREATE, MAP_DELETE_ELEM, MAP_UPDATE_ELEM, MapElement, NAME_SIZE, address, bpf,
    bpf_descriptor, name, own_programs,
};

const MAP_TYPE_TASK_STORAGE: u32 = 29;
/// Such maps have no memory of their own.
const NO_PREALLOC: u32 = 1;
/// A description of one type, which the kernel wants of such maps: an integer of four bytes, for keys and values.
const INTEGER: u32 = 1;
const DESCRIPTION: [u32; 10] = [
    // Magic and version, length of the header, where the types are, where the names are.
    if cfg!(target_endian = "little") {
        0x0001_eb9f
    } else {
        0xeb9f_0100
    },
    24,
    0,
    16,
    16,
    8,
    // Its name, its kind, its size in bytes, its size in bits.
    1,
    1 << 24,
    4,
    32,
];
/// Names: none, and that of the type.
const NAMES: [u8; 8] = *b"\0int\0\0\0\0";

#[repr(C)]
struct BtfLoad {
    description: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    unused: u32,
}

#[repr(C)]
struct StorageCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; NAME_SIZE],
    interface: u32,
    description: u32,
    key_type: u32,
    value_type: u32,
}

/// The map of the group's filter; nothing where it has none.
#[must_use]
pub fn exemptions(cgroup: BorrowedFd<'_>) -> Option<OwnedFd> {
    let programs = own_programs(cgroup, Hook::FileOpen);
    programs.iter().find_map(|program| program.map())
}

/// Makes such a map.
pub(super) fn make() -> io::Result<OwnedFd> {
    let mut description = [0u8; size_of_val(&DESCRIPTION) + NAMES.len()];
    let words = DESCRIPTION.iter().flat_map(|word| word.to_ne_bytes());
    for (to, from) in description.iter_mut().zip(words.chain(NAMES)) {
        *to = from;
    }
    let argument = BtfLoad {
        description: address(description.as_ptr()),
        log: 0,
        size: u32::try_from(description.len()).unwrap_or_default(),
        log_size: 0,
        log_level: 0,
        unused: 0,
    };
    // SAFETY: the description has the size that is said and lives until the call is over; what is returned is new.
    let description = unsafe { bpf_descriptor(BTF_LOAD, &argument) }?;
    let argument = StorageCreate {
        kind: MAP_TYPE_TASK_STORAGE,
        key_size: 4,
        value_size: 4,
        max_entries: 0,
        flags: NO_PREALLOC,
        inner: 0,
        node: 0,
        name: name("muster_exempt"),
        interface: 0,
        description: description.as_raw_fd().cast_unsigned(),
        key_type: INTEGER,
        value_type: INTEGER,
    };
    // SAFETY: the argument holds no pointers; what is returned is a new descriptor.
    unsafe { bpf_descriptor(MAP_CREATE, &argument) }
}

/// Lets this process open every file until [`end`], and no process that it makes. Only makes system calls.
pub(crate) fn begin(map: BorrowedFd<'_>) -> io::Result<()> {
    note(MAP_UPDATE_ELEM, map)
}

/// The restriction holds for this process from now on. Only makes system calls.
pub(crate) fn end(map: BorrowedFd<'_>) -> io::Result<()> {
    note(MAP_DELETE_ELEM, map)
}

fn note(command: c_long, map: BorrowedFd<'_>) -> io::Result<()> {
    let own = own_descriptor()?;
    let (key, value) = (own, 1u32);
    let is_update = command == MAP_UPDATE_ELEM;
    let argument = MapElement {
        map: map.as_fd().as_raw_fd().cast_unsigned(),
        unused: 0,
        key: address(&raw const key),
        value: if is_update {
            address(&raw const value)
        } else {
            0
        },
        flags: 0,
    };
    // SAFETY: key and value have the sizes that the map was made with, and live until the call is over.
    let noted = unsafe { bpf(command, &argument) };
    // SAFETY: it was opened above, and nobody else knows of it.
    unsafe { libc::close(own) };
    noted.map(drop)
}

/// A descriptor of this process. It is a plain number, since a new process that shares its parent's memory drops nothing.
fn own_descriptor() -> io::Result<c_int> {
    // SAFETY: no addresses are involved.
    let own = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let own = super::checked(own)?;
    c_int::try_from(own).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))
}
