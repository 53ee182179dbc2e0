//! Slices, control groups and what they limit.

use muster_unit_file::config::{
    CpuWeight, DeviceValues, MemoryAmount, ResourceControl, TasksAmount, Weight,
};
use muster_unit_file::name::UnitType;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::access::{DeviceRule, NameFilter};

use super::Subject;
use super::sheet::{INFINITY, NOT_SET, Sheet};
use crate::effective;

/// Controllers that are given away when no list is stated.
const DELEGATED: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

pub(super) fn add(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let resources = &subject.config.resources;
    add_usage(subject, sheet);
    add_delegation(resources, sheet);
    add_cpu(resources, sheet);
    add_io(resources, sheet);
    add_memory(subject, sheet);
    add_rest(subject, sheet);
}

fn add_usage(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let usage = &subject.runtime.usage;
    sheet.optional("Slice", subject.unit.slice());
    sheet.text("ControlGroup", &*usage.control_group);
    sheet.shown("ControlGroupId", usage.control_group_id);
    sheet.number_or("MemoryCurrent", usage.memory, NOT_SET);
    // Newer than the systemd whose list this is, so only where there is something to say.
    if let Some(peak) = usage.memory_peak {
        sheet.shown("MemoryPeak", peak);
    }
    sheet.number_or("MemoryAvailable", usage.memory_available, INFINITY);
    sheet.number_or("CPUUsageNSec", usage.cpu, NOT_SET);
    // The kernel puts commas between ranges, systemd spaces.
    sheet.text("EffectiveCPUs", usage.processors.replace(',', " "));
    sheet.text("EffectiveMemoryNodes", usage.memory_nodes.replace(',', " "));
    sheet.number_or("TasksCurrent", usage.tasks, NOT_SET);
    let names = [
        "IPIngressBytes",
        "IPIngressPackets",
        "IPEgressBytes",
        "IPEgressPackets",
    ];
    for (name, value) in names.into_iter().zip(usage.network) {
        sheet.number_or(name, value, "[no data]");
    }
    let names = [
        "IOReadBytes",
        "IOReadOperations",
        "IOWriteBytes",
        "IOWriteOperations",
    ];
    for (name, value) in names.into_iter().zip(usage.disks) {
        sheet.shown(name, value.unwrap_or(u64::MAX));
    }
}

fn add_delegation(resources: &ResourceControl, sheet: &mut Sheet<'_>) {
    let delegate = &resources.delegate;
    sheet.flag("Delegate", delegate.enabled);
    let controllers = match &delegate.controllers {
        _ if !delegate.enabled => Vec::new(),
        None => DELEGATED.to_vec(),
        // In the kernel's order rather than that of the file.
        Some(stated) => DELEGATED
            .into_iter()
            .filter(|name| stated.contains(name))
            .chain(stated.iter().filter(|name| !DELEGATED.contains(name)))
            .collect(),
    };
    sheet.list("DelegateControllers", controllers);
}

fn add_cpu(resources: &ResourceControl, sheet: &mut Sheet<'_>) {
    // Counting costs next to nothing on control groups of version 2.
    sheet.flag("CPUAccounting", resources.cpu_accounting.unwrap_or(true));
    sheet.number_or("CPUWeight", resources.cpu_weight.map(cpu_weight), NOT_SET);
    let startup = resources.startup_cpu_weight.map(cpu_weight);
    sheet.number_or("StartupCPUWeight", startup, NOT_SET);
    sheet.number_or("CPUShares", resources.legacy.cpu_shares, NOT_SET);
    let startup = resources.legacy.startup_cpu_shares;
    sheet.number_or("StartupCPUShares", startup, NOT_SET);
    sheet.span("CPUQuotaPerSecUSec", resources.cpu_quota.0);
    let period = resources.cpu_quota_period.unwrap_or(TimeSpan::INFINITY);
    sheet.span("CPUQuotaPeriodUSec", period);
    sheet.shown("AllowedCPUs", &resources.allowed_cpus);
    sheet.shown("StartupAllowedCPUs", &resources.startup_allowed_cpus);
    sheet.shown("AllowedMemoryNodes", &resources.allowed_memory_nodes);
    let startup = &resources.startup_allowed_memory_nodes;
    sheet.shown("StartupAllowedMemoryNodes", startup);
}

