//! Verbs that work on files: what they say, what is enabled, how units depend on each other.

use clap::{Args, Subcommand, ValueEnum};

use super::{AskUnits, Common, Format};

/// What verbs that change links have.
#[derive(Debug, Clone, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Change it until the next start of the machine only.
    #[arg(long)]
    pub(crate) runtime: bool,
    /// Replace links that are in the way.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Also start (enable, reenable) or stop (disable, mask) the units.
    #[arg(long)]
    pub(crate) now: bool,
    /// Do not have the running manager read unit files again.
    #[arg(long)]
    pub(crate) no_reload: bool,
}

/// A change of some units.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeUnits {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Names of units.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Unit files from elsewhere.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkFiles {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Absolute paths of unit files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) files: Vec<String>,
}

/// A new dependency of a unit.
#[derive(Debug, Clone, Args)]
pub(crate) struct AddDependency {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The unit that gets the dependency.
    #[arg(required = true)]
    pub(crate) target: String,
    /// The units that it shall pull in.
    #[arg(required = true, value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// Which half of a preset is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Enable and disable.
    #[default]
    Full,
    /// Enable, but never disable.
    EnableOnly,
    /// Disable, but never enable.
    DisableOnly,
}

/// Presets of some units.
#[derive(Debug, Clone, Args)]
pub(crate) struct Preset {
    #[command(flatten)]
    pub(crate) units: ChangeUnits,
    /// Which half of the presets to carry out.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) preset_mode: Mode,
}

/// Presets of all units.
#[derive(Debug, Clone, Args)]
pub(crate) struct PresetAll {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Which half of the presets to carry out.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) preset_mode: Mode,
}

/// The new default target.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetDefault {
    #[command(flatten)]
    pub(crate) change: Change,
    /// The target to start into.
    pub(crate) target: String,
}

/// A list of unit files.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListUnitFiles {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only units of these types (`help` lists them).
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Only units in these states (`help` lists them).
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(crate) states: Vec<String>,
    /// Print no head line and no count.
    #[arg(long)]
    pub(crate) no_legend: bool,
    /// Whether to print a head line and a count.
    #[arg(long, value_name = "BOOL", hide = true)]
    pub(crate) legend: Option<String>,
    /// How to print the list.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: Format,
    /// Only units whose names fit one of these shell patterns.
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}

/// A tree of dependencies.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListDependencies {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Who needs the unit, instead of what it needs.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// What is ordered before the unit: it starts after these.
    #[arg(long)]
    pub(crate) after: bool,
    /// What is ordered after the unit: it starts before these.
    #[arg(long)]
    pub(crate) before: bool,
    /// Expand every unit, not only targets.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// A list instead of a tree.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Only units of these types.
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Names of units; the default target if there is none.
    #[arg(value_name = "UNIT")]
    pub(crate) units: Vec<String>,
}

/// When units that others depend on make `verify` fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecursiveErrors {
    /// A warning about any unit that is pulled in.
    Yes,
    /// A warning about the named units only.
    No,
    /// A warning about the named units and what they directly need.
    One,
}

fn recursive_errors(text: &str) -> Result<RecursiveErrors, String> {
    match text {
        "yes" => Ok(RecursiveErrors::Yes),
        "no" => Ok(RecursiveErrors::No),
        "one" => Ok(RecursiveErrors::One),
        _ => Err("give yes, no or one".to_owned()),
    }
}

/// A check of unit files.
#[derive(Debug, Clone, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Fail on warnings too: in the named units (no), in what they directly need as well (one), or
    /// in everything that is needed (yes).
    #[arg(long, value_name = "MODE", value_parser = recursive_errors)]
    pub(crate) recursive_errors: Option<RecursiveErrors>,
    /// Whether manual pages must exist; they are never looked for.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide = true)]
    pub(crate) man: Option<String>,
    /// Whether generators run first; they never do.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide = true)]
    pub(crate) generators: Option<String>,
    /// Unit files, or names of units that are installed.
    #[arg(required = true, value_name = "FILE|UNIT")]
    pub(crate) units: Vec<String>,
}

/// JSON in the words of `systemd-analyze`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Json {
    /// In one line.
    Short,
    /// In many lines.
    Pretty,
    /// None.
    Off,
}

