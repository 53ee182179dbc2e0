//! `is-active`, `is-failed`, `is-system-running`.

use std::collections::BTreeMap;

use muster_control::manager::{
    ListUnitsCall, MachineStatus, SubscribeCall, SubscribeReply, error, method,
};
use muster_unit_file::name::UnitType;

use super::{ActionError, VerbError};
use crate::cli::{AskUnits, SystemRunning};
use crate::console::{Console, Exit};
use crate::manager::{Manager, ManagerError};
use crate::names;

/// Whether one of the units is in a good state.
pub(super) fn is_in_state(
    arguments: &AskUnits,
    good: &[&str],
    otherwise: Exit,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let quiet = arguments.common.quiet;
    let names = names::expand(&arguments.units, UnitType::Service, true, manager, console)?;
    let mut exit = otherwise;
    for name in names {
        let state = active_state(&name, manager)
            .map_err(|source| ActionError::new("get the state of", &name, source))?;
        if good.contains(&state.as_str()) {
            exit = Exit::Success;
        }
        if !quiet {
            console.line(&state)?;
        }
    }
    Ok(exit)
}

/// The active state of a unit; one that nobody knows is down.
fn active_state(name: &str, manager: &mut Manager) -> Result<String, ManagerError> {
    match manager.status(name) {
        Ok(status) => Ok(status.row.active),
        Err(error) if error.is(error::NO_SUCH_UNIT) => Ok("inactive".to_owned()),
        Err(error) => Err(error),
    }
}

pub(super) fn is_system_running(
    arguments: &SystemRunning,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let state = match manager.is_there() {
        Ok(true) if arguments.wait => until_settled(manager)?.state,
        Ok(true) => manager.machine()?.state,
        Ok(false) => "offline".to_owned(),
        Err(error) => return Err(error.into()),
    };
    if !arguments.quiet {
        console.line(&state)?;
    }
    Ok(if state == "running" {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Waits until the start of the machine has ended.
fn until_settled(manager: &mut Manager) -> Result<MachineStatus, ManagerError> {
    loop {
        // Opened before the state is looked at, so that no change is missed between the two.
        let events =
            manager.open::<_, SubscribeReply>(method::SUBSCRIBE, &SubscribeCall::default(), &[])?;
        let starting = |state: &str| matches!(state, "initializing" | "starting");
        let machine = manager.machine()?;
        if !starting(&machine.state) {
            return Ok(machine);
        }
        for event in events {
            match event {
                Ok(_) => {}
                Err(error) if error.is_lost() => break,
                Err(error) => return Err(error),
            }
            let machine = manager.machine()?;
            if !starting(&machine.state) {
                return Ok(machine);
            }
        }
        manager.come_back()?;
    }
}

/// Active states of some units, for the dots beside their names. Units that nobody knows are left out.
pub(super) fn active_states(
    units: &[&String],
    manager: &mut Manager,
) -> Result<BTreeMap<String, String>, ManagerError> {
    if units.is_empty() {
        return Ok(BTreeMap::new());
    }
    let call = ListUnitsCall {
        patterns: units.iter().map(|unit| (*unit).clone()).collect(),
        all: true,
        ..ListUnitsCall::default()
    };
    let rows = manager.list(&call)?;
    Ok(rows.into_iter().map(|row| (row.name, row.active)).collect())
}
