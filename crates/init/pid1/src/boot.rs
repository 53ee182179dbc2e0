//! What PID 1 finds missing when it starts: file systems of the kernel, a console, room for descriptors.
//!
//! Nothing here is fatal. What does not work is said, and the machine gets as far as it gets.

use std::ffi::CStr;
use std::fs;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags, makedev, mkdirat, mknodat,
    statx, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use rustix::system::{RebootCommand, reboot};

use crate::report::{Level, say};

/// Descriptors that PID 1 allows itself and its descendants, at most.
const MOST_FILES: u64 = 524_288;
/// The name of the PID namespace that the kernel starts with.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Something to mount.
struct Api {
    source: &'static CStr,
    target: &'static CStr,
    kind: &'static CStr,
    flags: MountFlags,
    data: &'static CStr,
}

const STRICT: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NODEV);

const PROC: Api = Api {
    source: c"proc",
    target: c"/proc",
    kind: c"proc",
    flags: STRICT,
    data: c"",
};

const DEV: Api = Api {
    source: c"devtmpfs",
    target: c"/dev",
    kind: c"devtmpfs",
    flags: MountFlags::NOSUID,
    data: c"mode=755",
};

const REST: [Api; 5] = [
    Api {
        source: c"sysfs",
        target: c"/sys",
        kind: c"sysfs",
        flags: STRICT,
        data: c"",
    },
    Api {
        source: c"devpts",
        target: c"/dev/pts",
        kind: c"devpts",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        data: c"mode=620,ptmxmode=666,gid=5",
    },
    Api {
        source: c"tmpfs",
        target: c"/dev/shm",
        kind: c"tmpfs",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: c"mode=1777",
    },
    Api {
        source: c"tmpfs",
        target: c"/run",
        kind: c"tmpfs",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: c"mode=755",
    },
    Api {
        source: c"cgroup2",
        target: c"/sys/fs/cgroup",
        kind: c"cgroup2",
        flags: STRICT,
        data: c"nsdelegate,memory_recursiveprot",
    },
];

/// Character devices without which few programs run.
const NODES: [(&CStr, u32, u32, u32); 7] = [
    (c"/dev/null", 1, 3, 0o666),
    (c"/dev/zero", 1, 5, 0o666),
    (c"/dev/full", 1, 7, 0o666),
    (c"/dev/random", 1, 8, 0o666),
    (c"/dev/urandom", 1, 9, 0o666),
    (c"/dev/tty", 5, 0, 0o666),
    (c"/dev/console", 5, 1, 0o600),
];

const LINKS: [(&CStr, &CStr); 4] = [
    (c"/proc/self/fd", c"/dev/fd"),
    (c"/proc/self/fd/0", c"/dev/stdin"),
    (c"/proc/self/fd/1", c"/dev/stdout"),
    (c"/proc/self/fd/2", c"/dev/stderr"),
];

/// Mounts /proc, without which not even the kernel's command line can be read.
pub fn mount_proc() {
    mount_missing(&PROC);
}

/// Mounts the kernel's file systems where nothing is mounted, and makes the basic devices.
pub fn mount_api() {
    // Modes are meant as they are written here.
    let mask = umask(Mode::empty());
    if !is_mount_point(DEV.target) && try_mount(&DEV, DEV.data).is_err() {
        say(
            Level::Warning,
            format_args!("no devtmpfs: /dev has only the basic devices"),
        );
        mount_missing(&Api {
            source: c"tmpfs",
            kind: c"tmpfs",
            ..DEV
        });
        make_nodes();
    }
    for (target, link) in LINKS {
        // Exists if somebody else has prepared /dev.
        let _ = symlinkat(target, CWD, link);
    }
    REST.iter().for_each(mount_missing);
    umask(mask);
}

fn mount_missing(api: &Api) {
    if is_mount_point(api.target) {
        return;
    }
    // An old kernel does not know all the options, and none of them is worth having nothing.
    if let Err(error) = try_mount(api, api.data).or_else(|_| try_mount(api, c"")) {
        let target = api.target.to_string_lossy();
        say(Level::Error, format_args!("cannot mount {target}: {error}"));
    }
}

fn try_mount(api: &Api, data: &CStr) -> Result<(), Errno> {
    // It exists, or the file system is read-only, and then the mount tells.
    let _ = mkdirat(CWD, api.target, Mode::from_raw_mode(0o755));
    mount(api.source, api.target, api.kind, api.flags, data)
}

fn is_mount_point(path: &CStr) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn make_nodes() {
    for (path, major, minor, mode) in NODES {
        let made = mknodat(
            CWD,
            path,
            FileType::CharacterDevice,
            Mode::from_raw_mode(mode),
            makedev(major, minor),
        );
        if let Err(error) = made {
            let path = path.to_string_lossy();
            say(Level::Error, format_args!("cannot make {path}: {error}"));
        }
    }
}

/// Gives PID 1 of a machine the console, if the kernel could not.
pub fn open_console() {
    if rustix::termios::isatty(std::io::stderr()) {
        return;
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    if let Ok(console) = rustix::fs::open(c"/dev/console", flags, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&console);
        let _ = rustix::stdio::dup2_stdout(&console);
        let _ = rustix::stdio::dup2_stderr(&console);
    }
}

/// Lets mounts that come later reach services with namespaces of their own. The kernel starts with the opposite.
pub fn share_mounts() {
    let flags = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    if let Err(error) = mount_change(c"/", flags) {
        say(
            Level::Warning,
            format_args!("mounts do not reach services that have started: {error}"),
        );
    }
}

/// From now on ctrl-alt-del is a signal to PID 1 instead of an immediate restart.
pub fn take_ctrl_alt_del() {
    if let Err(error) = reboot(RebootCommand::CadOff) {
        say(
            Level::Warning,
            format_args!("ctrl-alt-del cannot be taken over: {error}"),
        );
    }
}

/// Allows as many open files as possible, since a few are kept for each service; how many that are.
pub fn raise_file_limit() -> usize {
    let now = getrlimit(Resource::Nofile);
    let wanted = now
        .maximum
        .map_or(MOST_FILES, |maximum| maximum.max(MOST_FILES));
    let both = |files| Rlimit {
        current: Some(files),
        maximum: Some(files),
    };
    // More than before is only for the privileged, so the second try takes what there is.
    if setrlimit(Resource::Nofile, both(wanted)).is_err()
        && let Some(maximum) = now.maximum
        && let Err(error) = setrlimit(Resource::Nofile, both(maximum))
    {
        say(
            Level::Warning,
            format_args!("cannot raise the limit of open files: {error}"),
        );
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST_FILES);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Whether this is a PID namespace within a machine, whose file systems and kernel belong to others.
pub fn is_in_container() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() != FIRST_PID_NAMESPACE)
}
