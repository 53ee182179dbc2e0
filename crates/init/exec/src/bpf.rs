//! Programs that the kernel runs for a cgroup: loaded, attached, found again, and taken away.
//!
//! A program stays attached as long as its cgroup lives, whoever attached it. Nothing is kept here: what is attached is asked
//! of the kernel, and the programs of this manager (or of the one before it) are known by their names.
#![expect(
    unsafe_code,
    reason = "bpf(2) takes pointers inside of its argument and has no safe wrapper"
)]

mod exemption;
mod lsm;
mod pinned;

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use muster_cgroup::{COUNTERS_SIZE, Hook, Program};

pub use exemption::exemptions;
pub(crate) use exemption::{begin as begin_exemption, end as end_exemption};
pub use lsm::{NoFileHook, file_layout};
pub use pinned::{PinnedError, keep_pinned};

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP_ELEM: c_long = 1;
const MAP_UPDATE_ELEM: c_long = 2;
const MAP_DELETE_ELEM: c_long = 3;
const PROG_LOAD: c_long = 5;
const OBJ_GET: c_long = 7;
const PROG_ATTACH: c_long = 8;
const PROG_DETACH: c_long = 9;
const PROG_GET_FD_BY_ID: c_long = 13;
const MAP_GET_FD_BY_ID: c_long = 14;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const PROG_QUERY: c_long = 16;
const BTF_LOAD: c_long = 18;

const MAP_TYPE_ARRAY: u32 = 2;
/// Several programs at one place, those of the groups above included; all of them have to agree.
const ALLOW_MULTI: u32 = 2;
/// Most programs of one cgroup that are looked at; the kernel takes no more than 64.
const MAX_ATTACHED: usize = 64;
const NAME_SIZE: usize = 16;
/// The kernel lends some of its functions only to programs under its own licence.
const LICENCE: &[u8; 4] = b"GPL\0";

/// What could not be done with a program.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The kernel does not take it, or this process may not load any.
    #[error("cannot load the program for {hook:?}")]
    Load {
        /// The place that it is for.
        hook: Hook,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The map that it counts in, or looks for exempt processes in, cannot be made.
    #[error("cannot make the map of the program for {hook:?}")]
    Map {
        /// The place that it is for.
        hook: Hook,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be put in its place, or another cannot be taken from there.
    #[error("cannot attach the program for {hook:?}")]
    Attach {
        /// The place.
        hook: Hook,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What went through the filter of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Puts this program, or none, in its place at a cgroup, instead of the one that was put there before. What was counted goes
/// on being counted, who is exempt stays it, and there is no moment without either of them.
///
/// # Errors
/// The kernel refuses; what was there before is still there.
pub fn replace(
    cgroup: BorrowedFd<'_>,
    hook: Hook,
    program: Option<&Program>,
) -> Result<(), FilterError> {
    let attach = |source| FilterError::Attach { hook, source };
    let old = own_programs(cgroup, hook);
    if let Some(program) = program {
        let make: Option<fn() -> io::Result<OwnedFd>> = match hook {
            Hook::FileOpen => Some(exemption::make),
            _ if program.counts => Some(make_counters),
            _ => None,
        };
        let map = make.map(|make| {
            let kept = old.iter().find_map(|old| old.map());
            kept.map_or_else(make, Ok)
        });
        let map = map
            .transpose()
            .map_err(|source| FilterError::Map { hook, source })?;
        let new =
            load(program, map.as_ref()).map_err(|source| FilterError::Load { hook, source })?;
        change(PROG_ATTACH, cgroup, new.as_fd(), hook.attach_type()).map_err(attach)?;
    }
    for old in old {
        change(PROG_DETACH, cgroup, old.program.as_fd(), hook.attach_type()).map_err(attach)?;
    }
    Ok(())
}

/// What the filter of one direction counted; `None` where there is none that counts.
#[must_use]
pub fn traffic(cgroup: BorrowedFd<'_>, hook: Hook) -> Option<Traffic> {
    let programs = own_programs(cgroup, hook);
    let counters = programs.iter().find_map(|program| program.map())?;
    let key = 0u32;
    let mut value = [0u64; COUNTERS_SIZE as usize / 8];
    let argument = MapElement {
        map: raw(counters.as_fd()),
        unused: 0,
        key: address(&raw const key),
        value: address(&raw mut value),
        flags: 0,
    };
    // SAFETY: key and value have the sizes that the map was made with, and live until the call is over. The kernel writes into the
    // value through an address whose provenance is exposed.
    unsafe { bpf(MAP_LOOKUP_ELEM, &argument) }.ok()?;
    let [packets, bytes] = value;
    Some(Traffic { packets, bytes })
}

/// A program of this manager's that is attached.
#[derive(Debug)]
struct Attached {
    program: OwnedFd,
    map: Option<u32>,
}

impl Attached {
    /// Its map.
    fn map(&self) -> Option<OwnedFd> {
        let argument = ById {
            id: self.map?,
            next: 0,
            flags: 0,
        };
        // SAFETY: the argument holds no pointers; what is returned is a new descriptor.
        unsafe { bpf_descriptor(MAP_GET_FD_BY_ID, &argument) }.ok()
    }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; NAME_SIZE],
}

#[repr(C)]
struct MapElement {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_SIZE],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    function: u32,
    function_types: u32,
    unused: u32,
}

#[repr(C)]
struct ProgAttach {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
    replaced: u32,
}

#[repr(C)]
struct ProgQuery {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    unused: u32,
    program_flags: u64,
}

#[repr(C)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
struct GetInfo {
    object: u32,
    size: u32,
    info: u64,
}

/// The beginning of what the kernel tells about a program; it fills as much as there is room for.
#[repr(C)]
#[derive(Default)]
struct ProgInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    compiled_size: u32,
    translated_size: u32,
    compiled: u64,
    translated: u64,
    load_time: u64,
    user: u32,
    maps: u32,
    map_ids: u64,
    name: [u8; NAME_SIZE],
}

