//! Which system calls may be made.

use muster_seccomp::{FamilyFilter, Kinds, Policy, Refusal};
use muster_unit_file::config::ExecContext;
use muster_unit_file::value::access::{AllowedNamespaces, NameFilter};
use muster_units::{calls, effective};

/// The personality of a process that nobody gave another one.
const PER_LINUX: u32 = 0;

pub(super) fn of(exec: &ExecContext, personality: Option<u32>) -> Policy {
    let stated = &exec.sandbox;
    let errno = stated.syscall_error_number.as_ref();
    let errno = errno.map(|error| &*error.0);
    Policy {
        calls: calls::filter(&stated.syscall_filter),
        logged: calls::filter(&stated.syscall_log),
        // Without a filter there is nothing to refuse.
        refusal: match stated.syscall_filter.0.allow {
            Some(_) => calls::refusal(errno),
            None => Refusal::default(),
        },
        architectures: stated
            .syscall_architectures
            .iter()
            .map(Into::into)
            .collect(),
        families: families(&stated.restrict_address_families.0),
        namespaces: kinds(stated.restrict_namespaces),
        restrict_realtime: stated.restrict_realtime,
        restrict_suid_sgid: effective::restrict_suid_sgid(exec),
        lock_personality: stated
            .lock_personality
            .then(|| personality.unwrap_or(PER_LINUX)),
        memory_deny_write_execute: stated.memory_deny_write_execute,
        protect_kernel_modules: stated.protect_kernel_modules,
        protect_kernel_logs: stated.protect_kernel_logs,
        protect_kernel_tunables: stated.protect_kernel_tunables,
        protect_clock: stated.protect_clock,
        protect_hostname: stated.protect_hostname,
        private_devices: stated.private_devices,
    }
}

fn kinds(allowed: AllowedNamespaces) -> Option<Kinds> {
    if allowed.is_everything() {
        return None;
    }
    let bit = |name: &str| match name {
        "cgroup" => libc::CLONE_NEWCGROUP,
        "ipc" => libc::CLONE_NEWIPC,
        "net" => libc::CLONE_NEWNET,
        "mnt" => libc::CLONE_NEWNS,
        "pid" => libc::CLONE_NEWPID,
        "user" => libc::CLONE_NEWUSER,
        "uts" => libc::CLONE_NEWUTS,
        _ => 0,
    };
    let bits = allowed.names().fold(0, |bits, name| bits | bit(name));
    Some(Kinds(bits.cast_unsigned()))
}

/// Names that mean nothing were left out, and named, when the unit was loaded.
fn families(stated: &NameFilter) -> Option<FamilyFilter> {
    let mut families = Vec::new();
    for rule in &stated.rules {
        let Some(number) = muster_seccomp::family(&rule.name) else {
            continue;
        };
        families.retain(|known| *known != number);
        if !rule.removed {
            families.push(number);
        }
    }
    Some(FamilyFilter {
        allow: stated.allow?,
        families,
    })
}
