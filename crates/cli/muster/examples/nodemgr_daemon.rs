//! The real node manager, built along with the tests that call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_nodemgr::program::run()
}
