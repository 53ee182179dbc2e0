//! From a unit's settings to what its cgroup may use.
//!
//! [`of`] takes the settings of a unit and of the slices above it and gives [`Resources`], which `muster-cgroup` turns into
//! writes and programs for the kernel. It changes nothing; what it has to know of devices it asks a [`DeviceNumbers`], which
//! tests make up. [`apply`] has the part of the manager that carries it out.

mod apply;
mod devices;
mod files;
mod programs;

use std::num::NonZeroU16;
use std::sync::Arc;

use muster_cgroup::{
    Amount, BindFilter, BindRule, Controller, Controllers, CpuQuota, CpuShare, DeviceLimits,
    Interfaces, IoLimits, MemoryLimits, Network, Resources, Subsystems, TooManyNetworks,
    TrafficFilter, Unapplied,
};
use muster_unit_file::config::{
    CpuWeight, DeviceValues, MemoryAmount, OomPolicy, ResourceControl, UnitConfig, UnitKind, Weight,
};
use muster_unit_file::name::UnitType;
use muster_unit_file::value::cpuset::CpuSet;
use muster_unit_file::value::list::StrList;
use muster_unit_file::value::network::IpPrefixes;
use muster_units::{Host, effective};

pub(crate) use apply::Limited;
pub use devices::{DeviceNumbers, RealDevices};

/// What lists of networks are named by.
const IP_LISTS: &str = "IPAddressDeny";
/// What lists of network interfaces are named by.
const INTERFACES: &str = "RestrictNetworkInterfaces";
/// What lists of ports are named by.
const PORTS: &str = "SocketBindDeny";

/// What a unit asks for, and what of it cannot even be asked of the kernel.
#[derive(Debug, Default)]
pub struct Asked {
    /// For the kernel.
    pub resources: Resources,
    /// Settings that cannot be understood here, or that nobody carries out.
    pub unapplied: Vec<Unapplied>,
    /// Why the unit must not run: what it asks for is more than can be had, and less would let in whom it keeps out. Whoever
    /// runs nevertheless talks to nobody.
    pub closed: Option<Unapplied>,
}

/// Some settings have a value of their own for the time while the machine starts or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It starts, or ends.
    Startup,
    /// It has started, and nobody has asked for its end.
    Running,
}

/// Reads what a unit asks for. The slices above it come nearest first.
pub fn of(
    config: &UnitConfig,
    above: &[Arc<UnitConfig>],
    phase: Phase,
    host: &Host,
    numbers: &mut dyn DeviceNumbers,
) -> Asked {
    let own = &*config.resources;
    let is_slice = config.name.unit_type() == UnitType::Slice;
    let mut asked = Asked::default();
    let resources = &mut asked.resources;
    resources.counted = counted(own);
    resources.counts_asked_for = counts_asked_for(own);
    resources.above = asked_above(above, phase, host, numbers);
    resources.delegates = own.delegate.enabled;
    resources.delegated = delegated(own);
    resources.disabled = named(&own.disable_controllers);
    resources.denied = above
        .iter()
        .map(|slice| named(&slice.resources.disable_controllers))
        .fold(Controllers::NONE, |sum, one| sum | one);
    resources.holds_units = is_slice;
    resources.cpu_share = cpu_share(own, phase);
    resources.cpu_quota = cpu_quota(own);
    resources.cpus = set(phase, &own.startup_allowed_cpus, &own.allowed_cpus);
    resources.memory_nodes = set(
        phase,
        &own.startup_allowed_memory_nodes,
        &own.allowed_memory_nodes,
    );
    resources.memory = memory(own, above, host);
    // Slices hold many services: the default for one does not fit them.
    let default = (!is_slice).then_some(host.default_tasks_max);
    let tasks = own.tasks_max.map(|stated| stated.0).or(default);
    resources.tasks_max = tasks.map(|tasks| amount(host.tasks_amount(tasks)));
    resources.tasks_by_default = own.tasks_max.is_none();
    resources.ends_together = match &config.kind {
        UnitKind::Service(service) => effective::oom_policy(config, service) == OomPolicy::Kill,
        UnitKind::Scope(scope) => scope.oom_policy == Some(OomPolicy::Kill),
        _ => false,
    };
    io(own, phase, numbers, &mut asked);
    devices::filter(config, numbers, &mut asked);
    traffic(config, above, numbers, &mut asked);
    binds(own, &mut asked);
    files::filter(config, || numbers.file_layout(), &mut asked);
    programs::pinned(own, &mut asked);
    asked
}

