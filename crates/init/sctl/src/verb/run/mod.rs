//! `run`: a command as a transient unit.
//!
//! [`plan`] makes of the options what the manager is asked for; it is a function of values. This module asks, waits, and
//! lends the terminal ([`terminal`]).

mod plan;
mod scope;
mod terminal;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use muster_control::manager::{StartTransientCall, SubmitReply, WaitWhat, method};
use thiserror::Error;

use super::{ActionError, VerbError, log_tail::LogTail};
use crate::cli::Run;
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::manager::wait::Pending;
use crate::render::time::span;
use crate::render::words;
use plan::{Caller, Plan};

/// Why a command was not run.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// Options that do not go together, or lack something.
    #[error("{text}")]
    Options {
        /// What is wrong.
        text: String,
    },
    /// There is no such program.
    #[error("Failed to find executable '{program}'")]
    Program {
        /// Which.
        program: String,
    },
    /// The terminal.
    #[error("Failed to {what} the terminal")]
    Terminal {
        /// What was to be done.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The command of a scope.
    #[error("Failed to execute '{program}'")]
    Execute {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no such user or group.
    #[error("There is no {kind} '{name}'.")]
    Identity {
        /// user or group.
        kind: &'static str,
        /// Which.
        name: String,
    },
    /// This process cannot be examined.
    #[error("Failed to {what}")]
    Process {
        /// What was to be done.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

pub(super) fn run(
    arguments: &Run,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let elsewhere = manager.host().is_some();
    if elsewhere && (arguments.scope || arguments.pty || arguments.pipe) {
        let text = "Options --scope, --pty and --pipe are for this machine's manager; --host reaches another one.";
        return Err(options(text).into());
    }
    let caller = caller(arguments, elsewhere)?;
    let plan = plan::plan(arguments, &caller).map_err(|text| options(&text))?;
    if arguments.scope {
        return scope::run(arguments, &plan, manager, console);
    }
    if arguments.pty {
        return with_terminal(arguments, plan, manager, console);
    }
    let pending = start(arguments, &plan.call, manager)?;
    finish(arguments, &plan, pending, manager, console)
}

fn options(text: &str) -> RunError {
    RunError::Options {
        text: text.to_owned(),
    }
}

/// What the plan needs to know of this process.
fn caller(arguments: &Run, elsewhere: bool) -> Result<Caller, VerbError> {
    let failed = |what| move |source| RunError::Process { what, source };
    let folder = std::env::current_dir().map_err(failed("find out the current folder"));
    let program = match arguments.command.first() {
        Some(program) if !elsewhere => Some(find_program(program)?),
        Some(program) => Some(program.clone()),
        None => None,
    };
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map_err(failed("draw a random name"))?;
    Ok(Caller {
        program,
        folder: if arguments.same_dir {
            Some(folder?.to_string_lossy().into_owned())
        } else {
            None
        },
        slice: plan::slice_of(&group),
        pid: std::process::id(),
        random: random.trim().replace('-', ""),
        variable: |name| std::env::var(name).ok(),
    })
}

/// A program by its path, or as a shell finds it.
fn find_program(program: &str) -> Result<String, RunError> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let missing = || RunError::Program {
        program: program.to_owned(),
    };
    let found: Option<PathBuf> = if program.contains('/') {
        std::path::absolute(program)
            .ok()
            .filter(|path| is_program(path))
    } else {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        path.split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| Path::new(folder).join(program))
            .find(|path| is_program(path))
    };
    let found = found.ok_or_else(missing)?;
    found.into_os_string().into_string().map_err(|_| missing())
}

/// Asks the manager. `None` if nothing is to be waited for.
fn start(
    arguments: &Run,
    call: &StartTransientCall,
    manager: &mut Manager,
) -> Result<Option<Pending>, VerbError> {
    let failed = |source| ActionError::new("start transient unit", &call.unit, source);
    if arguments.no_block {
        let _: SubmitReply = manager
            .tell(method::START_TRANSIENT, call)
            .map_err(failed)?;
        return Ok(None);
    }
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let descriptors = if call.stdio { &streams[..] } else { &[] };
    let pending = Pending::start_transient(manager, call, descriptors).map_err(failed)?;
    Ok(Some(pending))
}

fn announce(arguments: &Run, plan: &Plan, console: &mut Console) {
    if arguments.quiet {
        return;
    }
    match &plan.started_by {
        None => console.note(format_args!("Running as unit: {}", plan.call.unit)),
        Some((kind, service)) => {
            console.note(format_args!("Running {kind} as unit: {}", plan.call.unit));
            console.note(format_args!("Will run service as unit: {service}"));
        }
    }
}

fn finish(
    arguments: &Run,
    plan: &Plan,
    pending: Option<Pending>,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    announce(arguments, plan, console);
    let Some(pending) = pending else {
        return Ok(Exit::Success);
    };
    let reply = pending
        .finish(manager)
        .map_err(|source| ActionError::new("wait for", &plan.call.unit, source))?;
    Ok(conclude(arguments, plan, &reply, manager, console))
}

/// Says how it ended, and what that means for this process.
fn conclude(
    arguments: &Run,
    plan: &Plan,
    reply: &SubmitReply,
    manager: &mut Manager,
    console: &mut Console,
) -> Exit {
    let result = reply.result.as_deref().unwrap_or("done");
    let waited = plan.call.wait == WaitWhat::Inactive;
    if !waited || reply.exit_code.is_empty() {
        let Some(sentence) = words::job_failure(&reply.unit, "start", result) else {
            return if waited && reply.active == "failed" {
                Exit::Failure
            } else {
                Exit::Success
            };
        };
        let sentence = match reply.reason.as_str() {
            "" => sentence,
            reason => format!("{}: {reason}", sentence.trim_end_matches('.')),
        };
        console.note(sentence);
        for line in LogTail::new(manager).of_run(&reply.unit, &reply.invocation, 10) {
            console.note(format_args!("  {line}"));
        }
        return Exit::Failure;
    }
    if !arguments.quiet && arguments.wait {
        summary(reply, console);
    }
    match (reply.exit_code.as_str(), u8::try_from(reply.exit_status)) {
        ("exited", Ok(0)) => Exit::Success,
        ("exited", Ok(code)) => Exit::Other(code),
        // There is no exit code to take over.
        _ => Exit::Other(255),
    }
}

fn summary(reply: &SubmitReply, console: &mut Console) {
    console.note(format_args!("Finished with result: {}", reply.outcome));
    let how = match reply.exit_code.as_str() {
        "exited" => format!("status={}", reply.exit_status),
        _ => format!("signal={}", words::signal(reply.exit_status)),
    };
    let code = &reply.exit_code;
    console.note(format_args!(
        "Main processes terminated with: code={code}/{how}"
    ));
    if reply.runtime > 0 {
        console.note(format_args!("Service runtime: {}", span(reply.runtime)));
    }
    if let Some(cpu) = reply.cpu {
        console.note(format_args!("CPU time consumed: {}", span(cpu)));
    }
}

/// Runs the command on a terminal of its own, which is joined with this process's.
fn with_terminal(
    arguments: &Run,
    mut plan: Plan,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let pair = terminal::Pair::open()?;
    for (name, value) in pair.settings() {
        plan.call.properties.push((name.to_owned(), value));
    }
    let pending = start(arguments, &plan.call, manager)?;
    announce(arguments, &plan, console);
    if !arguments.quiet {
        console.note("Press ^] three times within 1s to disconnect TTY.");
    }
    let Some(pending) = pending else {
        return Ok(Exit::Success);
    };
    // The manager is waited for beside the terminal, so that both are heard.
    let joined = std::thread::scope(|threads| {
        let over = terminal::Over::new()?;
        let signal = over.clone();
        let waiting = threads.spawn(move || {
            let reply = pending.finish(manager);
            signal.tell();
            (reply, manager)
        });
        let carried = terminal::carry(pair, &over);
        let (reply, manager) = waiting
            .join()
            .expect("waiting for the manager does not panic");
        carried.map(|()| (reply, manager))
    });
    let (reply, manager) = joined?;
    let reply = reply.map_err(|source| ActionError::new("wait for", &plan.call.unit, source))?;
    Ok(conclude(arguments, &plan, &reply, manager, console))
}
