//! `start`, `stop` and the other verbs that queue jobs.

use muster_control::manager::{SubmitCall, SubmitReply, WaitWhat, method};
use muster_unit_file::name::UnitType;

use super::log_tail::LogTail;
use super::{ActionError, VerbError};
use crate::cli::{JobOptions, JobUnits, JobVerb};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::manager::wait::Pending;
use crate::names;
use crate::render::words;

/// Every unit is waited for over a connection of its own; more units than this are handled in groups.
const AT_ONCE: usize = 200;
/// The same where every connection is a process of ssh.
const AT_ONCE_BY_SSH: usize = 8;

pub(super) fn run(
    verb: &JobVerb,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let (word, arguments, default) = match verb {
        JobVerb::Start(arguments) => ("start", arguments, UnitType::Service),
        JobVerb::Stop(arguments) => ("stop", arguments, UnitType::Service),
        JobVerb::Restart(arguments) => ("restart", arguments, UnitType::Service),
        JobVerb::Reload(arguments) => ("reload", arguments, UnitType::Service),
        JobVerb::TryRestart(arguments) => ("try-restart", arguments, UnitType::Service),
        JobVerb::ReloadOrRestart(arguments) => ("reload-or-restart", arguments, UnitType::Service),
        JobVerb::TryReloadOrRestart(arguments) => {
            ("try-reload-or-restart", arguments, UnitType::Service)
        }
        JobVerb::Isolate(arguments) => ("isolate", arguments, UnitType::Target),
    };
    let JobUnits { options, units } = arguments;
    let names = names::expand(units, default, options.quiet, manager, console)?;
    submit(word, &names, options, manager, console)
}

/// Queues the same job for some units and waits as the options say.
pub(super) fn submit(
    verb: &str,
    units: &[String],
    options: &JobOptions,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let at_once = match manager.host() {
        None => AT_ONCE,
        Some(_) => AT_ONCE_BY_SSH,
    };
    let mut exit = Exit::Success;
    for group in units.chunks(at_once) {
        let mut pending = Vec::new();
        for unit in group {
            let call = SubmitCall {
                unit: unit.clone(),
                verb: verb.to_owned(),
                mode: options.mode().to_owned(),
                wait: if options.wait {
                    WaitWhat::Inactive
                } else {
                    WaitWhat::Job
                },
            };
            // A refused unit does not keep the others from being asked for.
            match queue(&call, options, manager, console) {
                Ok(Some(job)) => pending.push(job),
                Ok(None) => {}
                Err(source) => {
                    let action = verb.to_owned();
                    let unit = unit.clone();
                    let error = VerbError::from(ActionError::new(action, unit, source));
                    exit = match (console.report(&error), verb) {
                        // What a unit cannot do is not the same as what it may not do.
                        (Exit::NotPermitted, "reload") => Exit::NotImplemented,
                        (exit, _) => exit,
                    };
                    advise_refused(verb, &error, console);
                }
            }
        }
        for job in pending {
            let unit = job.queued().unit.clone();
            let reply = job
                .finish(manager)
                .map_err(|source| ActionError::new("wait for", unit, source))?;
            if !judge(verb, &reply, options, manager, console) {
                exit = Exit::Failure;
            }
        }
    }
    Ok(exit)
}

/// Queues one job. `None` if nothing is to be waited for.
fn queue(
    call: &SubmitCall,
    options: &JobOptions,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Option<Pending>, crate::manager::ManagerError> {
    let mut tell = |reply: &SubmitReply| {
        if let Some(job) = reply
            .job
            .filter(|_| options.show_transaction && !options.quiet)
        {
            console.note(format_args!(
                "Enqueued anchor job {job} {}/{}.",
                reply.unit, call.verb
            ));
        }
    };
    if options.no_block {
        let reply: SubmitReply = manager.tell(method::SUBMIT, call)?;
        tell(&reply);
        return Ok(None);
    }
    let job = Pending::submit(manager, call)?;
    tell(job.queued());
    Ok(Some(job))
}

/// Says how a job ended, if it did not do what was asked.
fn judge(
    verb: &str,
    reply: &SubmitReply,
    options: &JobOptions,
    manager: &mut Manager,
    console: &mut Console,
) -> bool {
    let result = reply.result.as_deref().unwrap_or("done");
    let failure = words::job_failure(&reply.unit, verb, result);
    // Who waits for the end of a run wants to know how it ended.
    let run_failed = options.wait && reply.active == "failed";
    let Some(sentence) = failure
        .or_else(|| run_failed.then(|| format!("Unit {} failed ({}).", reply.unit, reply.outcome)))
    else {
        return true;
    };
    if options.quiet {
        return false;
    }
    let sentence = match reply.reason.as_str() {
        "" => sentence,
        reason => format!("{}: {}", sentence.trim_end_matches('.'), with_stop(reason)),
    };
    console.note(sentence);
    if matches!(result, "failed" | "timeout" | "done") {
        for line in LogTail::new(manager).of_run(&reply.unit, &reply.invocation, options.lines) {
            console.note(format_args!("  {line}"));
        }
    }
    let unit = &reply.unit;
    if reply.outcome == "start-limit-hit" {
        console.note(format_args!(
            "It was started too often. To start it anyway: sctl reset-failed {unit} && sctl start {unit}"
        ));
    }
    console.note(format_args!(
        "See \"sctl status {unit}\" and \"sctl why {unit}\" for details."
    ));
    false
}

fn with_stop(reason: &str) -> String {
    format!("{}.", reason.trim_end_matches('.'))
}

/// What can be done about a refusal.
fn advise_refused(verb: &str, error: &VerbError, console: &mut Console) {
    if let VerbError::Action(error) = error
        && error.exit() == Exit::NotPermitted
    {
        console.note(format_args!(
            "See \"sctl why {}\" for details about what keeps it from '{verb}'.",
            error.unit()
        ));
    }
}
