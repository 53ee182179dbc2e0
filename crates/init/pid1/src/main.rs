//! The program `muster-init`; see the library's documentation.

use std::process::ExitCode;

use muster_init::options::{Command, HELP, Options};
use muster_init::replace::resume;
use muster_init::report::{Level, chain, say};
use muster_init::start::start;

/// The command line or the environment does not allow to run.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            say(Level::Error, format_args!("{error}"));
            // A typing error at the boot prompt must not keep a machine from starting.
            if std::process::id() != 1 {
                return ExitCode::from(USAGE);
            }
            Options::default()
        }
    };
    match options.command {
        Command::Run => match start(options) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                say(Level::Error, format_args!("{}", chain(&error)));
                ExitCode::from(USAGE)
            }
        },
        Command::Help => print(HELP),
        Command::Version => print(concat!("muster-init ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::CheckState(descriptor) => match resume(descriptor) {
            (_, None) => ExitCode::SUCCESS,
            (_, Some(error)) => {
                say(Level::Error, format_args!("{}", chain(&error)));
                ExitCode::FAILURE
            }
        },
    }
}

fn print(text: &str) -> ExitCode {
    match rustix::io::write(std::io::stdout(), text.as_bytes()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
