//! The service manager of a node.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_sm::program::run()
}
