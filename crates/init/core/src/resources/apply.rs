//! Giving the groups of units what they may use, and saying what could not be given.

mod missing;
mod oom;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_cgroup::{
    Amount, Controller, Occasion, Plan, PressureWatch, PressureWish, Subsystem, Unapplied,
};
use muster_engine::dep::DepKind;
use muster_engine::ids::UnitId;
use muster_engine::protocol::{ExecKind, Severity, SpawnError};
use muster_engine::types::Machine;
use muster_exec::Step;
use muster_unit_file::config::{DevicePolicy, PressureWatch as Wish, UnitConfig, UnitKind};
use muster_unit_file::name::UnitName;

use self::missing::Missing;
use super::{
    Asked, INTERFACES, IP_LISTS, PORTS, Phase, RealDevices, filters_sockets, has_startup_settings,
    is_stated, of, programs,
};
use crate::core::Core;

/// Settings whose absence lets a service talk to whom it should not.
const FILTERS: [&str; 4] = [IP_LISTS, PORTS, "IPIngressFilterPath", "IPEgressFilterPath"];
/// Settings whose absence must not surprise anybody who runs without.
const REMARKED: [&str; 4] = ["RestrictFileSystems", "BPFProgram", INTERFACES, DEVICES];
/// Settings that nothing says are best effort: nobody is started without them unless `SandboxBestEffort=yes` says so.
const WALLS: [&str; 3] = [DEVICES, PORTS, INTERFACES];
/// What the filter of devices is named by, whichever setting asks for it.
const DEVICES: &str = "DevicePolicy";
/// Slices above one another; more are not real.
const MAX_DEPTH: usize = 32;
/// Waiting for memory so long within two seconds is pressure, unless a unit says otherwise.
const PRESSURE_THRESHOLD: u64 = 200_000;

/// What is known of the groups that were given limits. All of it can be found out again.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    /// Groups that this manager itself has given their limits.
    given: HashSet<Box<str>>,
    /// What groups were not given when they were given their limits.
    missing: HashMap<UnitId, Missing>,
    /// Units that no process may be started for, and slices that none may be started in, since they lack a filter of traffic or of
    /// devices.
    open: HashMap<UnitId, Lacking>,
    /// How many processes of a group were ended for lack of memory, as far as its unit was told.
    killed: HashMap<Box<str>, (UnitId, u64)>,
    /// What the machine did when limits were last looked at; settings of their own for that time hold accordingly.
    phase: Option<Phase>,
}

/// What keeps a unit, or all of a slice, down.
#[derive(Clone, Debug)]
struct Lacking {
    error: SpawnError,
    /// Whether `SandboxBestEffort=yes` starts a unit without.
    is_forgiven: bool,
}

impl Lacking {
    fn wall(lacking: &Unapplied, errno: i32) -> Self {
        let error = SpawnError {
            step: format!("{lacking} (SandboxBestEffort=yes starts it without)").into(),
            errno,
            exit_code: Step::Cgroup.exit_code(),
            early: true,
        };
        Self {
            error,
            is_forgiven: true,
        }
    }
}

/// Why no process of a unit may be started that says which devices, ports or network interfaces may be used, if nobody keeps it
/// from the others. What only follows from `PrivateDevices=` is a second wall: the nodes are not there.
fn lacks_wall<'a>(
    config: &UnitConfig,
    mut missing: impl Iterator<Item = &'a Unapplied>,
) -> Option<Lacking> {
    if config.exec.sandbox.best_effort {
        return None;
    }
    let own = &config.resources;
    let lists_devices = own.device_policy != DevicePolicy::Auto || !own.device_allow.0.is_empty();
    let lacking = missing.find(|one| match one.setting {
        DEVICES => lists_devices,
        setting => WALLS.contains(&setting),
    })?;
    Some(Lacking::wall(lacking, libc::EOPNOTSUPP))
}

impl Core {
    /// Makes the group of a unit, gives it its limits unless that has been done, and gives the variables by which a service learns
    /// how to watch the pressure on its memory.
    pub(crate) fn prepare_group(
        &mut self,
        unit: UnitId,
        config: &UnitConfig,
    ) -> std::io::Result<Vec<(&'static str, String)>> {
        self.complete_slices(unit);
        let path = self.cgroup_of(unit);
        if self.platform.make_cgroup(&path)? {
            self.give_limits(unit, config, &path, Occasion::New);
        } else {
            self.thaw_for_change(unit, &path);
            if self.lacks_limits(unit, &path) {
                // An earlier manager may have died before it had given all of them, somebody who outlived an earlier run may be
                // in it, or what was missing may be there by now.
                self.give_limits(unit, config, &path, Occasion::Change);
            }
        }
        Ok(self.pressure_variables(config, &path))
    }

