//! Policies and calls of any kind.

use proptest::prelude::*;
use proptest::sample::select;

use super::machine::Call;
use crate::arch::{Abi, Arch};
use crate::names;
use crate::policy::{CallFilter, CallRule, FamilyFilter, Kinds, Policy, Refusal};

fn known() -> Vec<&'static str> {
    names::every()
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![Just(Refusal::Kill), (0u16..=4095).prop_map(Refusal::Errno)]
}

fn name() -> impl Strategy<Value = Box<str>> {
    let groups: Vec<&str> = names::groups().collect();
    // Those that share numbers, stand for others, or are looked into.
    let special = [
        "socketcall",
        "ipc",
        "socket",
        "connect",
        "shmat",
        "semop",
        "clone",
        "setns",
        "mmap",
        "openat",
        "execve",
    ];
    prop_oneof![
        4 => select(groups),
        4 => select(known()),
        4 => select(special.to_vec()),
        1 => Just("no_such_call"),
    ]
    .prop_map(Box::from)
}

fn filter() -> impl Strategy<Value = CallFilter> {
    let rule = (
        name(),
        prop::bool::weighted(0.3),
        prop::option::weighted(0.3, refusal()),
    );
    let rule = rule.prop_map(|(name, removed, refusal)| CallRule {
        name,
        removed,
        refusal,
    });
    (any::<bool>(), prop::collection::vec(rule, 0..12))
        .prop_map(|(allow, rules)| CallFilter { allow, rules })
}

fn families() -> impl Strategy<Value = FamilyFilter> {
    let family = prop_oneof![0u16..46, any::<u16>()];
    (any::<bool>(), prop::collection::vec(family, 0..6))
        .prop_map(|(allow, families)| FamilyFilter { allow, families })
}

pub(super) fn arch() -> impl Strategy<Value = Arch> {
    select(vec![Arch::X86_64, Arch::Aarch64])
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let tables = vec!["native", "x86-64", "x86", "x32", "arm", "arm64", "s390x"];
    let architecture = select(tables).prop_map(Box::from);
    let namespaces = prop_oneof![Just(0), any::<u32>(), Just(0x0200_0000)].prop_map(Kinds);
    let lists = (
        prop::option::of(filter()),
        prop::option::weighted(0.3, filter()),
        refusal(),
        prop_oneof![Just(Vec::new()), prop::collection::vec(architecture, 0..4)],
        prop::option::of(families()),
        prop::option::of(namespaces),
        prop::option::of(prop_oneof![Just(0u32), Just(8u32), any::<u32>()]),
    );
    (lists, any::<[bool; 9]>()).prop_map(|(lists, flags)| {
        let (calls, logged, refusal, architectures, families, namespaces, lock_personality) = lists;
        let [
            realtime,
            suid,
            memory,
            modules,
            logs,
            tunables,
            clock,
            hostname,
            devices,
        ] = flags;
        Policy {
            calls,
            logged,
            refusal,
            architectures,
            families,
            namespaces,
            restrict_realtime: realtime,
            restrict_suid_sgid: suid,
            lock_personality,
            memory_deny_write_execute: memory,
            protect_kernel_modules: modules,
            protect_kernel_logs: logs,
            protect_kernel_tunables: tunables,
            protect_clock: clock,
            protect_hostname: hostname,
            private_devices: devices,
        }
    })
}

/// An argument: flags and small numbers that something looks for, with or without something in the upper half.
fn argument() -> impl Strategy<Value = u64> {
    let values: Vec<u64> = vec![
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        10,
        16,
        17,
        21,
        0x40,
        0x41,
        0x80,
        0o4755,
        0o2000,
        0o777,
        0o100_000,
        0o20_200_000,
        0x0002_0000,
        0x0200_0000,
        0x1000_0000,
        0x4000_0000,
        0x7e02_0000,
        0x1_0015,
        0xffff_ffff,
    ];
    let bit = (0u32..32).prop_map(|bit| 1u64 << bit);
    let low = prop_oneof![6 => select(values), 1 => bit, 1 => any::<u32>().prop_map(u64::from)];
    (
        low,
        prop_oneof![4 => Just(0u64), 1 => any::<u32>().prop_map(u64::from)],
    )
        .prop_map(|(low, high)| high << 32 | low)
}

fn arguments() -> impl Strategy<Value = [u64; 6]> {
    prop::array::uniform6(argument())
}

fn mark() -> impl Strategy<Value = u32> {
    select(vec![
        0xC000_003E,
        0x4000_0003,
        0xC000_00B7,
        0x4000_0028,
        0x8000_0016,
    ])
}

/// Every known call of every table, with some of a few sets of arguments.
pub(super) fn calls() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec(arguments(), 16).prop_map(|sets| {
        let mut calls = Vec::new();
        for (mark, abi) in [
            (0xC000_003E, Abi::X86_64),
            (0xC000_003E, Abi::X32),
            (0x4000_0003, Abi::X86),
            (0xC000_00B7, Abi::Arm64),
            (0x4000_0028, Abi::Arm),
        ] {
            let numbers = known()
                .into_iter()
                .filter_map(|name| names::number(name, abi));
            for (at, number) in numbers.enumerate() {
                calls.push(Call {
                    mark,
                    number,
                    arguments: sets[at % sets.len()],
                });
            }
        }
        calls
    })
}

/// Any number at all, and calls that are looked into.
pub(super) fn probe() -> impl Strategy<Value = Call> {
    let looked_into = [
        "socket",
        "socketcall",
        "ipc",
        "clone",
        "unshare",
        "setns",
        "mmap",
        "mprotect",
        "openat",
        "personality",
        "sched_setscheduler",
        "shmat",
        "fchmodat",
    ];
    let tables = vec![Abi::X86_64, Abi::X32, Abi::X86, Abi::Arm64, Abi::Arm];
    let of_a_call = (select(looked_into.to_vec()), select(tables))
        .prop_map(|(name, abi)| names::number(name, abi).unwrap_or(u32::MAX));
    let number = prop_oneof![
        8 => of_a_call,
        1 => 0u32..600,
        1 => 0x4000_0000u32..0x4000_0300,
        1 => 0x7fff_fffeu32..0x8000_0002,
        1 => any::<u32>(),
    ];
    (mark(), number, arguments()).prop_map(|(mark, number, arguments)| Call {
        mark,
        number,
        arguments,
    })
}
