//! What the processes of a unit may use together.

use super::{Rare, rare};
use crate::timespan::TimeSpan;
use crate::value::access::{DeviceRules, NameFilter};
use crate::value::cpuset::CpuSet;
use crate::value::list::StrList;
use crate::value::network::IpPrefixes;
use crate::value::number::{
    Limit, Permyriad, parse_boolean, parse_integer, parse_permyriad, parse_size,
};
use crate::value::words::list_words;
use crate::value::{AssignError, Setting, ValueContext, ValueError, scalar_setting, word_enum};

word_enum! {
    /// Which devices may be used.
    DevicePolicy, "device policy",
    Auto = "auto", Closed = "closed", Strict = "strict",
}

word_enum! {
    /// Whether the out-of-memory daemon watches.
    OomMode, "mode",
    Auto = "auto", Kill = "kill",
}

word_enum! {
    /// How readily the out-of-memory daemon ends it.
    OomPreference, "preference",
    None = "none", Avoid = "avoid", Omit = "omit",
}

word_enum! {
    /// Whether a service is told where it can see memory getting short.
    PressureWatch, "watch" + switch_word,
    Auto = "auto", On = "on", Off = "off", Skip = "skip",
}

fn switch_word(text: &str) -> &str {
    match parse_boolean(text) {
        Ok(true) => "on",
        Ok(false) => "off",
        Err(_) => text,
    }
}

/// A share relative to siblings, from 1 to 10000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight(pub u16);

scalar_setting!(Weight, "weight", |text: &str| weight(
    text,
    1,
    10_000,
    "1 to 10000"
)
.map(Weight));

fn weight(text: &str, low: u16, high: u16, range: &'static str) -> Result<u16, ValueError> {
    u16::try_from(parse_integer(text)?)
        .ok()
        .filter(|weight| (low..=high).contains(weight))
        .ok_or_else(|| ValueError::range(text, range))
}

/// A share of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// Relative to siblings.
    Weight(Weight),
    /// Only what nobody else wants.
    Idle,
}

impl Default for CpuWeight {
    fn default() -> Self {
        Self::Weight(Weight(100))
    }
}

scalar_setting!(CpuWeight, "weight or idle", |text: &str| {
    if text == "idle" {
        return Ok(CpuWeight::Idle);
    }
    weight(text, 1, 10_000, "1 to 10000, or idle").map(|n| CpuWeight::Weight(Weight(n)))
});

/// Processor time per second of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota(pub TimeSpan);

impl Default for CpuQuota {
    fn default() -> Self {
        Self(TimeSpan::INFINITY)
    }
}

scalar_setting!(CpuQuota, "share, 100% per processor", |text: &str| {
    if text.is_empty() {
        return Ok(CpuQuota::default());
    }
    let Permyriad(share) = parse_permyriad(text, false)?;
    if share == 0 {
        return Err(ValueError::range(text, "more than 0%"));
    }
    Ok(CpuQuota(TimeSpan::from_micros(u64::from(share) * 100)))
});

/// An amount of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAmount(pub Limit);

scalar_setting!(MemoryAmount, "size, share or infinity", |text: &str| {
    Limit::parse_memory(text).map(MemoryAmount)
});

/// A number of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TasksAmount(pub Limit);

scalar_setting!(TasksAmount, "number, share or infinity", |text: &str| {
    Limit::parse_tasks(text).map(TasksAmount)
});

/// A number for one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceValue {
    /// The device, or a file on it.
    pub path: Box<str>,
    /// Bytes or operations per second, a weight, or microseconds; `u64::MAX` is infinity.
    pub value: u64,
}

/// Per directive; keeps looking for doubled ones cheap.
const MAX_DEVICES: usize = 1024;

/// Numbers for devices; an empty value resets the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceValues(pub Vec<DeviceValue>);

impl DeviceValues {
    /// Takes a line `PATH VALUE`, the value read by `parse`.
    ///
    /// # Errors
    /// It is not such a line.
    pub fn assign(
        &mut self,
        text: &str,
        context: &mut ValueContext<'_>,
        parse: impl Fn(&str) -> Result<u64, ValueError>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        if self.0.len() >= MAX_DEVICES {
            return Err(ValueError::range(text, "at most 1024 devices").into());
        }
        let words = list_words(text)?;
        let [path, value] = words.as_slice() else {
            return Err(ValueError::invalid(text, "a device followed by a value").into());
        };
        let path = crate::value::path::check_path(&context.expand(path)?, true)?;
        let value = if value == "infinity" {
            u64::MAX
        } else {
            parse(value)?
        };
        self.0.retain(|known| *known.path != *path);
        self.0.push(DeviceValue {
            path: path.into(),
            value,
        });
        Ok(())
    }

