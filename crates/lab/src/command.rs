//! Running the system's own tools, with errors that name the command and what it said.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

/// A tool could not be run, or refused.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be run at all.
    #[error("cannot run `{command}`")]
    Run {
        /// The command line.
        command: String,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// It ended with a failure.
    #[error("`{command}` failed with {status}: {stderr}{}", input_note(input))]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it printed on standard error.
        stderr: String,
        /// What it was given on standard input.
        input: String,
    },
}

fn input_note(input: &str) -> String {
    if input.is_empty() {
        String::new()
    } else {
        format!("\ninput was:\n{input}")
    }
}

/// Runs a tool to its end with `input` on standard input, and returns what it printed.
pub(crate) fn run_tool(command: &mut Command, input: &str) -> Result<String, ToolError> {
    let line = command_line(command);
    let mut run = || -> io::Result<std::process::Output> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A tool that refuses early does not read on; what it says about that is collected below.
            match stdin.write_all(input.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        child.wait_with_output()
    };
    let output = run().map_err(|source| ToolError::Run {
        command: line.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(ToolError::Failed {
        command: line,
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        input: input.to_owned(),
    })
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_returned_and_failures_show_all() {
        assert_eq!(run_tool(&mut Command::new("cat"), "text").unwrap(), "text");

        let mut refusing = Command::new("sh");
        refusing.args(["-c", "echo no >&2; exit 3"]);
        assert_eq!(
            run_tool(&mut refusing, "please").unwrap_err().to_string(),
            "`sh -c echo no >&2; exit 3` failed with exit status: 3: no\ninput was:\nplease"
        );
        let missing = run_tool(&mut Command::new("/missing/tool"), "").unwrap_err();
        assert_eq!(missing.to_string(), "cannot run `/missing/tool`");
    }
}
