//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Takes the output of services, syslog, native and kernel messages, and keeps them in systemd's journal files.
///
/// Usually started by the service manager with its sockets; the options below let it open them by itself.
#[derive(Debug, Parser)]
#[command(name = "muster-logd", version, about)]
pub struct Options {
    /// Configuration, instead of /etc/muster/logd.conf and, where that is missing, /etc/systemd/journald.conf
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of journals that live as long as the machine is up
    #[arg(long, value_name = "DIR", default_value = "/run/log/journal")]
    pub runtime_journal: PathBuf,
    /// Folder of journals that stay
    #[arg(long, value_name = "DIR", default_value = "/var/log/journal")]
    pub journal: PathBuf,
    /// The account of what is in the journal, for the next start
    #[arg(long, value_name = "FILE", default_value = "/run/muster/logd.state")]
    pub state: PathBuf,
    /// The machine's id
    #[arg(long, value_name = "FILE", default_value = "/etc/machine-id")]
    pub machine_id: PathBuf,
    /// The kernel's messages
    #[arg(long, value_name = "DEVICE", default_value = "/dev/kmsg")]
    pub kmsg: PathBuf,
    /// Do not read the kernel's messages, whatever is configured
    #[arg(long)]
    pub no_kmsg: bool,
    /// Leave the disk alone until a flush is asked for (early in a boot, before /var is there)
    #[arg(long)]
    pub wait_for_flush: bool,
    /// Open a syslog socket there
    #[arg(long, value_name = "PATH")]
    pub syslog: Option<PathBuf>,
    /// Open a socket for sd_journal_send(3) there
    #[arg(long, value_name = "PATH")]
    pub native: Option<PathBuf>,
    /// Open a socket for sd_journal_stream_fd(3) there
    #[arg(long, value_name = "PATH")]
    pub stdout: Option<PathBuf>,
    /// Open a control socket there
    #[arg(long, value_name = "PATH")]
    pub varlink: Option<PathBuf>,
}
