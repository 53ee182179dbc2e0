//! `muster-logd`: see the library's documentation.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_logd::run::program()
}
