//! What runs inside a container's unit; see the library's module `unit`.

use std::path::PathBuf;
use std::process::ExitCode;

use muster_runtime_container::unit;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (verb, folder) = (words.next(), words.next().map(PathBuf::from));
    let error = match (verb.as_ref().and_then(|verb| verb.to_str()), folder) {
        (Some("start"), Some(folder)) => unit::start(folder),
        (Some("end"), Some(folder)) => match unit::end(folder) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => error,
        },
        _ => {
            eprintln!("usage: muster-container start|end FOLDER (run by units of containers)");
            return ExitCode::from(2);
        }
    };
    eprintln!("muster-container: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        eprintln!("  because: {inner}");
        cause = inner.source();
    }
    ExitCode::FAILURE
}
