//! The CNI plugin `muster-firewall`; see [`muster_firewall::plugin`].

use std::env;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use muster_firewall::plugin::{self, Failure, FailureCode, MAX_CONFIG_BYTES, Request};

fn main() -> ExitCode {
    let outcome = request().and_then(|request| plugin::run(&request));
    let (answer, code) = match outcome {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(failure) => (Some(failure.to_json()), ExitCode::FAILURE),
    };
    let written = match answer {
        Some(answer) => writeln!(io::stdout(), "{answer}"),
        None => Ok(()),
    };
    // A caller that does not listen cannot be told more than by the exit code.
    written.map_or(ExitCode::FAILURE, |()| code)
}

fn request() -> Result<Request, Failure> {
    let mut config = Vec::new();
    let command = env::var("CNI_COMMAND").ok();
    // Callers that ask for the version may leave standard input open and empty.
    if command.as_deref() != Some("VERSION") {
        io::stdin()
            .take(MAX_CONFIG_BYTES)
            .read_to_end(&mut config)
            .map_err(|error| {
                Failure::new(
                    "1.0.0",
                    FailureCode::Io,
                    "cannot read standard input",
                    &error,
                )
            })?;
    }
    Ok(Request {
        command,
        container_id: env::var("CNI_CONTAINERID").ok(),
        config,
    })
}
