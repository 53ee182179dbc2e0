//! The real identity manager, built along with the tests that call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_iam::program::run()
}
