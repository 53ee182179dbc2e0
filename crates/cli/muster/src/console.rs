//! Standard output, standard error and the exit code.

mod paint;
mod table;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

use serde::Serialize;
use tonic::Status;

pub(crate) use self::paint::{Paint, Tone};
pub(crate) use self::table::{Layout, Table};
use crate::cli::{Output, When};
use crate::error::CommandError;
use crate::text::shown;

/// How a command ends. The numbers stand in `--help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0
    Done,
    /// 1
    Failed,
    /// 2
    Usage,
    /// 3: not allowed, or not possible in this state.
    Refused,
    /// 4: there is no such thing.
    NotFound,
    /// 5: the daemon does not answer.
    Unreachable,
    /// 6: what was waited for did not happen in time.
    Late,
    /// 130, as a process that ends by SIGINT: the user had enough.
    Interrupted,
    /// 141, as a process that ends by SIGPIPE: the reader went away.
    ReaderGone,
    /// What a command on a machine ended with.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::NotFound => 4,
            Exit::Unreachable => 5,
            Exit::Late => 6,
            Exit::Interrupted => 130,
            Exit::ReaderGone => 141,
            Exit::Command(code) => code,
        })
    }
}

/// An answer that people and programs can read.
pub(crate) trait Answer: Serialize {
    /// For people.
    fn table(&self) -> Table;

    /// For people who want to know more.
    fn wide(&self) -> Table {
        self.table()
    }
}

/// Where everything is printed.
pub(crate) struct Console {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    output: Output,
    colour: bool,
    error_colour: bool,
    terminal: bool,
    /// The first failure to write answers.
    failed: Option<io::Error>,
}

impl Console {
    /// The process's own. Colours are for terminals, and for people who did not set `NO_COLOR`.
    pub(crate) fn of_process() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        // An empty value is as good as none.
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            out: Box::new(BufWriter::new(stdout)),
            err: Box::new(io::stderr()),
            output: Output::default(),
            colour: terminal && !unwanted,
            error_colour: io::stderr().is_terminal() && !unwanted,
            terminal,
            failed: None,
        }
    }

    /// Output and colours as the user wants them.
    pub(crate) fn choose(&mut self, output: Output, colour: When) {
        self.output = output;
        match colour {
            When::Auto => {}
            When::Always => (self.colour, self.error_colour) = (true, true),
            When::Never => (self.colour, self.error_colour) = (false, false),
        }
    }

    /// Whether answers may have colours.
    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// How answers are coloured.
    pub(crate) fn paint(&self) -> Paint {
        Paint(self.colour)
    }

    /// How remarks and errors are coloured.
    pub(crate) fn error_paint(&self) -> Paint {
        Paint(self.error_colour)
    }

    /// The form that was asked for.
    pub(crate) fn output(&self) -> Output {
        self.output
    }

    /// Whether somebody looks at the answers while they come.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints an answer in the form that was asked for.
    pub(crate) fn answer(&mut self, answer: &impl Answer) -> Result<(), OutputClosed> {
        let text = match self.output {
            Output::Json => {
                let mut text =
                    serde_json::to_string_pretty(answer).expect("answers are plain data");
                text.push('\n');
                text
            }
            Output::Yaml => yaml(answer),
            Output::Table => answer.table().render(self.paint()),
            Output::Wide => answer.wide().render(self.paint()),
            Output::Name => {
                let table = answer.table();
                let lines = table.names().into_iter().map(|name| format!("{name}\n"));
                lines.collect()
            }
        };
        self.print(&text)
    }

    /// Prints news at once: a line for people, a JSON value on a line of its own, or a YAML document.
    pub(crate) fn line(
        &mut self,
        news: &impl Serialize,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), OutputClosed> {
        let mut text = match self.output {
            Output::Json => serde_json::to_string(news).expect("answers are plain data"),
            Output::Yaml => format!("---\n{}", yaml(news).trim_end()),
            Output::Table | Output::Wide | Output::Name => for_people().trim_end().to_owned(),
        };
        text.push('\n');
        self.print(&text)?;
        self.flush()
    }

    /// Brings what was printed to whoever reads it.
    pub(crate) fn flush(&mut self) -> Result<(), OutputClosed> {
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
            return Err(OutputClosed);
        }
        Ok(())
    }

    /// Prints a part of an answer as it is.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), OutputClosed> {
        self.print_bytes(text.as_bytes())
    }

    /// Prints what need not be text.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> Result<(), OutputClosed> {
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

    /// Prints a line about what is done or went wrong.
    pub(crate) fn note(&mut self, text: impl Display) {
        // Answers come before remarks about them. There is nobody to tell about a closed stderr.
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
        }
        let _ = writeln!(self.err, "{text}");
    }

    /// Prints an error with its causes on one line.
    pub(crate) fn report(&mut self, error: &CommandError) -> Exit {
        if !matches!(error, CommandError::Output(_)) {
            self.note(format_args!("muster: {}", chain(error)));
        }
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
                let _ = writeln!(self.err, "muster: cannot write the output: {error}");
                Exit::Failed
            }
        }
    }
}

/// An error and its causes on one line. A cause that the text before it already says is not said again.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = words(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = words(error);
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    // Peers' words may be in it.
    shown(&text)
}

fn yaml(value: &impl Serialize) -> String {
    muster_desired::to_yaml(&serde_json::to_value(value).expect("answers are plain data"))
}

/// What an error says. A status of gRPC prints its causes for programmers; they follow in the chain anyway.
fn words(error: &(dyn Error + 'static)) -> String {
    let boxed = error.downcast_ref::<Box<Status>>().map(Box::as_ref);
    match boxed.or_else(|| error.downcast_ref()) {
        Some(status) if status.message().is_empty() => status.code().description().to_owned(),
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    }
}

/// The answer cannot be printed; the console knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the output")]
pub(crate) struct OutputClosed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice_and_commands_no_terminal() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Layer(&'static str, #[source] Option<Box<Layer>>);

        let inner = Layer("line one\nline \x1b[2J two", None);
        let middle = Layer("not carried out", Some(Box::new(inner)));
        let outer = Layer("StartProvisioning: not carried out", Some(Box::new(middle)));
        assert_eq!(
            chain(&outer),
            "StartProvisioning: not carried out: line one line  [2J two"
        );
    }

    #[test]
    fn what_a_peer_refuses_is_said_in_its_own_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("PauseNode(n1) failed")]
        struct Failed(#[source] Box<Status>);

        let refused = Failed(Box::new(Status::permission_denied("only an operator may")));
        assert_eq!(
            chain(&refused),
            "PauseNode(n1) failed: only an operator may"
        );
        let wordless = Failed(Box::new(Status::unimplemented("")));
        assert_eq!(
            chain(&wordless),
            "PauseNode(n1) failed: Operation is not implemented or not supported"
        );
    }
}
