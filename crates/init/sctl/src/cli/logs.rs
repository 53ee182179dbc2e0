//! The log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How entries are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// As syslog does.
    #[default]
    Short,
    /// With the date as ISO 8601 has it.
    ShortIso,
    /// With microseconds.
    ShortPrecise,
    /// With the date and the weekday.
    ShortFull,
    /// With seconds since boot.
    ShortMonotonic,
    /// With seconds since 1970.
    ShortUnix,
    /// All fields, one JSON object in a line.
    Json,
    /// All fields, JSON in many lines.
    JsonPretty,
    /// Only the messages.
    Cat,
    /// All fields, one in a line.
    Verbose,
    /// For `systemd-journal-remote` and the like.
    Export,
}

/// Which entries, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct Logs {
    /// Go on with new entries as they come.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The last so many entries; `all` for all.
    #[arg(short = 'n', long, value_name = "NUMBER")]
    pub(crate) lines: Option<String>,
    /// Start at the end: the same as -n 1000 where nothing else is said.
    #[arg(short = 'e', long)]
    pub(crate) pager_end: bool,
    /// Only entries from this moment on.
    #[arg(short = 'S', long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// Only entries up to this moment.
    #[arg(short = 'U', long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// Only entries of and about these units.
    #[arg(short, long, value_name = "UNIT")]
    pub(crate) unit: Vec<String>,
    /// Only entries of programs with these names.
    #[arg(short = 't', long, value_name = "NAME")]
    pub(crate) identifier: Vec<String>,
    /// Only entries that matter so much, or between two levels: err, 0..3.
    #[arg(short, long, value_name = "LEVEL[..LEVEL]")]
    pub(crate) priority: Option<String>,
    /// Only entries of these facilities.
    #[arg(long, value_name = "FACILITY", value_delimiter = ',')]
    pub(crate) facility: Vec<String>,
    /// Only the kernel's, of this start of the machine.
    #[arg(short = 'k', long)]
    pub(crate) dmesg: bool,
    /// Only entries of this start of the machine, of the one before (-1), or of one by its id.
    #[arg(
        short,
        long,
        value_name = "BOOT",
        num_args = 0..=1,
        default_missing_value = "0",
        allow_hyphen_values = true,
        require_equals = true
    )]
    pub(crate) boot: Option<String>,
    /// Only entries whose message fits this regular expression; with --lines, newest first.
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,
    /// Whether upper and lower case differ to --grep; by default only if the pattern has upper case.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) case_sensitive: Option<bool>,
    /// Start at this entry.
    #[arg(short, long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Start after this entry.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after_cursor: Option<String>,
    /// Start after the entry whose cursor stands in this file, and keep the last one's there.
    #[arg(long, value_name = "FILE")]
    pub(crate) cursor_file: Option<PathBuf>,
    /// Print the cursor of the last entry.
    #[arg(long)]
    pub(crate) show_cursor: bool,
    /// How to print entries.
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub(crate) output: LogFormat,
    /// Only these fields, where all would be printed.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) output_fields: Vec<String>,
    /// Newest first.
    #[arg(short, long)]
    pub(crate) reverse: bool,
    /// Times in UTC.
    #[arg(long)]
    pub(crate) utc: bool,
    /// Leave out the name of the machine.
    #[arg(long)]
    pub(crate) no_hostname: bool,
    /// Print long and unprintable messages in full.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// List the starts of the machine that have entries.
    #[arg(long)]
    pub(crate) list_boots: bool,
    /// Print every value of a field.
    #[arg(short = 'F', long, value_name = "NAME")]
    pub(crate) field: Option<String>,
    /// Print the names of all fields.
    #[arg(short = 'N', long)]
    pub(crate) fields: bool,
    /// Read the files of this folder.
    #[arg(short = 'D', long, value_name = "FOLDER")]
    pub(crate) directory: Option<PathBuf>,
    /// Read this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Have the log daemon write out everything that it was told so far.
    #[arg(long)]
    pub(crate) sync: bool,
    /// Have the log daemon begin new files.
    #[arg(long)]
    pub(crate) rotate: bool,
    /// Have the log daemon move what it kept in memory to the disk.
    #[arg(long)]
    pub(crate) flush: bool,
    /// Remove the oldest archived files until the rest has no more than so many bytes (K, M, G, T).
    #[arg(long, value_name = "BYTES")]
    pub(crate) vacuum_size: Option<String>,
    /// Remove the oldest archived files until so many are left.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) vacuum_files: Option<u64>,
    /// Remove archived files whose newest entry is older than this.
    #[arg(long, value_name = "SPAN")]
    pub(crate) vacuum_time: Option<String>,
    /// Leave out remarks.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Only entries with these values: NAME=VALUE, and `+` between alternatives.
    #[arg(value_name = "MATCH")]
    pub(crate) matches: Vec<String>,
}
