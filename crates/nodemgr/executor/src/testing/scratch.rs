//! Folders of cases.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// More than all cases need at once.
const ROOM: u64 = 1 << 30;

/// The same for the long runs, whose large file is here, there and back.
const SOAK_ROOM: u64 = 4 << 30;

/// A folder on this machine: in memory if there is room, since tens of thousands of small files take seconds there and minutes
/// on a disk that is busy.
///
/// # Panics
/// When this machine has no room for a folder at all.
#[must_use]
pub fn scratch() -> TempDir {
    let in_memory = match is_fit(Path::new(MEMORY)) {
        true => tempfile::tempdir_in(MEMORY).ok(),
        false => None,
    };
    let folder = in_memory.map_or_else(tempfile::tempdir, Ok);
    folder.expect("this machine has room for a folder")
}

/// Cases also make programs, and run them.
fn is_fit(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|it| {
        let room = it.f_bavail.saturating_mul(it.f_frsize);
        let wanted = match std::env::var_os("MUSTER_SOAK") {
            Some(_) => SOAK_ROOM,
            None => ROOM,
        };
        room >= wanted && !it.f_flag.contains(StatVfsMountFlags::NOEXEC)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_whether_or_not_it_fits_into_memory() {
        assert!(!is_fit(Path::new("/no/such/folder")));
        assert!(!is_fit(Path::new("/proc")), "it has no room");
        let folder = scratch();
        std::fs::write(folder.path().join("file"), "content").expect("it may be written");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
