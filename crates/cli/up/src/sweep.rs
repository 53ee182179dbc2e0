//! Removes what a node left: processes, cgroups, mounts. Works whoever died, in whatever order.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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
    // A node makes its folders, so whatever is mounted there is its own.
    unmount_all(|table| mountinfo::points_from(table, &[&place.dir, &place.run]))?;
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

/// Takes away every mount below these folders, and leaves what is mounted at them.
pub(crate) fn mounts_below(folders: &[&Path]) -> Result<(), FileError> {
    unmount_all(|table| mountinfo::points_below(table, folders))
}

fn unmount_all(points: impl FnOnce(&str) -> Vec<PathBuf>) -> Result<(), FileError> {
    let table = fs::read_to_string(MOUNTS).map_err(FileError::of("read", Path::new(MOUNTS)))?;
    for point in points(&table) {
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
    use std::process::Command;

    use rustix::mount::{MountFlags, mount};

    use super::*;
    use crate::layout::MAIN;

    /// Says to the test's program that it runs with mounts of its own.
    const INSIDE: &str = "MUSTER_UP_OWN_MOUNTS";

    #[test]
    fn a_node_loses_what_is_mounted_at_its_folders_and_the_unit_keeps_its_disk() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: nobody but root mounts");
            return;
        }
        if std::env::var_os(INSIDE).is_none() {
            let name = "sweep::tests::a_node_loses_what_is_mounted_at_its_folders_and_the_unit_keeps_its_disk";
            let done = Command::new("unshare")
                .args(["--mount", "--propagation", "private", "--"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(INSIDE, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(
                done.status.success(),
                "{said}{}",
                String::from_utf8_lossy(&done.stderr)
            );
            assert!(said.contains("1 passed"), "{said}");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(&place.path().join("dir"), &place.path().join("run")).unwrap();
        let node = layout.node(MAIN);
        let lay = |point: &Path| {
            fs::create_dir_all(point).unwrap();
            mount("none", point, "tmpfs", MountFlags::empty(), None).unwrap();
        };
        let mounted = || {
            let table = fs::read_to_string(MOUNTS).unwrap();
            let mut left = mountinfo::points_from(&table, &[place.path()]);
            left.reverse();
            left
        };
        let disk = layout.dir.clone();
        lay(&disk);
        let kept = layout.images();
        lay(&kept);
        for point in [&node.dir, &node.dir.join("state"), &node.run] {
            lay(point);
        }
        super::node(&layout, &node, &Trees::default()).unwrap();
        assert_eq!(mounted(), [disk.clone(), kept]);
        mounts_below(&[&layout.dir, &layout.run]).unwrap();
        assert_eq!(mounted(), std::slice::from_ref(&disk));
        unmount(&disk, UnmountFlags::DETACH).unwrap();
    }

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
