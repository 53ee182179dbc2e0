//! The log of a manager that `muster machine` has started: nobody else looks after that file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_machine_api::places::LOG_VARIABLE;

/// What is longer is set aside, in place of what was set aside before: the two together are never much longer than twice this.
const LARGEST: u64 = 4 << 20;
/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(60);

/// Keeps the log small for as long as the manager runs, if there is one that is its own.
pub(crate) async fn keep_small() {
    let Some(path) = std::env::var_os(LOG_VARIABLE).filter(|it| !it.is_empty()) else {
        return std::future::pending().await;
    };
    let path = PathBuf::from(path);
    loop {
        let at = path.clone();
        let shortened = tokio::task::spawn_blocking(move || {
            let written = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            shorten(&written, &at, LARGEST)
        });
        if let Ok(Err(error)) = shortened.await {
            tracing::warn!(path = %path.display(), %error, "the log grows without bounds");
            return std::future::pending().await;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Where what was written before is.
fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

/// Sets what was written aside if it is much. Whoever writes goes on with the same file, at its end wherever that is; a line that
/// comes between the two steps is lost.
fn shorten(written: &File, path: &Path, largest: u64) -> io::Result<bool> {
    let (own, named) = (written.metadata()?, fs::metadata(path)?);
    // Somebody has moved it: that one looks after it.
    let is_same = (own.dev(), own.ino()) == (named.dev(), named.ino());
    if !is_same || !own.is_file() || own.len() <= largest {
        return Ok(false);
    }
    fs::copy(path, aside(path))?;
    written.set_len(0)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_long_log_is_set_aside_and_written_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodemgr.log");
        let open = || File::options().append(true).create(true).open(&path);
        let mut log = open().unwrap();
        log.write_all(b"0123456789").unwrap();
        assert!(!shorten(&log, &path, 10).unwrap(), "it is not long");
        for text in ["first", "second"] {
            log.write_all(text.as_bytes()).unwrap();
            assert!(shorten(&log, &path, 4).unwrap());
            let set_aside = fs::read_to_string(aside(&path)).unwrap();
            assert!(set_aside.ends_with(text), "{set_aside}");
            assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        }
        log.write_all(b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third", "at the beginning");
        // A file that was moved is somebody else's.
        fs::rename(&path, folder.path().join("moved")).unwrap();
        open().unwrap();
        assert!(!shorten(&log, &path, 1).unwrap());
        assert_eq!(fs::read(folder.path().join("moved")).unwrap(), b"third");
    }
}
