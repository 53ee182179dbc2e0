//! The daemon with its fault points compiled in, for the tests that kill it.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_logd::run::program()
}
