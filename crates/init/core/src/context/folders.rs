//! Folders that are made for a unit: `RuntimeDirectory=` and its siblings.
//!
//! [`plan`] says which, [`make`] and [`remove`] carry that out. A folder that is there already gets the mode and, with
//! everything in it, the owner that the unit asks for; links in it are never followed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use muster_exec::{Identity, Step};
use muster_unit_file::config::{DirectoryKind, DirectoryPreserve, UnitConfig};
use muster_unit_file::specifier::HostFacts;
use muster_units::effective;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// How deep a tree is handed to a new owner.
const MAX_DEPTH: usize = 64;

const KINDS: [DirectoryKind; 5] = [
    DirectoryKind::Runtime,
    DirectoryKind::State,
    DirectoryKind::Cache,
    DirectoryKind::Logs,
    DirectoryKind::Configuration,
];

/// A folder that a unit has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Of which kind.
    pub kind: DirectoryKind,
    /// Where.
    pub path: Box<str>,
    /// A link that leads to it.
    pub link: Option<Box<str>>,
    /// Its mode.
    pub mode: u16,
    /// Whose it is; `None` leaves that to whoever made it.
    pub owner: Option<(u32, u32)>,
}

impl Folder {
    /// The step that fails if it cannot be made.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.kind {
            DirectoryKind::Runtime => Step::RuntimeDirectory,
            DirectoryKind::State => Step::StateDirectory,
            DirectoryKind::Cache => Step::CacheDirectory,
            DirectoryKind::Logs => Step::LogsDirectory,
            DirectoryKind::Configuration => Step::ConfigurationDirectory,
        }
    }
}

/// The folders of a unit.
#[must_use]
pub fn plan(config: &UnitConfig, host: &HostFacts, identity: Option<&Identity>) -> Vec<Folder> {
    let owner = identity.map(|identity| (identity.uid, identity.gid));
    let mut folders = Vec::new();
    let roots = effective::directories(&config.exec.directories, host);
    for ((root, directory), kind) in roots.zip(KINDS) {
        for entry in directory.names.0.iter() {
            let (name, link) = match entry.split_once(':') {
                Some((name, link)) => (name, Some(link)),
                None => (entry, None),
            };
            let below = |name: &str| format!("{}/{name}", root.trim_end_matches('/')).into();
            folders.push(Folder {
                kind,
                path: below(name),
                link: link.map(below),
                mode: directory.mode.0,
                // What an administrator writes stays his.
                owner: owner.filter(|_| kind != DirectoryKind::Configuration),
            });
        }
    }
    folders
}

/// What goes when a run has ended: runtime folders, unless they are to outlive it. A restart counts as an end too, if the
/// unit does not say otherwise.
#[must_use]
pub fn ending(config: &UnitConfig, host: &HostFacts, another_run: bool) -> Vec<Box<str>> {
    let kept = match config.exec.directories.runtime_preserve {
        DirectoryPreserve::No => false,
        DirectoryPreserve::Restart => another_run,
        DirectoryPreserve::Yes => true,
    };
    if kept || config.exec.directories.runtime.names.0.is_empty() {
        return Vec::new();
    }
    plan(config, host, None)
        .into_iter()
        .filter(|folder| folder.kind == DirectoryKind::Runtime)
        .flat_map(|folder| [folder.link, Some(folder.path)].into_iter().flatten())
        .collect()
}

pub(super) fn make(folder: &Folder) -> io::Result<()> {
    let path = Path::new(&*folder.path);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mode = Mode::from_raw_mode(folder.mode.into());
    match rustix::fs::mkdirat(CWD, path, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&opened)?;
    if let Some((uid, gid)) = folder.owner
        && (stat.st_uid, stat.st_gid) != (uid, gid)
    {
        let owner = (Uid::from_raw(uid), Gid::from_raw(gid));
        hand_over(opened.try_clone()?, owner, 0)?;
    }
    // After the owner: changing that takes special bits away.
    if Mode::from_raw_mode(stat.st_mode) != mode || folder.owner.is_some() {
        rustix::fs::fchmod(&opened, mode)?;
    }
    if let Some(link) = &folder.link {
        match rustix::fs::symlinkat(path, CWD, Path::new(&**link)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Gives a folder and everything in it to an owner, the folder itself last: whoever is interrupted begins again.
fn hand_over(folder: OwnedFd, owner: (Uid, Gid), depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::ErrorKind::QuotaExceeded.into());
    }
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
            hand_over(inner, owner, depth + 1)?;
        } else {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&folder, name, Some(owner.0), Some(owner.1), flags)?;
        }
    }
    rustix::fs::fchown(&folder, Some(owner.0), Some(owner.1))?;
    Ok(())
}

pub(super) fn remove(path: &str) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(stat) if stat.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
