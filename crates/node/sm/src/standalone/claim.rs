//! Whose a runtime folder is: one run's at a time, and as long as instances are left in it, those of one state.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Settings, StandaloneError, file_error, init};

/// In the init's folder, so that it goes with it: whose instances it runs.
const STATE: &str = "state";

/// The runtime folder, held against other runs. Ends with the value or the process.
#[derive(Debug)]
pub(super) struct Claim {
    _lock: File,
}

impl Claim {
    /// Takes both folders' names as they are; they are there.
    pub(super) fn take(settings: &Settings) -> Result<Self, StandaloneError> {
        let folder = &settings.runtime_dir;
        let lock = File::open(folder).map_err(file_error(folder))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(StandaloneError::InUse(folder.clone())),
            Err(errno) => return Err(file_error(folder)(errno.into())),
        }
        match noted(settings) {
            Some(theirs) if theirs != state(settings)? && init::answers(settings) => {
                Err(StandaloneError::OthersInstances {
                    runtime: folder.clone(),
                    state: theirs,
                })
            }
            _ => Ok(Self { _lock: lock }),
        }
    }
}

/// The state by the one name that it has, however it was given.
fn state(settings: &Settings) -> Result<PathBuf, StandaloneError> {
    let path = &settings.state_dir;
    fs::canonicalize(path).map_err(file_error(path))
}

fn noted(settings: &Settings) -> Option<PathBuf> {
    let noted = fs::read(init::folder(settings).join(STATE)).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&noted)))
}

/// Notes whose instances the init will run. Its folder is there.
pub(super) fn note(settings: &Settings) -> Result<(), StandaloneError> {
    let path = init::folder(settings).join(STATE);
    let state = state(settings)?;
    fs::write(&path, state.as_os_str().as_bytes()).map_err(file_error(&path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    fn settings(folder: &Path, state: &str) -> Settings {
        let settings = Settings {
            state_dir: folder.join(state),
            runtime_dir: folder.join("run"),
            program_dir: folder.to_owned(),
        };
        fs::create_dir_all(&settings.state_dir).unwrap();
        fs::create_dir_all(init::folder(&settings)).unwrap();
        settings
    }

    #[test]
    fn a_runtime_folder_is_one_runs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (settings(folder.path(), "a"), settings(folder.path(), "b"));
        let held = Claim::take(&one).unwrap();
        for settings in [&one, &other] {
            let refused = Claim::take(settings);
            assert!(
                matches!(refused, Err(StandaloneError::InUse(_))),
                "{refused:?}"
            );
        }
        drop(held);
        Claim::take(&other).unwrap();
    }

    #[test]
    fn instances_that_were_kept_are_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (settings(folder.path(), "a"), settings(folder.path(), "b"));
        note(&one).unwrap();
        let listening = UnixListener::bind(init::socket(&one)).unwrap();
        match Claim::take(&other) {
            Err(StandaloneError::OthersInstances { state, .. }) => {
                assert_eq!(state, fs::canonicalize(&one.state_dir).unwrap());
            }
            taken => panic!("{taken:?}"),
        }
        // By whatever name its own come.
        let same = Settings {
            state_dir: folder.path().join("b/../a"),
            ..other.clone()
        };
        Claim::take(&same).unwrap();
        // What is not running keeps nobody out.
        drop(listening);
        Claim::take(&other).unwrap();
    }
}
