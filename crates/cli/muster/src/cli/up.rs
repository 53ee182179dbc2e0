//! `muster up` and `muster down`.

use std::path::PathBuf;

use clap::Args;
use muster_config::Duration;

/// Where the demo is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Where everything is kept [default: /var/lib/muster/demo; without root muster/demo below $XDG_STATE_HOME]
    #[arg(long, value_name = "FOLDER", env = "MUSTER_DEMO_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Where sockets are [default: /run/muster, or run in FOLDER with --dir; without root muster below $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "FOLDER", env = "MUSTER_DEMO_RUN")]
    pub(crate) run: Option<PathBuf>,
}

/// `muster up`
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Where Muster's programs and the demo's are [default: where they were installed, or beside this one]
    #[arg(long, value_name = "FOLDER", env = "MUSTER_PROGRAMS")]
    pub(crate) programs: Option<PathBuf>,
    /// How long instances may take to be active, e.g. 30s.
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub(crate) timeout: Duration,
}

/// `muster down`
#[derive(Debug, Args)]
pub(crate) struct Down {
    #[command(flatten)]
    pub(crate) place: Place,
}
