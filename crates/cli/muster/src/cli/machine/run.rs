//! `muster machine run` and `muster machine runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_config::Duration;

use super::{WishArgs, assignment};

pub(super) const RUN_HELP: &str = "\
Examples:
  muster machine run --image gcc:14 -- make test             this folder, in a container that has make, and back
  muster machine run -t small --no-back -- ./measure.sh      what changes there stays there
  muster machine run --workflow nightly.yaml                 several machines and steps

The folder goes to /src of the machine (--to), the command runs there, and what it changed comes back, also when it failed. What you
changed here meanwhile stays as it is. The machine is destroyed at the end, unless what changed could not be brought back: then it is
kept for three days, and named. With `-p local` the folder is used where it is. Ctrl-C cancels the run, brings nothing back and cleans
up, as do SIGTERM and, but for `nohup`, SIGHUP (a terminal that is closed); a second one leaves that to the node manager.

What the command writes comes here, and the newest of it (8 files of 4 MiB, with times) is kept for `runs logs`. Whoever reads more
slowly than that is written is told how much is missing.";

/// What a workflow says itself, or has no use for, beside what is said of its machines.
const NOT_OF_WORKFLOWS: [&str; 12] = [
    "command",
    "machine",
    "folder",
    "no_sync",
    "no_back",
    "to",
    "env",
    "cwd",
    "timeout",
    "finally",
    "on_failure",
    "dry_run",
];

/// What is said of a machine that is to be made. Neither one that exists nor a workflow takes it.
const NOT_OF_MACHINES: [&str; 12] = [
    "template",
    "provider",
    "image",
    "set",
    "spot",
    "spot_type",
    "prefer",
    "reuse",
    "access",
    "runs_for",
    "max_price",
    "tolerate",
];

/// `muster machine run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) wish: WishArgs,
    /// Run on this machine, which is kept, instead of on a new one. One that is stopped is started.
    #[arg(short, long, value_name = "MACHINE", conflicts_with_all = NOT_OF_MACHINES)]
    pub(crate) machine: Option<String>,
    /// The folder that goes there and back [default: the one you are in]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Bring no folder there.
    #[arg(long, conflicts_with_all = ["folder", "no_back", "to"])]
    pub(crate) no_sync: bool,
    /// Do not bring the folder back.
    #[arg(long)]
    pub(crate) no_back: bool,
    /// Where the folder goes on the machine [default: /src for root, src in the home of any other login]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<String>,
    /// A variable as NAME=value; can be repeated.
    #[arg(short, long, value_name = "VARIABLE", value_parser = assignment)]
    pub(crate) env: Vec<(String, String)>,
    /// The folder of the machine that the command starts in [default: where the folder went]
    #[arg(short = 'C', long, value_name = "FOLDER")]
    pub(crate) cwd: Option<String>,
    /// End the command after so long [default: it may take as long as it likes]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// What becomes of the machine [default: destroy; keep with --machine]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) finally: Option<Finally>,
    /// What becomes of the machine if the command fails [default: the same]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_failure: Option<Finally>,
    /// Run this workflow (YAML or JSON) instead of a command. It says itself which machines it needs, how long its steps may
    /// take (an hour each, if it says nothing) and what becomes of the machines.
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_OF_WORKFLOWS, conflicts_with_all = NOT_OF_MACHINES)]
    pub(crate) workflow: Option<PathBuf>,
    /// Only print the id of the run; `runs logs -f` follows it.
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Only show which machine it would be, as `plan` does; nothing is made, copied or run.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// The command and its arguments.
    #[arg(required_unless_present_any = ["workflow", "dry_run"], last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What becomes of a machine after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Finally {
    /// It is destroyed.
    Destroy,
    /// It is stopped.
    Stop,
    /// It stays as it is.
    Keep,
}

/// `muster machine runs`
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, the newest first
    #[command(visible_alias = "ls")]
    List(RunList),
    /// Show one run and its steps
    Show(RunShow),
    /// Show what a run's commands wrote
    ///
    /// It comes byte for byte, both streams together. Eight files of 4 MiB are kept of each run, the newest; where something is gone
    /// that is said on standard error, as is whatever the node manager itself says about the run.
    Logs(RunLogs),
    /// Show what happened in a run
    Events(RunLogs),
    /// End runs early; their machines are cleaned up
    Cancel(RunNames),
    /// Forget runs that are over, with their logs
    #[command(visible_alias = "rm")]
    Remove(RunNames),
}

/// `muster machine runs list`
#[derive(Debug, Args)]
pub(crate) struct RunList {
    /// Go on showing every change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// `muster machine runs show`
#[derive(Debug, Args)]
pub(crate) struct RunShow {
    #[command(flatten)]
    pub(crate) name: RunName,
    /// Show it again whenever it changes, until the run is over.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct RunName {
    /// The run's id, or a beginning of it.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

/// Runs.
#[derive(Debug, Args)]
pub(crate) struct RunNames {
    /// Runs, by their ids or beginnings of them.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

/// `muster machine runs logs` and `events`
#[derive(Debug, Args)]
pub(crate) struct RunLogs {
    /// The run's id, or a beginning of it.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Go on until the run is over.
    #[arg(short, long)]
    pub(crate) follow: bool,
}
