//! From the command line to the running daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use thiserror::Error;

use crate::config::Config;
use crate::daemon::{Daemon, DaemonError, Setup};
use crate::options::Options;
use crate::origin::{Host, ReadHostError};
use crate::recorder::chain;
use crate::sockets::{OpenSocketError, Sockets, open_datagram, open_listener};

/// Where configuration is looked for; the first file that exists counts.
const CONFIG_FILES: [&str; 2] = ["/etc/muster/logd.conf", "/etc/systemd/journald.conf"];

/// Why the daemon ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// Its sockets.
    #[error("cannot open the sockets")]
    Sockets(#[source] OpenSocketError),
    /// The machine's name.
    #[error("cannot tell which machine this is")]
    Host(#[source] ReadHostError),
    /// The daemon itself.
    #[error("the log daemon cannot go on")]
    Daemon(#[source] DaemonError),
}

/// The program: reads the command line, runs, and says why it ended if that was not asked for.
pub fn program() -> ExitCode {
    muster_fault::init(&[crate::faults::FAULT_POINTS, muster_journal::FAULT_POINTS]);
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // In one write: the kernel's log takes each as a message.
            let text = format!("muster-logd: {}\n", chain(&error));
            eprint!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the daemon until a signal ends it.
///
/// # Errors
/// If it cannot start, or cannot wait for messages.
pub fn run(options: Options) -> Result<(), RunError> {
    let candidates = match &options.config {
        Some(file) => vec![file.clone()],
        None => CONFIG_FILES.map(PathBuf::from).to_vec(),
    };
    let (mut config, problems) = Config::load(&candidates);
    config.read_kmsg &= !options.no_kmsg;
    let daemon = Daemon::start(Setup {
        config,
        host: Host::read(&options.machine_id).map_err(RunError::Host)?,
        sockets: sockets(&options).map_err(RunError::Sockets)?,
        memory_root: options.runtime_journal,
        disk_root: options.journal,
        ledger: options.state,
        kmsg: options.kmsg,
        wait_for_flush: options.wait_for_flush,
        warnings: problems.iter().map(ToString::to_string).collect(),
    })
    .map_err(RunError::Daemon)?;
    daemon.run().map_err(RunError::Daemon)
}

/// What was passed, and what the command line says to open.
fn sockets(options: &Options) -> Result<Sockets, OpenSocketError> {
    let mut sockets = Sockets::inherited()?;
    if let Some(path) = &options.syslog {
        sockets.syslog = Some(open_datagram(path)?);
    }
    if let Some(path) = &options.native {
        sockets.native = Some(open_datagram(path)?);
    }
    if let Some(path) = &options.stdout {
        sockets.stdout = Some(open_listener(path, 0o666)?);
    }
    if let Some(path) = &options.varlink {
        sockets.varlink.push(open_listener(path, 0o600)?);
    }
    Ok(sockets)
}
