//! Places for what an instance keeps: its storage and its state.
//!
//! On the controller's own node the controller makes them. On every other node nobody does but this: what is not there is made,
//! and what is there is given to the instance that is started, as whom it runs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Component, Path, PathBuf};

use muster_api::domain::{DataPath, InstanceInfo};
use rustix::fs::{CWD, Mode, OFlags, fchmod, mkdirat, openat};
use rustix::io::Errno;

/// Folders above an instance's own can be passed, and nothing more.
const ABOVE: Mode = Mode::from_raw_mode(0o711);
const STORAGE: Mode = Mode::from_raw_mode(0o700);
const STATE: Mode = Mode::from_raw_mode(0o600);

/// Why an instance has no place for what it keeps.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {} below {}", path.display(), root.display())]
pub(crate) struct DataError {
    root: PathBuf,
    path: PathBuf,
    source: io::Error,
}

/// Makes the storage of an instance, if it has any.
pub(crate) fn make_storage(root: &Path, info: &InstanceInfo) -> Result<(), DataError> {
    make(root, info.storage_path.as_ref(), |above, name| {
        let (folder, made) = folder(above, name, STORAGE)?;
        give(&File::from(folder), info, made.then_some(STORAGE))
    })
}

/// Makes the state file of an instance, if it has one. One that is there stays as it is.
pub(crate) fn make_state(root: &Path, info: &InstanceInfo) -> Result<(), DataError> {
    make(root, info.state_path.as_ref(), |above, name| {
        // Not through a link, and not waiting at a pipe.
        let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::RDWR;
        let create = careful | OFlags::CREATE | OFlags::EXCL;
        let (file, made) = match openat(above, name, create, STATE) {
            Ok(file) => (file, true),
            Err(Errno::EXIST) => (openat(above, name, careful, Mode::empty())?, false),
            Err(error) => return Err(error.into()),
        };
        give(&File::from(file), info, made.then_some(STATE))
    })
}

/// Goes down to the last part of a path, one folder at a time and through no symbolic link: whoever writes in one of these folders
/// cannot lead out of `root`.
fn make(
    root: &Path,
    path: Option<&DataPath>,
    last: impl FnOnce(&OwnedFd, &Path) -> io::Result<()>,
) -> Result<(), DataError> {
    let Some(path) = path else {
        return Ok(());
    };
    let path = path.below(Path::new(""));
    let made = (|| {
        std::fs::create_dir_all(root)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut at = openat(CWD, root, flags, Mode::empty())?;
        let mut parts: Vec<&Path> = path.components().filter_map(normal).collect();
        let name = parts.pop().ok_or(io::ErrorKind::InvalidInput)?;
        for part in parts {
            at = folder(&at, part, ABOVE)?.0;
        }
        last(&at, name)
    })();
    made.map_err(|source: io::Error| DataError {
        root: root.to_owned(),
        path,
        source,
    })
}

fn normal(part: Component<'_>) -> Option<&Path> {
    match part {
        Component::Normal(name) => Some(Path::new(name)),
        _ => None,
    }
}

/// A folder in a folder, and whether it was made.
fn folder(above: &impl AsFd, name: &Path, mode: Mode) -> io::Result<(OwnedFd, bool)> {
    let made = match mkdirat(above, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let opened = openat(above, name, flags, Mode::empty())?;
    if made {
        // Whatever this process takes away from modes.
        fchmod(&opened, mode)?;
    }
    Ok((opened, made))
}

/// Also what was made and not given by a process that was killed in between. Without root, instances run as whom this runs as.
fn give(file: &File, info: &InstanceInfo, mode: Option<Mode>) -> io::Result<()> {
    let found = file.metadata()?;
    let (uid, gid) = (info.uid.as_raw(), info.gid.as_raw());
    if !found.is_dir() && !found.is_file() {
        return Err(io::Error::other("it is neither a file nor a folder"));
    }
    if let Some(mode) = mode {
        fchmod(file, mode)?;
    }
    if (found.uid(), found.gid()) != (uid, gid) && rustix::process::geteuid().is_root() {
        fchown(file, Some(uid), Some(gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::decide::tests::info;

    fn keeping() -> InstanceInfo {
        let mut info = info(1, 1);
        info.storage_path = Some("item/subject/0".parse().unwrap());
        info.state_path = Some("/item/subject/0/state.dat".parse().unwrap());
        info
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn owner(path: &Path) -> (u32, u32) {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    }

    #[test]
    fn what_an_instance_keeps_has_a_place_that_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (storages, states) = (folder.path().join("storages"), folder.path().join("states"));
        let info = keeping();
        make_storage(&storages, &info).unwrap();
        make_state(&states, &info).unwrap();
        let (storage, state) = (
            storages.join("item/subject/0"),
            states.join("item/subject/0/state.dat"),
        );
        assert!(storage.is_dir() && state.is_file());
        assert_eq!((mode(&storage), mode(&state)), (0o700, 0o600));
        assert_eq!(mode(&storages.join("item")), 0o711);
        if rustix::process::geteuid().is_root() {
            assert_eq!(
                (owner(&storage), owner(&state)),
                ((5000, 5000), (5000, 5000))
            );
            assert_eq!(owner(&storages.join("item")), (0, 0));
        }
        // What is in it stays.
        fs::write(storage.join("file"), "kept").unwrap();
        fs::write(&state, "kept").unwrap();
        make_storage(&storages, &info).unwrap();
        make_state(&states, &info).unwrap();
        assert_eq!(fs::read(storage.join("file")).unwrap(), b"kept");
        assert_eq!(fs::read(&state).unwrap(), b"kept");
    }

    #[test]
    fn no_link_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        for links in ["item", "item/subject", "item/subject/0"] {
            let link = root.join(links);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&outside, &link).unwrap();
            make_storage(&root, &keeping()).unwrap_err();
            make_state(&root, &keeping()).unwrap_err();
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{links}");
            fs::remove_file(&link).unwrap();
        }
        let (file, link) = (outside.join("file"), root.join("item/subject/0/state.dat"));
        fs::write(&file, "not yours").unwrap();
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&file, &link).unwrap();
        make_state(&root, &keeping()).unwrap_err();
        assert_ne!(owner(&file), (5000, 5000));
    }
}
