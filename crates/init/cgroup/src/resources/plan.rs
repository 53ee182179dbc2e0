//! From wishes to writes.

mod legacy;

use std::fmt::Write as _;
use std::num::NonZeroU16;

use super::{Amount, CpuQuota, CpuShare, DeviceLimits, Resources};
use crate::controllers::{Controller, Controllers};
use crate::filter::{PinnedProgram, Program};
use crate::hierarchy::Mode;
use crate::legacy::{Subsystem, Subsystems};

pub use legacy::LegacyAttribute;

const SECOND: u64 = 1_000_000;
const MILLISECOND: u64 = 1_000;
/// Over which the kernel measures processor time unless it is told otherwise.
const DEFAULT_PERIOD: u64 = 100 * MILLISECOND;

/// What the machine has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Which kind of hierarchy it has.
    pub mode: Mode,
    /// Controllers that groups of units can have.
    pub controllers: Controllers,
    /// Controllers of cgroup v1 that groups of units can have beside that.
    pub legacy: Subsystems,
}

impl Offer {
    /// Controllers of cgroup v1 that are used: those whose place nothing of v2 takes.
    #[must_use]
    pub fn usable_legacy(&self) -> Subsystems {
        let has_v2 = matches!(self.mode, Mode::Unified | Mode::Hybrid);
        let mut usable = self.legacy;
        if has_v2 {
            // Every group of v2 counts processor time, and programs decide about devices.
            let taken = [Subsystem::Cpuacct, Subsystem::Devices];
            usable = usable.without(taken.into_iter().collect());
        }
        let usable = usable.iter().filter(|one| {
            let controller = one.controller();
            controller.is_none_or(|controller| !self.controllers.contains(controller))
        });
        usable.collect()
    }
}

/// When a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The group is new: what nobody asks for is as the kernel made it.
    New,
    /// The group is in use: what nobody asks for any more goes back to what a new group has.
    Change,
}

/// A file of the group's to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The setting that it comes from, as in unit files.
    pub setting: &'static str,
    /// The file.
    pub file: &'static str,
    /// Its content.
    pub value: String,
    /// Where it has to be.
    pub need: Need,
}

/// How much depends on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The setting is without effect where it cannot be written.
    Itself,
    /// The setting is without effect where none of those that begin alike can be written: schedulers of disks have files of their own
    /// for the same, and a disk has one scheduler.
    OneOfThese,
    /// There is nothing to do where it is not.
    Nothing,
}

/// A setting without effect on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapplied {
    /// As in unit files.
    pub setting: &'static str,
    /// Why, for people.
    pub reason: String,
}

impl std::fmt::Display for Unapplied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.setting, self.reason)
    }
}

/// Everything that has to be done for one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Controllers that the groups above have to hand on to it.
    pub controllers: Controllers,
    /// Controllers that it hands on to groups below, if it holds other units.
    pub hands_on: Controllers,
    /// Controllers that it must not hand on, even if somebody did so before.
    pub withholds: Controllers,
    /// Files to be written, in this order.
    pub attributes: Vec<Attribute>,
    /// Controllers of cgroup v1 in whose hierarchies the group is needed.
    pub legacy: Subsystems,
    /// Files to be written there, in this order.
    pub legacy_attributes: Vec<LegacyAttribute>,
    /// Programs to be attached.
    pub programs: Vec<Program>,
    /// Programs of others to be attached, and no others of theirs.
    pub pinned: Vec<PinnedProgram>,
    /// What this machine cannot do.
    pub unapplied: Vec<Unapplied>,
}

impl Plan {
    /// Decides what has to be done.
    #[must_use]
    pub fn new(resources: &Resources, offer: Offer, occasion: Occasion) -> Self {
        let had = offer.controllers.without(resources.denied);
        let had_legacy = legacy::had(&offer, resources.denied);
        let mut maker = Maker {
            plan: Self {
                legacy: (resources.asks() | resources.above).within(had_legacy),
                controllers: resources.needs().within(had),
                hands_on: Controllers::NONE,
                withholds: resources.disabled,
                ..Self::default()
            },
            had,
            had_legacy,
            denied: resources.denied,
            offer,
            occasion,
        };
        if resources.holds_units {
            maker.plan.hands_on = maker.plan.controllers.without(resources.disabled);
        }
        maker.cpu(resources);
        maker.cpuset(resources);
        maker.memory(resources);
        maker.tasks(resources);
        maker.io(resources);
        maker.filters(resources);
        maker.delegate(resources);
        maker.plan
    }

    /// Whether nothing has to be done and everything is as asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

struct Maker {
    plan: Plan,
    /// Controllers that this group can have.
    had: Controllers,
    /// The same of cgroup v1.
    had_legacy: Subsystems,
    denied: Controllers,
    offer: Offer,
    occasion: Occasion,
}

impl Maker {
    /// A setting of a controller: its value, or what a new group has.
    fn set(
        &mut self,
        controller: Controller,
        setting: &'static str,
        file: &'static str,
        value: Option<String>,
        default: &str,
    ) {
        let is_reset = value.is_none();
        let value = match (value, self.occasion) {
            (Some(value), _) => value,
            (None, Occasion::Change) if self.had.contains(controller) => default.to_owned(),
            (None, _) => return,
        };
        if !self.had.contains(controller) {
            return self.lacks(setting, controller);
        }
        self.plan.attributes.push(Attribute {
            setting,
            file,
            value,
            // A group that never had the controller has no such file, and nothing to go back from.
            need: match is_reset {
                true => Need::Nothing,
                false => Need::Itself,
            },
        });
    }

