//! Programs against a plain reading of the policies that they were made of.

mod generate;
mod kernel;
mod machine;
mod reading;

use proptest::prelude::*;

use super::*;
use crate::policy::{CallRule, FamilyFilter, Kinds};
use machine::{Call, run};
use reading::Reading;

const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

fn compiled(policy: &Policy, arch: Arch) -> Option<Program> {
    compile(policy, arch).expect("a small policy").program
}

/// What a call by name comes to.
fn answer(policy: &Policy, abi: Abi, call: &str, arguments: &[u64]) -> u32 {
    let arch = match abi {
        Abi::Arm | Abi::Arm64 => Arch::Aarch64,
        Abi::X86 | Abi::X32 | Abi::X86_64 => Arch::X86_64,
    };
    let number = crate::names::number(call, abi).expect("the table has the call");
    let marks = arch.marks().iter();
    let found = marks.clone().find(|(_, tables)| tables.contains(&abi));
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let call = Call {
        mark: found.expect("the machine has the table").0,
        number,
        arguments: all,
    };
    compiled(policy, arch).map_or(ALLOW, |program| run(&program, &call))
}

fn list(allow: bool, rules: &[(&str, Option<Refusal>)]) -> Option<CallFilter> {
    let rules = rules.iter().map(|(name, refusal)| CallRule {
        name: (*name).into(),
        removed: false,
        refusal: *refusal,
    });
    Some(CallFilter {
        allow,
        rules: rules.collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every known call, and some that nobody knows, of every table of a machine.
    #[test]
    fn a_program_does_what_its_policy_says(
        policy in generate::policy(),
        arch in generate::arch(),
        calls in generate::calls(),
        probes in prop::collection::vec(generate::probe(), 64),
    ) {
        let program = compiled(&policy, arch);
        let reading = Reading::of(&policy, arch);
        for call in calls.into_iter().chain(probes) {
            let found = program.as_ref().map_or(ALLOW, |program| run(program, &call));
            let expected = reading.answer(&call);
            prop_assert_eq!(found, expected, "{:#x?}: {:#x}, not {:#x}", call, found, expected);
        }
    }

    /// What the kernel asks of a program before it takes it.
    #[test]
    fn jumps_end_inside_of_a_program_and_its_last_instruction_returns(
        policy in generate::policy(),
        arch in generate::arch(),
    ) {
        if let Some(program) = compiled(&policy, arch) {
            prop_assert!(program.instructions().len() <= MAX_INSTRUCTIONS);
            machine::check(&program);
        }
    }

    #[test]
    fn the_kernel_takes_every_program(policy in generate::policy(), arch in generate::arch()) {
        if let Some(program) = compiled(&policy, arch) {
            kernel::takes(&program).expect("the kernel takes it");
        }
    }
}

#[test]
fn a_policy_that_keeps_nothing_has_no_program() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        assert_eq!(compile(&Policy::default(), arch), Ok(Compiled::default()));
    }
}

/// The largest program there can be: no call has the same answer as its neighbour, in any table.
#[test]
fn the_worst_list_fits_the_kernel() {
    let names = crate::names::every();
    let rules: Vec<_> = (1u16..)
        .zip(&names)
        .map(|(number, name)| (*name, Some(Refusal::Errno(number))))
        .collect();
    let policy = Policy {
        calls: list(false, &rules),
        namespaces: Some(Kinds(0x0002_0000)),
        restrict_realtime: true,
        restrict_suid_sgid: true,
        memory_deny_write_execute: true,
        lock_personality: Some(0),
        families: Some(FamilyFilter {
            allow: true,
            families: (1..46).step_by(2).collect(),
        }),
        ..Policy::default()
    };
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let program = compiled(&policy, arch).expect("a program");
        let length = program.length();
        assert!(length < 4096, "{arch:?}: {length}");
        kernel::takes(&program).expect("the kernel takes it");
    }
}

/// The usual hardening of a service, and how much the kernel has to run for a call at most.
#[test]
fn a_long_list_costs_few_instructions() {
    let policy = Policy {
        calls: list(true, &[("@system-service", None)]),
        refusal: Refusal::Errno(1),
        architectures: vec!["native".into()],
        ..Policy::default()
    };
    let program = compiled(&policy, Arch::X86_64).expect("a program");
    assert!(program.length() < 200, "{} instructions", program.length());
    let steps = (0..500).map(|number| {
        let call = Call {
            mark: 0xC000_003E,
            number,
            arguments: [0; 6],
        };
        machine::steps(&program, &call)
    });
    let most = steps.max().expect("some calls");
    assert!(most <= 14, "{most} instructions for a call");
}

