//! The daemon with its fault points compiled in, for the tests that kill it.

use std::process::ExitCode;

use clap::Parser as _;
use muster_logd::options::Options;
use muster_logd::recorder::chain;

fn main() -> ExitCode {
    muster_fault::init(&[
        muster_logd::faults::FAULT_POINTS,
        muster_journal::FAULT_POINTS,
    ]);
    match muster_logd::run::run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // In one write: the kernel's log takes each as a message.
            let text = format!("muster-logd: {}\n", chain(&error));
            eprint!("{text}");
            ExitCode::FAILURE
        }
    }
}
