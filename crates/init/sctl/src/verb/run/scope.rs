//! A command in a scope: this process moves in, and becomes the command.

use std::os::unix::process::CommandExt;
use std::process::Command;

use muster_control::manager::SubmitReply;

use super::plan::Plan;
use super::{RunError, announce, conclude, options};
use crate::cli::Run;
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::manager::wait::Pending;
use crate::verb::{ActionError, VerbError};

/// Makes the scope, and executes the command in it. Returns only if that fails.
pub(super) fn run(
    arguments: &Run,
    plan: &Plan,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let Some((program, words)) = arguments.command.split_first() else {
        return Err(options("Name a command to run.").into());
    };
    let program_path = super::find_program(program)?;
    let unit = &plan.call.unit;
    let failed = |source| ActionError::new("start transient unit", unit, source);
    let pending = Pending::start_transient(manager, &plan.call, &[]).map_err(failed)?;
    let reply: SubmitReply = pending.finish(manager).map_err(failed)?;
    if reply
        .result
        .as_deref()
        .is_some_and(|result| result != "done")
    {
        return Ok(conclude(arguments, plan, &reply, manager, console));
    }
    announce(arguments, plan, console);
    console.flush()?;
    let mut command = Command::new(program_path);
    command.arg0(program).args(words);
    for variable in &arguments.variables {
        if let Some((name, value)) = variable.split_once('=') {
            command.env(name, value);
        }
    }
    if let Some(folder) = &arguments.working_directory {
        command.current_dir(folder);
    }
    identity(arguments, &mut command)?;
    if let Some(nice) = &arguments.nice {
        let level = nice
            .parse()
            .map_err(|_| options(&format!("'{nice}' is not a nice level.")))?;
        rustix::process::nice(level).map_err(|errno| RunError::Process {
            what: "change the nice level",
            source: errno.into(),
        })?;
    }
    let source = command.exec();
    Err(RunError::Execute {
        program: program.clone(),
        source,
    }
    .into())
}

/// `--uid=` and `--gid=`, by number or by name.
fn identity(arguments: &Run, command: &mut Command) -> Result<(), RunError> {
    if let Some(name) = &arguments.uid {
        let (uid, gid) = user(name)?;
        command.uid(uid).env("USER", name);
        if let Some(gid) = gid {
            command.gid(gid);
        }
    }
    if let Some(name) = &arguments.gid {
        let known = name
            .parse()
            .ok()
            .or_else(|| look_up("/etc/group", name).map(|(id, _)| id));
        let gid = known.ok_or_else(|| RunError::Identity {
            kind: "group",
            name: name.clone(),
        })?;
        command.gid(gid);
    }
    Ok(())
}

fn user(name: &str) -> Result<(u32, Option<u32>), RunError> {
    if let Some((uid, rest)) = look_up("/etc/passwd", name) {
        return Ok((uid, rest));
    }
    let uid = name.parse().map_err(|_| RunError::Identity {
        kind: "user",
        name: name.to_owned(),
    })?;
    Ok((uid, None))
}

/// The number of a name in a file of accounts, and the number after it.
fn look_up(file: &str, name: &str) -> Option<(u32, Option<u32>)> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.split(':');
        let known = parts.next()?;
        let id: u32 = parts.nth(1)?.parse().ok()?;
        let other = parts.next().and_then(|text| text.parse().ok());
        (known == name).then_some((id, other))
    })
}
