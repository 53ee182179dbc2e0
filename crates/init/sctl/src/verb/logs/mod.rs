//! `logs`: the journal, written by Muster or by journald.
//!
//! [`query`] makes of the options which entries are wanted, [`format`] makes of an entry what is printed; both are functions
//! of values. [`walk`] goes from entry to entry, and [`source`] finds the files.

mod format;
mod output;
mod query;
mod source;
#[cfg(test)]
mod tests;
mod upkeep;
mod walk;

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_journal::{Journal, OpenDirError, OpenFileError, ReadError, WatchError};
use muster_unit_file::timestamp::TimestampError;
use thiserror::Error;

use super::VerbError;
use crate::cli::Logs;
use crate::console::{Console, Exit};
use crate::manager::{Manager, remote_command};
use crate::render::Now;

pub(super) use format::{Record, Shape};
pub(super) use query::matches_of_run;
pub(super) use source::folders;

/// Why the log is not shown.
#[derive(Debug, Error)]
pub(crate) enum LogsError {
    /// There is none.
    #[error("Failed to open the journal")]
    Folder {
        /// Why.
        #[source]
        source: OpenDirError,
    },
    /// A file that was named.
    #[error("Failed to open journal file")]
    File {
        /// Why.
        #[source]
        source: OpenFileError,
    },
    /// The disk refuses.
    #[error("Failed to read the journal")]
    Read {
        /// Why.
        #[source]
        source: ReadError,
    },
    /// New entries cannot be waited for.
    #[error("Failed to wait for new entries")]
    Watch {
        /// Why.
        #[source]
        source: WatchError,
    },
    /// `--since=` or `--until=`
    #[error("Failed to parse timestamp: {text}")]
    Time {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: TimestampError,
    },
    /// `--grep=`
    #[error("Failed to compile pattern '{pattern}'")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: Box<regex::Error>,
    },
    /// Another option.
    #[error("{text}")]
    Option {
        /// What is wrong.
        text: String,
    },
    /// `--cursor-file=`
    #[error("Failed to {what} cursor file '{}'", path.display())]
    CursorFile {
        /// What was to be done.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The log daemon cannot be reached.
    #[error("Failed to reach the log daemon")]
    NoDaemon {
        /// Why.
        #[source]
        source: muster_varlink::ConnectError,
    },
    /// The log daemon refuses, or cannot.
    #[error("Failed to {what}")]
    Daemon {
        /// What was to be done.
        what: &'static str,
        /// Why.
        #[source]
        source: muster_varlink::CallError,
    },
    /// `ssh` cannot be run.
    #[error("Failed to run ssh")]
    Ssh {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl LogsError {
    fn read(source: ReadError) -> Self {
        Self::Read { source }
    }
}

pub(super) fn logs(
    arguments: &Logs,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if let Some(host) = manager.host() {
        return elsewhere(host, console);
    }
    if upkeep::is_asked(arguments) {
        return upkeep::carry_out(arguments, console);
    }
    let zone = if arguments.utc {
        TimeZone::UTC
    } else {
        TimeZone::system()
    };
    let mut journal = source::open(arguments, manager)?;
    if !arguments.quiet {
        for (path, error) in journal.skipped() {
            console.note(format_args!(
                "Journal file {} is left out: {error}",
                path.display()
            ));
        }
    }
    if arguments.list_boots {
        return list_boots(&journal, zone, console);
    }
    if let Some(field) = &arguments.field {
        return values(&journal, field, console);
    }
    if arguments.fields {
        return names(&journal, console);
    }
    let query = query::query(arguments, &journal, Timestamp::now(), &zone)?;
    journal.set_matches(query.matches.clone());
    let shape = Shape {
        format: arguments.output,
        zone,
        hostname: !arguments.no_hostname,
        all: arguments.all,
        fields: arguments.output_fields.clone(),
        style: console.style(),
    };
    let mut sink = output::Sink::new(shape, arguments.quiet, console);
    let printed = walk::walk(&mut journal, &query, &mut sink)?;
    let last = sink.last_cursor();
    if printed == 0 && !arguments.quiet && !arguments.follow {
        console.line("-- No entries --")?;
    }
    if let Some(cursor) = &last
        && arguments.show_cursor
    {
        console.line(format_args!("-- cursor: {cursor}"))?;
    }
    if let (Some(cursor), Some(path)) = (&last, &arguments.cursor_file) {
        std::fs::write(path, format!("{cursor}\n")).map_err(|source| LogsError::CursorFile {
            what: "write",
            path: path.clone(),
            source,
        })?;
    }
    // A search that finds nothing has failed, as for grep.
    Ok(if printed == 0 && arguments.grep.is_some() {
        Exit::Failure
    } else {
        Exit::Success
    })
}

/// The log of another machine is read there: the same command is run, without `--host`.
fn elsewhere(host: &str, console: &mut Console) -> Result<Exit, VerbError> {
    use std::os::unix::ffi::OsStringExt;
    console.flush()?;
    let mut words = vec![b"sctl".to_vec()];
    let mut given = std::env::args_os().skip(1).peekable();
    while let Some(word) = given.next() {
        let text = word.to_string_lossy();
        let names_host = text.starts_with("--host=") || (text.starts_with("-H") && text.len() > 2);
        if text == "-H" || text == "--host" {
            given.next();
        } else if !names_host {
            words.push(word.into_vec());
        }
    }
    let status = remote_command(host, &words)?.status();
    let status = status.map_err(|source| LogsError::Ssh { source })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Exit::Other(code.unwrap_or(255)))
}

fn list_boots(journal: &Journal, zone: TimeZone, console: &mut Console) -> Result<Exit, VerbError> {
    let boots = journal.boots().map_err(LogsError::read)?;
    let now = Now { real: 0, zone };
    let rows: Vec<(String, String, String, String)> = boots
        .iter()
        .enumerate()
        .map(|(n, boot)| {
            let index = n + 1;
            let back = boots.len() - index;
            let index = if back == 0 {
                "0".to_owned()
            } else {
                format!("-{back}")
            };
            (
                index,
                boot.id.to_string(),
                now.moment(boot.first),
                now.moment(boot.last),
            )
        })
        .collect();
    let width = rows
        .iter()
        .map(|row| row.2.len())
        .max()
        .unwrap_or(0)
        .max("FIRST ENTRY".len());
    let head = format!("IDX {:<32} {:<width$} LAST ENTRY", "BOOT ID", "FIRST ENTRY");
    console.line(console.coloured("4", &head))?;
    for (index, id, first, last) in rows {
        console.line(format_args!("{index:>3} {id} {first:<width$} {last}"))?;
    }
    Ok(Exit::Success)
}

fn values(journal: &Journal, field: &str, console: &mut Console) -> Result<Exit, VerbError> {
    let mut printed = Ok(());
    let each = |value: &[u8]| {
        let mut line = value.to_vec();
        line.push(b'\n');
        printed = console.bytes(&line);
        printed.is_ok()
    };
    journal
        .each_value(field.as_bytes(), each)
        .map_err(LogsError::read)?;
    printed?;
    Ok(Exit::Success)
}

fn names(journal: &Journal, console: &mut Console) -> Result<Exit, VerbError> {
    for name in journal.field_names().map_err(LogsError::read)? {
        console.line(String::from_utf8_lossy(&name))?;
    }
    Ok(Exit::Success)
}
