//! Verbs that queue jobs.

use clap::{Args, Subcommand};

/// How jobs are queued and waited for.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct JobOptions {
    /// Do not wait for the jobs to end.
    #[arg(long)]
    pub(crate) no_block: bool,
    /// Also wait until the units are down again.
    #[arg(long, conflicts_with = "no_block")]
    pub(crate) wait: bool,
    /// What to do about jobs that are queued already.
    #[arg(
        long,
        value_name = "MODE",
        value_parser = [
            "replace",
            "fail",
            "replace-irreversibly",
            "isolate",
            "flush",
            "ignore-dependencies",
            "ignore-requirements",
            "triggering",
            "restart-dependencies",
        ]
    )]
    pub(crate) job_mode: Option<String>,
    /// The same as --job-mode=fail.
    #[arg(long, hide = true)]
    pub(crate) fail: bool,
    /// The same as --job-mode=replace-irreversibly.
    #[arg(long, hide = true)]
    pub(crate) irreversible: bool,
    /// The same as --job-mode=ignore-dependencies.
    #[arg(long, hide = true)]
    pub(crate) ignore_dependencies: bool,
    /// Print the numbers and kinds of the queued jobs.
    #[arg(short = 'T', long)]
    pub(crate) show_transaction: bool,
    /// Print nothing about how jobs ended.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// How many lines of the log are printed about a unit that failed.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) lines: usize,
}

impl JobOptions {
    /// The mode that the options come to.
    pub(crate) fn mode(&self) -> &str {
        match &self.job_mode {
            Some(mode) => mode,
            None if self.fail => "fail",
            None if self.irreversible => "replace-irreversibly",
            None if self.ignore_dependencies => "ignore-dependencies",
            None => "replace",
        }
    }
}

/// Jobs for some units.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobUnits {
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// Names of units, or shell patterns of loaded ones.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Verbs that queue jobs.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum JobVerb {
    /// Start units, and return when they are up or have failed
    Start(JobUnits),
    /// Stop units
    Stop(JobUnits),
    /// Stop and start units, or start those that are down
    Restart(JobUnits),
    /// Have units read their configuration again
    Reload(JobUnits),
    /// Restart those units that are up
    #[command(alias = "condrestart")]
    TryRestart(JobUnits),
    /// Reload units that can, restart the others
    ReloadOrRestart(JobUnits),
    /// Reload or restart those units that are up
    #[command(alias = "force-reload", alias = "condreload")]
    TryReloadOrRestart(JobUnits),
    /// Start one unit with what it needs, and stop all else
    Isolate(JobUnits),
}
