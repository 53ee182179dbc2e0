//! Rows that most types share: what processes may use together, and how they are ended.

use super::{Directive, EXECUTION, Status, custom, field};
use crate::config::{DeviceValues, MemoryAmount, UnitConfig, UnitKind, Weight};
use crate::timespan::TimeSpan;
use crate::value::number::{Limit, parse_integer};
use crate::value::{AssignError, Setting, ValueContext, ValueError};
use Status::{Applied, Obsolete};

const OLD: Status = Obsolete("it belongs to the older control groups");

/// An amount of memory that leaves some: nothing can run with none.
fn some_memory(
    value: &mut Option<MemoryAmount>,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let mut read = None;
    Setting::assign(&mut read, text, context)?;
    if matches!(read, Some(MemoryAmount(Limit::Absolute(0)))) {
        return Err(ValueError::range(text, "more than 0").into());
    }
    *value = read;
    Ok(())
}

/// A row of numbers per device.
macro_rules! per_device {
    ($name:literal, $($path:ident).+, $status:expr, $parse:expr) => {
        custom!($name, "device and value", "resources", $status, |unit, text, context| {
            unit.resources.$($path).+.assign(text, context, $parse)
        })
    };
}

/// A row of an optional number within bounds.
macro_rules! bounded {
    ($name:literal, $($path:ident).+, $low:literal, $high:literal, $range:literal, $make:expr) => {
        custom!($name, "number", "resources.legacy", OLD, |unit, text, _| {
            unit.resources.$($path).+ = match text {
                "" => None,
                _ => Some($make(number(text, $low, $high, $range)?)),
            };
            Ok(())
        })
    };
}

