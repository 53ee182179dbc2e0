//! Standard output, standard error and the exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

use serde::Serialize;
use tonic::Status;

use crate::cli::{Output, When};
use crate::error::CommandError;

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
    /// 141, as a process that ends by SIGPIPE: the reader went away.
    ReaderGone,
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
            Exit::ReaderGone => 141,
        })
    }
}

/// An answer that people and programs can read.
pub(crate) trait Answer: Serialize {
    /// For people.
    fn table(&self) -> Table;
}

/// Lines in columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A list with a header.
    pub(crate) fn list(header: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        Self {
            header: header.to_vec(),
            rows,
        }
    }

    /// What is known about one thing: names and values, those without a value left out.
    pub(crate) fn facts(facts: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let rows = facts.into_iter().filter(|(_, value)| !value.is_empty());
        Self {
            header: Vec::new(),
            rows: rows
                .map(|(name, value)| vec![format!("{name}:"), value])
                .collect(),
        }
    }

    /// Several such things, with empty lines between them.
    pub(crate) fn things(things: impl IntoIterator<Item = Self>) -> Self {
        let mut rows = Vec::new();
        for thing in things {
            if !rows.is_empty() {
                rows.push(Vec::new());
            }
            rows.extend(thing.rows);
        }
        Self {
            header: Vec::new(),
            rows,
        }
    }

    /// Columns are as wide as they need to be; the last one is not filled up.
    fn render(&self, bold: impl Fn(&str) -> String) -> String {
        let header: Vec<String> = self.header.iter().map(|&name| name.to_owned()).collect();
        let lines = || {
            std::iter::once(&header)
                .filter(|header| !header.is_empty())
                .chain(&self.rows)
        };
        let columns = lines().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            lines()
                .filter_map(|line| line.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..columns)
            .map(|column| width(column).unwrap_or(0))
            .collect();
        let mut text = String::new();
        for (index, line) in lines().enumerate() {
            let mut filled = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                filled.push_str(&format!("{cell:width$}  "));
            }
            let filled = filled.trim_end();
            if index == 0 && !header.is_empty() {
                text.push_str(&bold(filled));
            } else {
                text.push_str(filled);
            }
            text.push('\n');
        }
        text
    }
}

/// Where everything is printed.
pub(crate) struct Console {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    output: Output,
    colour: bool,
    /// The first failure to write answers.
    failed: Option<io::Error>,
}

impl Console {
    /// The process's own. Colours are for terminals, and for people who did not set `NO_COLOR`.
    pub(crate) fn of_process() -> Self {
        let stdout = io::stdout();
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            out: Box::new(BufWriter::new(stdout)),
            err: Box::new(io::stderr()),
            output: Output::default(),
            colour,
            failed: None,
        }
    }

    /// Output and colours as the user wants them.
    pub(crate) fn choose(&mut self, output: Output, colour: When) {
        self.output = output;
        match colour {
            When::Auto => {}
            When::Always => self.colour = true,
            When::Never => self.colour = false,
        }
    }

    /// Whether answers may have colours.
    pub(crate) fn colour(&self) -> bool {
        self.colour
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
            Output::Table => {
                let colour = self.colour;
                answer.table().render(|text| match colour {
                    true => format!("\x1b[1m{text}\x1b[0m"),
                    false => text.to_owned(),
                })
            }
        };
        self.print(&text)
    }

    /// Prints news at once: a line for people, or a JSON value on a line of its own.
    pub(crate) fn line(
        &mut self,
        news: &impl Serialize,
        for_people: impl FnOnce() -> String,
    ) -> Result<(), OutputClosed> {
        let mut text = match self.output {
            Output::Json => serde_json::to_string(news).expect("answers are plain data"),
            Output::Table => for_people().trim_end().to_owned(),
        };
        text.push('\n');
        self.print(&text)?;
        if let Err(error) = self.out.flush() {
            self.failed = Some(error);
            return Err(OutputClosed);
        }
        Ok(())
    }

    /// Prints a part of an answer as it is.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), OutputClosed> {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(text.as_bytes())
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
    // Peers' words may be in it, and a terminal shall not obey them.
    let printable = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    text.chars().map(printable).collect()
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
    fn columns_are_aligned_and_lines_have_no_trailing_blanks() {
        let rows = vec![
            vec!["a".to_owned(), "long value".to_owned(), String::new()],
            vec!["longer".to_owned(), "b".to_owned(), "c".to_owned()],
        ];
        let text = Table::list(&["X", "Y", "Z"], rows).render(|header| format!("<{header}>"));
        assert_eq!(
            text,
            "<X       Y           Z>\na       long value\nlonger  b           c\n"
        );
    }

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

    #[test]
    fn facts_without_a_value_are_left_out() {
        let table = Table::facts([
            ("Name", "n1".to_owned()),
            ("Title", String::new()),
            ("State", "paused".to_owned()),
        ]);
        let text = "Name:   n1\nState:  paused\n";
        assert_eq!(table.render(str::to_owned), text);
        let both = Table::things([table, Table::facts([("X", "y".to_owned())])]);
        assert_eq!(both.render(str::to_owned), format!("{text}\nX:      y\n"));
    }
}
