//! `muster-logd`: see the library's documentation.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use muster_logd::config::Config;
use muster_logd::daemon::{Daemon, Setup};
use muster_logd::faults::FAULT_POINTS;
use muster_logd::options::Options;
use muster_logd::origin::Host;
use muster_logd::recorder::chain;
use muster_logd::sockets::{OpenSocketError, Sockets, open_datagram, open_listener};

fn main() -> ExitCode {
    muster_fault::init(&[FAULT_POINTS, muster_journal::FAULT_POINTS]);
    let options = Options::parse();
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-logd: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let candidates = match options.config {
        Some(file) => vec![file],
        None => ["/etc/muster/logd.conf", "/etc/systemd/journald.conf"]
            .map(PathBuf::from)
            .to_vec(),
    };
    let (mut config, problems) = Config::load(&candidates);
    config.read_kmsg &= !options.no_kmsg;
    let sockets = sockets(&options.syslog, &options.native, &options.varlink)?;
    let daemon = Daemon::start(Setup {
        config,
        host: Host::read(&options.machine_id)?,
        memory_root: options.runtime_journal,
        disk_root: options.journal,
        ledger: options.state,
        kmsg: options.kmsg,
        wait_for_flush: options.wait_for_flush,
        sockets,
        warnings: problems.iter().map(ToString::to_string).collect(),
    })?;
    Ok(daemon.run()?)
}

/// What was passed, and what the command line says to open.
fn sockets(
    syslog: &Option<PathBuf>,
    native: &Option<PathBuf>,
    varlink: &Option<PathBuf>,
) -> Result<Sockets, OpenSocketError> {
    let mut sockets = Sockets::inherited()?;
    if let Some(path) = syslog {
        sockets.syslog = Some(open_datagram(path)?);
    }
    if let Some(path) = native {
        sockets.native = Some(open_datagram(path)?);
    }
    if let Some(path) = varlink {
        sockets.varlink.push(open_listener(path, 0o600)?);
    }
    Ok(sockets)
}
