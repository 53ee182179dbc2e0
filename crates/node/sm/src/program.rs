//! What `main` runs.

use std::process::ExitCode;

use muster_program::About;

use crate::config::RawConfig;
use crate::daemon;

/// What the daemon says about itself.
pub const ABOUT: About = About {
    name: "muster-sm",
    version: env!("CARGO_PKG_VERSION"),
    summary: "The service manager of a Muster node.",
    details: "Gets images, runs instances of them as units of the init system, keeps them running, and reports to the \
              controller. What runs goes on when this program ends.",
    default_file: "/etc/muster/sm.json",
    env_prefix: "MUSTER_SM",
    set_example: "cmServerUrl=main:8093",
    // Disks and unpacking.
    blocking_threads: 8,
};

/// Runs the program with the process's own arguments.
pub fn run() -> ExitCode {
    muster_fault::init(&crate::fault_points());
    muster_program::run::<RawConfig, _>(&ABOUT, async |config, start| {
        daemon::run(config, &start.shutdown, &start.notifier).await
    })
}