    fn lacks(&mut self, setting: &'static str, controller: Controller) {
        let name = controller.name();
        let reason = match self.offer.mode {
            _ if self.denied.contains(controller) => {
                format!("a slice above it has DisableControllers={name}")
            }
            Mode::Unified => format!("the kernel offers no {name} controller here"),
            Mode::Hybrid => {
                format!("the {name} controller is not in the cgroup v2 tree of this machine")
            }
            Mode::Legacy | Mode::Sessions => "this machine has no cgroup v2".to_owned(),
        };
        let mut known = self.plan.unapplied.iter();
        if !known.any(|known| known.setting == setting) {
            self.plan.unapplied.push(Unapplied { setting, reason });
        }
    }

    fn cpu(&mut self, resources: &Resources) {
        if self.had_legacy.contains(Subsystem::Cpu) {
            return self.legacy_cpu(resources);
        }
        let share = resources.cpu_share;
        let weight = share.map(|share| match share {
            CpuShare::Weight(weight) => weight.to_string(),
            CpuShare::Shares(shares) => weight_of_shares(shares).to_string(),
            CpuShare::Idle => "100".to_owned(),
        });
        let is_idle = share == Some(CpuShare::Idle);
        // A group that is idle takes no weight, so that goes first, and what has a weight must not be idle before.
        if is_idle {
            let one = Some("1".to_owned());
            self.set(Controller::Cpu, "CPUWeight", "cpu.idle", one, "0");
        } else {
            self.set(Controller::Cpu, "CPUWeight", "cpu.idle", None, "0");
            self.set(Controller::Cpu, "CPUWeight", "cpu.weight", weight, "100");
        }
        let quota = resources.cpu_quota.map(|quota| {
            let (time, period) = cpu_time(quota);
            let time = time.map_or_else(|| "max".to_owned(), |time| time.to_string());
            format!("{time} {period}")
        });
        let default = format!("max {DEFAULT_PERIOD}");
        self.set(Controller::Cpu, "CPUQuota", "cpu.max", quota, &default);
    }

    fn cpuset(&mut self, resources: &Resources) {
        if self.had_legacy.contains(Subsystem::Cpuset) {
            return self.legacy_cpuset(resources);
        }
        for (setting, file, list) in [
            ("AllowedCPUs", "cpuset.cpus", &resources.cpus),
            ("AllowedMemoryNodes", "cpuset.mems", &resources.memory_nodes),
        ] {
            let list = (!list.is_empty()).then(|| list.to_string());
            self.set(Controller::Cpuset, setting, file, list, "\n");
        }
    }

    fn memory(&mut self, resources: &Resources) {
        if self.had_legacy.contains(Subsystem::Memory) {
            return self.legacy_memory(resources);
        }
        let limits = &resources.memory;
        for (setting, file, limit, default) in [
            ("MemoryMin", "memory.min", limits.min, "0"),
            ("MemoryLow", "memory.low", limits.low, "0"),
            ("MemoryHigh", "memory.high", limits.high, "max"),
            ("MemoryMax", "memory.max", limits.max, "max"),
            ("MemorySwapMax", "memory.swap.max", limits.swap_max, "max"),
        ] {
            let limit = limit.map(amount);
            self.set(Controller::Memory, setting, file, limit, default);
        }
        let together = resources.ends_together.then(|| "1".to_owned());
        let file = "memory.oom.group";
        self.set(Controller::Memory, "OOMPolicy", file, together, "0");
    }

    fn tasks(&mut self, resources: &Resources) {
        if self.had_legacy.contains(Subsystem::Pids) {
            return self.legacy_tasks(resources);
        }
        let limit = resources.tasks_max.map(amount);
        self.set(Controller::Pids, "TasksMax", "pids.max", limit, "max");
    }

    fn io(&mut self, resources: &Resources) {
        if self.had_legacy.contains(Subsystem::Blkio) {
            return self.legacy_io(resources);
        }
        self.io_weight("IOWeight", "default", resources.io.weight);
        for ((major, minor), limits) in &resources.io.devices {
            let device = format!("{major}:{minor}");
            if limits.weight.is_some() {
                self.io_weight("IODeviceWeight", &device, limits.weight);
            }
            for (setting, keys) in device_keys(limits) {
                let line = (!keys.is_empty()).then(|| format!("{device}{keys}"));
                self.per_device(setting, "io.max", line);
            }
            let latency = limits
                .latency
                .map(|latency| format!("{device} target={latency}"));
            self.per_device("IODeviceLatencyTargetSec", "io.latency", latency);
        }
    }

