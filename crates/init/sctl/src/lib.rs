//! `sctl`: units from the command line.
//!
//! # Purpose
//! `sctl` is how people and scripts look at and change units: what runs, why, and since when; what is in the log; what is
//! enabled; what unit files say. Verbs, options, columns, messages and exit codes are those of `systemctl`,
//! `systemd-run` (`sctl run`), `journalctl` (`sctl logs`), `systemd-analyze` and `systemd-escape` of systemd 252, so that
//! scripts written for them run with `sctl` in their place. `sctl why UNIT` has no counterpart: it says why a unit is as
//! it is, what it waits for, and what can be done. `sctl security` also says what of the protections that a service asks
//! for it could not have on this machine. The few deliberate differences stand, with their reasons, in
//! `tests/end_to_end/accepted-differences.txt`, and tests compare the rest with the real tools.
//!
//! # Entry point
//! [`run`] takes the arguments of a process and gives its exit code. Nothing else is public.
//!
//! # How a command runs
//! 1. `arguments` puts the verb first and drops options that mean nothing to it.
//! 2. `cli` is the clap definition, one module per family of verbs; it owns every help text, and completions and manual
//!    pages are made from it.
//! 3. `verb` has one module per family of verbs. Those that ask or tell the running manager do so through `manager`;
//!    those that change links ask [`muster_unit_file::install::Installer`] for a plan, and `links` carries it out.
//! 4. `render` makes text of what the manager said. It is pure: values, a time and a style in, text out.
//! 5. `console` is the only way to standard output and standard error.
//!
//! ```text
//!   sctl ---- unix socket, varlink ---------------------------> muster-core
//!   sctl -H ---- ssh ---- sctl stdio-bridge ---- unix socket --> muster-core of another machine
//!   sctl logs ---- journal files (muster-journal), no daemon in between
//! ```
//!
//! One command, one pass. Connections: one for questions, and one for each job that is waited for, because a varlink
//! connection answers in order. The only thread is the one that waits for the manager while `run --pty` carries bytes
//! between two terminals.
//!
//! # When the manager is replaced
//! A manager that crashed, or was asked to replace itself, comes back with the same jobs and units. So a question whose
//! connection broke is asked again, once, when the manager answers again (within ten seconds, or the command fails). A job
//! is looked for by its number; if it ended meanwhile, the unit's state tells how. A request whose answer was lost is
//! looked for among the queued jobs before it is made again. Requests that must not happen twice (signals, transient units)
//! are never repeated: the user is told that the answer is missing.
//!
//! # Invariants
//! - What is to be changed is decided before the first change is made; a refused request changes nothing.
//! - Every single change of files is atomic (a link or file is made whole or not at all, a replaced one is never absent)
//!   and on disk when `sctl` exits. `edit` saves only what is sound together with the unit's other files.
//! - With `--root=` nothing outside of that root is read or changed, and no manager is asked.
//! - No word of the user's reaches a shell of another machine unquoted.
//! - What a manager says is shown, whatever its version: unknown words are shown as they are, missing values left out.
//! - Standard output is for answers, standard error for what was done or went wrong. A reader that goes away ends the
//!   command without a message.
//!
//! # What it does not do
//! - It manages the system's units; there is no `--user`, `--machine` or `--image`.
//! - It asks no questions and starts no pager.
//! - Verbs that work on files refuse `--host`: they would need the other machine's files, not its manager.

mod arguments;
mod cli;
mod console;
mod host;
mod links;
mod manager;
mod names;
mod render;
mod system;
mod verb;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::arguments::ArgumentError;
use crate::cli::Cli;
use crate::console::{Console, Exit};

/// Runs one command. The first argument is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut console = Console::of_process();
    let exit = match parse(arguments, &mut console) {
        Ok(cli) => {
            console.choose_colour(cli.global.color);
            match verb::run(&cli, &mut console) {
                Ok(exit) => exit,
                Err(error) => console.report(&error),
            }
        }
        Err(exit) => exit,
    };
    console.finish(exit).into()
}

/// The command, or the exit code if there is nothing more to do.
fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    console: &mut Console,
) -> Result<Cli, Exit> {
    let words: Result<Vec<String>, OsString> = arguments
        .into_iter()
        .skip(1)
        .map(OsString::into_string)
        .collect();
    let arranged = words
        .map_err(|_| ArgumentError::NotText)
        .and_then(|words| arguments::arrange(&Cli::command(), words));
    let arranged = match arranged {
        Ok(arranged) => arranged,
        Err(error) => {
            console.note(&error);
            return Err(Exit::Failure);
        }
    };
    Cli::try_parse_from(std::iter::once("sctl".to_owned()).chain(arranged))
        .map_err(|error| explain(&error, console))
}

/// Prints what clap found, with the exit codes of `systemctl`.
fn explain(error: &clap::Error, console: &mut Console) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = if console.colour() {
                error.render().ansi().to_string()
            } else {
                error.render().to_string()
            };
            // A reader that went away is dealt with when the console is finished.
            let _ = console.print(&text);
            Exit::Success
        }
        ErrorKind::MissingRequiredArgument => {
            console.note("Too few arguments.");
            console.note(usage(error));
            Exit::Failure
        }
        // A word too much is not an option that is misspelt.
        ErrorKind::UnknownArgument if !names_an_option(error) => {
            console.note("Too many arguments.");
            console.note(usage(error));
            Exit::Failure
        }
        _ => {
            console.note(error.render().to_string().trim_end());
            Exit::Failure
        }
    }
}

/// Whether the argument that an error is about looks like an option.
fn names_an_option(error: &clap::Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => text.starts_with('-'),
        _ => false,
    }
}

/// `Usage: sctl enable [OPTIONS] <UNIT>...`
fn usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().find(|line| line.starts_with("Usage:"));
    let verb = line.and_then(|line| line.split_whitespace().nth(2));
    let mut command = Cli::command();
    command.build();
    match verb.and_then(|verb| command.find_subcommand_mut(verb)) {
        Some(verb) => verb.render_usage().to_string(),
        None => command.render_usage().to_string(),
    }
}
