//! The machine as checks see it: files below a root, programs on a path, a clock.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use tokio::process::Command;

/// A program that does not tell its version within this time is told about as such.
const PATIENCE: Duration = Duration::from_secs(5);
/// As much of what a program prints as anybody wants to read.
const LONGEST_VERSION: usize = 80;

/// Where everything is read from.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) root: PathBuf,
    pub(super) path: Vec<PathBuf>,
    pub(super) now: Timestamp,
    pub(super) uid: u32,
}

impl Machine {
    /// The one this runs on. Programs for administrators are looked for even where the user's path has no place for them.
    pub(super) fn this_one() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut path: Vec<PathBuf> = env::split_paths(&path).collect();
        path.extend(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
        Self {
            root: PathBuf::from("/"),
            path,
            now: Timestamp::now(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// The file of an absolute path.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What a file says, nothing if it cannot be read.
    pub(super) fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.file(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.file(path).exists()
    }

    /// Where a program is.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let candidates = self.path.iter().map(|folder| folder.join(name));
        candidates.into_iter().find(|file| is_program(file))
    }

    /// Instances of inotify that this user's processes have.
    pub(super) fn inotify_instances(&self) -> usize {
        let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
        let is_own = |process: &fs::DirEntry| {
            let is_process = process.file_name().as_encoded_bytes()[0].is_ascii_digit();
            is_process && process.metadata().is_ok_and(|it| it.uid() == self.uid)
        };
        let is_inotify = |descriptor: &fs::DirEntry| {
            fs::read_link(descriptor.path()).is_ok_and(|it| it == Path::new("anon_inode:inotify"))
        };
        entries(self.file("/proc"))
            .filter(is_own)
            .flat_map(|process| entries(process.path().join("fd")))
            .filter(is_inotify)
            .count()
    }

    /// Names of processes that run.
    pub(super) fn processes(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.file("/proc")) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
            let comm = entry.path().join("comm");
            is_process.then(|| fs::read_to_string(comm).ok()).flatten()
        });
        names.map(|name| name.trim_end().to_owned()).collect()
    }
}

pub(super) fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// The first line of what a program says about its version.
pub(super) async fn version_of(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.ok()?.ok().filter(|it| it.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    Some(line.chars().take(LONGEST_VERSION).collect())
}
