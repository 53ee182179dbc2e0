//! `muster`: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_fault::init(&[muster_pki::FAULT_POINTS, muster_cli::FAULT_POINTS]);
    muster_cli::run(std::env::args_os())
}
