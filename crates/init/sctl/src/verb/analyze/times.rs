//! When units came up, and how long that took.

use std::collections::BTreeMap;

use muster_control::manager::{MachineStatus, UnitRow};

use crate::render::time::span;

/// The times of a unit in microseconds since boot; 0 is never.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UnitTimes {
    pub(super) name: String,
    /// It began to come up.
    pub(super) activating: u64,
    /// It was up.
    pub(super) activated: u64,
    /// It began to go down.
    pub(super) deactivating: u64,
    /// It was down.
    pub(super) deactivated: u64,
}

impl UnitTimes {
    /// The times that a list tells.
    pub(super) fn of(row: &UnitRow) -> Self {
        Self {
            name: row.name.clone(),
            activating: row.inactive_exit.monotonic,
            activated: row.active_enter.monotonic,
            deactivating: row.active_exit.monotonic,
            deactivated: row.inactive_enter.monotonic,
        }
    }

    /// How long it took to come up, or to do its work and be down again; 0 if it did neither.
    pub(super) fn took(&self) -> u64 {
        if self.activating == 0 {
            return 0;
        }
        if self.activated >= self.activating {
            return self.activated - self.activating;
        }
        self.deactivated.saturating_sub(self.activating)
    }

    /// When it was up, or had done its work.
    pub(super) fn up(&self) -> u64 {
        if self.activated > 0 {
            self.activated
        } else if self.deactivated > self.activating {
            self.deactivated
        } else {
            0
        }
    }
}

/// The times of all units, counted from the start of user space.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub(super) userspace: u64,
    pub(super) finish: u64,
    units: BTreeMap<String, UnitTimes>,
}

impl Times {
    pub(super) fn new(machine: &MachineStatus, units: Vec<UnitTimes>) -> Self {
        Self {
            userspace: machine.userspace.monotonic,
            finish: machine.finish.monotonic,
            units: units
                .into_iter()
                .map(|unit| (unit.name.clone(), unit))
                .collect(),
        }
    }

    pub(super) fn get(&self, unit: &str) -> Option<&UnitTimes> {
        self.units.get(unit)
    }
}

/// `Startup finished in 1.2s (kernel) + 387ms (userspace) = 1.6s`
pub(super) fn sentence(machine: &MachineStatus, target: Option<(String, u64)>) -> String {
    let userspace = machine.userspace.monotonic;
    let total = machine.finish.monotonic;
    let own = total.saturating_sub(userspace);
    // A manager in a container or beside another one was not started by the kernel.
    let by_kernel = machine.kernel.real > 0 && machine.init_pid == 1 && userspace > 0;
    let mut text = if by_kernel {
        format!(
            "Startup finished in {} (kernel) + {} (userspace) = {}\n",
            span(userspace),
            span(own),
            span(total)
        )
    } else {
        format!("Startup finished in {} (userspace)\n", span(own))
    };
    if let Some((name, up)) = target {
        let after = span(up.saturating_sub(userspace));
        text.push_str(&format!("{name} reached after {after} in userspace.\n"));
    }
    text
}
