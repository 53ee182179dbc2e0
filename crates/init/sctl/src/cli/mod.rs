//! The command line, as clap sees it: one module per family of verbs.
//!
//! Every verb lists the options that mean something to it. Options that another verb has, or that
//! `systemctl` has and that change nothing here, are taken out by [`crate::arguments`] first.

mod analyze;
mod files;
mod jobs;
mod logs;
mod machine;
mod run;
mod tools;
mod units;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use analyze::{Analyze, AnalyzeVerb, CriticalChain, Dot};
pub(crate) use files::{
    AddDependency, Calendar, Change, ChangeUnits, Escape, FileVerb, LinkFiles, ListDependencies,
    ListUnitFiles, Mode, Preset, PresetAll, RecursiveErrors, Security, SetDefault, Times, Verify,
};
pub(crate) use jobs::{JobOptions, JobUnits, JobVerb};
pub(crate) use logs::{LogFormat, Logs};
pub(crate) use machine::{Environment, EnvironmentNames, MachineVerb, Shutdown};
pub(crate) use run::Run;
pub(crate) use tools::{Edit, ToolVerb};
pub(crate) use units::{
    Clean, Kill, List, ListJobs, ListUnits, ResetFailed, SetProperty, Show, Status, SystemRunning,
    UnitVerb, Why,
};

/// Look at and change units: what runs, what they say, what is enabled, how they depend on each other.
#[derive(Debug, Parser)]
#[command(
    name = "sctl",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    infer_long_args = true,
    after_help = "A unit may be named without its type: `sctl enable ssh` means ssh.service.\n\
                  Verbs and options are those of systemctl, systemd-analyze, systemd-escape,\n\
                  systemd-run (`sctl run`) and journalctl (`sctl logs`).\n\
                  `sctl VERB --help` explains one verb."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// When to use colours.
    #[arg(
        long,
        alias = "colour",
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_default_value = true,
        global = true
    )]
    pub(crate) color: When,
    /// The control socket of the manager (default: $MUSTER_CONTROL, else below /run/muster).
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) socket: Option<PathBuf>,
    /// Ask the manager of another machine, by ssh.
    #[arg(short = 'H', long, value_name = "[USER@]HOST", global = true)]
    pub(crate) host: Option<String>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What every verb that reads units has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Work on the system below this folder instead of the running one.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<String>,
    /// Leave out remarks; is-enabled and get-default print nothing at all.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// A question about some units.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskUnits {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Names of units.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// How lists and properties are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Short,
    /// JSON in one line.
    Json,
    /// JSON in many lines.
    JsonPretty,
}

/// Everything that `sctl` does.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Verb {
    #[command(flatten)]
    Job(JobVerb),
    #[command(flatten)]
    Unit(UnitVerb),
    /// Read the log
    #[command(
        after_help = "Options are those of journalctl. Without any, the whole log is printed."
    )]
    Logs(Box<Logs>),
    /// Run a command as a transient service, scope, or from a transient timer, socket or path
    #[command(after_help = "Options are those of systemd-run, and stand before the command.")]
    Run(Box<Run>),
    #[command(flatten)]
    Machine(MachineVerb),
    /// Where the time of the start went, and checks
    Analyze(Analyze),
    #[command(flatten)]
    Tool(ToolVerb),
    #[command(flatten)]
    File(FileVerb),
}