    /// What slices above a unit lack holds for it too, so they are given it first, or are known not to have it.
    fn complete_slices(&mut self, unit: UnitId) {
        for slice in self.slices_of(unit) {
            let path = self.cgroup_of(slice);
            if self.lacks_limits(slice, &path)
                && let Some((config, path)) = self.group_that_runs(slice)
            {
                // What it lacked before, and lacks again, was said.
                let was_known = self.limited.open.contains_key(&slice);
                let remarks = self.apply_limits(slice, &config, &path, Occasion::Change);
                for (severity, message) in remarks.into_iter().filter(|_| !was_known) {
                    self.say(severity, Some(slice), &message);
                }
            }
        }
    }

    /// Whether the group of a unit, which is there, may lack what its unit asks for. Of the one above all others only what is
    /// asked for by name is ours: whoever gave it to us may have limited it.
    fn lacks_limits(&self, unit: UnitId, path: &str) -> bool {
        let is_given = self.limited.given.contains(path) && !self.limited.open.contains_key(&unit);
        !is_given && !path.is_empty()
    }

    /// Why no process of a unit may be started for this, if it or a slice above lacks what it must not run without. What ends a
    /// unit, or tells one that runs already, is not kept from it.
    pub(crate) fn lacks_filter(&mut self, unit: UnitId, kind: ExecKind) -> Option<SpawnError> {
        let begins = matches!(
            kind,
            ExecKind::Condition
                | ExecKind::StartPre
                | ExecKind::Start
                | ExecKind::StartPost
                | ExecKind::Mount
        );
        if !begins || self.limited.open.is_empty() {
            return None;
        }
        if let Some(own) = self.limited.open.get(&unit) {
            return Some(own.error.clone());
        }
        let name = self.name_of(unit)?;
        let forgives = self.units.config(&name).exec.sandbox.best_effort;
        for slice in self.slices_of(unit) {
            let Some(lacking) = self.limited.open.get(&slice).cloned() else {
                continue;
            };
            let above = self.name_of(slice);
            let above = above.as_ref().map_or("a slice", UnitName::as_str);
            let step = format!("{above} above it lacks {}", lacking.error.step);
            if !(lacking.is_forgiven && forgives) {
                return Some(SpawnError {
                    step: step.into(),
                    ..lacking.error
                });
            }
            let message = format!("Not all of what is asked for is applied: {step}");
            self.say(Severity::Warning, Some(unit), &message);
        }
        None
    }

    /// Gives the group of a unit that runs the limits that its settings say now, and if it is a slice, those of all that runs in
    /// it.
    pub(crate) fn renew_limits_within(&mut self, unit: UnitId) {
        self.renew_limits(unit);
        let is_slice = self
            .engine
            .get(unit)
            .is_some_and(|record| matches!(record.machine, Machine::Slice(_)));
        if !is_slice {
            return;
        }
        for one in self.units_that_run() {
            if self.slices_of(one).contains(&unit) {
                self.renew_limits(one);
            }
        }
    }

    /// Gives the group of a unit that runs the limits that its settings say now.
    pub(crate) fn renew_limits(&mut self, unit: UnitId) {
        match self.group_that_runs(unit) {
            Some((config, path)) => self.give_limits(unit, &config, &path, Occasion::Change),
            None => self.remark_sockets(unit),
        }
    }

    /// Says of a socket unit whose sockets were made before it had a filter that they are open.
    fn remark_sockets(&mut self, unit: UnitId) {
        let listens = self.engine.get(unit).is_some_and(|record| {
            matches!(record.machine, Machine::Socket(_)) && !record.active().is_down()
        });
        let Some(name) = self.name_of(unit).filter(|_| listens) else {
            return;
        };
        let config = self.units.config(&name);
        if self.filters_sockets(unit, &config) {
            let message =
                "Its sockets are WITHOUT a filter of their traffic until it is started anew";
            self.say(Severity::Error, Some(unit), message);
        }
    }