pub(super) const RESOURCES: &[Directive] = &[
    custom!("Slice", "slice unit", "slice", Applied, slice),
    field!("AllowedCPUs", resources.allowed_cpus, EXECUTION),
    field!(
        "StartupAllowedCPUs",
        resources.startup_allowed_cpus,
        EXECUTION
    ),
    field!(
        "AllowedMemoryNodes",
        resources.allowed_memory_nodes,
        EXECUTION
    ),
    field!(
        "StartupAllowedMemoryNodes",
        resources.startup_allowed_memory_nodes,
        EXECUTION
    ),
    field!("CPUAccounting", resources.cpu_accounting, EXECUTION),
    field!("CPUWeight", resources.cpu_weight, EXECUTION),
    field!("StartupCPUWeight", resources.startup_cpu_weight, EXECUTION),
    bounded!(
        "CPUShares",
        legacy.cpu_shares,
        2,
        262_144,
        "2 to 262144",
        |n| n
    ),
    bounded!(
        "StartupCPUShares",
        legacy.startup_cpu_shares,
        2,
        262_144,
        "2 to 262144",
        |n| n
    ),
    field!("CPUQuota", resources.cpu_quota, EXECUTION),
    field!("CPUQuotaPeriodSec", resources.cpu_quota_period, EXECUTION),
    field!("MemoryAccounting", resources.memory_accounting, EXECUTION),
    field!("MemoryMin", resources.memory_min, EXECUTION),
    field!("DefaultMemoryMin", resources.default_memory_min, EXECUTION),
    field!("DefaultMemoryLow", resources.default_memory_low, EXECUTION),
    field!("MemoryLow", resources.memory_low, EXECUTION),
    custom!(
        "MemoryHigh",
        "size, share or infinity",
        "resources.memory_high",
        EXECUTION,
        |unit, text, context| some_memory(&mut unit.resources.memory_high, text, context)
    ),
    custom!(
        "MemoryMax",
        "size, share or infinity",
        "resources.memory_max",
        EXECUTION,
        |unit, text, context| some_memory(&mut unit.resources.memory_max, text, context)
    ),
    field!("MemorySwapMax", resources.memory_swap_max, EXECUTION),
    custom!(
        "MemoryLimit",
        "size, share or infinity",
        "resources.legacy.memory_limit",
        OLD,
        |unit, text, context| some_memory(&mut unit.resources.legacy.memory_limit, text, context)
    ),
    field!("DeviceAllow", resources.device_allow, EXECUTION),
    field!("DevicePolicy", resources.device_policy, EXECUTION),
    field!("IOAccounting", resources.io_accounting, EXECUTION),
    field!("IOWeight", resources.io_weight, EXECUTION),
    field!("StartupIOWeight", resources.startup_io_weight, EXECUTION),
    per_device!("IODeviceWeight", io_device_weight, EXECUTION, |text| {
        number(text, 1, 10_000, "1 to 10000").map(u64::from)
    }),
    per_device!(
        "IOReadBandwidthMax",
        io_read_bandwidth_max,
        EXECUTION,
        DeviceValues::rate
    ),
    per_device!(
        "IOWriteBandwidthMax",
        io_write_bandwidth_max,
        EXECUTION,
        DeviceValues::rate
    ),
    per_device!(
        "IOReadIOPSMax",
        io_read_iops_max,
        EXECUTION,
        DeviceValues::rate
    ),
    per_device!(
        "IOWriteIOPSMax",
        io_write_iops_max,
        EXECUTION,
        DeviceValues::rate
    ),
    per_device!(
        "IODeviceLatencyTargetSec",
        io_device_latency_target,
        EXECUTION,
        |text| {
            TimeSpan::parse(text)
                .map(TimeSpan::as_micros)
                .map_err(|error| ValueError::invalid(text, format!("a time span: {error}")))
        }
    ),
    field!(
        "BlockIOAccounting",
        resources.legacy.block_io_accounting,
        OLD
    ),
    bounded!(
        "BlockIOWeight",
        legacy.block_io_weight,
        10,
        1000,
        "10 to 1000",
        legacy_weight
    ),
    bounded!(
        "StartupBlockIOWeight",
        legacy.startup_block_io_weight,
        10,
        1000,
        "10 to 1000",
        legacy_weight
    ),
    per_device!(
        "BlockIODeviceWeight",
        legacy.block_io_device_weight,
        OLD,
        |text| { number(text, 10, 1000, "10 to 1000").map(u64::from) }
    ),
    per_device!(
        "BlockIOReadBandwidth",
        legacy.block_io_read_bandwidth,
        OLD,
        DeviceValues::rate
    ),
    per_device!(
        "BlockIOWriteBandwidth",
        legacy.block_io_write_bandwidth,
        OLD,
        DeviceValues::rate
    ),
    field!("TasksAccounting", resources.tasks_accounting, EXECUTION),
    field!("TasksMax", resources.tasks_max, EXECUTION),
    custom!(
        "Delegate",
        "boolean or controllers",
        "resources.delegate",
        EXECUTION,
        |unit, text, context| {
            if !matches!(unit.kind, UnitKind::Service(_) | UnitKind::Scope(_)) {
                let expected = "a service or scope, which alone can have its own control groups";
                return Err(ValueError::invalid(text, expected).into());
            }
            unit.resources.delegate.assign(text, context)
        }
    ),
    field!(
        "DisableControllers",
        resources.disable_controllers,
        EXECUTION
    ),
    field!("IPAccounting", resources.ip_accounting, EXECUTION),
    field!("IPAddressAllow", resources.ip_address_allow, EXECUTION),
    field!("IPAddressDeny", resources.ip_address_deny, EXECUTION),
    field!(
        "IPIngressFilterPath",
        resources.ip_ingress_filter_path,
        EXECUTION
    ),
    field!(
        "IPEgressFilterPath",
        resources.ip_egress_filter_path,
        EXECUTION
    ),
    field!("ManagedOOMSwap", resources.managed_oom_swap, EXECUTION),
    field!(
        "ManagedOOMMemoryPressure",
        resources.managed_oom_memory_pressure,
        EXECUTION
    ),
    field!(
        "ManagedOOMMemoryPressureLimit",
        resources.managed_oom_memory_pressure_limit,
        EXECUTION
    ),
    field!(
        "ManagedOOMPreference",
        resources.managed_oom_preference,
        EXECUTION
    ),
    field!("BPFProgram", resources.bpf_program, EXECUTION),
    field!("SocketBindAllow", resources.socket_bind_allow, EXECUTION),
    field!("SocketBindDeny", resources.socket_bind_deny, EXECUTION),
    field!(
        "RestrictNetworkInterfaces",
        resources.restrict_network_interfaces,
        EXECUTION
    ),
];

fn number(text: &str, low: u32, high: u32, range: &'static str) -> Result<u32, ValueError> {
    u32::try_from(parse_integer(text)?)
        .ok()
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| ValueError::range(text, range))
}

fn legacy_weight(number: u32) -> Weight {
    Weight(u16::try_from(number).unwrap_or(u16::MAX))
}

fn slice(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    if text.is_empty() {
        unit.slice = None;
        return Ok(());
    }
    let name = context.unit_name(text)?;
    if !name.is_valid_slice() {
        return Err(ValueError::invalid(name.as_str(), "a slice unit").into());
    }
    unit.slice = Some(name);
    Ok(())
}

pub(super) const KILL: &[Directive] = &[
    field!("KillMode", kill.mode, Applied),
    field!("KillSignal", kill.signal, Applied),
    field!("RestartKillSignal", kill.restart_signal, Applied),
    field!("FinalKillSignal", kill.final_signal, Applied),
    field!("WatchdogSignal", kill.watchdog_signal, Applied),
    field!("SendSIGKILL", kill.send_sigkill, Applied),
    field!("SendSIGHUP", kill.send_sighup, Applied),
];