#[test]
fn native_leaves_out_the_machine_s_other_tables() {
    let policy = |names: &[&str]| Policy {
        architectures: names.iter().map(|name| (*name).into()).collect(),
        ..Policy::default()
    };
    for (names, x86, x32) in [
        (&["native"][..], KILL, KILL),
        (&["x86-64", "x86"], ALLOW, KILL),
        (&["x32"], KILL, ALLOW),
        (&["arm64"], KILL, KILL),
        (&[], ALLOW, ALLOW),
    ] {
        let policy = policy(names);
        assert_eq!(
            answer(&policy, Abi::X86_64, "read", &[]),
            ALLOW,
            "{names:?}"
        );
        assert_eq!(answer(&policy, Abi::X86, "read", &[]), x86, "{names:?}");
        assert_eq!(answer(&policy, Abi::X32, "read", &[]), x32, "{names:?}");
    }
}

#[test]
fn an_error_beside_a_name_comes_before_the_general_one() {
    let rules = [
        ("mount", Some(Refusal::Errno(38))),
        ("@swap", Some(Refusal::Kill)),
        ("reboot", None),
    ];
    let policy = Policy {
        calls: list(false, &rules),
        refusal: Refusal::Errno(1),
        ..Policy::default()
    };
    assert_eq!(answer(&policy, Abi::X86_64, "mount", &[]), ENOSYS);
    assert_eq!(answer(&policy, Abi::Arm64, "swapon", &[]), KILL);
    assert_eq!(answer(&policy, Abi::X86, "reboot", &[]), EPERM);
    assert_eq!(answer(&policy, Abi::X86_64, "read", &[]), ALLOW);
    let rules = [("@mount", None), ("mount", Some(Refusal::Errno(38)))];
    let policy = Policy {
        calls: list(true, &rules),
        refusal: Refusal::Errno(1),
        ..Policy::default()
    };
    assert_eq!(answer(&policy, Abi::X86_64, "mount", &[]), ENOSYS);
    assert_eq!(answer(&policy, Abi::X86_64, "umount2", &[]), ALLOW);
    assert_eq!(answer(&policy, Abi::X86_64, "reboot", &[]), EPERM);
}

#[test]
fn a_call_of_x86_is_refused_also_behind_its_multiplexer() {
    let policy = Policy {
        calls: list(false, &[("connect", None), ("shmat", None)]),
        refusal: Refusal::Errno(1),
        ..Policy::default()
    };
    assert_eq!(answer(&policy, Abi::X86, "connect", &[]), EPERM);
    assert_eq!(answer(&policy, Abi::X86, "socketcall", &[3]), EPERM);
    assert_eq!(answer(&policy, Abi::X86, "socketcall", &[2]), ALLOW);
    assert_eq!(answer(&policy, Abi::X86, "ipc", &[0x1_0015]), EPERM);
    let policy = Policy {
        calls: list(true, &[("connect", None)]),
        refusal: Refusal::Errno(1),
        ..Policy::default()
    };
    assert_eq!(answer(&policy, Abi::X86, "socketcall", &[3]), ALLOW);
    assert_eq!(answer(&policy, Abi::X86, "socketcall", &[2]), EPERM);
    assert_eq!(answer(&policy, Abi::X86, "ipc", &[1]), EPERM);
    let policy = Policy {
        memory_deny_write_execute: true,
        ..Policy::default()
    };
    let attach = |chosen, flags| answer(&policy, Abi::X86, "ipc", &[chosen, 0, flags]);
    assert_eq!(attach(0x1_0015, 0o100_000), EPERM);
    assert_eq!(attach(0x15, 0), ALLOW);
}

#[test]
fn the_upper_half_of_an_argument_hides_nothing() {
    let policy = Policy {
        families: Some(FamilyFilter {
            allow: false,
            families: vec![16],
        }),
        ..Policy::default()
    };
    let refused = 0x0005_0061;
    assert_eq!(answer(&policy, Abi::X86_64, "socket", &[16]), refused);
    let hidden = 1 << 32 | 16;
    assert_eq!(answer(&policy, Abi::X86_64, "socket", &[hidden]), refused);
}

#[test]
fn a_policy_that_the_kernel_cannot_carry_out_is_an_error() {
    let policy = Policy {
        refusal: Refusal::Errno(4096),
        ..Policy::default()
    };
    let error = CompileError::ErrorNumber { number: 4096 };
    assert_eq!(compile(&policy, Arch::X86_64), Err(error));
    let policy = Policy {
        calls: list(true, &vec![("read", None); MAX_NAMES + 1]),
        ..Policy::default()
    };
    let error = CompileError::TooManyNames {
        count: MAX_NAMES + 1,
    };
    assert_eq!(compile(&policy, Arch::X86_64), Err(error));
}

#[test]
fn names_that_mean_nothing_are_told() {
    let policy = Policy {
        calls: list(false, &[("no_such_call", None), ("mount", None)]),
        logged: list(true, &[("@no-such-group", None)]),
        ..Policy::default()
    };
    let unknown = compile(&policy, Arch::X86_64)
        .expect("a small policy")
        .unknown;
    assert_eq!(unknown, ["no_such_call".into(), "@no-such-group".into()]);
}