/// What services can do.
#[derive(Debug, Clone, Args)]
pub(crate) struct Security {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    output: Format,
    /// The same as --output, in the words of systemd-analyze.
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "short")]
    json: Option<Json>,
    /// Fail if a service is exposed more than this, from 0 to 100.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=100))]
    threshold: Option<u8>,
    /// Whether files are read rather than the manager asked; they always are.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide = true)]
    offline: Option<String>,
    /// Services, or files of services; all services in a table if there is none.
    #[arg(value_name = "UNIT|FILE")]
    pub(crate) units: Vec<String>,
}

impl Security {
    /// How the answer is printed.
    pub(crate) fn format(&self) -> Format {
        match self.json {
            Some(Json::Short) => Format::Json,
            Some(Json::Pretty) => Format::JsonPretty,
            Some(Json::Off) => Format::Short,
            None => self.output,
        }
    }

    /// Whether one of these exposures, in tenths, is too much.
    pub(crate) fn is_exceeded_by(&self, mut exposures: impl Iterator<Item = u8>) -> bool {
        let threshold = self.threshold;
        threshold.is_some_and(|threshold| exposures.any(|exposure| exposure > threshold))
    }
}

/// Calendar expressions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Calendar {
    /// How many elapses to print.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) iterations: String,
    /// Elapses after this moment instead of now.
    #[arg(long, value_name = "TIMESTAMP")]
    pub(crate) base_time: Option<String>,
    /// Such as "Mon..Fri 09:00" or "daily".
    #[arg(required = true, value_name = "EXPRESSION")]
    pub(crate) expressions: Vec<String>,
}

/// Texts to be read as times.
#[derive(Debug, Clone, Args)]
pub(crate) struct Times {
    /// Texts to read.
    #[arg(required = true, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) texts: Vec<String>,
}

/// Escaping of texts.
#[derive(Debug, Clone, Args)]
pub(crate) struct Escape {
    /// Append this unit type to the escaped texts.
    #[arg(long, value_name = "TYPE")]
    pub(crate) suffix: Option<String>,
    /// Make the texts instances of this template.
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,
    /// With --unescape: take the instances of unit names only.
    #[arg(long)]
    pub(crate) instance: bool,
    /// Undo the escaping.
    #[arg(short, long, overrides_with = "mangle")]
    pub(crate) unescape: bool,
    /// Escape only what a unit name cannot have, and add a type where there is none.
    #[arg(short, long, overrides_with = "unescape")]
    pub(crate) mangle: bool,
    /// The texts are paths.
    #[arg(short, long)]
    pub(crate) path: bool,
    /// Texts to escape.
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
}

/// What can be done without the running manager.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum FileVerb {
    /// List unit files and whether they are enabled
    ListUnitFiles(ListUnitFiles),
    /// Have units started with the machine, as their [Install] sections say
    #[command(
        after_help = "A unit file in another folder may be given by its path: it is linked first."
    )]
    Enable(ChangeUnits),
    /// Undo `enable`: remove all links to units
    Disable(ChangeUnits),
    /// Disable and enable again, after an [Install] section changed
    Reenable(ChangeUnits),
    /// Enable or disable units as the distribution's presets say
    Preset(Preset),
    /// Enable or disable every unit as the distribution's presets say
    PresetAll(PresetAll),
    /// Say whether units are enabled; the exit code is 0 if one is
    IsEnabled(AskUnits),
    /// Make it impossible to start units
    Mask(ChangeUnits),
    /// Undo `mask`
    Unmask(ChangeUnits),
    /// Make unit files from other folders known
    Link(LinkFiles),
    /// Go back to what the distribution ships: remove local files, drop-ins and masks
    Revert(ChangeUnits),
    /// Make a target want units
    AddWants(AddDependency),
    /// Make a target require units
    AddRequires(AddDependency),
    /// Print the target that the machine starts into
    GetDefault(Common),
    /// Change the target that the machine starts into
    SetDefault(SetDefault),
    /// Print the files of units
    Cat(AskUnits),
    /// Draw what units need, or who needs them
    ListDependencies(ListDependencies),
    /// Check unit files for mistakes
    Verify(Verify),
    /// What services can do, and how much of it a break-in would expose
    Security(Security),
    /// Explain calendar expressions, and when they elapse next
    Calendar(Calendar),
    /// Explain time spans such as "1h 30min"
    Timespan(Times),
    /// Explain points in time such as "tomorrow"
    Timestamp(Times),
    /// Turn texts and paths into parts of unit names, and back
    Escape(Escape),
}
