//! How much the instance may use.

use std::collections::HashMap;

use muster_runtime::InstanceSpec;
use oci_spec::runtime::{
    LinuxCpuBuilder, LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType,
    LinuxMemoryBuilder, LinuxPidsBuilder, LinuxResources, PosixRlimit, PosixRlimitBuilder,
    PosixRlimitType,
};

use super::{DeviceNode, HostFacts, SpecificationError, built};

/// In microseconds: the time in which CPU use is measured.
pub const CPU_PERIOD: u64 = 100_000;
/// In microseconds: less than this of a period is not a share but a stop.
const LEAST_QUOTA: u64 = 1_000;
/// Open files of a process, where the item says nothing: what programs are written for, and what they may raise it to.
const OPEN_FILES: (u64, u64) = (1_024, 4_096);
/// Devices that every program may count on: null, zero, full, random, urandom, tty, ptmx, and terminals.
const USUAL_DEVICES: [(i64, Option<i64>); 8] = [
    (1, Some(3)),
    (1, Some(5)),
    (1, Some(7)),
    (1, Some(8)),
    (1, Some(9)),
    (5, Some(0)),
    (5, Some(2)),
    (136, None),
];
/// Kernel settings of namespaces that every instance has for itself.
const OWN_SYSCTLS: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// Its share of the processors: `dmips * period * cores / all dmips`, at least one hundredth of a period.
pub(super) fn cpu_quota(dmips: u64, host: &HostFacts) -> Result<i64, SpecificationError> {
    let all = host
        .max_dmips
        .filter(|all| *all > 0)
        .ok_or(SpecificationError::UnknownDmips(dmips))?;
    let quota = u128::from(dmips) * u128::from(CPU_PERIOD) * u128::from(host.cores.max(1))
        / u128::from(all);
    let most = u128::from(CPU_PERIOD) * u128::from(host.cores.max(1));
    // More than all processors is all processors, as the kernel has it.
    let quota = u64::try_from(quota.min(most)).unwrap_or(u64::MAX);
    Ok(signed(quota.max(LEAST_QUOTA)))
}

pub(super) fn resources(
    instance: &InstanceSpec,
    host: &HostFacts,
) -> Result<LinuxResources, SpecificationError> {
    let mut resources = LinuxResources::default();
    resources.set_devices(Some(device_rules(&host.devices)));
    if instance.item_config.skip_resource_limits {
        return Ok(resources);
    }
    let quotas = &instance.item_config.quotas;
    if let Some(dmips) = quotas.cpu_dmips_limit {
        let cpu = LinuxCpuBuilder::default()
            .quota(cpu_quota(dmips, host)?)
            .period(CPU_PERIOD);
        resources.set_cpu(Some(built(cpu.build())));
    }
    if let Some(ram) = quotas.ram_limit {
        let mut memory = LinuxMemoryBuilder::default().limit(signed(ram));
        if host.limits_swap {
            // The limit is for both together: none of it may be swap beyond it.
            memory = memory.swap(signed(ram));
        }
        resources.set_memory(Some(built(memory.build())));
    }
    if let Some(pids) = quotas.pids_limit {
        resources.set_pids(Some(built(
            LinuxPidsBuilder::default().limit(signed(pids)).build(),
        )));
    }
    Ok(resources)
}

/// Nothing, then what everybody has, then what was granted.
fn device_rules(granted: &[DeviceNode]) -> Vec<LinuxDeviceCgroup> {
    let rule = |allow: bool| {
        LinuxDeviceCgroupBuilder::default()
            .allow(allow)
            .access("rwm")
    };
    let mut rules = vec![built(rule(false).build())];
    for (major, minor) in USUAL_DEVICES {
        let mut usual = rule(true).typ(LinuxDeviceType::C).major(major);
        if let Some(minor) = minor {
            usual = usual.minor(minor);
        }
        rules.push(built(usual.build()));
    }
    for node in granted {
        let kind = match node.is_block {
            true => LinuxDeviceType::B,
            false => LinuxDeviceType::C,
        };
        // The node is there already: the instance has no need to make others.
        let granted = LinuxDeviceCgroupBuilder::default().allow(true).access("rw");
        let granted = granted.typ(kind).major(node.major).minor(node.minor);
        rules.push(built(granted.build()));
    }
    rules
}

pub(super) fn rlimits(instance: &InstanceSpec) -> Vec<PosixRlimit> {
    let item = &instance.item_config;
    let asked = item
        .quotas
        .no_file_limit
        .filter(|_| !item.skip_resource_limits);
    let (soft, hard) = asked.map_or(OPEN_FILES, |limit| (limit, limit));
    let files = PosixRlimitBuilder::default().typ(PosixRlimitType::RlimitNofile);
    vec![built(files.soft(soft).hard(hard).build())]
}

pub(super) fn sysctl(
    instance: &InstanceSpec,
) -> Result<HashMap<String, String>, SpecificationError> {
    let mut settings = HashMap::new();
    for (name, value) in &instance.item_config.sysctl {
        let dotted = name.replace('/', ".");
        let is_own = dotted.starts_with("net.")
            || dotted.starts_with("fs.mqueue.")
            || OWN_SYSCTLS.contains(&dotted.as_str());
        if !is_own {
            return Err(SpecificationError::SharedSysctl(name.clone()));
        }
        settings.insert(dotted, value.clone());
    }
    Ok(settings)
}

/// The specification counts in signed numbers; what does not fit is as good as no limit.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
