//! Rows that most types share: what processes may use together, and how they are ended.

use super::{Directive, EXECUTION, Status, custom, field};
use crate::config::{DeviceValues, MemoryAmount, UnitConfig, UnitKind, Weight};
use crate::timespan::TimeSpan;
use crate::value::list::StrList;
use crate::value::number::{Limit, parse_integer};
use crate::value::path::check_path;
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
    field!("AllowedCPUs", resources.allowed_cpus, Applied),
    field!(
        "StartupAllowedCPUs",
        resources.startup_allowed_cpus,
        Applied
    ),
    field!(
        "AllowedMemoryNodes",
        resources.allowed_memory_nodes,
        Applied
    ),
    field!(
        "StartupAllowedMemoryNodes",
        resources.startup_allowed_memory_nodes,
        Applied
    ),
    field!("CPUAccounting", resources.cpu_accounting, Applied),
    field!("CPUWeight", resources.cpu_weight, Applied),
    field!("StartupCPUWeight", resources.startup_cpu_weight, Applied),
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
    field!("CPUQuota", resources.cpu_quota, Applied),
    field!("CPUQuotaPeriodSec", resources.cpu_quota_period, Applied),
    field!("MemoryAccounting", resources.memory_accounting, Applied),
    field!("MemoryMin", resources.memory_min, Applied),
    field!("DefaultMemoryMin", resources.default_memory_min, Applied),
    field!("DefaultMemoryLow", resources.default_memory_low, Applied),
    field!("MemoryLow", resources.memory_low, Applied),
    custom!(
        "MemoryHigh",
        "size, share or infinity",
        "resources.memory_high",
        Applied,
        |unit, text, context| some_memory(&mut unit.resources.memory_high, text, context)
    ),
    custom!(
        "MemoryMax",
        "size, share or infinity",
        "resources.memory_max",
        Applied,
        |unit, text, context| some_memory(&mut unit.resources.memory_max, text, context)
    ),
    field!("MemorySwapMax", resources.memory_swap_max, Applied),
    custom!(
        "MemoryLimit",
        "size, share or infinity",
        "resources.legacy.memory_limit",
        OLD,
        |unit, text, context| some_memory(&mut unit.resources.legacy.memory_limit, text, context)
    ),
    field!("DeviceAllow", resources.device_allow, Applied),
    field!("DevicePolicy", resources.device_policy, Applied),
    field!("IOAccounting", resources.io_accounting, Applied),
    field!("IOWeight", resources.io_weight, Applied),
    field!("StartupIOWeight", resources.startup_io_weight, Applied),
    per_device!("IODeviceWeight", io_device_weight, Applied, |text| {
        number(text, 1, 10_000, "1 to 10000").map(u64::from)
    }),
    per_device!(
        "IOReadBandwidthMax",
        io_read_bandwidth_max,
        Applied,
        DeviceValues::rate
    ),
    per_device!(
        "IOWriteBandwidthMax",
        io_write_bandwidth_max,
        Applied,
        DeviceValues::rate
    ),
    per_device!(
        "IOReadIOPSMax",
        io_read_iops_max,
        Applied,
        DeviceValues::rate
    ),
    per_device!(
        "IOWriteIOPSMax",
        io_write_iops_max,
        Applied,
        DeviceValues::rate
    ),
    per_device!(
        "IODeviceLatencyTargetSec",
        io_device_latency_target,
        Applied,
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
    field!("TasksAccounting", resources.tasks_accounting, Applied),
    field!("TasksMax", resources.tasks_max, Applied),
    custom!(
        "Delegate",
        "boolean or controllers",
        "resources.delegate",
        Applied,
        |unit, text, context| {
            if !matches!(unit.kind, UnitKind::Service(_) | UnitKind::Scope(_)) {
                let expected = "a service or scope, which alone can have its own control groups";
                return Err(ValueError::invalid(text, expected).into());
            }
            unit.resources.delegate.assign(text, context)
        }
    ),
    field!("DisableControllers", resources.disable_controllers, Applied),
    field!("IPAccounting", resources.ip_accounting, Applied),
    field!("IPAddressAllow", resources.ip_address_allow, Applied),
    field!("IPAddressDeny", resources.ip_address_deny, Applied),
    custom!(
        "IPIngressFilterPath",
        "BPF program",
        "resources.ip_ingress_filter_path",
        Applied,
        |unit, text, context| program(&mut unit.resources.ip_ingress_filter_path, text, context)
    ),
    custom!(
        "IPEgressFilterPath",
        "BPF program",
        "resources.ip_egress_filter_path",
        Applied,
        |unit, text, context| program(&mut unit.resources.ip_egress_filter_path, text, context)
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
    field!(
        "MemoryPressureWatch",
        resources.memory_pressure_watch,
        Applied
    ),
    field!(
        "MemoryPressureThresholdSec",
        resources.memory_pressure_threshold,
        Applied
    ),
    custom!(
        "BPFProgram",
        "type and BPF program",
        "resources.bpf_program",
        Applied,
        |unit, text, context| typed_program(&mut unit.resources.bpf_program, text, context)
    ),
    field!("SocketBindAllow", resources.socket_bind_allow, Applied),
    field!("SocketBindDeny", resources.socket_bind_deny, Applied),
    field!(
        "RestrictNetworkInterfaces",
        resources.restrict_network_interfaces,
        Applied
    ),
];

/// Where programs can be attached, as unit files and the kernel's own tool name it.
pub const PROGRAM_TYPES: [&str; 18] = [
    "egress",
    "ingress",
    "sock_create",
    "sock_ops",
    "device",
    "bind4",
    "bind6",
    "connect4",
    "connect6",
    "post_bind4",
    "post_bind6",
    "sendmsg4",
    "sendmsg6",
    "sysctl",
    "recvmsg4",
    "recvmsg6",
    "getsockopt",
    "setsockopt",
];

/// The file of a program; an empty value resets the list.
fn program(
    list: &mut StrList,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    if text.is_empty() {
        list.clear();
        return Ok(());
    }
    add_once(list, &check_path(&context.expand(text)?, true)?);
    Ok(())
}

/// The same after a type and a colon.
fn typed_program(
    list: &mut StrList,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    if text.is_empty() {
        list.clear();
        return Ok(());
    }
    let (kind, path) = text
        .split_once(':')
        .filter(|(kind, _)| PROGRAM_TYPES.contains(kind))
        .ok_or_else(|| ValueError::invalid(text, "a type such as egress, a colon and a path"))?;
    let path = check_path(&context.expand(path)?, true)?;
    add_once(list, &format!("{kind}:{path}"));
    Ok(())
}

fn add_once(list: &mut StrList, element: &str) {
    if !list.contains(element) {
        list.push(element);
    }
}

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
