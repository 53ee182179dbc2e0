//! `muster doctor`.

use std::path::PathBuf;

use clap::Args;

use super::unit::Connection;

const EXIT_CODES: &str = "\
Each check is ok, a warning (something will not work, or not well) or an error (Muster cannot run here).

Exit codes:
  0  no errors
  1  there are errors
  2  the command line makes no sense";

/// `muster doctor`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    /// Where the state of Muster is, or will be.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/muster")]
    pub(crate) state: PathBuf,
    /// The folder of Muster's programs [default: beside this one, ../lib/muster, or /usr/lib/muster]
    #[arg(long, value_name = "FOLDER", env = "MUSTER_PROGRAMS")]
    pub(crate) programs: Option<PathBuf>,
    /// The socket of the identity manager.
    #[arg(
        long,
        value_name = "SOCKET",
        env = "MUSTER_IAM",
        default_value = "/run/muster/iam.sock"
    )]
    pub(crate) iam: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}
