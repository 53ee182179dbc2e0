//! The same wishes for controllers of cgroup v1, as systemd 252 translates them.
//!
//! What has no counterpart is named: the lower bounds of memory and its throttling (systemd does not map them to soft limits
//! either), and latencies of disks. Ending all processes together when memory runs out is the manager's part here, which only
//! takes a group in which ends are counted.

use std::num::NonZeroU16;

use super::{Maker, Occasion, Offer, Unapplied, amount, bfq_weight, cpu_time};
use crate::controllers::Controllers;
use crate::filter::{DeviceKind, DeviceRule};
use crate::legacy::{Subsystem, Subsystems};
use crate::resources::{Amount, CpuShare, DeviceLimits, Resources};

const DEFAULT_SHARES: u64 = 1024;
const FEWEST_SHARES: u64 = 2;
const MOST_SHARES: u64 = 262_144;
/// The scale of `blkio.weight`.
const MIDDLE_OF_BLOCK_WEIGHTS: u32 = 500;
const LEAST_BLOCK_WEIGHT: u32 = 10;
const MOST_BLOCK_WEIGHT: u32 = 1000;
/// How limits of memory say that there is none.
const UNLIMITED: &str = "-1";
const NO_COUNTERPART: &str = "cgroup v1, which this machine has, knows nothing like it";

/// A file of the group's in a hierarchy of cgroup v1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyAttribute {
    /// The setting that it comes from, as in unit files.
    pub setting: &'static str,
    /// In whose hierarchy.
    pub subsystem: Subsystem,
    /// The file.
    pub file: &'static str,
    /// Its content. Nothing, for a list of processors or memory nodes, is what the group above has.
    pub value: String,
    /// Another file and its content, for kernels that do not have the first.
    pub instead: Option<(&'static str, String)>,
    /// It takes back what may have been written before: of no use in a group that was just made.
    pub is_reset: bool,
    /// Not every kernel has this file, and what it does is done elsewhere too.
    pub is_optional: bool,
}

/// What a group can have of cgroup v1, unless a slice above keeps it from it.
pub(super) fn had(offer: &Offer, denied: Controllers) -> Subsystems {
    let had = offer.usable_legacy();
    let allowed = had.iter().filter(|one| {
        let controller = one.controller();
        controller.is_none_or(|controller| !denied.contains(controller))
    });
    allowed.collect()
}

impl Maker {
    fn push(
        &mut self,
        subsystem: Subsystem,
        setting: &'static str,
        file: &'static str,
        value: String,
    ) {
        self.plan.legacy_attributes.push(LegacyAttribute {
            setting,
            subsystem,
            file,
            value,
            instead: None,
            is_reset: false,
            is_optional: false,
        });
    }

    /// Whoever asks for nothing has no group, and so nothing to take back, unless that changes now.
    fn push_reset(
        &mut self,
        subsystem: Subsystem,
        setting: &'static str,
        file: &'static str,
        value: &str,
    ) {
        if self.occasion == Occasion::Change || self.plan.legacy.contains(subsystem) {
            self.push(subsystem, setting, file, value.to_owned());
            if let Some(last) = self.plan.legacy_attributes.last_mut() {
                (last.is_reset, last.is_optional) = (true, true);
            }
        }
    }

    fn push_or_reset(
        &mut self,
        subsystem: Subsystem,
        setting: &'static str,
        file: &'static str,
        value: Option<String>,
        default: &str,
    ) {
        match value {
            Some(value) => self.push(subsystem, setting, file, value),
            None => self.push_reset(subsystem, setting, file, default),
        }
    }

    fn name(&mut self, setting: &'static str, reason: &str) {
        let mut known = self.plan.unapplied.iter();
        if !known.any(|known| known.setting == setting) {
            let reason = reason.to_owned();
            self.plan.unapplied.push(Unapplied { setting, reason });
        }
    }

