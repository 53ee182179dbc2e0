//! Where everything is, and how much of it there is.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is usual for root.
const DIR: &str = "/var/lib/muster/demo";
const RUN: &str = "/run/muster";
const DEMO: &str = "muster/demo";
const SCTL: &str = "sctl";

/// How much of the demo can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Two nodes, containers and networks: needs root.
    TwoNodes,
    /// One node with the native runtime, for this user alone.
    OneUser,
}

/// What to do, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// State: authority, keys, images, databases, and the file that says what shall run.
    pub dir: PathBuf,
    /// Sockets, and whatever a reboot may empty.
    pub run: PathBuf,
    /// The folder of Muster's programs, with the demo's two.
    pub programs: PathBuf,
    /// The command line, for provisioning.
    pub muster: PathBuf,
    /// How much of it.
    pub shape: Shape,
    /// How long instances may take to be active.
    pub patience: Duration,
}

impl Settings {
    /// The folders that are meant: as given; below a given `--dir`; or what is usual for root or for this user.
    pub fn resolve(dir: Option<&Path>, run: Option<&Path>) -> (PathBuf, PathBuf) {
        let is_root = rustix::process::geteuid().is_root();
        let folder = |name: &str| {
            let path = PathBuf::from(env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let home = || folder("HOME").unwrap_or_else(|| PathBuf::from("/"));
        let state = match dir {
            Some(dir) => dir.to_owned(),
            None if is_root => PathBuf::from(DIR),
            None => folder("XDG_STATE_HOME")
                .unwrap_or_else(|| home().join(".local/state"))
                .join(DEMO),
        };
        let run = match (run, dir) {
            (Some(run), _) => run.to_owned(),
            (None, Some(dir)) => dir.join("run"),
            (None, None) if is_root => PathBuf::from(RUN),
            (None, None) => {
                folder("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |it| it.join("muster"))
            }
        };
        (state, run)
    }

    /// The tool of the init system: installed beside the command line, built beside all programs.
    pub(crate) fn sctl(&self) -> PathBuf {
        let beside = self.muster.with_file_name(SCTL);
        match beside.is_file() {
            true => beside,
            false => self.programs.join(SCTL),
        }
    }

    /// What this user can have.
    pub fn usual_shape() -> Shape {
        match rustix::process::geteuid().is_root() {
            true => Shape::TwoNodes,
            false => Shape::OneUser,
        }
    }
}
