//! From a unit's settings to how one of its processes is run: a pure function.
//!
//! [`build`] takes the settings, the command and what is known at the moment ([`Facts`]) and gives an
//! [`ExecContext`]. Descriptors are referred to by their place in the list that goes with it.

use std::collections::BTreeMap;

use muster_engine::ids::InvocationId;
use muster_engine::protocol::{ExecKind, ExitStatus, SpawnError};
use muster_exec::{ExecContext, PassedFd, Stream};
use muster_unit_file::config::{ExecOutput, UnitConfig};
use muster_unit_file::value::command::Command;
use muster_units::effective;

/// What is known at the moment when a process is started.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What all services get.
    pub environment: &'a BTreeMap<Box<str>, Box<str>>,
    /// The run.
    pub invocation: InvocationId,
    /// The unit's main process, for `$MAINPID`.
    pub main_pid: Option<u32>,
    /// Where notifications go, if the unit may send any.
    pub notify_socket: Option<&'a str>,
    /// `$WATCHDOG_USEC`
    pub watchdog: Option<u64>,
    /// Names of the descriptors that are passed from 3 on: those at the places 0, 1, 2 ... of the list.
    pub passed: &'a [&'a str],
    /// The place of the stream to the log, if there is one.
    pub log: Option<u16>,
    /// The place of the connection that the unit serves (`Accept=yes`), for streams that say `socket`.
    pub connection: Option<u16>,
    /// The places of standard streams that came with a request.
    pub stdio: Option<[u16; 3]>,
    /// How the run went so far: `$SERVICE_RESULT` and how the main process ended, for what runs while stopping.
    pub ended: Option<(&'a str, Option<ExitStatus>)>,
    /// `$REMOTE_ADDR` and `$REMOTE_PORT`
    pub remote: Option<(&'a str, Option<u16>)>,
    /// `$TRIGGER_UNIT`
    pub trigger: Option<&'a str>,
}

/// How a process is run.
#[derive(Debug)]
pub struct Built {
    /// The process.
    pub context: ExecContext,
    /// Directives that the unit has and that nobody carries out yet.
    pub not_applied: Vec<&'static str>,
}

/// Whether the output of a unit's processes goes to the log daemon.
#[must_use]
pub fn needs_log(config: &UnitConfig) -> bool {
    let logs = |output: &ExecOutput| {
        matches!(
            output,
            ExecOutput::Journal
                | ExecOutput::JournalConsole
                | ExecOutput::Kmsg
                | ExecOutput::KmsgConsole
        )
    };
    logs(&effective::stdout(config)) || logs(&effective::stderr(config))
}

/// How a command of a unit is run now.
///
/// # Errors
/// The step that cannot be prepared (a user who is not known, a program that is not found), with its exit code.
pub fn build(
    config: &UnitConfig,
    command: &Command,
    kind: ExecKind,
    facts: &Facts<'_>,
) -> Result<Built, SpawnError> {
    let _ = (config, kind);
    let stream = facts.log.map_or(Stream::Null, Stream::Fd);
    let mut environment: Vec<Box<str>> = vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        format!("INVOCATION_ID={}", facts.invocation).into(),
    ];
    environment.extend(
        facts
            .notify_socket
            .map(|path| format!("NOTIFY_SOCKET={path}").into()),
    );
    let mut places = 0u16..;
    Ok(Built {
        context: ExecContext {
            program: command.path.clone(),
            argv: command.argv.iter().map(Into::into).collect(),
            environment,
            stdout: stream.clone(),
            stderr: stream,
            passed: facts
                .passed
                .iter()
                .zip(&mut places)
                .map(|(name, fd)| PassedFd {
                    fd,
                    name: (*name).into(),
                    nonblocking: None,
                })
                .collect(),
            ..ExecContext::default()
        },
        not_applied: Vec::new(),
    })
}