    /// Reads bytes or operations per second (suffixes of base 1000).
    ///
    /// # Errors
    /// It is no size.
    pub fn rate(text: &str) -> Result<u64, ValueError> {
        parse_size(text, 1000)
    }
}

/// Control of a part of the control group tree by the unit itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delegation {
    /// It is given away.
    pub enabled: bool,
    /// The controllers; `None` is every one.
    pub controllers: Option<StrList>,
}

impl Setting for Delegation {
    const KIND: &'static str = "boolean or controllers";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            *self = Self {
                enabled: true,
                controllers: Some(StrList::default()),
            };
            return Ok(());
        }
        if let Ok(enabled) = parse_boolean(text) {
            *self = Self {
                enabled,
                controllers: None,
            };
            return Ok(());
        }
        let mut controllers = self.controllers.take().unwrap_or_default();
        for word in list_words(text)? {
            if !is_controller(&word) {
                context.warn(ValueError::invalid(&word, "a controller such as memory"));
            } else if !controllers.contains(&word) {
                controllers.push(&word);
            }
        }
        *self = Self {
            enabled: true,
            controllers: Some(controllers),
        };
        Ok(())
    }
}

fn is_controller(word: &str) -> bool {
    matches!(
        word,
        "cpu"
            | "cpuacct"
            | "cpuset"
            | "io"
            | "blkio"
            | "memory"
            | "devices"
            | "pids"
            | "bpf-firewall"
            | "bpf-devices"
            | "bpf-foreign"
            | "bpf-socket-bind"
            | "bpf-restrict-network-interfaces"
    )
}

/// Settings of the older control groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegacyIo {
    /// `CPUShares=`
    pub cpu_shares: Option<u32>,
    /// `StartupCPUShares=`
    pub startup_cpu_shares: Option<u32>,
    /// `BlockIOAccounting=`
    pub block_io_accounting: bool,
    /// `BlockIOWeight=`
    pub block_io_weight: Option<Weight>,
    /// `StartupBlockIOWeight=`
    pub startup_block_io_weight: Option<Weight>,
    /// `BlockIODeviceWeight=`
    pub block_io_device_weight: DeviceValues,
    /// `BlockIOReadBandwidth=`
    pub block_io_read_bandwidth: DeviceValues,
    /// `BlockIOWriteBandwidth=`
    pub block_io_write_bandwidth: DeviceValues,
    /// `MemoryLimit=`
    pub memory_limit: Option<MemoryAmount>,
}

