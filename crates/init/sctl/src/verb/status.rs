//! `status`: units, or the machine as a whole.

use std::collections::BTreeMap;

use muster_control::manager::{ListUnitsCall, ProcessView, UnitStatus, error};
use muster_unit_file::name::UnitType;

use super::log_tail::LogTail;
use super::{ActionError, VerbError, ask, lists};
use crate::cli::{Format, Status};
use crate::console::{Console, Exit};
use crate::manager::{Manager, ManagerError};
use crate::names;
use crate::render::{self, Branch, Now, UnitView};

pub(super) fn status(
    arguments: &Status,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    if arguments.units.is_empty() {
        return overview(arguments, manager, console);
    }
    let by_pid = by_pid(arguments, manager)?;
    let mut words: Vec<String> = Vec::new();
    for word in &arguments.units {
        words.push(by_pid.get(word).unwrap_or(word).clone());
    }
    let names = names::expand(&words, UnitType::Service, arguments.quiet, manager, console)?;
    let mut exit = Exit::Success;
    let mut shown: Vec<UnitStatus> = Vec::new();
    for name in &names {
        let status = match manager.status(name) {
            Ok(status) => status,
            Err(error) if error.is(error::NO_SUCH_UNIT) => {
                console.note(format_args!("Unit {name} could not be found."));
                exit = Exit::UnknownUnit;
                continue;
            }
            Err(source) => return Err(ActionError::new("get the status of", name, source).into()),
        };
        if status.row.load == "not-found" && status.row.active == "inactive" {
            console.note(format_args!("Unit {name} could not be found."));
            exit = Exit::UnknownUnit;
            continue;
        }
        if exit == Exit::Success && is_down(&status.row.active) {
            exit = Exit::NotRunning;
        }
        if arguments.output == Format::Short {
            if !shown.is_empty() {
                console.line("")?;
            }
            one(&status, arguments, manager, console)?;
        }
        shown.push(status);
    }
    if arguments.output != Format::Short {
        lists::print_json(&shown, arguments.output, console)?;
    }
    Ok(exit)
}

fn is_down(active: &str) -> bool {
    matches!(active, "inactive" | "failed")
}

fn one(
    status: &UnitStatus,
    arguments: &Status,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<(), VerbError> {
    let related: Vec<&String> = status
        .triggered_by
        .iter()
        .chain(&status.row.triggers)
        .collect();
    let related = ask::active_states(&related, manager)?;
    let name = &status.row.name;
    let log = LogTail::new(manager).of_run(name, &status.invocation, arguments.lines);
    let view = UnitView {
        status,
        related: &related,
        log: &log,
    };
    let style = console.style();
    let style = if arguments.full { style.full() } else { style };
    console.print(&render::unit(view, &Now::of_process(), style))?;
    if status.needs_reload && !arguments.quiet {
        console.note(format_args!(
            "Warning: files of {name} changed since they were read. Run 'sctl daemon-reload' to read them again."
        ));
    }
    Ok(())
}

/// The units that process numbers among the words belong to.
fn by_pid(
    arguments: &Status,
    manager: &mut Manager,
) -> Result<BTreeMap<String, String>, VerbError> {
    let pids: BTreeMap<u32, &String> = arguments
        .units
        .iter()
        .filter_map(|word| Some((word.parse().ok()?, word)))
        .collect();
    let mut found = BTreeMap::new();
    if pids.is_empty() {
        return Ok(found);
    }
    for status in with_processes(manager)? {
        for process in &status.processes {
            if let Some(word) = pids.get(&process.pid) {
                found.insert((*word).clone(), status.row.name.clone());
            }
        }
    }
    match pids.values().find(|word| !found.contains_key(**word)) {
        None => Ok(found),
        Some(word) => Err(VerbError::NoUnitOfProcess {
            pid: (*word).clone(),
        }),
    }
}

/// All units that have processes.
fn with_processes(manager: &mut Manager) -> Result<Vec<UnitStatus>, ManagerError> {
    let call = ListUnitsCall {
        types: ["service", "scope", "socket", "mount", "swap"]
            .map(str::to_owned)
            .to_vec(),
        ..ListUnitsCall::default()
    };
    let mut found = Vec::new();
    for row in manager.list(&call)? {
        match manager.status(&row.name) {
            Ok(status) if !status.processes.is_empty() => found.push(status),
            Ok(_) => {}
            // It went away since it was listed.
            Err(error) if error.is(error::NO_SUCH_UNIT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn overview(
    arguments: &Status,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let machine = manager.machine()?;
    if arguments.output != Format::Short {
        lists::print_json(&machine, arguments.output, console)?;
        return Ok(Exit::Success);
    }
    let mut root = Branch::default();
    for status in with_processes(manager)? {
        let place = if status.cgroup.is_empty() {
            &status.row.name
        } else {
            &status.cgroup
        };
        for ProcessView {
            pid,
            cgroup,
            command,
        } in &status.processes
        {
            root.add(&format!("{place}/{cgroup}"), *pid, command);
        }
    }
    let name = match manager.host() {
        Some(host) => host.to_owned(),
        None => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    let style = console.style();
    let style = if arguments.full { style.full() } else { style };
    let text = render::overview(&name, &machine, &root, &Now::of_process(), style);
    console.print(&text)?;
    Ok(Exit::Success)
}