    /// Both schedulers of the kernel's that know weights have a file and a scale of their own.
    fn io_weight(&mut self, setting: &'static str, of: &str, weight: Option<NonZeroU16>) {
        let before = self.plan.attributes.len();
        let line = weight.map(|weight| format!("{of} {weight}"));
        self.set(Controller::Io, setting, "io.weight", line, "default 100");
        let line = weight.map(|weight| format!("{of} {}", bfq_weight(weight)));
        self.set(
            Controller::Io,
            setting,
            "io.bfq.weight",
            line,
            "default 100",
        );
        for attribute in self.plan.attributes.iter_mut().skip(before) {
            if attribute.need == Need::Itself {
                attribute.need = Need::OneOfThese;
            }
        }
    }

    fn per_device(&mut self, setting: &'static str, file: &'static str, line: Option<String>) {
        if line.is_some() {
            self.set(Controller::Io, setting, file, line, "");
        }
    }

    /// Groups of the first version are not given away, since whoever has one gets out of its limits.
    fn delegate(&mut self, resources: &Resources) {
        let is_kept = matches!(self.offer.mode, Mode::Legacy | Mode::Sessions);
        if resources.delegates && is_kept {
            self.plan.unapplied.push(Unapplied {
                setting: "Delegate",
                reason: "this machine has no cgroup v2, and no other group is given away"
                    .to_owned(),
            });
        }
    }

    fn filters(&mut self, resources: &Resources) {
        let mut programs = Vec::new();
        if self.had_legacy.contains(Subsystem::Devices) {
            self.legacy_devices(resources);
        } else {
            programs.extend(resources.devices.as_ref().map(|filter| filter.program()));
        }
        programs.extend(
            resources
                .traffic
                .iter()
                .flat_map(|filter| filter.programs()),
        );
        programs.extend(resources.binds.iter().flat_map(|filter| filter.programs()));
        programs.extend(resources.files.as_ref().map(|filter| filter.program()));
        if matches!(self.offer.mode, Mode::Unified | Mode::Hybrid) {
            self.plan.programs = programs;
            self.plan.pinned.clone_from(&resources.pinned);
            return;
        }
        let own = programs
            .iter()
            .flat_map(|program| &program.settings)
            .copied();
        let pinned = resources.pinned.iter().map(|program| program.setting);
        for setting in own.chain(pinned) {
            let mut known = self.plan.unapplied.iter();
            if !known.any(|known| known.setting == setting) {
                let reason = "this machine has no cgroup v2".to_owned();
                self.plan.unapplied.push(Unapplied { setting, reason });
            }
        }
    }
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Exactly(number) => number.to_string(),
        Amount::Infinity => "max".to_owned(),
    }
}

/// Microseconds of processor time, `None` for all, and of the period that they are measured in. The kernel takes no less than a
/// millisecond of time per period, and periods from a millisecond to a second: a small share is measured over a longer time.
fn cpu_time(quota: CpuQuota) -> (Option<u64>, u64) {
    let period = quota.period.unwrap_or(DEFAULT_PERIOD);
    let period = period.clamp(MILLISECOND, SECOND);
    let Some(per_second) = quota.per_second else {
        return (None, period);
    };
    let enough = (MILLISECOND * SECOND).div_ceil(per_second.max(1));
    let period = period.max(enough).min(SECOND);
    let time = u128::from(per_second) * u128::from(period) / u128::from(SECOND);
    let time = u64::try_from(time).unwrap_or(u64::MAX).max(MILLISECOND);
    (Some(time), period)
}

/// Both scales have a middle: 1024 of one is 100 of the other.
fn weight_of_shares(shares: u32) -> u64 {
    (u64::from(shares) * 100 / 1024).clamp(1, 10_000)
}

/// The scale of that scheduler ends at 1000, and both have 100 in their middle.
fn bfq_weight(weight: NonZeroU16) -> u16 {
    let weight = weight.get();
    if weight <= 100 {
        weight
    } else {
        // At most 1000, whatever the weight: the scale was 100 to 10000.
        let above = u32::from(weight.min(10_000) - 100) * 900 / 9_900;
        100 + u16::try_from(above).unwrap_or(900)
    }
}

/// The parts of a line of `io.max`, each under the setting that it comes from; one line may hold any of them.
fn device_keys(limits: &DeviceLimits) -> [(&'static str, String); 4] {
    let key = |name: &str, limit: Option<u64>| {
        let mut text = String::new();
        match limit {
            Some(u64::MAX) => text = format!(" {name}=max"),
            Some(limit) => {
                let _ = write!(text, " {name}={limit}");
            }
            None => {}
        }
        text
    };
    [
        ("IOReadBandwidthMax", key("rbps", limits.read_bytes)),
        ("IOWriteBandwidthMax", key("wbps", limits.write_bytes)),
        ("IOReadIOPSMax", key("riops", limits.read_operations)),
        ("IOWriteIOPSMax", key("wiops", limits.write_operations)),
    ]
}

#[cfg(test)]
mod tests;
