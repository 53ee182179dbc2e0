//! The workspace's own programs, built as a test needs them.
//!
//! Cargo hands a test the programs of its own package only. A machine needs those of several packages, with the fault
//! points of all of them compiled in or of none: [`Binaries::build`] asks cargo for them, which costs next to nothing when
//! they are up to date, and takes the result aside, so that another build does not change it while the test runs.
//!
//! `MUSTER_LAB_PROGRAMS=FOLDER` has them taken from there instead: what a package installs, for example.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::MachineBuilder;
use super::group::{is_abandoned, owned};
use crate::command::{ToolError, run_tool};

/// Where a machine finds them; it is in the search path of commands, too.
pub(super) const INSTALLED: &str = "/usr/lib/muster";

/// How the folders begin that programs are taken aside to.
const PREFIX: &str = "lab-binaries-";
/// Names a folder with programs that are not to be built.
const PROGRAMS_VARIABLE: &str = "MUSTER_LAB_PROGRAMS";

/// How programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// As tests are: quickly.
    Test,
    /// As they ship, but for symbols: to be measured.
    Bench,
}

impl Build {
    fn profile(self) -> &'static str {
        match self {
            Self::Test => "dev",
            Self::Bench => "bench",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Test => "debug",
            Self::Bench => "release",
        }
    }
}

/// Why programs could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// Cargo could not be run, or refused.
    #[error("cannot build {programs:?}")]
    Build {
        /// What was to be built.
        programs: Vec<String>,
        /// What cargo said.
        #[source]
        source: ToolError,
    },
    /// A file or folder could not be used.
    #[error("cannot use {} for built programs", path.display())]
    Place {
        /// The file or folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
}

/// Programs of the workspace, in a folder of their own, which goes with the last machine that shows them.
#[derive(Debug)]
pub struct Binaries {
    folder: Arc<TempDir>,
}

impl Binaries {
    /// Builds programs, given as `(package, program)`, with these features (`package/feature`).
    pub fn build(
        build: Build,
        programs: &[(&str, &str)],
        features: &[&str],
    ) -> Result<Self, BinariesError> {
        if let Some(folder) = env::var_os(PROGRAMS_VARIABLE) {
            return Self::take(Path::new(&folder), &target_folder(), programs);
        }
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::build_in(&workspace, &target_folder(), build, programs, features)
    }

    /// As [`build`](Self::build), for another checkout of the workspace.
    pub fn build_in(
        workspace: &Path,
        target: &Path,
        build: Build,
        programs: &[(&str, &str)],
        features: &[&str],
    ) -> Result<Self, BinariesError> {
        fs::create_dir_all(target).map_err(place(target))?;
        // Between cargo's end and the links below, nobody may build the same programs with other features.
        let lock_path = target.join("lab-binaries.lock");
        let lock = File::create(&lock_path).map_err(place(&lock_path))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(io::Error::from)
            .map_err(place(&lock_path))?;

        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(workspace)
            .args(["build", "--quiet", "--profile", build.profile()])
            .arg("--target-dir")
            .arg(target);
        for (package, program) in programs {
            command.args(["--package", package, "--bin", program]);
        }
        if !features.is_empty() {
            command.arg("--features").arg(features.join(","));
        }
        run_tool(&mut command, "").map_err(|source| BinariesError::Build {
            programs: programs
                .iter()
                .map(|(_, program)| (*program).to_owned())
                .collect(),
            source,
        })?;

        Self::take(&target.join(build.folder()), target, programs)
    }

    /// Takes programs aside, so that they stay as they are.
    fn take(from: &Path, target: &Path, programs: &[(&str, &str)]) -> Result<Self, BinariesError> {
        // A test process that was killed could not remove its own.
        for entry in fs::read_dir(target).map_err(place(target))?.flatten() {
            if is_abandoned(PREFIX, &entry.file_name()) {
                // Another test process may be removing it at this moment.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = tempfile::Builder::new()
            .prefix(&owned(PREFIX))
            .permissions(PermissionsExt::from_mode(0o755))
            .tempdir_in(target)
            .map_err(place(target))?;
        for (_, program) in programs {
            let (built, taken) = (from.join(program), folder.path().join(program));
            fs::hard_link(&built, &taken)
                // Another file system, perhaps.
                .or_else(|_| fs::copy(&built, &taken).map(drop))
                .map_err(place(&built))?;
        }
        Ok(Self {
            folder: Arc::new(folder),
        })
    }

    /// The folder that holds them, and nothing else.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// One of them, on the host.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.path().join(program)
    }
}

impl MachineBuilder {
    /// Shows programs of the workspace in the machine, in `/usr/lib/muster`.
    pub fn binaries(self, binaries: &Binaries) -> Self {
        self.keep(&binaries.folder)
            .bind(binaries.folder(), INSTALLED)
    }
}

fn place(path: &Path) -> impl FnOnce(io::Error) -> BinariesError {
    let path = path.to_owned();
    move |source| BinariesError::Place { path, source }
}

/// The folder that the running test was built in.
fn target_folder() -> PathBuf {
    let test = env::current_exe().unwrap_or_default();
    target_of(&test).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        Path::to_owned,
    )
}

/// The target folder that holds a program cargo built, `TARGET/PROFILE/deps/PROGRAM`.
///
/// Cargo notes the compiler it found in every target folder. `CACHEDIR.TAG` would not do: cargo writes it only where the
/// folder was not there before.
fn target_of(program: &Path) -> Option<&Path> {
    program
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(".rustc_info.json").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_folder_that_was_there_before_cargo_is_found() {
        let target = tempfile::tempdir().unwrap();
        let deps = target.path().join("debug/deps");
        fs::create_dir_all(&deps).unwrap();
        let program = deps.join("a-test");
        assert_eq!(target_of(&program), None);

        fs::write(target.path().join(".rustc_info.json"), "{}").unwrap();
        assert_eq!(target_of(&program), Some(target.path()));
    }

    #[test]
    fn failure_names_the_programs_and_shows_what_cargo_said() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let programs = [("no-such-package", "no-such")];
        let failed = Binaries::build_in(&workspace, &target_folder(), Build::Test, &programs, &[]);
        let error = failed.map(drop).unwrap_err();
        assert_eq!(error.to_string(), "cannot build [\"no-such\"]");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("no-such-package"), "{source}");
    }
}
