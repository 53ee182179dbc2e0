//! `sctl`: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_sctl::run(std::env::args_os())
}
