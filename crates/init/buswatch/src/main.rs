//! The program `muster-buswatch`; see the library's documentation.

use std::io::{self, Write as _};
use std::process::ExitCode;

use muster_buswatch::options::{HELP, Options};
use muster_buswatch::run::run;

/// The command line is wrong.
const USAGE: u8 = 2;

fn main() -> io::Result<ExitCode> {
    let from_environment = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
    // A name that is not text is no bus name; it is refused as one.
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    match Options::parse(arguments, from_environment) {
        Ok(Options::Run { address, names }) => {
            run(address, names, &mut io::stdin().lock(), io::stdout())?;
        }
        Ok(Options::Help) => io::stdout().write_all(HELP.as_bytes())?,
        Ok(Options::Version) => {
            writeln!(
                io::stdout(),
                "muster-buswatch {}",
                env!("CARGO_PKG_VERSION")
            )?;
        }
        Err(error) => {
            writeln!(io::stderr(), "muster-buswatch: {error}")?;
            return Ok(ExitCode::from(USAGE));
        }
    }
    Ok(ExitCode::SUCCESS)
}
