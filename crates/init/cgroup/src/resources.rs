//! What the processes of a unit may use together, and what has to be written for it.

mod plan;

use std::num::NonZeroU16;

use crate::controllers::{Controller, Controllers};
use crate::filter::{BindFilter, DeviceFilter, FileFilter, PinnedProgram, TrafficFilter};
use crate::legacy::{Subsystem, Subsystems};

pub use plan::{Attribute, LegacyAttribute, Need, Occasion, Offer, Plan, Unapplied};

/// An amount with no end, or up to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Up to so many bytes or tasks.
    Exactly(u64),
    /// No limit.
    Infinity,
}

/// A share of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuShare {
    /// Relative to siblings, from 1 to 10000.
    Weight(NonZeroU16),
    /// The same on the scale of cgroup v1, from 2 to 262144 with 1024 in its middle.
    Shares(u32),
    /// Only what nobody else wants.
    Idle,
}

/// Most processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds of processor time per second; `None` is no limit.
    pub per_second: Option<u64>,
    /// Microseconds over which that is measured; `None` is the kernel's 100 milliseconds.
    pub period: Option<u64>,
}

/// Limits of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Never reclaimed.
    pub min: Option<Amount>,
    /// Reclaimed last.
    pub low: Option<Amount>,
    /// Slowed down above this.
    pub high: Option<Amount>,
    /// Ended above this.
    pub max: Option<Amount>,
    /// Most swap.
    pub swap_max: Option<Amount>,
}

/// Limits of one block device. `None` leaves it without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Bytes read per second.
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    pub write_bytes: Option<u64>,
    /// Reads per second.
    pub read_operations: Option<u64>,
    /// Writes per second.
    pub write_operations: Option<u64>,
    /// Share of the device, from 1 to 10000.
    pub weight: Option<NonZeroU16>,
    /// Microseconds that an operation should take at most.
    pub latency: Option<u64>,
}

/// Use of block devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// Share of all devices, from 1 to 10000.
    pub weight: Option<NonZeroU16>,
    /// Devices by their numbers, with their own limits. Each is in the list once.
    pub devices: Vec<((u32, u32), DeviceLimits)>,
}

/// Everything about resources that a unit asks for. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Controllers that are wanted for their accounts alone.
    pub counted: Controllers,
    /// Those of them that the unit itself asks for. Where an account takes a group of its own, others do without.
    pub counts_asked_for: Controllers,
    /// Controllers of cgroup v1 that a slice above this one has limits in.
    pub above: Subsystems,
    /// The unit's processes manage groups below theirs themselves.
    pub delegates: bool,
    /// Controllers that they do so with.
    pub delegated: Controllers,
    /// Controllers that groups below this one do not get.
    pub disabled: Controllers,
    /// Controllers that a group above this one keeps from it.
    pub denied: Controllers,
    /// Whether groups of other units lie below this one.
    pub holds_units: bool,
    /// Share of the processors.
    pub cpu_share: Option<CpuShare>,
    /// Most processor time.
    pub cpu_quota: Option<CpuQuota>,
    /// Processors, as in `0-3,5`; empty is all.
    pub cpus: Box<str>,
    /// Memory nodes, in the same way.
    pub memory_nodes: Box<str>,
    /// Memory.
    pub memory: MemoryLimits,
    /// Most tasks.
    pub tasks_max: Option<Amount>,
    /// Nobody asked for that number of tasks: all units have it. Where a limit takes a group of its own, they do without.
    pub tasks_by_default: bool,
    /// Block devices.
    pub io: IoLimits,
    /// The kernel ends all processes together when it ends one for lack of memory.
    pub ends_together: bool,
    /// Devices that may be used; `None` is every one.
    pub devices: Option<DeviceFilter>,
    /// Whom it may talk to; `None` is everybody, not counted.
    pub traffic: Option<TrafficFilter>,
    /// Ports that may be bound; `None` is every one.
    pub binds: Option<BindFilter>,
    /// On what files may be opened; `None` is everything.
    pub files: Option<FileFilter>,
    /// Programs that somebody else loaded.
    pub pinned: Vec<PinnedProgram>,
}

impl Resources {
    /// Controllers that the group itself has to have.
    #[must_use]
    pub fn needs(&self) -> Controllers {
        let memory = &self.memory;
        let limits = [
            memory.min,
            memory.low,
            memory.high,
            memory.max,
            memory.swap_max,
        ];
        let asked = [
            (
                Controller::Cpu,
                self.cpu_share.is_some() || self.cpu_quota.is_some(),
            ),
            (
                Controller::Cpuset,
                !self.cpus.is_empty() || !self.memory_nodes.is_empty(),
            ),
            (
                Controller::Io,
                self.io.weight.is_some() || !self.io.devices.is_empty(),
            ),
            (
                Controller::Memory,
                self.ends_together || limits.iter().any(Option::is_some),
            ),
            (Controller::Pids, self.tasks_max.is_some()),
        ];
        let asked = asked
            .into_iter()
            .filter_map(|(controller, is_asked)| is_asked.then_some(controller));
        self.counted | self.delegated | asked.collect()
    }

    /// Controllers of cgroup v1 that the unit itself has something to ask of, if the machine has them.
    #[must_use]
    pub fn asks(&self) -> Subsystems {
        let memory = &self.memory;
        let counts = |controller| self.counts_asked_for.contains(controller);
        let has_disk_limits = self.io.devices.iter().any(|(_, limits)| {
            let only_latency = DeviceLimits {
                latency: limits.latency,
                ..DeviceLimits::default()
            };
            *limits != only_latency
        });
        let asked = [
            (
                Subsystem::Cpu,
                self.cpu_share.is_some() || self.cpu_quota.is_some(),
            ),
            (Subsystem::Cpuacct, counts(Controller::Cpu)),
            (
                Subsystem::Cpuset,
                !self.cpus.is_empty() || !self.memory_nodes.is_empty(),
            ),
            (
                Subsystem::Blkio,
                self.io.weight.is_some() || has_disk_limits || counts(Controller::Io),
            ),
            (
                Subsystem::Memory,
                memory.max.is_some()
                    || memory.swap_max.is_some()
                    || self.ends_together
                    || counts(Controller::Memory),
            ),
            (
                Subsystem::Pids,
                (self.tasks_max.is_some() && !self.tasks_by_default) || counts(Controller::Pids),
            ),
            (Subsystem::Devices, self.devices.is_some()),
        ];
        let asked = asked
            .into_iter()
            .filter_map(|(subsystem, is_asked)| is_asked.then_some(subsystem));
        asked.collect()
    }
}
