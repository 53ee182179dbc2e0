//! The program: command line, takeover, loop.

use std::process::ExitCode;

use muster_core::Core;
use muster_core::core::{CoreError, Ending, FAULT_POINTS};
use muster_core::options::{Options, OptionsError};
use muster_core::platform::real::RealPlatform;
use muster_handover::{CoreLink, TakeError};

/// What the program ends with when it is to be started again.
const FAILED: u8 = 1;
/// What it ends with when its command line makes no sense.
const USAGE: u8 = 2;

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("muster-core is started by muster-init, which hands it everything it needs")]
    NotByInit(#[source] TakeError),
    #[error(transparent)]
    Core(#[from] CoreError),
}

fn main() -> ExitCode {
    muster_fault::init(&[FAULT_POINTS]);
    // The kernel starts PID 1 without a mask, and what core writes is not for everybody to change.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(wanted @ (OptionsError::Help | OptionsError::Version)) => {
            println!("{wanted}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("muster-core: {error}");
            return ExitCode::from(USAGE);
        }
    };
    match run(options) {
        Ok(Ending::Reexec | Ending::Shutdown) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("muster-core: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                text = format!("{text}: {inner}");
                source = inner.source();
            }
            eprintln!("{text}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(options: Options) -> Result<Ending, RunError> {
    let (link, mut begun) = CoreLink::take_from_env().map_err(RunError::NotByInit)?;
    let (platform, record) = RealPlatform::new(link, &mut begun, &options)?;
    let mut host = muster_core::units::host(&options);
    host.tasks = host.tasks.min(platform.task_limit());
    let mut core = Core::begin(Box::new(platform), options, host, begun, record)?;
    Ok(core.run()?)
}
