//! Programs that are run to their end, with bounds on their time and output.

use std::env;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// More than any transaction takes, on a busy machine too.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// More than the rules of ten thousand instances.
const OUTPUT_LIMIT: u64 = 64 * 1024 * 1024;
/// What a log should show of a complaint.
const COMPLAINT_LIMIT: usize = 600;

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It is missing, or may not be run.
    #[error("cannot run {program}")]
    Start {
        /// The program.
        program: String,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It could not be talked to.
    #[error("cannot talk with {program}")]
    Talk {
        /// The program.
        program: String,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It did not end, and was killed.
    #[error("{program} did not end within {TIME_LIMIT:?}")]
    Hung {
        /// The program.
        program: String,
    },
    /// It refused.
    #[error("{program} ended with {status}: {complaint}")]
    Refused {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it wrote to its standard error.
        complaint: String,
    },
    /// It wrote something that is not its format.
    #[error("the output of {program} cannot be read")]
    Output {
        /// The program.
        program: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Runs a program with `input` on its standard input, and answers its standard output.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let talk = |source| ToolError::Talk {
        program: program.to_owned(),
        source,
    };
    let mut child = Command::new(find(program))
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ToolError::Start {
            program: program.to_owned(),
            source,
        })?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let deadline = Instant::now() + TIME_LIMIT;
    thread::scope(|scope| {
        let (ended, ends) = mpsc::sync_channel(2);
        // Each pipe has its own thread: a program that writes before it has read would wait for ever.
        let output = scope.spawn({
            let ended = ended.clone();
            move || {
                let text = read(stdout);
                let _ = ended.send(());
                text
            }
        });
        let complaint = scope.spawn(move || {
            let text = read(stderr);
            let _ = ended.send(());
            text
        });
        let feeding = scope.spawn(move || match stdin {
            Some(mut pipe) => pipe.write_all(input.as_bytes()),
            None => Ok(()),
        });
        let in_time = (0..2).all(|_| {
            let left = deadline.saturating_duration_since(Instant::now());
            ends.recv_timeout(left).is_ok()
        });
        if !in_time {
            child.kill().map_err(talk)?;
        }
        let status = child.wait().map_err(talk)?;
        let output = output.join().unwrap_or_else(|_| Ok(String::new()));
        let complaint = complaint.join().unwrap_or_else(|_| Ok(String::new()));
        let fed = feeding.join().unwrap_or(Ok(()));
        if !in_time {
            return Err(ToolError::Hung {
                program: program.to_owned(),
            });
        }
        if !status.success() {
            let complaint = complaint.map_err(talk)?;
            return Err(ToolError::Refused {
                program: program.to_owned(),
                status,
                complaint: shorten(&complaint),
            });
        }
        fed.map_err(talk)?;
        output.map_err(talk)
    })
}

/// Packet filters live where the search path of others than root often does not lead.
fn find(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join(program));
    programs
        .find(|found| found.is_file())
        .unwrap_or_else(|| program.into())
}

fn read(pipe: Option<impl Read>) -> io::Result<String> {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_LIMIT).read_to_end(&mut text)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn shorten(complaint: &str) -> String {
    let words = complaint.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(COMPLAINT_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_input_and_output_do_not_lock_each_other() {
        let input = "x".repeat(1 << 20);
        assert_eq!(run("cat", &[], &input).unwrap(), input);
    }

    #[test]
    fn a_refusal_carries_what_was_said() {
        let error = run("sh", &["-c", "echo 'no  such\nrule' >&2; exit 3"], "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "sh ended with exit status: 3: no such rule"
        );
        assert!(matches!(
            run("muster-no-such-program", &[], "").unwrap_err(),
            ToolError::Start { .. }
        ));
    }
}
