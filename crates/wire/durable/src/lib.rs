//! Small files that are there whole, or as they were before, whatever happens in between.
//!
//! Keys, certificates, states and records that a daemon must not lose are replaced by [`write`]: under a temporary name beside
//! them, flushed, renamed, folder flushed. When it returns, the content survives a power cut; when it fails, or the process dies,
//! the old content is still there.
//!
//! # Entry points
//! * [`write`], [`remove`], [`read`], [`make_folder`] for files in general; [`write_in_steps`] for those who put fault points in
//!   between.
//! * [`key_file::open_or_make`] for a secret that a daemon draws once and keeps.
//!
//! # Invariants
//! * A file has its mode, whatever the umask is, before it has its first byte.
//! * Nothing that stands under the temporary name is followed or reused.
//! * One process at a time writes a given file.
//! * What is found made, or gone, is as durable as what was made or removed: whoever did it may have died before the flush, so it is
//!   made up for. Only in a folder that cannot be flushed, or that may not be opened, is what is there believed.
//!
//! # What this crate does not do
//! It has no place for large files (everything is in memory) and none for those that need not survive a power cut: flushing is
//! what it costs. Errors are the system's own; callers say which object they were about.

#![forbid(unsafe_code)]

pub mod key_file;
#[cfg(feature = "testing")]
pub mod testing;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What temporary files end in; nothing else that is kept does.
const TEMPORARY: &str = ".new";

/// What has been done about a file that is being replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The new content is on the disk, under the temporary name.
    Written,
    /// It has its name.
    Named,
    /// The name is on the disk.
    Durable,
}

/// Replaces a file, or makes it.
///
/// # Errors
/// The old content is still there, if the folder's flush is not what failed.
pub fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_in_steps(path, content, mode, |_| {})
}

/// The same, and `after` is called after each step.
///
/// # Errors
/// As [`write`].
pub fn write_in_steps(
    path: &Path,
    content: &[u8],
    mode: u32,
    mut after: impl FnMut(Step),
) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let temporary = temporary(path);
    // A leftover of a process that died may have another mode, or be a link.
    remove_if_there(&temporary)?;
    let written = fill(&temporary, content, mode).and_then(|()| {
        after(Step::Written);
        fs::rename(&temporary, path)
    });
    if let Err(error) = written {
        // The first failure is the one to report; the next attempt removes it anyway.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    after(Step::Named);
    sync_folder_of(path)?;
    after(Step::Durable);
    Ok(())
}

fn fill(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode & 0o600)
        .open(path)?;
    // Explicitly, because the mode at creation is subject to the umask.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    #[cfg(feature = "testing")]
    if !testing::is_made(testing::Flush::Content) {
        return Ok(());
    }
    file.sync_all()
}

/// Removes a file for good; it need not be there.
///
/// # Errors
/// When it cannot be removed, or its folder not be flushed.
pub fn remove(path: &Path) -> io::Result<()> {
    match remove_if_there(path)? {
        true => sync_folder_of(path),
        false => sync_found(path),
    }
}

/// Reads a file of at most `max` bytes; a longer one is an error of kind `FileTooLarge`.
///
/// # Errors
/// Also when there is none, of kind `NotFound`.
pub fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
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

/// Makes a folder that only its owner can enter, and those above it as the system makes them. All of them are there for good.
///
/// # Errors
/// When it cannot be made, or something else has its name.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.mode(0o700);
    make(path, &private)
}

fn make(path: &Path, builder: &DirBuilder) -> io::Result<()> {
    if path.is_dir() {
        return sync_found(path);
    }
    if let Some(above) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        make(above, &DirBuilder::new())?;
    }
    match builder.create(path) {
        // Somebody else was faster; whatever has the name is looked at by who uses it.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder_of(path),
    }
}

/// Whether a file is what a process left that died while it wrote.
#[must_use]
pub fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().ends_with(TEMPORARY.as_bytes())
}

/// Where a file is while it is written.
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(TEMPORARY);
    path.with_file_name(name)
}

/// Flushes what the folder of `path` says about the files in it.
///
/// # Errors
/// When there is none, or the disk fails.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    #[cfg(test)]
    tests::FLUSHED.with_borrow_mut(|flushed| flushed.extend(folder.map(Path::to_owned)));
    #[cfg(feature = "testing")]
    if !testing::is_made(testing::Flush::Name) {
        return Ok(());
    }
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes up for a flush that may be owed: of what somebody else did to the name at `path`.
///
/// A folder that is not there has lost the name with it. One on a file system that takes no flushes, or that is closed to this
/// process, is none that this crate could have made anything in.
fn sync_found(path: &Path) -> io::Result<()> {
    match sync_folder_of(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::symlink;

    use super::*;

    thread_local! {
        /// Folders that were flushed. On ext4 a flush of any folder also makes those above it durable, so no power cut tells
        /// whether they were.
        pub(super) static FLUSHED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_is_replaced_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pin");
        fs::write(temporary(&path), "left").unwrap();
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", 0o666).unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "the umask has no say");
        assert_eq!(names(folder.path()), ["pin"]);
        assert_eq!(
            read(&path, 2).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("key"), folder.path().join("victim"));
        fs::write(&victim, "untouched").unwrap();
        for link in [temporary(&path), path.clone()] {
            symlink(&victim, link).unwrap();
            write(&path, b"secret", 0o600).unwrap();
            assert!(!path.is_symlink());
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    }

    #[test]
    fn whoever_looks_between_two_steps_finds_the_old_or_the_new_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        write(&path, b"old", 0o644).unwrap();
        let mut seen = Vec::new();
        write_in_steps(&path, b"new", 0o644, |step| {
            seen.push((step, fs::read_to_string(&path).unwrap()));
        })
        .unwrap();
        let seen: Vec<_> = seen
            .iter()
            .map(|(step, text)| (*step, text.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (Step::Written, "old"),
                (Step::Named, "new"),
                (Step::Durable, "new")
            ]
        );
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none").join("cert");
        let error = write(&none, b"x", 0o644).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(write(Path::new("/"), b"x", 0o644).is_err());
        // A folder in the way cannot be replaced by a file.
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, b"x", 0o644).is_err());
        assert_eq!(names(folder.path()), ["folder"]);
    }

    #[test]
    fn a_folder_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        make_folder(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let above = folder.path().join("a");
        let outside = folder.path().parent().unwrap();
        assert_eq!(FLUSHED.take(), [outside, folder.path(), above.as_path()]);
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(make_folder(&folder.path().join("file/b")).is_err());
    }

    #[test]
    fn what_is_found_made_or_gone_has_its_folder_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        // As somebody leaves it who dies before the flush.
        fs::create_dir(&path).unwrap();
        make_folder(&path).unwrap();
        assert_eq!(FLUSHED.take(), [folder.path()]);
        // So the folders above one that is missing.
        make_folder(&path.join("b")).unwrap();
        assert_eq!(FLUSHED.take(), [folder.path(), path.as_path()]);
        remove(&path.join("gone")).unwrap();
        assert_eq!(FLUSHED.take(), [path.as_path()]);
        remove(&folder.path().join("no/such/folder")).unwrap();
        FLUSHED.take();
        let key = path.join("key");
        let made = key_file::open_or_make::<32>(&key, |_| {}).unwrap();
        FLUSHED.take();
        let found = key_file::open_or_make::<32>(&key, |_| {}).unwrap();
        assert_eq!((found, FLUSHED.take()), (made, vec![path.clone()]));
        // Where nothing can be flushed, nothing is owed.
        make_folder(Path::new("/proc/self")).unwrap();
    }
}
