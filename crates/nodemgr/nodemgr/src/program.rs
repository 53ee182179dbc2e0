//! What `main` runs.

use std::process::ExitCode;

use muster_machine_api::places::Places;
use muster_program::About;

use crate::config::RawConfig;
use crate::daemon;

/// What the daemon says about itself, for whoever runs it.
fn about() -> About {
    let file = Places::of_process().config.display().to_string();
    About {
        name: "muster-nodemgr",
        version: env!("CARGO_PKG_VERSION"),
        summary: "The node manager: machines on demand.",
        details: "Makes machines by templates with whoever provides them (this machine, Docker, libvirt, EC2), keeps them, puts \
                  them away when nobody needs them, and runs workflows on them. Machines stay when this program ends. It needs \
                  no configuration to begin with.",
        // Once, and for as long as the program runs.
        default_file: file.leak(),
        env_prefix: "MUSTER_NODEMGR",
        set_example: "providers.docker.endpoint=unix:///run/docker.sock",
        // Disks, and folders that are walked.
        blocking_threads: 8,
    }
}

/// Runs the program with the process's own arguments.
pub fn run() -> ExitCode {
    muster_fault::init(&crate::fault_points());
    muster_program::run::<RawConfig, _>(&about(), daemon::run)
}
