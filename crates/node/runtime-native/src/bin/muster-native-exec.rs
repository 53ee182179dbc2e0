//! What runs inside a native program's unit; see the library's module `sandbox`.

use muster_telemetry::ErrorChain;
use std::path::PathBuf;
use std::process::ExitCode;

use muster_runtime_native::sandbox;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (verb, folder) = (words.next(), words.next().map(PathBuf::from));
    match (verb.as_ref().and_then(|verb| verb.to_str()), folder) {
        (Some(verb @ ("start" | "start-strict")), Some(folder)) => {
            let error = sandbox::start(folder, verb == "start-strict");
            eprintln!("muster-native-exec: {}", ErrorChain(&error));
            ExitCode::FAILURE
        }
        (Some("end"), Some(folder)) => match sandbox::end(folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("muster-native-exec: {}", ErrorChain(&error));
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: muster-native-exec start|start-strict|end FOLDER (run by units)");
            ExitCode::from(2)
        }
    }
}
