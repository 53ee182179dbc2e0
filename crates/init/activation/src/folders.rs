//! Making folders.

use rustix::fs::Mode;
use rustix::io::Errno;

/// Makes the folders above `path` that do not exist, with this mode whatever the process's own mask is.
pub(crate) fn make_parents(path: &str, mode: u16) -> Result<(), Errno> {
    match path.trim_end_matches('/').rsplit_once('/') {
        None | Some(("", _)) => Ok(()),
        Some((parent, _)) => make_all(parent, mode),
    }
}

/// Makes `path` and the folders above it that do not exist.
pub(crate) fn make_all(path: &str, mode: u16) -> Result<(), Errno> {
    match make_one(path, mode) {
        Err(Errno::NOENT) => {
            make_parents(path, mode)?;
            make_one(path, mode)
        }
        result => result,
    }
}

fn make_one(path: &str, mode: u16) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode.into());
    match rustix::fs::mkdir(path, mode) {
        Ok(()) => rustix::fs::chmod(path, mode),
        Err(Errno::EXIST) if std::path::Path::new(path).is_dir() => Ok(()),
        Err(Errno::EXIST) => Err(Errno::NOTDIR),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn missing_folders_get_the_mode_and_existing_ones_keep_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mode_of = |name: &str| std::fs::metadata(path(name)).unwrap().permissions().mode();
        make_all(&path("a"), 0o700).unwrap();
        make_parents(&path("a/b/c/file"), 0o775).unwrap();
        assert_eq!(mode_of("a") & 0o777, 0o700);
        assert_eq!(mode_of("a/b/c") & 0o777, 0o775);
        assert!(!dir.path().join("a/b/c/file").exists());
        std::fs::write(path("f"), "").unwrap();
        assert_eq!(make_all(&path("f"), 0o755), Err(Errno::NOTDIR));
        assert_eq!(make_parents("/x", 0o755), Ok(()));
    }
}