    fn group_that_runs(&mut self, unit: UnitId) -> Option<(Arc<UnitConfig>, Box<str>)> {
        let record = self.engine.get(unit)?;
        if record.active().is_down() {
            return None;
        }
        let name = self.name_of(unit)?;
        let config = self.units.config(&name);
        let path = self.cgroup_of(unit);
        self.platform.has_cgroup(&path).then_some((config, path))
    }

    fn give_limits(&mut self, unit: UnitId, config: &UnitConfig, path: &str, occasion: Occasion) {
        for (severity, message) in self.apply_limits(unit, config, path, occasion) {
            self.say(severity, Some(unit), &message);
        }
    }

    /// Gives a group its limits; gives what has to be said about it.
    fn apply_limits(
        &mut self,
        unit: UnitId,
        config: &UnitConfig,
        path: &str,
        occasion: Occasion,
    ) -> Vec<(Severity, String)> {
        // What nobody asked for stays as it was given to us.
        let occasion = if path.is_empty() {
            Occasion::New
        } else {
            occasion
        };
        let asked = self.asked(unit, config);
        let plan = Plan::new(&asked.resources, self.platform.offer(), occasion);
        let mut refused = self.platform.limit(path, &plan, occasion);
        refused.retain(|one| is_stated(config, one.setting));
        let open = self.attach_pinned(path, &plan, occasion, &mut refused);
        let open = open.or_else(|| lacks_wall(config, plan.unapplied.iter().chain(&refused)));
        let closed = asked.closed.as_ref();
        let open = open.or_else(|| closed.map(|closed| Lacking::wall(closed, libc::E2BIG)));
        self.limited.given.insert(path.into());
        // Processes of scopes run already, so nobody keeps those from running.
        let keeps_down = open.is_some()
            && occasion == Occasion::New
            && !matches!(config.kind, UnitKind::Scope(_));
        match open {
            Some(lacking) => self.limited.open.insert(unit, lacking),
            None => self.limited.open.remove(&unit),
        };
        // Whoever is not kept from talking to somebody must not believe to be.
        let mut missing = asked
            .unapplied
            .iter()
            .chain(&plan.unapplied)
            .chain(&refused);
        let best_effort = missing.clone().filter(|one| {
            // Why no process is started is said where that is tried.
            let is_kept_down = keeps_down && WALLS.contains(&one.setting);
            REMARKED.contains(&one.setting) && !is_kept_down
        });
        let remarks: Vec<(Severity, String)> = best_effort
            .map(|one| {
                let message = format!("Not all of what it asks for is applied: {one}");
                (Severity::Warning, message)
            })
            .collect();
        let open = missing.find(|one| {
            let is_needed = programs::is_needed(one.setting) || WALLS.contains(&one.setting);
            let is_kept_down = keeps_down && is_needed;
            FILTERS.contains(&one.setting) && !is_kept_down
        });
        let open = open.map(|open| {
            let message = format!("Runs WITHOUT a filter of its traffic: {open}");
            (Severity::Error, message)
        });
        // Whoever runs already hears nothing any more, and is to know why.
        let closed = closed.filter(|_| !keeps_down).map(|closed| {
            let message = format!("Lets NO traffic through: {closed}");
            (Severity::Error, message)
        });
        let remarks = open.into_iter().chain(closed).chain(remarks).collect();
        let missing = Missing::new(&asked, &plan, refused);
        self.limited.missing.insert(unit, missing);
        if !asked.resources.holds_units {
            self.count_oom_kills(unit, path, occasion);
        }
        remarks
    }

    /// Attaches programs that others loaded. Gives the one without which the unit must not have processes.
    fn attach_pinned(
        &mut self,
        path: &str,
        plan: &Plan,
        occasion: Occasion,
        refused: &mut Vec<Unapplied>,
    ) -> Option<Lacking> {
        // A new group has no programs that could have to go.
        if plan.pinned.is_empty() && occasion == Occasion::New {
            return None;
        }
        let mut open = None;
        for error in self.platform.attach_pinned(path, &plan.pinned) {
            if programs::is_needed(error.setting) {
                let error = SpawnError {
                    step: format!("{}: {error}", error.setting).into(),
                    errno: error.source.raw_os_error().unwrap_or(libc::EIO),
                    exit_code: Step::Bpf.exit_code(),
                    early: true,
                };
                open = Some(Lacking {
                    error,
                    is_forgiven: false,
                });
            }
            refused.push(Unapplied {
                setting: error.setting,
                reason: format!("{error}: {}", error.source),
            });
        }
        open
    }

