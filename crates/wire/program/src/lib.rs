//! The frame of Muster's daemons: one command line, one way to read a configuration, one way to start and to fail.
//!
//! A daemon describes itself ([`About`]) and hands over what it does ([`run`]). Everything around that is here, so that
//! `muster-iam`, `muster-sm` and the others take the same options, refuse a bad configuration with the same exit code, and log
//! in the same formats.
//!
//! # What a daemon gets
//! * Its validated configuration, and [`Sources`] to read it again on SIGHUP.
//! * A one-threaded runtime that is already running, [`Shutdown`] and [`Notifier`] ([`Start`]).
//!
//! # Exit codes
//! | code | meaning |
//! |---|---|
//! | 0 | it ended because it was asked to |
//! | 1 | it could not start, or had to give up |
//! | 2 | the command line makes no sense |
//! | 78 | the configuration cannot be used |
//!
//! # Memory
//! A daemon that has worked and now rests calls [`footprint::give_back`], or spawns [`footprint::give_back_at_rest`].
//!
//! # What this crate does not do
//! It keeps no state and knows no part of Muster: faults, stores and certificates are the daemons'.

mod arguments;
pub mod footprint;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use muster_config::{Load, Loaded, Validate};
use muster_telemetry::{ErrorChain, LogOptions, Notifier, Shutdown};
use serde::de::DeserializeOwned;

use self::arguments::Arguments;

/// Exit code for a configuration that cannot be used, as sysexits.h has it.
const BAD_CONFIG: u8 = 78;

/// What a daemon says about itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The program's name, as `muster-sm`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// What follows the line in the long help.
    pub details: &'static str,
    /// Read where no file is named, if it is there.
    pub default_file: &'static str,
    /// Begins the names of environment variables that lie over the file, as `MUSTER_SM`.
    pub env_prefix: &'static str,
    /// Shows how `--set` is used, as `cmServerUrl=main:8093`.
    pub set_example: &'static str,
    /// So many threads wait for disks and other programs at most.
    pub blocking_threads: usize,
}

impl About {
    /// The layers of the daemon's configuration: the file (the usual one may be missing), its drop-ins, the environment, flags.
    pub fn layers<Raw: DeserializeOwned>(
        &self,
        file: Option<&Path>,
        flags: &[String],
    ) -> Load<Raw> {
        let load = Load::new(self.name);
        match file {
            Some(file) => load.file(file),
            None => load.optional_file(self.default_file),
        }
        .drop_ins()
        .env_prefix(self.env_prefix)
        .set(flags.iter().cloned())
    }

    /// The last words of a program that never had a log.
    fn refuse(&self, error: &(dyn std::error::Error + 'static), code: u8) -> ExitCode {
        eprintln!("{}: {}", self.name, ErrorChain(error));
        ExitCode::from(code)
    }
}

/// Where the configuration came from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// Flags over it.
    pub flags: Vec<String>,
}

/// What a daemon starts with beside its configuration.
#[derive(Debug)]
pub struct Start {
    /// For reading the configuration again.
    pub sources: Sources,
    /// When to end.
    pub shutdown: Shutdown,
    /// Whom to tell how far it is.
    pub notifier: Notifier,
}

/// Runs a daemon with the process's own arguments.
pub fn run<Raw, Failed>(
    about: &About,
    daemon: impl AsyncFnOnce(Raw::Valid, Start) -> Result<ExitCode, Failed>,
) -> ExitCode
where
    Raw: DeserializeOwned + Validate,
    Failed: std::error::Error + 'static,
{
    let arguments = Arguments::parse(about);
    let loaded = about.layers::<Raw>(arguments.config.as_deref(), &arguments.set);
    let loaded = match loaded.load() {
        Ok(loaded) => loaded,
        Err(error) => return about.refuse(&error, BAD_CONFIG),
    };
    if arguments.print_config {
        print_settings(&loaded);
    }
    let config = match loaded.validate() {
        Ok(config) => config,
        Err(error) => return about.refuse(&error, BAD_CONFIG),
    };
    if arguments.check_config {
        println!("the configuration is valid");
    }
    if arguments.check_config || arguments.print_config {
        return ExitCode::SUCCESS;
    }
    let log = LogOptions {
        format: arguments.log_format,
        filter: arguments.log,
        ..LogOptions::default()
    };
    let _log = match muster_telemetry::init(&log) {
        Ok(guard) => guard,
        Err(error) => return about.refuse(&error, BAD_CONFIG),
    };
    let sources = Sources {
        file: arguments.config,
        flags: arguments.set,
    };
    serve(about, sources, async |start| daemon(config, start).await)
}

fn print_settings<Raw>(loaded: &Loaded<Raw>) {
    for setting in loaded.explain() {
        println!("{} = {}  # {}", setting.key, setting.value, setting.origin);
    }
}

fn serve<Failed: std::error::Error + 'static>(
    about: &About,
    sources: Sources,
    daemon: impl AsyncFnOnce(Start) -> Result<ExitCode, Failed>,
) -> ExitCode {
    // One thread: the work is small, and a device has better uses for its memory. What blocks is waited for elsewhere.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(about.blocking_threads)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return about.refuse(&error, 1),
    };
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return about.refuse(&error, 1),
    };
    let notifier = Notifier::from_environment();
    let start = Start {
        sources,
        shutdown,
        notifier: notifier.clone(),
    };
    match runtime.block_on(daemon(start)) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "not started");
            notifier.status(&format!("not started: {}", ErrorChain(&error)));
            ExitCode::FAILURE
        }
    }
}