    pub(super) fn legacy_cpu(&mut self, resources: &Resources) {
        const CPU: Subsystem = Subsystem::Cpu;
        let share = resources.cpu_share;
        // A group that is idle takes no shares.
        self.push_reset(CPU, "CPUWeight", "cpu.idle", "0");
        let default = DEFAULT_SHARES.to_string();
        let shares = share.map(|share| shares(share).to_string());
        self.push_or_reset(CPU, "CPUWeight", "cpu.shares", shares, &default);
        if share == Some(CpuShare::Idle) {
            self.push(CPU, "CPUWeight", "cpu.idle", "1".to_owned());
            // Older kernels do without; then it has the fewest shares that there are.
            if let Some(last) = self.plan.legacy_attributes.last_mut() {
                last.is_optional = true;
            }
        }
        // Time and period are judged together but written one by one: between two of them there is no limit.
        self.push_reset(CPU, "CPUQuota", "cpu.cfs_quota_us", UNLIMITED);
        match resources.cpu_quota.map(cpu_time) {
            Some((time, period)) => {
                let time = time.map_or_else(|| UNLIMITED.to_owned(), |time| time.to_string());
                self.push(CPU, "CPUQuota", "cpu.cfs_period_us", period.to_string());
                self.push(CPU, "CPUQuota", "cpu.cfs_quota_us", time);
            }
            None => {
                let period = super::DEFAULT_PERIOD.to_string();
                self.push_reset(CPU, "CPUQuota", "cpu.cfs_period_us", &period);
            }
        }
    }

    pub(super) fn legacy_cpuset(&mut self, resources: &Resources) {
        for (setting, file, list) in [
            ("AllowedCPUs", "cpuset.cpus", &resources.cpus),
            ("AllowedMemoryNodes", "cpuset.mems", &resources.memory_nodes),
        ] {
            let list = (!list.is_empty()).then(|| list.to_string());
            self.push_or_reset(Subsystem::Cpuset, setting, file, list, "");
        }
    }

    pub(super) fn legacy_memory(&mut self, resources: &Resources) {
        const MEMORY: Subsystem = Subsystem::Memory;
        const BOTH: &str = "memory.memsw.limit_in_bytes";
        let limits = &resources.memory;
        for (setting, limit) in [
            ("MemoryMin", limits.min),
            ("MemoryLow", limits.low),
            ("MemoryHigh", limits.high),
        ] {
            if limit.is_some_and(|limit| limit != Amount::Exactly(0)) {
                self.name(setting, NO_COUNTERPART);
            }
        }
        // Memory alone may never exceed memory and swap together: that limit goes out of the way first, whether the other is
        // raised or lowered, and comes back last.
        self.push_reset(MEMORY, "MemorySwapMax", BOTH, UNLIMITED);
        let max = limits.max.map(bytes);
        let file = "memory.limit_in_bytes";
        self.push_or_reset(MEMORY, "MemoryMax", file, max, UNLIMITED);
        match (limits.max, limits.swap_max) {
            (Some(Amount::Exactly(max)), Some(Amount::Exactly(swap))) => {
                let both = max.saturating_add(swap).to_string();
                self.push(MEMORY, "MemorySwapMax", BOTH, both);
            }
            (_, Some(Amount::Exactly(_))) => {
                let reason =
                    "cgroup v1 limits swap only together with memory: it takes MemoryMax= too";
                self.name("MemorySwapMax", reason);
            }
            _ => {}
        }
    }

    pub(super) fn legacy_tasks(&mut self, resources: &Resources) {
        const PIDS: Subsystem = Subsystem::Pids;
        let limit = resources.tasks_max.map(amount);
        if resources.tasks_by_default && !self.plan.legacy.contains(PIDS) {
            let limit = limit.unwrap_or_else(|| "max".to_owned());
            self.push_reset(PIDS, "TasksMax", "pids.max", &limit);
        } else {
            self.push_or_reset(PIDS, "TasksMax", "pids.max", limit, "max");
        }
    }

