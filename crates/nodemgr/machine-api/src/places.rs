//! Where everything is if nobody says otherwise: the system's places for root, those of XDG for everybody else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names, in the environment of a manager that somebody else started, the log that is the manager's to keep small.
pub const LOG_VARIABLE: &str = "MUSTER_STARTED_LOG";

/// Where everything is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The configuration.
    pub config: PathBuf,
    /// What is kept.
    pub state: PathBuf,
    /// The socket.
    pub socket: PathBuf,
}

impl Places {
    /// Those of the user that this process runs as.
    #[must_use]
    pub fn of_process() -> Self {
        let user = rustix::process::geteuid();
        Self::of(user.as_raw(), |name| std::env::var_os(name))
    }

    /// Those of a user with such variables. Values that are no absolute path are ignored, as XDG wants.
    #[must_use]
    pub fn of(user: u32, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        if user == 0 {
            return Self {
                config: "/etc/muster/nodemgr.yaml".into(),
                state: "/var/lib/muster/nodemgr".into(),
                socket: "/run/muster/nodemgr.sock".into(),
            };
        }
        let folder = |name: &str| {
            let path = variable(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let home = folder("HOME").unwrap_or_else(|| PathBuf::from("/"));
        let below = |name: &str, default: &str| folder(name).unwrap_or_else(|| home.join(default));
        let state = below("XDG_STATE_HOME", ".local/state").join("muster/nodemgr");
        let run = folder("XDG_RUNTIME_DIR").map(|run| run.join("muster"));
        Self {
            config: below("XDG_CONFIG_HOME", ".config").join("muster/nodemgr.yaml"),
            // Without a folder that goes with the session, the socket stands beside the database.
            socket: run.unwrap_or_else(|| state.clone()).join("nodemgr.sock"),
            state,
        }
    }

    /// Templates that are found without being named, beside the configuration.
    #[must_use]
    pub fn templates(config: &Path) -> PathBuf {
        config.with_file_name("templates")
    }

    /// Mappings that are found without being named, beside the configuration.
    #[must_use]
    pub fn mappings(config: &Path) -> PathBuf {
        config.with_file_name("mappings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_the_systems_places_and_others_their_own() {
        let none = |_: &str| None;
        assert_eq!(
            Places::of(0, none).socket,
            Path::new("/run/muster/nodemgr.sock")
        );
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/anna"));
        let places = Places::of(1000, home);
        assert_eq!(
            places.config,
            Path::new("/home/anna/.config/muster/nodemgr.yaml")
        );
        let state = Path::new("/home/anna/.local/state/muster/nodemgr");
        assert_eq!(places.state, state);
        assert_eq!(places.socket, state.join("nodemgr.sock"));
        let xdg = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some(OsString::from("/run/user/1000")),
            "XDG_STATE_HOME" => Some(OsString::from("relative")),
            _ => home(name),
        };
        let places = Places::of(1000, xdg);
        assert_eq!(
            places.socket,
            Path::new("/run/user/1000/muster/nodemgr.sock")
        );
        assert_eq!(places.state, state, "what is no absolute path is ignored");
    }
}
