//! Standard output, standard error and the exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use crate::cli::When;
use crate::render::Style;
use crate::verb::VerbError;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0
    Success,
    /// 1
    Failure,
    /// 3: the unit is not up.
    NotRunning,
    /// 3 for requests: the unit has no such feature.
    NotImplemented,
    /// 4, what the Linux Standard Base calls "status unknown": there is no such unit.
    UnknownUnit,
    /// 4 for requests: not permitted, or refused.
    NotPermitted,
    /// 5 for requests: there is no such unit.
    NotInstalled,
    /// Another one: that of a command that was run.
    Other(u8),
    /// 141, as a process that ends by SIGPIPE: the reader went away.
    ReaderGone,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::NotRunning | Exit::NotImplemented => 3,
            Exit::UnknownUnit | Exit::NotPermitted => 4,
            Exit::NotInstalled => 5,
            Exit::Other(code) => code,
            Exit::ReaderGone => 141,
        })
    }
}

/// Where everything is printed.
pub(crate) struct Console {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    style: Style,
    /// The first failure to write answers.
    failed: Option<io::Error>,
}

impl Console {
    /// The process's own. Colours are for terminals, and for people who did not set `NO_COLOR`.
    pub(crate) fn of_process() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let style = Style {
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
            width: terminal
                .then(|| rustix::termios::tcgetwinsize(&stdout).ok())
                .flatten()
                .map(|size| usize::from(size.ws_col))
                .filter(|width| *width > 0),
        };
        Self {
            out: Box::new(BufWriter::new(stdout)),
            err: Box::new(io::stderr()),
            style,
            failed: None,
        }
    }

    /// Colours as the user wants them.
    pub(crate) fn choose_colour(&mut self, when: When) {
        match when {
            When::Auto => {}
            When::Always => self.style.colour = true,
            When::Never => self.style.colour = false,
        }
    }

    /// How answers look.
    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Whether answers may have colours.
    pub(crate) fn colour(&self) -> bool {
        self.style.colour
    }

    /// A text in a colour given by its number (32 is green), if there are colours and one is given.
    pub(crate) fn coloured(&self, code: &str, text: &str) -> String {
        self.style.paint(code, text)
    }

    /// Prints a part of an answer as it is. After a failure nothing is printed any more.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), OutputClosed> {
        self.bytes(text.as_bytes())
    }

    /// Prints a line of an answer.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), OutputClosed> {
        self.print(&format!("{text}\n"))
    }

    /// Prints bytes that need not be text.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputClosed> {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.failed = Some(error);
        }
        match self.failed {
            None => Ok(()),
            Some(_) => Err(OutputClosed),
        }
    }

    /// Lets the reader see what was printed so far.
    pub(crate) fn flush(&mut self) -> Result<(), OutputClosed> {
        if self.failed.is_none()
            && let Err(error) = self.out.flush()
        {
            self.failed = Some(error);
        }
        match self.failed {
            None => Ok(()),
            Some(_) => Err(OutputClosed),
        }
    }

    /// Prints a line about what was done or went wrong.
    pub(crate) fn note(&mut self, text: impl Display) {
        // Answers come before remarks about them. There is nobody to tell about a closed stderr.
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
        }
        let _ = writeln!(self.err, "{text}");
    }

    /// Prints an error with its causes.
    pub(crate) fn report(&mut self, error: &VerbError) -> Exit {
        if matches!(error, VerbError::Output(_)) {
            return Exit::Failure;
        }
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{}: {error}", text.trim_end_matches('.'));
            cause = error.source();
        }
        self.note(text);
        error.exit()
    }

    /// Writes out what is still buffered and gives the final exit code.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        if self.failed.is_none()
            && let Err(error) = self.out.flush()
        {
            self.failed = Some(error);
        }
        match self.failed.take() {
            None => exit,
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::ReaderGone,
            Some(error) => {
                let _ = writeln!(self.err, "Failed to write the output: {error}");
                Exit::Failure
            }
        }
    }
}

/// The answer cannot be printed; the console knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the output")]
pub(crate) struct OutputClosed;