    fn phase(&self) -> Phase {
        match self.memory.finished {
            Some(_) if !self.engine.is_shutting_down() => Phase::Running,
            _ => Phase::Startup,
        }
    }

    /// What holds while the machine starts ends with that, and holds again while it ends.
    pub(crate) fn follow_phase(&mut self) {
        let phase = self.phase();
        let before = self.limited.phase.replace(phase);
        if before.is_none_or(|before| before == phase) {
            return;
        }
        for unit in self.units_that_run() {
            let Some(name) = self.name_of(unit) else {
                continue;
            };
            if has_startup_settings(&self.units.config(&name).resources) {
                self.renew_limits(unit);
            }
        }
    }

    fn units_that_run(&self) -> Vec<UnitId> {
        let units = self.engine.units();
        let running = units.filter(|(_, record)| !record.active().is_down());
        running.map(|(unit, _)| unit).collect()
    }

    fn asked(&mut self, unit: UnitId, config: &UnitConfig) -> Asked {
        let above = self.slices_above(unit);
        let (phase, host) = (self.phase(), self.units.host());
        of(config, &above, phase, host, &mut RealDevices)
    }

    /// Whether sockets of a unit have to be made in its group, since that or one above judges what goes through them.
    pub(crate) fn filters_sockets(&mut self, unit: UnitId, config: &UnitConfig) -> bool {
        filters_sockets(&config.resources)
            || self
                .slices_above(unit)
                .iter()
                .any(|slice| filters_sockets(&slice.resources))
    }

    /// The slices that a unit is in, nearest first.
    fn slices_of(&self, unit: UnitId) -> Vec<UnitId> {
        let mut above = Vec::new();
        let mut at = unit;
        while above.len() < MAX_DEPTH {
            let record = self.engine.get(at);
            let Some(slice) = record.and_then(|record| record.deps(DepKind::InSlice).next()) else {
                break;
            };
            above.push(slice);
            at = slice;
        }
        above
    }

    fn slices_above(&mut self, unit: UnitId) -> Vec<Arc<UnitConfig>> {
        let slices = self.slices_of(unit).into_iter();
        let names: Vec<UnitName> = slices.map_while(|slice| self.name_of(slice)).collect();
        names.iter().map(|name| self.units.config(name)).collect()
    }

    /// Most tasks and most bytes of memory that the group of a unit may have, where the machine can hold it to that.
    pub(crate) fn limits_of(&mut self, unit: UnitId) -> (Option<u64>, Option<u64>) {
        let Some(name) = self.name_of(unit) else {
            return (None, None);
        };
        let config = self.units.config(&name);
        let resources = self.asked(unit, &config).resources;
        let offer = self.platform.offer();
        let offered = offer.controllers.without(resources.denied);
        let legacy = Plan::new(&resources, offer, Occasion::New).legacy;
        let number = |controller, subsystem, amount| {
            let is_held = offered.contains(controller) || legacy.contains(subsystem);
            match amount {
                Some(Amount::Exactly(number)) if is_held => Some(number),
                _ => None,
            }
        };
        (
            number(Controller::Pids, Subsystem::Pids, resources.tasks_max),
            number(Controller::Memory, Subsystem::Memory, resources.memory.max),
        )
    }

    fn pressure_variables(&self, config: &UnitConfig, path: &str) -> Vec<(&'static str, String)> {
        let own = &config.resources;
        let wish = match own.memory_pressure_watch {
            Wish::Auto => PressureWish::Auto,
            Wish::On => PressureWish::On,
            Wish::Off => PressureWish::Off,
            Wish::Skip => PressureWish::Skip,
        };
        let counted = own.memory_accounting.unwrap_or(true);
        let threshold = own.memory_pressure_threshold;
        let threshold = threshold.map_or(PRESSURE_THRESHOLD, |threshold| threshold.as_micros());
        let folder = self.platform.pressure_folder(path);
        let told = PressureWatch::new(wish, counted, threshold, folder.as_deref());
        told.map_or_else(Vec::new, |told| told.variables())
    }

    /// The group of a unit is gone, or about to be.
    pub(crate) fn forget_limits(&mut self, path: &str) {
        self.limited.given.remove(path);
        if self.limited.killed.remove(path).is_some() {
            self.platform.unwatch_memory(path);
        }
    }
}
