//! Which init system a machine has.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{CoreRunner, SystemdRunner, UnitRunner};

/// What sd_booted(3) looks at.
const SYSTEMD: &str = "/run/systemd/system";

/// Which init system runs units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InitSystem {
    /// The one that is there, core first.
    #[default]
    Detect,
    /// `muster-core`, at this socket or the usual one.
    Core(Option<PathBuf>),
    /// systemd.
    Systemd,
}

/// One init system of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostInit {
    /// `muster-core`, at this socket.
    Core(PathBuf),
    /// systemd.
    Systemd,
}

/// There is no init system that runs units.
#[derive(Debug, thiserror::Error)]
#[error(
    "no init system to run instances with: neither {} nor {} is there; start muster-core (muster-init --supervise) or name one in the configuration",
    core.display(), systemd.display()
)]
pub struct NoInitSystem {
    core: PathBuf,
    systemd: PathBuf,
}

impl HostInit {
    /// Whether it is there at this moment. Core may be between two lives and is, as its socket is held for it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self {
            Self::Core(socket) => UnixStream::connect(socket).is_ok(),
            Self::Systemd => Path::new(SYSTEMD).is_dir(),
        }
    }

    /// Asks it for units.
    #[must_use]
    pub fn runner(&self) -> Arc<dyn UnitRunner> {
        match self {
            Self::Core(socket) => Arc::new(CoreRunner::new(socket.clone())),
            Self::Systemd => Arc::new(SystemdRunner::new()),
        }
    }
}

impl fmt::Display for HostInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(socket) => write!(f, "core at {}", socket.display()),
            Self::Systemd => f.write_str("systemd"),
        }
    }
}

/// The init system that is asked for, which need not be there yet, or the one that is there.
///
/// # Errors
/// If none is asked for and none is there.
pub fn detect(wanted: &InitSystem) -> Result<HostInit, NoInitSystem> {
    let core = |socket: &Option<PathBuf>| muster_control::socket_path(socket.clone());
    match wanted {
        InitSystem::Core(socket) => Ok(HostInit::Core(core(socket))),
        InitSystem::Systemd => Ok(HostInit::Systemd),
        InitSystem::Detect => first_of(core(&None), Path::new(SYSTEMD)),
    }
}

fn first_of(core: PathBuf, systemd: &Path) -> Result<HostInit, NoInitSystem> {
    let own = HostInit::Core(core.clone());
    if own.is_there() {
        return Ok(own);
    }
    if systemd.is_dir() {
        return Ok(HostInit::Systemd);
    }
    Err(NoInitSystem {
        core,
        systemd: systemd.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_nobody_listens_at_is_no_init_system() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, systemd) = (folder.path().join("socket"), folder.path().join("systemd"));
        first_of(socket.clone(), &systemd).unwrap_err();
        let listening = UnixListener::bind(&socket).unwrap();
        std::fs::create_dir(&systemd).unwrap();
        let found = || first_of(socket.clone(), &systemd).unwrap();
        assert_eq!(found(), HostInit::Core(socket.clone()));
        drop(listening);
        assert!(socket.exists());
        assert_eq!(found(), HostInit::Systemd);
    }
}
