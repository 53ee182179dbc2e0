//! What `main` runs.

use std::process::ExitCode;

use muster_program::About;

use crate::config::raw::RawConfig;
use crate::daemon;

/// What the daemon says about itself.
pub const ABOUT: About = About {
    name: "muster-iam",
    version: env!("CARGO_PKG_VERSION"),
    summary: "The identity manager of a Muster node.",
    details: "Keeps the node's keys and certificates, provisions it, and tells peers who it is. Serves gRPC on a public port \
              (server TLS), a protected port (mutual TLS) and a local socket (root).",
    default_file: "/etc/muster/iam.json",
    env_prefix: "MUSTER_IAM",
    set_example: "publicServerUrl=:9090",
    // Disks, tokens and hooks.
    blocking_threads: 4,
};

/// Runs the program with the process's own arguments.
pub fn run() -> ExitCode {
    muster_fault::init(&crate::fault_points());
    muster_program::run::<RawConfig, _>(&ABOUT, async |config, start| {
        daemon::run(config, start.sources, &start.shutdown, &start.notifier).await
    })
}
