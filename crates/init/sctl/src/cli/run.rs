//! Transient units.

use clap::Args;

/// A command, and what runs it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// Run the command from here, in a scope.
    #[arg(long)]
    pub(crate) scope: bool,
    /// The name of the unit.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) unit: Option<String>,
    /// A setting, by its name in unit files.
    #[arg(short, long = "property", value_name = "NAME=VALUE")]
    pub(crate) properties: Vec<String>,
    /// Description= of the unit.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// The slice that it runs in.
    #[arg(long, value_name = "NAME")]
    pub(crate) slice: Option<String>,
    /// The slice that this command runs in.
    #[arg(long, conflicts_with = "slice")]
    pub(crate) slice_inherit: bool,
    /// Keep it after its processes ended.
    #[arg(short, long)]
    pub(crate) remain_after_exit: bool,
    /// Give it the terminal.
    #[arg(short = 't', long, conflicts_with_all = ["scope", "no_block"])]
    pub(crate) pty: bool,
    /// Give it this command's standard streams.
    #[arg(short = 'P', long, conflicts_with_all = ["scope", "no_block"])]
    pub(crate) pipe: bool,
    /// Wait until it ended, and take its exit code over.
    #[arg(long, conflicts_with_all = ["scope", "no_block", "remain_after_exit"])]
    pub(crate) wait: bool,
    /// Do not wait until it is up.
    #[arg(long)]
    pub(crate) no_block: bool,
    /// Forget it when it ended, even when it failed.
    #[arg(short = 'G', long)]
    pub(crate) collect: bool,
    /// Print nothing but what the command prints.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Type= of the service.
    #[arg(long, value_name = "TYPE")]
    pub(crate) service_type: Option<String>,
    /// Run as this user.
    #[arg(long, value_name = "USER")]
    pub(crate) uid: Option<String>,
    /// Run as this group.
    #[arg(long, value_name = "GROUP")]
    pub(crate) gid: Option<String>,
    /// How nice it is to others.
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    pub(crate) nice: Option<String>,
    /// Where it runs.
    #[arg(long, value_name = "PATH")]
    pub(crate) working_directory: Option<String>,
    /// Run it in the current folder.
    #[arg(short = 'd', long, conflicts_with = "working_directory")]
    pub(crate) same_dir: bool,
    /// A variable; the value of this command's environment if none is given.
    #[arg(short = 'E', long = "setenv", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Start it so long after now.
    #[arg(long, value_name = "TIME")]
    pub(crate) on_active: Vec<String>,
    /// Start it so long after the machine was started.
    #[arg(long, value_name = "TIME")]
    pub(crate) on_boot: Vec<String>,
    /// Start it so long after the manager was started.
    #[arg(long, value_name = "TIME")]
    pub(crate) on_startup: Vec<String>,
    /// Start it so long after it was last started.
    #[arg(long, value_name = "TIME")]
    pub(crate) on_unit_active: Vec<String>,
    /// Start it so long after it last ended.
    #[arg(long, value_name = "TIME")]
    pub(crate) on_unit_inactive: Vec<String>,
    /// Start it at these moments.
    #[arg(long, value_name = "CALENDAR")]
    pub(crate) on_calendar: Vec<String>,
    /// Start it when the time zone changes.
    #[arg(long)]
    pub(crate) on_timezone_change: bool,
    /// Start it when the clock is set.
    #[arg(long)]
    pub(crate) on_clock_change: bool,
    /// A setting of the timer.
    #[arg(long = "timer-property", value_name = "NAME=VALUE")]
    pub(crate) timer_properties: Vec<String>,
    /// A setting of the socket that starts it.
    #[arg(long = "socket-property", value_name = "NAME=VALUE")]
    pub(crate) socket_properties: Vec<String>,
    /// A setting of the path that starts it.
    #[arg(long = "path-property", value_name = "NAME=VALUE")]
    pub(crate) path_properties: Vec<String>,
    /// The command and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}
