//! The OCI runtime: found, and called.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use muster_bundle::{Place, RunRecord, read_bounded};

use muster_bundle::cgroup::CgroupLayout;

/// Where programs are that an administrator installs.
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Of what an OCI runtime says, so many characters are shown.
const MAX_MESSAGE: usize = 500;

/// There is no OCI runtime.
#[derive(Debug, thiserror::Error)]
pub enum FindRuntimeError {
    /// The configured one is not there.
    #[error("the OCI runtime {} is not there", .0.display())]
    NotThere(PathBuf),
    /// None was found.
    #[error("no OCI runtime: install one of {0}, or name one in the runtime's `program`")]
    None(String),
}

/// The configured OCI runtime, or the smallest that is installed. crun does not work beside v1 controllers.
pub(crate) fn find(
    configured: Option<&Path>,
    layout: CgroupLayout,
) -> Result<PathBuf, FindRuntimeError> {
    let names: &[&str] = match layout {
        CgroupLayout::Unified => &["crun", "runc", "youki"],
        CgroupLayout::Legacy => &["runc", "youki", "crun"],
    };
    if let Some(path) = configured {
        // A name is looked for, a path is taken as it is.
        let found = match path.is_absolute() {
            true => Some(path.to_owned()).filter(|path| path.is_file()),
            false => in_folders(path),
        };
        return found.ok_or_else(|| FindRuntimeError::NotThere(path.to_owned()));
    }
    let mut found = names.iter().filter_map(|name| in_folders(Path::new(name)));
    found
        .next()
        .ok_or_else(|| FindRuntimeError::None(names.join(", ")))
}

fn in_folders(name: &Path) -> Option<PathBuf> {
    let mut places = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    places.find(|path| path.is_file())
}

/// The command that starts the instance, writes its number and ends.
pub(crate) fn run_command(place: &Place, run: &RunRecord) -> Command {
    let mut command = base(place, run);
    command
        .arg("--log")
        .arg(place.log())
        .args(["run", "--detach", "--pid-file"])
        .arg(place.pid_file())
        .arg("--bundle")
        .arg(place.folder())
        .arg(&run.name);
    command
}

/// Where the OCI runtime keeps what it knows: in the instance's folder, so that it goes with it.
fn state(place: &Place) -> PathBuf {
    place.file("oci")
}

fn base(place: &Place, run: &RunRecord) -> Command {
    let mut command = Command::new(&run.program);
    command.arg("--root").arg(state(place));
    command
}

/// Whether the OCI runtime keeps something about this start.
pub(crate) fn knows(place: &Place, run: &RunRecord) -> bool {
    state(place).join(&run.name).exists()
}

fn delete_command(place: &Place, run: &RunRecord) -> Command {
    let mut command = base(place, run);
    command.args(["delete", "--force"]).arg(&run.name);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Ends what is left of a start and clears it away. Best effort: who calls goes on, and trips over what is left if it matters.
pub(crate) fn delete(place: &Place, run: &RunRecord) {
    if knows(place, run) {
        let _ = delete_command(place, run).status();
    }
}

/// The last error that an OCI runtime wrote into its log: lines of `key=value`, or plain text.
pub(crate) fn last_error(log: &Path) -> Option<String> {
    let text = read_bounded(log).ok()??;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let message = match line.split_once("msg=") {
        Some((_, message)) => message.trim_matches('"').replace("\\\"", "\""),
        None => line.trim().to_owned(),
    };
    Some(message.chars().take(MAX_MESSAGE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_named_found_or_asked_for() {
        let shell = find(Some(Path::new("/bin/sh")), CgroupLayout::Legacy).unwrap();
        assert_eq!(shell, Path::new("/bin/sh"));
        assert!(
            find(Some(Path::new("sh")), CgroupLayout::Legacy)
                .unwrap()
                .ends_with("sh")
        );
        let error = find(Some(Path::new("/nowhere/runc")), CgroupLayout::Legacy).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the OCI runtime /nowhere/runc is not there"
        );
    }

    #[test]
    fn errors_are_found_in_logs() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(last_error(&log), None);
        let text = "time=\"now\" level=error msg=\"runc run failed: \\\"x\\\" not found\"\n\n";
        std::fs::write(&log, text).unwrap();
        assert_eq!(
            last_error(&log).unwrap(),
            "runc run failed: \"x\" not found"
        );
        std::fs::write(&log, "open executable: No such file\n").unwrap();
        assert_eq!(last_error(&log).unwrap(), "open executable: No such file");
    }
}