/// What the processes of a unit may use together. `None` leaves the manager's or the kernel's
/// default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceControl {
    /// Processors.
    pub allowed_cpus: CpuSet,
    /// Processors while the machine starts.
    pub startup_allowed_cpus: CpuSet,
    /// Memory nodes.
    pub allowed_memory_nodes: CpuSet,
    /// Memory nodes while the machine starts.
    pub startup_allowed_memory_nodes: CpuSet,
    /// Count processor time.
    pub cpu_accounting: Option<bool>,
    /// Share of the processors.
    pub cpu_weight: Option<CpuWeight>,
    /// While the machine starts.
    pub startup_cpu_weight: Option<CpuWeight>,
    /// Most processor time.
    pub cpu_quota: CpuQuota,
    /// Measured over this time.
    pub cpu_quota_period: Option<TimeSpan>,
    /// Count memory.
    pub memory_accounting: Option<bool>,
    /// Never reclaimed.
    pub memory_min: Option<MemoryAmount>,
    /// Reclaimed last.
    pub memory_low: Option<MemoryAmount>,
    /// The default of the units below.
    pub default_memory_min: Option<MemoryAmount>,
    /// The default of the units below.
    pub default_memory_low: Option<MemoryAmount>,
    /// Slowed down above this.
    pub memory_high: Option<MemoryAmount>,
    /// Ended above this.
    pub memory_max: Option<MemoryAmount>,
    /// Most swap.
    pub memory_swap_max: Option<MemoryAmount>,
    /// Devices that may be used.
    pub device_allow: DeviceRules,
    /// And whether others may.
    pub device_policy: DevicePolicy,
    /// Count input and output.
    pub io_accounting: bool,
    /// Share of input and output.
    pub io_weight: Option<Weight>,
    /// While the machine starts.
    pub startup_io_weight: Option<Weight>,
    /// Per device.
    pub io_device_weight: DeviceValues,
    /// Bytes per second.
    pub io_read_bandwidth_max: DeviceValues,
    /// Bytes per second.
    pub io_write_bandwidth_max: DeviceValues,
    /// Operations per second.
    pub io_read_iops_max: DeviceValues,
    /// Operations per second.
    pub io_write_iops_max: DeviceValues,
    /// Microseconds.
    pub io_device_latency_target: DeviceValues,
    /// Settings of the older control groups.
    pub legacy: Rare<LegacyIo>,
    /// Count tasks.
    pub tasks_accounting: Option<bool>,
    /// Most tasks.
    pub tasks_max: Option<TasksAmount>,
    /// Control by the unit itself.
    pub delegate: Delegation,
    /// Controllers that the units below do not get.
    pub disable_controllers: StrList,
    /// Count network traffic.
    pub ip_accounting: bool,
    /// Networks that may be talked to.
    pub ip_address_allow: IpPrefixes,
    /// Networks that may not.
    pub ip_address_deny: IpPrefixes,
    /// BPF programs for what comes in.
    pub ip_ingress_filter_path: StrList,
    /// BPF programs for what goes out.
    pub ip_egress_filter_path: StrList,
    /// Watch swap.
    pub managed_oom_swap: OomMode,
    /// Watch memory pressure.
    pub managed_oom_memory_pressure: OomMode,
    /// How much of it.
    pub managed_oom_memory_pressure_limit: Permyriad,
    /// How readily it is ended.
    pub managed_oom_preference: OomPreference,
    /// Whether it is told where it can see memory getting short.
    pub memory_pressure_watch: PressureWatch,
    /// How long processes wait for memory within two seconds before it counts.
    pub memory_pressure_threshold: Option<TimeSpan>,
    /// BPF programs, `type:path`.
    pub bpf_program: StrList,
    /// Ports that may be bound.
    pub socket_bind_allow: StrList,
    /// Ports that may not.
    pub socket_bind_deny: StrList,
    /// Network interfaces.
    pub restrict_network_interfaces: NameFilter,
}

rare!(ResourceControl, LegacyIo);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};

    #[test]
    fn weights_and_quotas() {
        assert_eq!(read::<Option<CpuWeight>>(&["idle"]), Some(CpuWeight::Idle));
        assert_eq!(read::<Option<Weight>>(&["10000"]), Some(Weight(10_000)));
        assert_eq!(assign(&mut Weight(1), &["0", "10001", "x"]).len(), 3);
        assert_eq!(read::<CpuQuota>(&["20%"]).0.to_string(), "200ms");
        assert_eq!(read::<CpuQuota>(&["250%"]).0.to_string(), "2.500000s");
        assert_eq!(assign(&mut CpuQuota::default(), &["0%", "20"]).len(), 2);
    }

    #[test]
    fn watching_pressure_is_a_word_or_a_boolean() {
        for (text, watch) in [
            ("auto", PressureWatch::Auto),
            ("yes", PressureWatch::On),
            ("off", PressureWatch::Off),
            ("skip", PressureWatch::Skip),
        ] {
            assert_eq!(read::<PressureWatch>(&[text]), watch, "{text}");
        }
        assert_eq!(assign(&mut PressureWatch::default(), &["maybe"]).len(), 1);
    }

    #[test]
    fn delegation_is_a_boolean_or_controllers() {
        assert_eq!(
            read::<Delegation>(&["yes"]),
            Delegation {
                enabled: true,
                controllers: None
            }
        );
        let some: Delegation = read(&["cpu memory", "pids"]);
        assert_eq!(
            some.controllers.unwrap().iter().collect::<Vec<_>>(),
            ["cpu", "memory", "pids"]
        );
        assert_eq!(
            assign(&mut Delegation::default(), &["cpu nonsense"]).len(),
            1
        );
    }
}