fn own_programs(cgroup: BorrowedFd<'_>, hook: Hook) -> Vec<Attached> {
    let ids = attached(cgroup, hook.attach_type(), hook == Hook::FileOpen);
    let ids = ids.into_iter();
    ids.filter_map(|id| own_program(id, hook)).collect()
}

/// The numbers of all programs that are attached to a group at a place.
fn attached(cgroup: BorrowedFd<'_>, attach_type: u32, is_lsm: bool) -> Vec<u32> {
    let (mut ids, mut flags) = ([0u32; MAX_ATTACHED], [0u32; MAX_ATTACHED]);
    let mut query = ProgQuery {
        target: raw(cgroup),
        attach_type,
        query_flags: 0,
        attach_flags: 0,
        ids: address(&raw mut ids),
        count: u32::try_from(MAX_ATTACHED).unwrap_or_default(),
        unused: 0,
        // Kernels that have no such programs know no such field, and one that has them wants it for them.
        program_flags: if is_lsm { address(&raw mut flags) } else { 0 },
    };
    // SAFETY: the kernel writes at most `count` numbers to `ids` and to `flags`, which have room for them and whose
    // provenance is exposed, and how many into the argument.
    if unsafe { bpf_mut(PROG_QUERY, &mut query) }.is_err() {
        return Vec::new();
    }
    let count = usize::try_from(query.count).unwrap_or_default();
    ids.into_iter().take(count).collect()
}

fn own_program(id: u32, hook: Hook) -> Option<Attached> {
    let program = by_number(id).ok()?;
    let mut map = 0u32;
    let info = tell(program.as_fd(), &mut map).ok()?;
    (info.name == name(hook.program_name())).then_some(Attached {
        program,
        map: (info.maps > 0).then_some(map),
    })
}

/// The program of this number.
fn by_number(id: u32) -> io::Result<OwnedFd> {
    let argument = ById {
        id,
        next: 0,
        flags: 0,
    };
    // SAFETY: the argument holds no pointers; what is returned is a new descriptor.
    unsafe { bpf_descriptor(PROG_GET_FD_BY_ID, &argument) }
}

