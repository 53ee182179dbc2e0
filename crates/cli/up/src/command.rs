//! Programs that are run to their end.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The most of what a failed command said that an error repeats.
const MAX_WORDS: usize = 400;
/// What Ctrl-C sends.
const SIGINT: i32 = rustix::process::Signal::INT.as_raw();
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A command that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It could not be run.
    #[error("cannot run {program}")]
    Run {
        /// What.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It failed.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        /// What.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last of what it said.
        said: String,
    },
}

/// Whether something failed because a program that it ran was interrupted. Who presses Ctrl-C interrupts whatever runs at that
/// moment, and a program on the way may be the first to hear of it.
#[must_use]
pub fn is_interruption(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        matches!(
            error.downcast_ref(),
            Some(CommandError::Failed { status, .. }) if status.signal() == Some(SIGINT)
        )
    })
}

/// A command that has been begun.
#[derive(Debug)]
pub(crate) struct Begun {
    program: String,
    child: Child,
}

/// Where programs are looked for: also where a user's own path may not lead.
pub(crate) fn search_path() -> OsString {
    let own = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&own).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    // Folders of a path that was split can be joined again.
    env::join_paths(folders).unwrap_or_else(|_| own.clone())
}

fn named(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

/// Begins a command whose output is kept.
pub(crate) fn begin(mut command: Command) -> Result<Begun, CommandError> {
    let program = named(command.get_program());
    command
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Ok(Begun { program, child }),
        Err(source) => Err(CommandError::Run { program, source }),
    }
}

impl Begun {
    /// Waits for its end; gives what it wrote to standard output.
    pub(crate) fn finish(self) -> Result<String, CommandError> {
        let Self { program, child } = self;
        match child.wait_with_output() {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => Err(CommandError::Failed {
                program,
                status: output.status,
                said: tail(&output.stderr),
            }),
            Err(source) => Err(CommandError::Run { program, source }),
        }
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: Command) -> Result<String, CommandError> {
    begin(command)?.finish()
}

/// Runs `ip` with these lines, all or none of which succeed as far as this can be told.
pub(crate) fn ip_batch(enter: &[OsString], lines: &[String]) -> Result<(), CommandError> {
    let words: Vec<OsString> = enter
        .iter()
        .cloned()
        .chain(["ip", "-batch", "-"].map(OsString::from))
        .collect();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("PATH", search_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let failed = |source| CommandError::Run {
        program: named(&words[0]),
        source,
    };
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A command that has ended says why by itself.
        let _ = input.write_all(lines.join("\n").as_bytes());
    }
    Begun {
        program: lines
            .first()
            .map_or("ip".to_owned(), |it| format!("ip {it}")),
        child,
    }
    .finish()
    .map(drop)
}

/// The end of what was said, on one line.
fn tail(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let start = text.len().saturating_sub(MAX_WORDS);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at));
    text[start.unwrap_or(0)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_repeats_the_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo so; echo 'no  such\nthing' >&2; exit 3"]);
        let error = run(command).unwrap_err();
        assert!(error.to_string().ends_with("no such thing"), "{error}");
        let long = "ä".repeat(1000);
        assert!(tail(long.as_bytes()).len() <= MAX_WORDS);
    }

    #[test]
    fn a_program_on_the_way_that_was_interrupted_is_an_interruption() {
        for (script, expected) in [
            ("kill -INT $$", true),
            ("kill -TERM $$", false),
            ("exit 2", false),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let error = crate::UpError::NoUserNamespaces(run(command).unwrap_err());
            assert_eq!(is_interruption(&error), expected, "{script}");
        }
    }
}
