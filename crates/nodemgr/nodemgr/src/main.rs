//! The node manager.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_nodemgr::program::run()
}