fn cpu_weight(weight: CpuWeight) -> String {
    match weight {
        CpuWeight::Weight(Weight(weight)) => weight.to_string(),
        CpuWeight::Idle => "idle".to_owned(),
    }
}

fn add_io(resources: &ResourceControl, sheet: &mut Sheet<'_>) {
    let weight = |weight: Option<Weight>| weight.map(|weight| weight.0);
    let legacy = &resources.legacy;
    sheet.flag("IOAccounting", resources.io_accounting);
    sheet.number_or("IOWeight", weight(resources.io_weight), NOT_SET);
    sheet.number_or(
        "StartupIOWeight",
        weight(resources.startup_io_weight),
        NOT_SET,
    );
    for (name, values) in [
        ("IODeviceWeight", &resources.io_device_weight),
        ("IOReadBandwidthMax", &resources.io_read_bandwidth_max),
        ("IOWriteBandwidthMax", &resources.io_write_bandwidth_max),
        ("IOReadIOPSMax", &resources.io_read_iops_max),
        ("IOWriteIOPSMax", &resources.io_write_iops_max),
    ] {
        add_devices(name, values, sheet);
    }
    let targets = resources.io_device_latency_target.0.iter();
    let targets = targets.map(|target| {
        let latency = TimeSpan::from_micros(target.value);
        format!("{} {latency}", target.path)
    });
    sheet.rows("IODeviceLatencyTargetUSec", targets);
    sheet.flag("BlockIOAccounting", legacy.block_io_accounting);
    sheet.number_or("BlockIOWeight", weight(legacy.block_io_weight), NOT_SET);
    let startup = weight(legacy.startup_block_io_weight);
    sheet.number_or("StartupBlockIOWeight", startup, NOT_SET);
    for (name, values) in [
        ("BlockIODeviceWeight", &legacy.block_io_device_weight),
        ("BlockIOReadBandwidth", &legacy.block_io_read_bandwidth),
        ("BlockIOWriteBandwidth", &legacy.block_io_write_bandwidth),
    ] {
        add_devices(name, values, sheet);
    }
}

fn add_devices(name: &'static str, values: &DeviceValues, sheet: &mut Sheet<'_>) {
    let rows = values.0.iter();
    sheet.rows(
        name,
        rows.map(|value| format!("{} {}", value.path, value.value)),
    );
}

fn add_memory(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let resources = &subject.config.resources;
    let accounting = resources.memory_accounting.unwrap_or(true);
    sheet.flag("MemoryAccounting", accounting);
    let amount = |stated: Option<MemoryAmount>, absent: &str| {
        let bytes = stated.map(|amount| subject.host.memory_amount(amount.0));
        match bytes {
            Some(Some(bytes)) => bytes.to_string(),
            Some(None) => INFINITY.to_owned(),
            None => absent.to_owned(),
        }
    };
    sheet.text(
        "DefaultMemoryLow",
        amount(resources.default_memory_low, "0"),
    );
    sheet.text(
        "DefaultMemoryMin",
        amount(resources.default_memory_min, "0"),
    );
    // The one amount that systemctl has no word for infinity for.
    let least = amount(resources.memory_min, "0");
    let least = if least == INFINITY {
        u64::MAX.to_string()
    } else {
        least
    };
    sheet.text("MemoryMin", least);
    sheet.text("MemoryLow", amount(resources.memory_low, "0"));
    sheet.text("MemoryHigh", amount(resources.memory_high, INFINITY));
    sheet.text("MemoryMax", amount(resources.memory_max, INFINITY));
    sheet.text("MemorySwapMax", amount(resources.memory_swap_max, INFINITY));
    sheet.text(
        "MemoryLimit",
        amount(resources.legacy.memory_limit, INFINITY),
    );
}

