//! `muster`: a fleet from the command line.
//!
//! # Purpose
//! `muster` is the operator's side of Muster's daemons. Each family of commands talks to one of them, or works on files of its
//! own:
//!
//! | family | talks to | does |
//! |---|---|---|
//! | `muster status`, `get`, `describe`, `explain`, `apply`, `diff`, `rollback`, `logs`, `events`, `top` | `muster-cm`, by unix socket or mutual TLS (`muster.control.v1`) | a Unit: what runs, what shall run, and why |
//! | `muster doctor` | this machine | what is missing for Muster to run here |
//! | `muster pki` | a folder ([`muster_pki`]) | the certificate authority of a system without a cloud |
//! | `muster node` | `muster-iam`, by unix socket or mutual TLS | nodes: provision, renew, pause, resume, deprovision, look; drain asks `muster-cm` |
//! | `muster machine` | `muster-nodemgr`, by unix socket (`muster.nodemgr.v1`), which it starts if there is none; and machines themselves ([`muster_executor`]) | machines on demand: plan, provision, use, run on them |
//! | `muster image` | files, and an OCI registry ([`muster_image`]) | images: build, inspect, validate, push, pull |
//! | `muster up`, `muster down` | whatever this machine has ([`muster_up`]) | a Unit with a demo, to try Muster out |
//! | `muster sm` | images and a private init ([`muster_sm::standalone`]) | one node without a controller, from a file |
//! | `muster completions`, `muster man` | nobody | what packages install |
//!
//! # Entry point
//! [`run`] takes the arguments of a process and gives its exit code.
//!
//! # How a command runs
//! 1. `cli` is the clap definition, one module per family; it owns every help text, and completions and manual pages are
//!    made from it.
//! 2. One module per family (`pki`, `node`, `image`, `sm`, `tools`) carries the command out. What it has to say is a serialisable value, which
//!    is printed as a table or, with `--output json`, as JSON.
//! 3. `console` is the only way to standard output and standard error.
//!
//! To add a family: a module below `cli` with the clap types, a variant of `cli::Command`, a module here with `run`, and a
//! variant of `error::CommandError`.
//!
//! # Exit codes
//! 0 done; 1 failed; 2 the command line makes no sense; 3 refused, because it is not allowed or not possible in this state; 4 there
//! is no such thing; 5 the daemon cannot be reached; 6 what was waited for did not happen in time; 130 interrupted; 141 the reader of the output went away. `machine exec`, `ssh` and `run` exit with
//! what their command exited with. `--help` says so too.
//!
//! # Tasks and channels
//! Commands that call a daemon run in a tokio runtime of one thread that lives as long as the command; one call follows
//! the other. The others use none.
//!
//! # Invariants
//! - Answers go to standard output, progress and errors to standard error. An error is one line: what failed, on what, each
//!   cause after a colon, and what to do.
//! - Every command can be repeated: one that was interrupted, by Ctrl-C or worse, is finished by running it again.
//! - No password or private key is printed, or taken from the command line, where other users could see it.
//! - Files appear whole or not at all; an existing key is not overwritten unless that is asked for.
//!
//! # What it does not do
//! It asks no questions, keeps no state of its own and reads no configuration file: options and the environment variables that
//! `--help` names are all.

#![forbid(unsafe_code)]

mod call;
mod cli;
mod console;
mod doctor;
mod error;
mod faults;
mod image;
mod machine;
mod node;
mod pki;
mod sm;
mod text;
mod tools;
mod unit;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::console::{Console, Exit};
pub use crate::faults::{FAULT_POINTS, KEY_FILE_WRITTEN};
use crate::unit::Verb;

/// Runs one command. The first argument is the name of the program.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut console = Console::of_process();
    let exit = match Cli::try_parse_from(arguments) {
        Ok(cli) => carry_out(cli, &mut console),
        Err(error) => explain(&error, &mut console),
    };
    console.finish(exit).into()
}

fn carry_out(cli: Cli, console: &mut Console) -> Exit {
    console.choose(cli.global.output, cli.global.color);
    let done = match cli.command {
        Command::Status(status) => unit::run(Verb::Status(status), console),
        Command::Get(get) => unit::run(Verb::Get(get), console),
        Command::Describe(describe) => unit::run(Verb::Describe(describe), console),
        Command::Explain(explain) => unit::run(Verb::Explain(explain), console),
        Command::Apply(apply) => unit::run(Verb::Apply(apply), console),
        Command::Diff(diff) => unit::run(Verb::Diff(diff), console),
        Command::Rollback(rollback) => unit::run(Verb::Rollback(rollback), console),
        Command::Logs(logs) => unit::run(Verb::Logs(logs), console),
        Command::Events(events) => unit::run(Verb::Events(events), console),
        Command::Top(top) => unit::run(Verb::Top(top), console),
        Command::Doctor(doctor) => doctor::run(&doctor, console),
        Command::Pki(command) => pki::run(command, console),
        Command::Node(command) => node::run(command, console),
        Command::Image(command) => image::run(command, console),
        Command::Machine(command) => {
            return match machine::run(command, console) {
                Ok(exit) => exit,
                Err(error) => console.report(&error),
            };
        }
        Command::Sm(command) => sm::run(command, console),
        Command::Up(command) => up::up(&command, console),
        Command::Down(command) => up::down(&command, console),
        Command::Completions(completions) => tools::completions(completions.shell, console),
        Command::Man(man) => tools::man(man.folder.as_deref(), console),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(error) => console.report(&error),
    }
}

/// Prints what clap found.
fn explain(error: &clap::Error, console: &mut Console) -> Exit {
    let rendered = error.render();
    if error.use_stderr() {
        console.note(rendered.to_string().trim_end());
        return Exit::Usage;
    }
    let text = if console.colour() {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    };
    // A reader that went away is dealt with when the console is finished.
    let _ = console.print(&text);
    Exit::Done
}
