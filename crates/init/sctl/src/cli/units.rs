//! Verbs about loaded units.

use clap::{Args, Subcommand};

use super::{AskUnits, Common, Format};

/// The state of units for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct Status {
    /// How many lines of the log are printed.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) lines: usize,
    /// Print whole lines, however long.
    #[arg(short = 'l', long)]
    pub(crate) full: bool,
    /// Leave out remarks.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Also units that are down, where a pattern is given.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// Names of units, shell patterns, or process numbers; the machine as a whole if there is none.
    #[arg(value_name = "UNIT|PID")]
    pub(crate) units: Vec<String>,
}

/// Properties of units.
#[derive(Debug, Clone, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only these properties.
    #[arg(
        short = 'p',
        long = "property",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) properties: Vec<String>,
    /// The same as --value --property=NAME.
    #[arg(short = 'P', value_name = "NAME", value_delimiter = ',', hide = true)]
    pub(crate) value_properties: Vec<String>,
    /// Print values without the names of the properties.
    #[arg(long)]
    pub(crate) value: bool,
    /// Print empty properties too.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// Names of units; the manager itself if there is none.
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// A signal.
#[derive(Debug, Clone, Args)]
pub(crate) struct Kill {
    /// Its name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "SIGTERM")]
    pub(crate) signal: String,
    /// To which processes of the units.
    #[arg(
        long,
        alias = "kill-who",
        value_name = "WHOM",
        default_value = "all",
        value_parser = ["all", "main", "control"]
    )]
    pub(crate) kill_whom: String,
    /// Leave out remarks.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Names of units, or shell patterns.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// What units keep on disk.
#[derive(Debug, Clone, Args)]
pub(crate) struct Clean {
    /// What is removed; cache and runtime if not given.
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        value_parser = ["configuration", "state", "cache", "logs", "runtime", "fdstore", "all", "help"]
    )]
    pub(crate) what: Vec<String>,
    /// Names of units, or shell patterns.
    #[arg(required_unless_present = "what", value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Failures to forget.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResetFailed {
    /// Names of units, or shell patterns; all if there is none.
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// New settings of a unit.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetProperty {
    /// Until the next start of the machine only.
    #[arg(long)]
    pub(crate) runtime: bool,
    /// The unit.
    pub(crate) unit: String,
    /// Such as MemoryMax=1G.
    #[arg(required = true, value_name = "NAME=VALUE")]
    pub(crate) assignments: Vec<String>,
}

/// Whether the machine is up.
#[derive(Debug, Clone, Args)]
pub(crate) struct SystemRunning {
    /// Wait until the start of the machine has ended.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print nothing.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How lists are printed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct List {
    /// Also units that are down.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Only units in these states.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(crate) states: Vec<String>,
    /// Print no head line and no count.
    #[arg(long)]
    pub(crate) no_legend: bool,
    /// Print no dots.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print whole lines, however long.
    #[arg(short = 'l', long)]
    pub(crate) full: bool,
    /// Print no head line and no count.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// How to print the list.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// For list-sockets: also print the kinds of addresses.
    #[arg(long)]
    pub(crate) show_types: bool,
    /// Only units whose names fit one of these shell patterns.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}

/// Units in rows.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListUnits {
    #[command(flatten)]
    pub(crate) list: List,
    /// Only units of these types.
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// The same as --state=failed.
    #[arg(long)]
    pub(crate) failed: bool,
}

/// Queued jobs.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListJobs {
    /// Also print which jobs wait for each job.
    #[arg(long)]
    pub(crate) after: bool,
    /// Also print which jobs each job waits for.
    #[arg(long)]
    pub(crate) before: bool,
    /// Print no head line and no count.
    #[arg(long)]
    pub(crate) no_legend: bool,
    /// How to print the list.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// Only jobs of units whose names fit one of these shell patterns.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}

/// Jobs to cancel.
#[derive(Debug, Clone, Args)]
pub(crate) struct Cancel {
    /// Numbers of jobs; all if there is none.
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<u32>,
}

/// Why a unit is as it is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Why {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// Names of units.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Verbs about loaded units.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum UnitVerb {
    /// Show how units are: state, processes, resources, last lines of the log
    Status(Status),
    /// Say why a unit is as it is, what it waits for, and what can be done
    Why(Why),
    /// Print the properties of units, for programs
    Show(Show),
    /// Say whether units are up; the exit code is 0 if one is
    IsActive(AskUnits),
    /// Say whether units failed; the exit code is 0 if one has
    IsFailed(AskUnits),
    /// List units
    ListUnits(ListUnits),
    /// List sockets and what they start
    ListSockets(List),
    /// List timers, when they fire next and what they start
    ListTimers(List),
    /// List watched paths and what they start
    ListPaths(List),
    /// List queued jobs
    ListJobs(ListJobs),
    /// Cancel jobs
    Cancel(Cancel),
    /// Send a signal to the processes of units
    Kill(Kill),
    /// Stop the processes of units from running, without ending them, until a job or `thaw` lets them run again
    Freeze(AskUnits),
    /// Let frozen units run again
    Thaw(AskUnits),
    /// Remove what units keep on disk: caches, state, logs
    Clean(Clean),
    /// Forget failures and start limits
    ResetFailed(ResetFailed),
    /// Change settings of a unit, at once and for later
    SetProperty(SetProperty),
}
