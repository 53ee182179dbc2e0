//! File systems that are made for one view.

use std::os::fd::OwnedFd;

use muster_mounts::{
    AccessTime, Attributes, DEVICES, Fresh, MountOptions, Point, PointKind, ProcOthers,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Stat, Uid, chownat, mkdirat, mknodat, readlinkat, statat,
    symlinkat,
};
use rustix::io::Errno;

use super::calls::{copy_mount, make_mount, open_place};
use super::trees::Trees;

/// Where the log listens.
const LOG_SOCKET: &str = "/run/systemd/journal/dev-log";
/// Links that every `/dev` has.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("core", "/proc/kcore"),
    ("fd", "/proc/self/fd"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// What holds for file systems that only show what the kernel has.
pub(super) const KERNELS: Attributes = Attributes {
    read_only: false,
    no_suid: true,
    no_dev: true,
    no_exec: true,
    no_symlinks: false,
    no_folder_time: false,
    access_time: AccessTime::Relative,
};

/// A file system that is attached nowhere yet.
pub(super) struct Made {
    pub(super) mount: OwnedFd,
    /// What has to be attached in it when it is attached itself: names, and copies.
    pub(super) inside: Vec<(&'static str, OwnedFd)>,
    /// What the kernel does not know.
    pub(super) unknown: Vec<String>,
}

/// Makes a file system and the places in it.
pub(super) fn make(
    fresh: &Fresh,
    points: &[Point],
    trees: &Trees,
) -> Result<Made, (Errno, String)> {
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |errno| (errno, what)
    };
    let made = match fresh {
        Fresh::Memory(options) => Made::just(memory(options).map_err(cannot("make memory"))?),
        Fresh::Processes {
            others,
            only_processes,
        } => processes(*others, *only_processes)
            .map_err(cannot("make a file system of processes"))?,
        Fresh::Queues => Made::just(queues().map_err(cannot("show message queues"))?),
        Fresh::Groups => Made::just(groups().map_err(cannot("show control groups"))?),
        Fresh::Devices => devices(trees)?,
    };
    for point in points {
        let make = make_point(made.mount.as_fd(), point);
        make.map_err(cannot(&format!("make the place {}", point.path)))?;
    }
    Ok(made)
}

impl Made {
    pub(super) fn just(mount: OwnedFd) -> Self {
        Self {
            mount,
            inside: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

fn memory(options: &MountOptions) -> Result<OwnedFd, Errno> {
    let parameters = options.parameters.iter();
    let parameters = parameters.map(|(name, value)| (&**name, value.as_deref()));
    let parameters = std::iter::once(("source", Some("tmpfs"))).chain(parameters);
    make_mount("tmpfs", parameters, &options.attributes, |_, errno| {
        Err(errno)
    })
}

/// The queues of the caller's own namespace.
fn queues() -> Result<OwnedFd, Errno> {
    let source = [("source", Some("mqueue"))];
    make_mount("mqueue", source, &KERNELS, |_, errno| Err(errno))
}

/// The control groups of the caller's own namespace: its group and those below it.
fn groups() -> Result<OwnedFd, Errno> {
    let source = [("source", Some("cgroup2"))];
    make_mount("cgroup2", source, &KERNELS, |_, errno| Err(errno))
}

/// The processes of the caller's own namespace of processes.
fn processes(others: ProcOthers, only_processes: bool) -> Result<Made, Errno> {
    let hide = match others {
        ProcOthers::Default => None,
        ProcOthers::NoAccess => Some("noaccess"),
        ProcOthers::Invisible => Some("invisible"),
        ProcOthers::Ptraceable => Some("ptraceable"),
    };
    let hide = hide.map(|value| ("hidepid", Some(value)));
    let subset = only_processes.then_some(("subset", Some("pid")));
    let source = std::iter::once(("source", Some("proc")));
    let mut unknown = Vec::new();
    let mount = make_mount(
        "proc",
        source.chain(hide).chain(subset),
        &KERNELS,
        |name, errno| match errno {
            // Kernels before 5.8 know these for all of the machine only. systemd documents that nothing happens then.
            Errno::INVAL => {
                unknown.push(format!("the kernel does not know {name}"));
                Ok(())
            }
            errno => Err(errno),
        },
    )?;
    Ok(Made {
        mount,
        inside: Vec::new(),
        unknown,
    })
}

fn devices(trees: &Trees) -> Result<Made, (Errno, String)> {
    let cannot = |what: &'static str| move |errno| (errno, what.to_owned());
    let parameters = [
        ("source", Some("tmpfs")),
        ("mode", Some("0755")),
        ("size", Some("4m")),
        ("nr_inodes", Some("64k")),
    ];
    let attributes = Attributes {
        no_suid: true,
        no_exec: true,
        access_time: AccessTime::Always,
        ..Attributes::default()
    };
    let mount = make_mount("tmpfs", parameters, &attributes, |_, errno| Err(errno))
        .map_err(cannot("make memory for devices"))?;
    let mut made = Made::just(mount);
    let host = match open_place(trees.machine(), "/dev") {
        Ok(host) => host,
        Err(errno) => return Err((errno, "open the machine's /dev".to_owned())),
    };
    for name in DEVICES {
        device(&mut made, &host, name)
            .map_err(|errno| (errno, format!("make the device {name}")))?;
    }
    for (name, target) in DEVICE_LINKS {
        symlinkat(target, &made.mount, name).map_err(cannot("link the standard streams"))?;
    }
    log(&mut made, &host).map_err(cannot("make the log's socket"))?;
    Ok(made)
}

/// Makes the same device as the machine has, or takes the machine's own where that is refused.
fn device(made: &mut Made, host: &OwnedFd, name: &'static str) -> Result<(), Errno> {
    let Some(stat) = host_stat(host, name)? else {
        return Ok(());
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => copy_link(made, host, name),
        FileType::CharacterDevice => {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            let kind = FileType::CharacterDevice;
            match mknodat(&made.mount, name, kind, mode, stat.st_rdev) {
                Err(Errno::PERM | Errno::ACCESS) => take(made, host, name),
                made_it => {
                    made_it?;
                    give_to_owner(made, name, &stat)
                }
            }
        }
        _ => take(made, host, name),
    }
}

fn give_to_owner(made: &Made, name: &str, stat: &Stat) -> Result<(), Errno> {
    if stat.st_uid == 0 && stat.st_gid == 0 {
        return Ok(());
    }
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    chownat(&made.mount, name, Some(owner.0), Some(owner.1), flags)
}

/// The log's socket is where the machine has it; a link may well lead to one that is not there yet.
fn log(made: &mut Made, host: &OwnedFd) -> Result<(), Errno> {
    let kind = host_stat(host, "log")?.map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Some(FileType::Symlink) => copy_link(made, host, "log"),
        Some(FileType::Socket) => take(made, host, "log"),
        _ => symlinkat(LOG_SOCKET, &made.mount, "log"),
    }
}

fn host_stat(host: &OwnedFd, name: &str) -> Result<Option<Stat>, Errno> {
    match statat(host, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        stat => stat.map(Some),
    }
}

fn copy_link(made: &Made, host: &OwnedFd, name: &str) -> Result<(), Errno> {
    let target = readlinkat(host, name, Vec::new())?;
    symlinkat(target.as_c_str(), &made.mount, name)
}

fn take(made: &mut Made, host: &OwnedFd, name: &'static str) -> Result<(), Errno> {
    let place = open_place(host.as_fd(), name)?;
    let copy = copy_mount(place.as_fd(), false)?;
    mknodat(
        &made.mount,
        name,
        FileType::RegularFile,
        Mode::from_raw_mode(0o444),
        0,
    )?;
    made.inside.push((name, copy));
    Ok(())
}

/// Makes a place to mount on and the folders above it, below a root, never through a symlink.
pub(super) fn make_point(root: BorrowedFd<'_>, point: &Point) -> Result<(), Errno> {
    let path = point.path.trim_start_matches('/');
    let (folders, last) = path.rsplit_once('/').unwrap_or(("", path));
    let mut folder = open_place(root, "/")?;
    for name in folders.split('/').filter(|name| !name.is_empty()) {
        folder = match open_place(folder.as_fd(), name) {
            Err(Errno::NOENT) => {
                make_one(&folder, name, PointKind::Folder)?;
                open_place(folder.as_fd(), name)?
            }
            opened => opened?,
        };
    }
    make_one(&folder, last, point.kind)
}

fn make_one(folder: &OwnedFd, name: &str, kind: PointKind) -> Result<(), Errno> {
    let made = match kind {
        PointKind::Folder => mkdirat(folder, name, Mode::from_raw_mode(0o755)),
        PointKind::File => mknodat(
            folder,
            name,
            FileType::RegularFile,
            Mode::from_raw_mode(0o444),
            0,
        ),
    };
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}
