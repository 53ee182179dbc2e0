//! What `main` runs.

use std::process::ExitCode;

use muster_program::About;

use crate::config::RawConfig;
use crate::daemon;

/// What the daemon says about itself.
pub const ABOUT: About = About {
    name: "muster-cm",
    version: env!("CARGO_PKG_VERSION"),
    summary: "The Communication Manager of a Muster Unit.",
    details: "Knows the nodes of the Unit, decides what runs where, gets the items for it and gives them to nodes, and answers \
              operators. What runs goes on when this program ends.",
    default_file: "/etc/muster/cm.json",
    env_prefix: "MUSTER_CM",
    set_example: "cmServerUrl=:8093",
    // Disks: items are hashed, blobs are read for nodes.
    blocking_threads: 8,
};

/// Runs the program with the process's own arguments.
pub fn run() -> ExitCode {
    muster_fault::init(&crate::fault_points());
    muster_program::run::<RawConfig, _>(&ABOUT, daemon::run)
}
