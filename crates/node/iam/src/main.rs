//! `muster-iam`: see the library's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_iam::program::run()
}
