//! The Communication Manager of a Unit.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_cm::program::run()
}
