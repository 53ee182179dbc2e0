//! Removes what a node left: processes, cgroups, mounts. Works whoever died, in whatever order.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cgroups::Trees;
use crate::error::FileError;
use crate::layout::{Layout, NodePlace};
use crate::mountinfo::{self, Spot};

const MOUNTS: &str = "/proc/self/mountinfo";

/// A process that was killed is gone as soon as it is scheduled once more.
const END_TIME: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// Ends what is left of a node, and empties its folder for sockets. Its state stays.
pub(crate) fn node(layout: &Layout, place: &NodePlace, trees: &Trees) -> Result<(), FileError> {
    trees.sweep(&format!("{}/{}", layout.cgroup(), place.name))?;
    processes(place);
    mounts(&[&place.dir, &place.run])?;
    folder(&place.run)
}

/// Ends what a node's cgroup did not hold, where there are none: daemons that were started with its files, and programs whose root file system
/// is made of its images.
pub(crate) fn processes(place: &NodePlace) {
    let own_user = rustix::process::geteuid();
    let own_mounts = fs::read_link("/proc/self/ns/mnt").ok();
    let table = fs::read_to_string(MOUNTS).unwrap_or_default();
    let spot = |folder: &Path| {
        let folder = fs::canonicalize(folder).ok()?;
        Spot::of(&folder, &table)
    };
    let spots: Vec<Spot> = [&place.dir, &place.run]
        .into_iter()
        .filter_map(|it| spot(it))
        .collect();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let proc = entry.path();
        let pid = entry.file_name().to_str().and_then(|it| it.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        let is_own = || {
            own_user.is_root()
                || entry
                    .metadata()
                    .is_ok_and(|it| it.uid() == own_user.as_raw())
        };
        let is_of_node = || {
            is_daemon_of(&proc, place)
                || (fs::read_link(proc.join("ns/mnt")).ok() != own_mounts
                    && shows(&proc.join("mountinfo"), &spots))
        };
        // The descriptor first: whoever has the number after that is the one that was looked at.
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            && is_own()
            && is_of_node()
        {
            // One that has ended is as good.
            let _ = pidfd_send_signal(&process, Signal::KILL);
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            let _ = poll(&mut ended, Some(&END_TIME));
        }
    }
}

/// A program of Muster's with a file of the node among its words. An editor of such a file is none.
fn is_daemon_of(proc: &Path, place: &NodePlace) -> bool {
    let name = fs::read(proc.join("comm")).unwrap_or_default();
    let words = fs::read(proc.join("cmdline")).unwrap_or_default();
    let mut words = words
        .split(|byte| *byte == 0)
        .map(OsStr::from_bytes)
        .map(Path::new);
    name.starts_with(b"muster-")
        && words.any(|word| word.starts_with(&place.dir) || word.starts_with(&place.run))
}

/// Whether a process shows something of these folders in its root.
fn shows(table: &Path, spots: &[Spot]) -> bool {
    let table = fs::read_to_string(table).unwrap_or_default();
    spots.iter().any(|it| it.is_shown_in(&table))
}

/// Takes away every mount below these folders.
pub(crate) fn mounts(folders: &[&Path]) -> Result<(), FileError> {
    let text = fs::read_to_string(MOUNTS).map_err(FileError::of("read", Path::new(MOUNTS)))?;
    for point in mountinfo::points_below(&text, folders) {
        // What still holds it lets go of it by itself.
        unmount(&point, UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .map_err(FileError::of("unmount", &point))?;
    }
    Ok(())
}

/// Removes a folder with all in it, if it is there. Image layers have folders that forbid that to their owner; what is mounted in
/// it stays, and is an error.
pub(crate) fn folder(path: &Path) -> Result<(), FileError> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let opened = match File::open(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(FileError::of("open", above))?,
    };
    muster_layer::remove_tree(opened.as_fd(), name.as_bytes())
        .map_err(io::Error::other)
        .map_err(FileError::of("remove", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        // As a layer's, which its owner may neither read nor write.
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o000)).unwrap();
        folder(&place.path().join("a")).unwrap();
        folder(&place.path().join("a")).unwrap();
        folder(&place.path().join("a/b/c")).unwrap();
        assert!(!inner.exists());
    }
}
