//! Where time went, and the checks of `systemd-analyze`.

use clap::{Args, Subcommand};

use super::{Calendar, Format, Security, Times, Verify};

/// `analyze`
#[derive(Debug, Clone, Args)]
pub(crate) struct Analyze {
    /// What to look at; the time of the start if nothing is named.
    #[command(subcommand)]
    pub(crate) verb: Option<AnalyzeVerb>,
}

/// Units on the path that took longest.
#[derive(Debug, Clone, Args)]
pub(crate) struct CriticalChain {
    /// Also show units that came up so much before the last one.
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(crate) fuzz: String,
    /// Names of units; the default target if there is none.
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// A graph for Graphviz.
#[derive(Debug, Clone, Args)]
pub(crate) struct Dot {
    /// Only ordering.
    #[arg(long, conflicts_with = "require")]
    pub(crate) order: bool,
    /// Only requirements.
    #[arg(long)]
    pub(crate) require: bool,
    /// Only from units whose names fit.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) from_pattern: Vec<String>,
    /// Only to units whose names fit.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) to_pattern: Vec<String>,
    /// Only edges with such a unit at one of their ends.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}

/// A list of times.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Blame {
    /// How to print the list.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
}

/// What is looked at.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AnalyzeVerb {
    /// How long the start of the machine took
    Time,
    /// How long each unit took to come up
    Blame(Blame),
    /// Which units others had to wait for
    CriticalChain(CriticalChain),
    /// The start of the machine as a picture (SVG)
    Plot,
    /// Dependencies as a graph (for Graphviz)
    Dot(Dot),
    /// Check unit files for mistakes
    Verify(Verify),
    /// What services can do, and how much of it a break-in would expose
    Security(Security),
    /// Explain calendar expressions
    Calendar(Calendar),
    /// Explain time spans
    Timespan(Times),
    /// Explain points in time
    Timestamp(Times),
}
