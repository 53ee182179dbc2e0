//! Files that are there whole, or as they were before, whatever happens in between.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::faults::FILE_WRITTEN;

/// What temporary files end in; nothing else that is kept does.
const TEMPORARY: &str = ".new";

/// Replaces a file. When this returns, the content survives a power cut; when it fails or the process
/// dies, the old content is still there.
///
/// `mode` is set before the first byte is written. One process at a time writes a given file.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary(path);
    // A leftover of a process that died may have another mode, or be a link.
    remove_if_there(&temporary)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Without effect on what the caller is told: the next attempt removes it anyway.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    muster_fault::hit(FILE_WRITTEN);
    fs::rename(&temporary, path)?;
    sync_folder(path)
}

/// Removes a file for good; it need not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if remove_if_there(path)? {
        sync_folder(path)?;
    }
    Ok(())
}

/// Makes a folder that only its owner can enter, and those above it as the system makes them.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(path),
    }
}

/// Reads a file of at most `max` bytes; a longer one is an error of kind `FileTooLarge`.
pub(crate) fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut content = Vec::with_capacity(max.min(8 * 1024));
    let limit = u64::try_from(max).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

/// Whether a file is what a process left that died while it wrote.
pub(crate) fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().ends_with(TEMPORARY.as_bytes())
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(TEMPORARY);
    path.with_file_name(name)
}

fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn sync_folder(of: &Path) -> io::Result<()> {
    match of.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pin");
        fs::write(temporary(&path), "left").unwrap();
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", 0o640).unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(
            read(&path, 2).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_put_in_the_way_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("key"), folder.path().join("victim"));
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, temporary(&path)).unwrap();
        write(&path, b"secret", 0o600).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert!(!path.is_symlink());
    }
}