fn add_rest(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let resources = &subject.config.resources;
    sheet.shown("DevicePolicy", effective::device_policy(&subject.config));
    let devices = effective::device_allow(&subject.config);
    // The latest line comes first.
    sheet.rows("DeviceAllow", devices.iter().rev().map(device_rule));
    sheet.flag(
        "TasksAccounting",
        resources.tasks_accounting.unwrap_or(true),
    );
    // Slices hold many services: the default for one does not fit them.
    let default = match subject.config.name.unit_type() {
        UnitType::Slice => TasksAmount::default(),
        _ => TasksAmount(subject.host.default_tasks_max),
    };
    let tasks = resources.tasks_max.unwrap_or(default);
    let tasks = subject.host.tasks_amount(tasks.0);
    sheet.number_or("TasksMax", tasks, INFINITY);
    sheet.flag("IPAccounting", resources.ip_accounting);
    for (name, prefixes) in [
        ("IPAddressAllow", &resources.ip_address_allow),
        ("IPAddressDeny", &resources.ip_address_deny),
    ] {
        sheet.list(name, prefixes.0.iter().map(ToString::to_string));
    }
    sheet.list(
        "IPIngressFilterPath",
        resources.ip_ingress_filter_path.iter(),
    );
    sheet.list("IPEgressFilterPath", resources.ip_egress_filter_path.iter());
    sheet.list("DisableControllers", resources.disable_controllers.iter());
    sheet.shown("ManagedOOMSwap", resources.managed_oom_swap);
    let pressure = resources.managed_oom_memory_pressure;
    sheet.shown("ManagedOOMMemoryPressure", pressure);
    let share = u64::from(resources.managed_oom_memory_pressure_limit.0);
    let scaled = (share * u64::from(u32::MAX) + 5_000) / 10_000;
    sheet.shown("ManagedOOMMemoryPressureLimit", scaled);
    sheet.shown("ManagedOOMPreference", resources.managed_oom_preference);
    sheet.rows(
        "BPFProgram",
        resources.bpf_program.iter().map(str::to_owned),
    );
    let binds = [
        ("SocketBindAllow", &resources.socket_bind_allow),
        ("SocketBindDeny", &resources.socket_bind_deny),
    ];
    for (name, rules) in binds {
        // The latest line comes first.
        sheet.rows(name, rules.iter().rev().map(bind_rule));
    }
    let interfaces = &resources.restrict_network_interfaces;
    let names = names_of(interfaces);
    sheet.filter("RestrictNetworkInterfaces", interfaces.allow, &names);
}

/// `family:protocol:ports` as it is printed, without the second colon.
fn bind_rule(rule: &str) -> String {
    let (mut family, mut protocol, mut ports) = ("", "", "any");
    for part in rule.split(':') {
        match part {
            "ipv4" => family = "ipv4:",
            "ipv6" => family = "ipv6:",
            "tcp" | "udp" => protocol = part,
            _ => ports = part,
        }
    }
    format!("{family}{protocol}{ports}")
}

fn device_rule(rule: &DeviceRule) -> String {
    let mut access = String::new();
    for (allowed, letter) in [(rule.read, 'r'), (rule.write, 'w'), (rule.mknod, 'm')] {
        if allowed {
            access.push(letter);
        }
    }
    format!("{} {access}", rule.device)
}

/// The names that a filter comes to, sorted.
pub(super) fn names_of(filter: &NameFilter) -> String {
    let mut names = std::collections::BTreeSet::new();
    for rule in &filter.rules {
        let name = match &*rule.name {
            "AF_LOCAL" | "AF_FILE" => "AF_UNIX",
            "AF_ROUTE" => "AF_NETLINK",
            name => name,
        };
        if rule.removed {
            names.remove(name);
        } else {
            names.insert(name);
        }
    }
    names.into_iter().collect::<Vec<_>>().join(" ")
}
