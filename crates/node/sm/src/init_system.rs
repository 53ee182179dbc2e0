//! Which init system has the instances: the one that has them already, as long as there are any.
//!
//! What is there may change under a node: core is tried beside systemd, or is not used any more. Instances that run are units of
//! the one that was asked for them. Another one knows none of them, and would have them all cleared away as ended while they run.
//! So it is noted who has them, beside their folders, where a reboot takes the note as it takes the instances.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_unit_runner::{HostInit, InitSystem, NoInitSystem, detect};
use serde::{Deserialize, Serialize};

/// Beside the folders of runtimes; none is called so.
const NOTE: &str = "init-system.json";

/// Why it cannot be said which init system runs instances.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChooseInitError {
    /// There is none.
    #[error(transparent)]
    None(NoInitSystem),
    /// Who has the instances could not be looked up or noted.
    #[error("cannot note in {} which init system has the instances", path.display())]
    Note {
        /// The note.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Noted {
    Core(PathBuf),
    Systemd,
}

impl From<Noted> for HostInit {
    fn from(noted: Noted) -> Self {
        match noted {
            Noted::Core(socket) => Self::Core(socket),
            Noted::Systemd => Self::Systemd,
        }
    }
}

impl From<&HostInit> for Noted {
    fn from(init: &HostInit) -> Self {
        match init {
            HostInit::Core(socket) => Self::Core(socket.clone()),
            HostInit::Systemd => Self::Systemd,
        }
    }
}

/// Says who runs instances from now on, and notes it. `folder` holds what is noted of earlier ones, which `has_instances` or has not.
///
/// # Errors
/// If there is no init system, or it cannot be noted which.
pub(crate) fn choose(
    wanted: &InitSystem,
    folder: &Path,
    has_instances: bool,
) -> Result<HostInit, ChooseInitError> {
    let path = folder.join(NOTE);
    let failed = |source| ChooseInitError::Note {
        path: path.clone(),
        source,
    };
    let before = read(&path).map_err(failed)?;
    let found = detect(wanted);
    if let Some(before) = before.filter(|it| has_instances && it.is_there()) {
        let differs = found.as_ref().ok().filter(|found| **found != before);
        if let Some(found) = differs {
            tracing::warn!(
                %found, kept = %before,
                "instances go on where they run: another init system gets them when none is left or after a reboot"
            );
        }
        return Ok(before);
    }
    let found = found.map_err(ChooseInitError::None)?;
    write(&path, &found).map_err(failed)?;
    Ok(found)
}

/// A note that makes no sense says nothing.
fn read(path: &Path) -> io::Result<Option<HostInit>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice::<Noted>(&text).ok().map(Into::into)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whoever reads finds the old or the new note.
fn write(path: &Path, init: &HostInit) -> io::Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, serde_json::to_vec(&Noted::from(init))?)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn instances_stay_with_the_init_system_that_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let socket = |name: &str| folder.path().join(name);
        let core = |name: &str| InitSystem::Core(Some(socket(name)));
        let choose =
            |name: &str, has_instances| choose(&core(name), folder.path(), has_instances).unwrap();
        let at = |name: &str| HostInit::Core(socket(name));
        let first = UnixListener::bind(socket("first")).unwrap();
        let _other = UnixListener::bind(socket("other")).unwrap();
        assert_eq!(choose("first", false), at("first"));
        assert_eq!(choose("other", true), at("first"));
        assert_eq!(choose("other", true), at("first"), "however often");
        assert_eq!(choose("other", false), at("other"), "nothing runs there");
        assert_eq!(choose("first", true), at("other"));
        assert_eq!(choose("first", false), at("first"));
        // Who is gone keeps nothing alive.
        drop(first);
        assert_eq!(choose("other", true), at("other"));
        // Neither does a note that nobody can read.
        fs::write(socket(NOTE), "{").unwrap();
        assert_eq!(choose("other", true), at("other"));
    }

    #[test]
    fn systemd_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NOTE);
        write(&path, &HostInit::Systemd).unwrap();
        assert_eq!(read(&path).unwrap(), Some(HostInit::Systemd));
    }
}