/// What the kernel tells about a program, and the number of its first map.
fn tell(program: BorrowedFd<'_>, map: &mut u32) -> io::Result<ProgInfo> {
    let mut info = ProgInfo {
        maps: 1,
        map_ids: address(std::ptr::from_mut(map)),
        ..ProgInfo::default()
    };
    let mut argument = GetInfo {
        object: raw(program),
        size: u32::try_from(size_of::<ProgInfo>()).unwrap_or_default(),
        info: address(&raw mut info),
    };
    // SAFETY: the kernel writes at most `size` bytes to `info`, which is as large, at most `maps` numbers to `map`, both of
    // exposed provenance, and how much it wrote into the argument.
    unsafe { bpf_mut(OBJ_GET_INFO_BY_FD, &mut argument) }?;
    Ok(info)
}

fn make_counters() -> io::Result<OwnedFd> {
    let argument = MapCreate {
        kind: MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: COUNTERS_SIZE,
        max_entries: 1,
        flags: 0,
        inner: 0,
        node: 0,
        name: name("muster_traffic"),
    };
    // SAFETY: the argument holds no pointers; what is returned is a new descriptor.
    unsafe { bpf_descriptor(MAP_CREATE, &argument) }
}

fn load(program: &Program, map: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let instructions = match map {
        Some(map) => program.with_map(map.as_raw_fd()),
        None => program.instructions.clone(),
    };
    let bytes: Vec<[u8; 8]> = instructions.iter().map(|one| one.bytes()).collect();
    let argument = ProgLoad {
        kind: program.hook.program_type(),
        count: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        instructions: address(bytes.as_ptr()),
        licence: address(LICENCE.as_ptr()),
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: name(program.hook.program_name()),
        interface: 0,
        attach_type: program.hook.attach_type(),
        types: 0,
        function_size: 0,
        functions: 0,
        function_count: 0,
        line_size: 0,
        lines: 0,
        line_count: 0,
        function: program.function.unwrap_or_default(),
        function_types: 0,
        unused: 0,
    };
    // SAFETY: `instructions` are `count` of eight bytes each and the licence ends in zero; both live until the call is over.
    unsafe { bpf_descriptor(PROG_LOAD, &argument) }
}

fn change(
    command: c_long,
    cgroup: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    attach_type: u32,
) -> io::Result<()> {
    let argument = ProgAttach {
        target: raw(cgroup),
        program: raw(program),
        attach_type,
        flags: if command == PROG_ATTACH {
            ALLOW_MULTI
        } else {
            0
        },
        replaced: 0,
    };
    // SAFETY: the argument holds no pointers.
    unsafe { bpf(command, &argument) }.map(drop)
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// A pointer as the kernel's structures hold it. The kernel reads and writes through the number, so the compiler has to know
/// that somebody may: the pointer's provenance is exposed.
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

fn name(text: &str) -> [u8; NAME_SIZE] {
    let mut name = [0; NAME_SIZE];
    // The last byte stays zero.
    for (to, from) in name.iter_mut().take(NAME_SIZE - 1).zip(text.bytes()) {
        *to = from;
    }
    name
}

/// # Safety
/// The argument must be that of the command, its pointers valid for what the kernel reads and writes there, and the kernel must
/// not write into the argument itself.
unsafe fn bpf<T>(command: c_long, argument: &T) -> io::Result<c_long> {
    let pointer = std::ptr::from_ref(argument);
    // SAFETY: the caller vouches for the argument, which is as large as is said.
    checked(unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) })
}

/// # Safety
/// As for [`bpf`], but the kernel may write into the argument.
unsafe fn bpf_mut<T>(command: c_long, argument: &mut T) -> io::Result<c_long> {
    let pointer = std::ptr::from_mut(argument);
    // SAFETY: the caller vouches for the argument, which is as large as is said and nobody else's.
    checked(unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) })
}

/// # Safety
/// As for [`bpf`], and the command must be one that returns a new descriptor.
unsafe fn bpf_descriptor<T>(command: c_long, argument: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the argument.
    let result = unsafe { bpf(command, argument) }?;
    let number = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel just made this descriptor (closed on exec, as all of bpf's are), and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
