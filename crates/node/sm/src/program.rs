//! The command line: what `main` runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use muster_telemetry::{ErrorChain, LogFormat, LogOptions, Notifier, Shutdown};

use crate::config;
use crate::daemon;

/// Exit code for a command line or configuration that cannot be used, as sysexits.h has it.
const BAD_CONFIG: u8 = 78;

/// The service manager of a Muster node.
///
/// Gets images, runs instances of them as units of the init system, keeps them running, and reports
/// to the controller. What runs goes on when this program ends.
#[derive(Debug, Parser)]
#[command(name = "muster-sm", version, about, long_about)]
struct Arguments {
    /// Configuration file: .json, .cfg, .toml or .yaml; FILE.d holds drop-ins. Without this option
    /// /etc/muster/sm.json is read if it is there
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets a key over files and environment, as in --set cmServerUrl=main:8093; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Checks the configuration, says what is wrong with it, and ends
    #[arg(long)]
    check_config: bool,
    /// Prints every key that is set, with its value and where it was set, and ends
    #[arg(long)]
    print_config: bool,
    /// What to log, as error, warn, info, debug, trace, or per part as muster_sm=debug
    #[arg(
        long,
        value_name = "FILTER",
        env = "MUSTER_SM_LOG",
        default_value = "info"
    )]
    log: String,
    /// How to log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs the program with the process's own arguments.
pub fn run() -> ExitCode {
    muster_fault::init(&crate::fault_points());
    let arguments = Arguments::parse();
    let loaded = match config::layers(arguments.config.as_deref(), &arguments.set).load() {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&error, BAD_CONFIG),
    };
    if arguments.print_config {
        for setting in loaded.explain() {
            println!("{} = {}  # {}", setting.key, setting.value, setting.origin);
        }
    }
    let config = match loaded.validate() {
        Ok(config) => config,
        Err(error) => return refuse(&error, BAD_CONFIG),
    };
    if arguments.check_config {
        println!("the configuration is valid");
    }
    if arguments.check_config || arguments.print_config {
        return ExitCode::SUCCESS;
    }
    let log = LogOptions {
        format: match arguments.log_format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        },
        filter: arguments.log,
        ..LogOptions::default()
    };
    let _log = match muster_telemetry::init(&log) {
        Ok(guard) => guard,
        Err(error) => return refuse(&error, BAD_CONFIG),
    };
    serve(config)
}

fn serve(config: config::Config) -> ExitCode {
    // One thread: the work is small, and a device has better uses for its memory. Disks and unpacking are waited for
    // elsewhere.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&error, 1),
    };
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return refuse(&error, 1),
    };
    let notifier = Notifier::from_environment();
    match runtime.block_on(daemon::run(config, &shutdown, &notifier)) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "not started");
            notifier.status(&format!("not started: {}", ErrorChain(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The last words of a program that never had a log.
fn refuse(error: &(dyn std::error::Error + 'static), code: u8) -> ExitCode {
    eprintln!("muster-sm: {}", ErrorChain(error));
    ExitCode::from(code)
}
