//! A policy, read plainly: each directive by itself, call by call, and then as the kernel joins the answers of filters.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::machine::Call;
use crate::arch::{Abi, Arch};
use crate::names::{self, MULTIPLEXERS};
use crate::policy::{CallFilter, Policy, Refusal};

const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const EAFNOSUPPORT: u32 = 0x0005_0061;

type List = HashMap<&'static str, Option<Refusal>>;

/// Names by table and number.
static NAMES: LazyLock<HashMap<(Abi, u32), &'static str>> = LazyLock::new(|| {
    let mut found = HashMap::new();
    for abi in [Abi::X86_64, Abi::X32, Abi::X86, Abi::Arm64, Abi::Arm] {
        for name in names::every() {
            if let Some(number) = names::number(name, abi) {
                found.insert((abi, number), name);
            }
        }
    }
    found
});

pub(super) struct Reading<'p> {
    policy: &'p Policy,
    arch: Arch,
    refused: List,
    logged: List,
    /// Calls that nobody of those may make who lose modules, clocks or devices.
    whole: HashSet<String>,
}

/// The calls that a name stands for.
fn meant_by(name: &str) -> HashSet<String> {
    match names::group(name) {
        Some(members) => members.flat_map(meant_by).collect(),
        None => HashSet::from([name.to_owned()]),
    }
}

/// What of `all` a list has on it in the end, rule by rule for each call.
fn on_list(filter: &CallFilter, all: &[&'static str], essentials: bool) -> List {
    let essential = meant_by(if essentials && filter.allow {
        "@default"
    } else {
        "nothing"
    });
    let rules: Vec<_> = filter
        .rules
        .iter()
        .map(|rule| (rule, meant_by(&rule.name)))
        .collect();
    let last_word = |name: &&'static str| {
        let mut found = essential.contains(*name).then_some(None);
        for (rule, meant) in &rules {
            if meant.contains(*name) {
                let refused = essentials && filter.allow && rule.refusal.is_some();
                let off = rule.removed && !refused;
                found = (!off).then_some(rule.refusal);
            }
        }
        found.map(|refusal| (*name, refusal))
    };
    all.iter().filter_map(last_word).collect()
}

fn value(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Kill => KILL,
        Refusal::Errno(number) => 0x0005_0000 | u32::from(number),
    }
}

impl<'p> Reading<'p> {
    pub(super) fn of(policy: &'p Policy, arch: Arch) -> Self {
        let all = names::every();
        let list = |filter: &Option<CallFilter>, essentials| {
            let filter = filter.as_ref();
            filter.map_or_else(HashMap::new, |filter| on_list(filter, &all, essentials))
        };
        Self {
            policy,
            arch,
            refused: list(&policy.calls, true),
            logged: list(&policy.logged, false),
            whole: [
                (policy.protect_kernel_modules, "@module"),
                (policy.protect_clock, "@clock"),
                (policy.private_devices, "@raw-io"),
            ]
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .flat_map(|(_, group)| meant_by(group))
            .collect(),
        }
    }

    /// The table that a call is from.
    fn table(&self, call: &Call) -> Option<Abi> {
        match (self.arch, call.mark) {
            (Arch::X86_64, 0xC000_003E) if call.number >> 30 == 1 => Some(Abi::X32),
            (Arch::X86_64, 0xC000_003E) => Some(Abi::X86_64),
            (Arch::X86_64, 0x4000_0003) => Some(Abi::X86),
            (Arch::Aarch64, 0xC000_00B7) => Some(Abi::Arm64),
            (Arch::Aarch64, 0x4000_0028) => Some(Abi::Arm),
            _ => None,
        }
    }

    pub(super) fn answer(&self, call: &Call) -> u32 {
        let limited = !self.policy.architectures.is_empty();
        let Some(table) = self.table(call) else {
            return if limited { KILL } else { ALLOW };
        };
        let named = |name: &str| {
            self.policy
                .architectures
                .iter()
                .any(|listed| **listed == *name)
        };
        let admitted = match table {
            Abi::X86_64 | Abi::Arm64 => true,
            Abi::X32 => named("x32"),
            Abi::X86 => named("x86"),
            Abi::Arm => named("arm"),
        };
        if limited && !admitted {
            return KILL;
        }
        let name = NAMES.get(&(table, call.number)).copied();
        // In the order in which the kernel asks filters: what was installed last is asked first.
        let mut answers = vec![self.refuse(table, name, call), self.log(table, name, call)];
        answers.extend(name.map(|name| self.restrict(table, name, call.arguments.map(low))));
        answers.into_iter().fold(ALLOW, |strictest, answer| {
            let rank = |answer: u32| (answer & 0xffff_0000).cast_signed();
            if rank(answer) < rank(strictest) {
                answer
            } else {
                strictest
            }
        })
    }