fn counted(own: &ResourceControl) -> Controllers {
    let counts = [
        (Controller::Memory, own.memory_accounting.unwrap_or(true)),
        (Controller::Pids, own.tasks_accounting.unwrap_or(true)),
        (
            Controller::Io,
            own.io_accounting || own.legacy.block_io_accounting,
        ),
    ];
    let counts = counts
        .into_iter()
        .filter_map(|(controller, is_counted)| is_counted.then_some(controller));
    counts.collect()
}

/// Accounts that the unit itself asks for, rather than those that all have where they cost nothing.
fn counts_asked_for(own: &ResourceControl) -> Controllers {
    let asked = [
        (Controller::Cpu, own.cpu_accounting == Some(true)),
        (Controller::Memory, own.memory_accounting == Some(true)),
        (Controller::Pids, own.tasks_accounting == Some(true)),
    ];
    let asked = asked
        .into_iter()
        .filter_map(|(controller, is_asked)| is_asked.then_some(controller));
    counted(own).within(Controller::Io.into()) | asked.collect()
}

/// What slices above have limits in: the unit's processes have to be below their groups.
fn asked_above(
    above: &[Arc<UnitConfig>],
    phase: Phase,
    host: &Host,
    numbers: &mut dyn DeviceNumbers,
) -> Subsystems {
    let mut asked = Subsystems::NONE;
    for slice in above {
        // Hardly any slice says anything.
        if *slice.resources != ResourceControl::default() {
            asked |= of(slice, &[], phase, host, numbers).resources.asks();
        }
    }
    asked
}

fn delegated(own: &ResourceControl) -> Controllers {
    match &own.delegate.controllers {
        _ if !own.delegate.enabled => Controllers::NONE,
        None => Controllers::ALL,
        Some(list) => named(list),
    }
}

fn named(list: &StrList) -> Controllers {
    list.iter().filter_map(Controller::named).collect()
}

/// A weight on the scale of 1 to 10000 with 100 in its middle, from another scale with its own middle.
fn rescaled(value: u32, middle: u32) -> Option<NonZeroU16> {
    let weight = u64::from(value) * 100 / u64::from(middle);
    NonZeroU16::new(u16::try_from(weight.clamp(1, 10_000)).unwrap_or(10_000))
}

/// The value for this phase, or that for all.
fn now<T: Copy>(phase: Phase, startup: Option<T>, always: Option<T>) -> Option<T> {
    startup.filter(|_| phase == Phase::Startup).or(always)
}

fn cpu_share(own: &ResourceControl, phase: Phase) -> Option<CpuShare> {
    match now(phase, own.startup_cpu_weight, own.cpu_weight) {
        Some(CpuWeight::Idle) => Some(CpuShare::Idle),
        Some(CpuWeight::Weight(Weight(weight))) => NonZeroU16::new(weight).map(CpuShare::Weight),
        None => {
            let legacy = &own.legacy;
            now(phase, legacy.startup_cpu_shares, legacy.cpu_shares).map(CpuShare::Shares)
        }
    }
}

fn cpu_quota(own: &ResourceControl) -> Option<CpuQuota> {
    let quota = own.cpu_quota.0;
    (!quota.is_infinite()).then(|| CpuQuota {
        per_second: Some(quota.as_micros()),
        period: own.cpu_quota_period.map(|period| period.as_micros()),
    })
}

fn set(phase: Phase, startup: &CpuSet, always: &CpuSet) -> Box<str> {
    let set = match phase {
        Phase::Startup if !startup.is_empty() => startup,
        _ => always,
    };
    set.to_string().replace(' ', ",").into()
}

/// Whether anything is different while the machine starts or ends.
fn has_startup_settings(own: &ResourceControl) -> bool {
    own.startup_cpu_weight.is_some()
        || own.legacy.startup_cpu_shares.is_some()
        || own.startup_io_weight.is_some()
        || own.legacy.startup_block_io_weight.is_some()
        || !own.startup_allowed_cpus.is_empty()
        || !own.startup_allowed_memory_nodes.is_empty()
}

fn amount(limit: Option<u64>) -> Amount {
    limit.map_or(Amount::Infinity, Amount::Exactly)
}