    pub(super) fn legacy_io(&mut self, resources: &Resources) {
        const BLKIO: Subsystem = Subsystem::Blkio;
        let weight = resources.io.weight;
        let (bfq, default) = (weight.map(bfq_weight), "100");
        let bfq = bfq.map(|weight| weight.to_string());
        let had = self.plan.legacy_attributes.len();
        self.push_or_reset(BLKIO, "IOWeight", "blkio.bfq.weight", bfq, default);
        if let Some(pushed) = self.plan.legacy_attributes.get_mut(had) {
            let block = weight.map_or(MIDDLE_OF_BLOCK_WEIGHTS, block_weight);
            pushed.instead = Some(("blkio.weight", block.to_string()));
        }
        for ((major, minor), limits) in &resources.io.devices {
            let device = format!("{major}:{minor}");
            if let Some(weight) = limits.weight {
                let file = "blkio.bfq.weight_device";
                let value = format!("{device} {}", bfq_weight(weight));
                self.push(BLKIO, "IODeviceWeight", file, value);
                if let Some(pushed) = self.plan.legacy_attributes.last_mut() {
                    let value = format!("{device} {}", block_weight(weight));
                    pushed.instead = Some(("blkio.weight_device", value));
                }
            }
            for (setting, file, limit) in throttles(limits) {
                if let Some(limit) = limit {
                    self.push(BLKIO, setting, file, format!("{device} {limit}"));
                }
            }
            if limits.latency.is_some() {
                self.name("IODeviceLatencyTargetSec", NO_COUNTERPART);
            }
        }
    }

    /// Everything is refused, then what may be used is allowed.
    pub(super) fn legacy_devices(&mut self, resources: &Resources) {
        const DEVICES: Subsystem = Subsystem::Devices;
        let Some(filter) = &resources.devices else {
            return self.push_reset(DEVICES, "DevicePolicy", "devices.allow", "a");
        };
        let everything = "a".to_owned();
        self.push(DEVICES, "DevicePolicy", "devices.deny", everything);
        for rule in filter.looked_at() {
            if let Some(line) = device_line(rule) {
                self.push(DEVICES, "DevicePolicy", "devices.allow", line);
            }
        }
    }
}

/// systemd's conversion.
fn shares(share: CpuShare) -> u64 {
    let shares = match share {
        CpuShare::Weight(weight) => u64::from(weight.get()) * DEFAULT_SHARES / 100,
        CpuShare::Shares(shares) => u64::from(shares),
        CpuShare::Idle => 0,
    };
    shares.clamp(FEWEST_SHARES, MOST_SHARES)
}

/// systemd's conversion.
fn block_weight(weight: NonZeroU16) -> u32 {
    let weight = u32::from(weight.get()) * MIDDLE_OF_BLOCK_WEIGHTS / 100;
    weight.clamp(LEAST_BLOCK_WEIGHT, MOST_BLOCK_WEIGHT)
}

fn bytes(amount: Amount) -> String {
    match amount {
        Amount::Exactly(bytes) => bytes.to_string(),
        Amount::Infinity => UNLIMITED.to_owned(),
    }
}

/// Files for bytes and operations per second. Nought is no limit there, and operations are a number of 32 bits.
fn throttles(limits: &DeviceLimits) -> [(&'static str, &'static str, Option<u64>); 4] {
    let limit = |limit: Option<u64>, most: u64| {
        limit.map(|limit| match limit {
            u64::MAX => 0,
            limit => limit.clamp(1, most),
        })
    };
    let bytes = |of| limit(of, u64::MAX);
    let operations = |of| limit(of, u64::from(u32::MAX));
    [
        (
            "IOReadBandwidthMax",
            "blkio.throttle.read_bps_device",
            bytes(limits.read_bytes),
        ),
        (
            "IOWriteBandwidthMax",
            "blkio.throttle.write_bps_device",
            bytes(limits.write_bytes),
        ),
        (
            "IOReadIOPSMax",
            "blkio.throttle.read_iops_device",
            operations(limits.read_operations),
        ),
        (
            "IOWriteIOPSMax",
            "blkio.throttle.write_iops_device",
            operations(limits.write_operations),
        ),
    ]
}

/// `c 1:3 rwm`; nothing for a rule that allows nothing.
fn device_line(rule: &DeviceRule) -> Option<String> {
    let kind = match rule.kind {
        DeviceKind::Block => 'b',
        DeviceKind::Character => 'c',
    };
    let number = |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |one| one.to_string());
    let access: String = [
        (rule.access.read, 'r'),
        (rule.access.write, 'w'),
        (rule.access.mknod, 'm'),
    ]
    .into_iter()
    .filter_map(|(is_allowed, letter)| is_allowed.then_some(letter))
    .collect();
    let (major, minor) = (number(rule.major), number(rule.minor));
    (!access.is_empty()).then(|| format!("{kind} {major}:{minor} {access}"))
}

#[cfg(test)]
mod tests;