    /// The call that a list is asked about: the one behind a multiplexer that is not listed itself.
    fn meant<'n>(table: Abi, name: Option<&'n str>, call: &Call, list: &List) -> Option<&'n str> {
        let name = name?;
        let multiplexer = MULTIPLEXERS
            .iter()
            .find(|multiplexer| multiplexer.name == name);
        match multiplexer {
            Some(multiplexer) if table == Abi::X86 && !list.contains_key(name) => {
                let chosen = low(call.arguments[0]) & multiplexer.mask;
                let found = multiplexer
                    .calls
                    .iter()
                    .find(|(number, _)| *number == chosen);
                found.map(|(_, name)| *name)
            }
            _ => Some(name),
        }
    }

    fn refuse(&self, table: Abi, name: Option<&str>, call: &Call) -> u32 {
        let Some(filter) = &self.policy.calls else {
            return ALLOW;
        };
        let name = Self::meant(table, name, call, &self.refused);
        let listed = name.and_then(|name| self.refused.get(name));
        match (filter.allow, listed) {
            (true, Some(None)) | (false, None) => ALLOW,
            (true, Some(Some(own))) => value(*own),
            (true, None) => value(self.policy.refusal),
            (false, Some(own)) => value(own.unwrap_or(self.policy.refusal)),
        }
    }

    fn log(&self, table: Abi, name: Option<&str>, call: &Call) -> u32 {
        let Some(filter) = &self.policy.logged else {
            return ALLOW;
        };
        let name = Self::meant(table, name, call, &self.logged);
        let listed = name.is_some_and(|name| self.logged.contains_key(name));
        if listed == filter.allow { LOG } else { ALLOW }
    }

    /// What remains: at most one kind of error each, so that their order does not matter.
    fn restrict(&self, table: Abi, name: &str, arguments: [u32; 6]) -> u32 {
        let policy = self.policy;
        let [first, second, third, fourth, ..] = arguments;
        let all_namespaces = 0x7e02_0000;
        let retained = policy.namespaces.map_or(u32::MAX, |kinds| kinds.0);
        let none_retained = retained & all_namespaces == 0;
        let made = |flags: u32| flags & all_namespaces & !retained != 0;
        let marked = |mode: u32| policy.restrict_suid_sgid && mode & 0o6000 != 0;
        let makes = |flags: u32| flags & 0o20_000_100 != 0;
        let executable = policy.memory_deny_write_execute;
        let refused = match name {
            "personality" => policy.lock_personality.is_some_and(|stays| stays != first),
            "clone" => made(first),
            "unshare" => made(first) || (none_retained && first & !retained & 0x80 != 0),
            "setns" if policy.namespaces.is_some() => none_retained || second == 0 || made(second),
            "chmod" | "fchmod" | "mkdir" | "mknod" | "creat" => marked(second),
            "fchmodat" | "fchmodat2" | "mkdirat" | "mknodat" => marked(third),
            "open" => makes(second) && marked(third),
            "openat" => makes(third) && marked(fourth),
            "sched_setscheduler" => policy.restrict_realtime && !matches!(second, 0 | 3 | 5),
            "sched_setattr" => policy.restrict_realtime,
            "mmap" if table == Abi::X86 => executable,
            "mmap" | "mmap2" => executable && third & 6 == 6,
            "mprotect" | "pkey_mprotect" => executable && third & 4 != 0,
            "shmat" => executable && third & 0o100_000 != 0,
            "ipc" => executable && first & 0xffff == 21 && third & 0o100_000 != 0,
            "sethostname" | "setdomainname" => policy.protect_hostname,
            "syslog" => policy.protect_kernel_logs,
            "_sysctl" => policy.protect_kernel_tunables,
            _ => self.whole.contains(name),
        };
        match name {
            "clone3" if policy.namespaces.is_some() => ENOSYS,
            "openat2" if policy.restrict_suid_sgid => ENOSYS,
            "socket" if table != Abi::X86 => {
                let refuses = policy.families.as_ref().is_some_and(|list| {
                    let listed = list
                        .families
                        .iter()
                        .any(|family| u32::from(*family) == first);
                    listed != list.allow
                });
                if refuses { EAFNOSUPPORT } else { ALLOW }
            }
            _ if refused => EPERM,
            _ => ALLOW,
        }
    }
}

/// The half that the kernel looks at.
fn low(argument: u64) -> u32 {
    u32::try_from(argument & 0xffff_ffff).expect("half of it")
}