fn memory(own: &ResourceControl, above: &[Arc<UnitConfig>], host: &Host) -> MemoryLimits {
    let bytes =
        |stated: Option<MemoryAmount>| stated.map(|stated| amount(host.memory_amount(stated.0)));
    // What a slice says for the units below holds for those that say nothing themselves.
    let inherited = |of: fn(&ResourceControl) -> Option<MemoryAmount>| {
        above.iter().find_map(|slice| of(&slice.resources))
    };
    MemoryLimits {
        min: bytes(
            own.memory_min
                .or_else(|| inherited(|slice| slice.default_memory_min)),
        ),
        low: bytes(
            own.memory_low
                .or_else(|| inherited(|slice| slice.default_memory_low)),
        ),
        high: bytes(own.memory_high),
        max: bytes(own.memory_max.or(own.legacy.memory_limit)),
        swap_max: bytes(own.memory_swap_max),
    }
}

fn io(own: &ResourceControl, phase: Phase, numbers: &mut dyn DeviceNumbers, asked: &mut Asked) {
    const MIDDLE_OF_BLOCK_WEIGHTS: u32 = 500;
    type Set = fn(&mut DeviceLimits, u64);
    let legacy = &own.legacy;
    let old = now(
        phase,
        legacy.startup_block_io_weight,
        legacy.block_io_weight,
    );
    let old = old.map(|weight| u32::from(weight.0));
    let mut limits = IoLimits {
        weight: match now(phase, own.startup_io_weight, own.io_weight) {
            Some(Weight(weight)) => NonZeroU16::new(weight),
            None => old.and_then(|weight| rescaled(weight, MIDDLE_OF_BLOCK_WEIGHTS)),
        },
        devices: Vec::new(),
    };
    let lists: [(&'static str, &DeviceValues, Set); 9] = [
        (
            "BlockIODeviceWeight",
            &legacy.block_io_device_weight,
            |limits, value| {
                let value = u32::try_from(value).unwrap_or(u32::MAX);
                limits.weight = rescaled(value, MIDDLE_OF_BLOCK_WEIGHTS);
            },
        ),
        (
            "BlockIOReadBandwidth",
            &legacy.block_io_read_bandwidth,
            |limits, value| limits.read_bytes = Some(value),
        ),
        (
            "BlockIOWriteBandwidth",
            &legacy.block_io_write_bandwidth,
            |limits, value| limits.write_bytes = Some(value),
        ),
        ("IODeviceWeight", &own.io_device_weight, |limits, value| {
            limits.weight = u16::try_from(value).ok().and_then(NonZeroU16::new)
        }),
        (
            "IOReadBandwidthMax",
            &own.io_read_bandwidth_max,
            |limits, value| limits.read_bytes = Some(value),
        ),
        (
            "IOWriteBandwidthMax",
            &own.io_write_bandwidth_max,
            |limits, value| limits.write_bytes = Some(value),
        ),
        ("IOReadIOPSMax", &own.io_read_iops_max, |limits, value| {
            limits.read_operations = Some(value);
        }),
        ("IOWriteIOPSMax", &own.io_write_iops_max, |limits, value| {
            limits.write_operations = Some(value);
        }),
        (
            "IODeviceLatencyTargetSec",
            &own.io_device_latency_target,
            |limits, value| limits.latency = Some(value),
        ),
    ];
    for (setting, values, set) in lists {
        for value in &values.0 {
            let device = match numbers.disk(&value.path) {
                Ok(device) => device,
                Err(error) => {
                    let reason = format!("{} has no block device: {error}", value.path);
                    asked.unapplied.push(Unapplied { setting, reason });
                    continue;
                }
            };
            let known = limits.devices.iter().position(|(of, _)| *of == device);
            let at = known.unwrap_or_else(|| {
                limits.devices.push((device, DeviceLimits::default()));
                limits.devices.len() - 1
            });
            if let Some((_, limits)) = limits.devices.get_mut(at) {
                set(limits, value.value);
            }
        }
    }
    asked.resources.io = limits;
}

/// Processes are in groups of services, not of slices: there the lists of all slices above count too, and a slice has nothing
/// to refuse. Networks of all lists are gathered; of network interfaces only those are left that every list allows.
fn traffic(
    config: &UnitConfig,
    above: &[Arc<UnitConfig>],
    numbers: &mut dyn DeviceNumbers,
    asked: &mut Asked,
) {
    let own = &*config.resources;
    let of_slices = above.iter().map(|slice| &*slice.resources);
    let lists: Vec<&ResourceControl> = match asked.resources.holds_units {
        true => Vec::new(),
        false => std::iter::once(own).chain(of_slices).collect(),
    };
    let gathered = |of: fn(&ResourceControl) -> &IpPrefixes| -> Vec<Network> {
        lists.iter().flat_map(|one| networks_of(of(one))).collect()
    };
    let deny = gathered(|of| &of.ip_address_deny);
    let allow = gathered(|of| &of.ip_address_allow);
    let interfaces = lists.iter().fold(Interfaces::Any, |allowed, one| {
        allowed.and(interfaces(one, numbers, asked))
    });
    let counts = own.ip_accounting;
    if deny.is_empty() && interfaces == Interfaces::Any && !counts {
        return;
    }
    let error = match TrafficFilter::new(allow, deny, interfaces.clone(), counts) {
        Ok(filter) => {
            asked.resources.traffic = Some(filter);
            return;
        }
        Err(error) => error,
    };
    let unapplied = |setting, error: TooManyNetworks| Unapplied {
        setting,
        reason: error.to_string(),
    };
    if !config.exec.sandbox.best_effort {
        asked.resources.traffic = Some(TrafficFilter::closed());
        asked.closed = Some(unapplied(IP_LISTS, error));
        return;
    }
    asked.unapplied.push(unapplied(IP_LISTS, error));
    // What is too much takes nothing with it that could be had.
    if interfaces == Interfaces::Any && !counts {
        return;
    }
    match TrafficFilter::new(Vec::new(), Vec::new(), interfaces, counts) {
        Ok(filter) => asked.resources.traffic = Some(filter),
        Err(error) => asked.unapplied.push(unapplied(INTERFACES, error)),
    }
}

/// Interfaces are known to the kernel's filters by their numbers; one that is not there yet has none. As with systemd it is left
/// out then, which in a list of those that are not allowed keeps nobody from it when it comes: the status says so.
fn interfaces(
    own: &ResourceControl,
    numbers: &mut dyn DeviceNumbers,
    asked: &mut Asked,
) -> Interfaces {
    let stated = &own.restrict_network_interfaces;
    let Some(is_allowed) = stated.allow else {
        return Interfaces::Any;
    };
    let mut names: Vec<&str> = Vec::new();
    for rule in &stated.rules {
        names.retain(|name| *name != &*rule.name);
        if !rule.removed {
            names.push(&rule.name);
        }
    }
    let mut list = Vec::new();
    for name in names {
        match numbers.interface(name) {
            Ok(number) => list.push(number),
            Err(error) => {
                let what_follows = match is_allowed {
                    true => "",
                    false => ", and one that comes later is open",
                };
                asked.unapplied.push(Unapplied {
                    setting: INTERFACES,
                    reason: format!("there is no interface {name}: {error}{what_follows}"),
                });
            }
        }
    }
    if is_allowed {
        Interfaces::Only(list)
    } else {
        Interfaces::Not(list)
    }
}

fn networks_of(prefixes: &IpPrefixes) -> impl Iterator<Item = Network> {
    prefixes.0.iter().map(|prefix| Network {
        address: prefix.address,
        length: prefix.length,
    })
}

fn binds(own: &ResourceControl, asked: &mut Asked) {
    let mut rules = |setting: &'static str, list: &StrList| -> Vec<BindRule> {
        let mut rules = Vec::new();
        for text in list.iter() {
            match BindRule::parse(text) {
                Some(rule) => rules.push(rule),
                None => asked.unapplied.push(Unapplied {
                    setting,
                    reason: format!("{text:?} is no rule such as ipv4:tcp:80-90"),
                }),
            }
        }
        rules
    };
    let filter = BindFilter {
        allow: rules("SocketBindAllow", &own.socket_bind_allow),
        deny: rules(PORTS, &own.socket_bind_deny),
    };
    if filter.is_cut() {
        let reason = "there are too many rules: what the first ones are not about is refused";
        asked.unapplied.push(Unapplied {
            setting: "SocketBindAllow",
            reason: reason.to_owned(),
        });
    }
    // Without anything that is refused, everything is allowed anyway.
    if !filter.deny.is_empty() {
        asked.resources.binds = Some(filter);
    }
}

/// Whether a group with these settings has filters that sockets belong to from the moment they are made.
fn filters_sockets(own: &ResourceControl) -> bool {
    own.ip_accounting
        || own.restrict_network_interfaces.allow.is_some()
        || !own.ip_address_deny.0.is_empty()
        || [
            &own.socket_bind_deny,
            &own.ip_ingress_filter_path,
            &own.ip_egress_filter_path,
            &own.bpf_program,
        ]
        .iter()
        .any(|list| !list.is_empty())
}

/// Whether the unit itself says so, rather than a default that nobody misses where it cannot be had.
fn is_stated(config: &UnitConfig, setting: &str) -> bool {
    match setting {
        "TasksMax" => config.resources.tasks_max.is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
