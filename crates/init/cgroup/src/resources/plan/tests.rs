use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{IoLimits, MemoryLimits};
use super::*;
use crate::filter::{AttachPoint, DeviceFilter, Interfaces, Network, PinnedProgram, TrafficFilter};

const EVERYTHING: Offer = Offer {
    mode: Mode::Unified,
    controllers: Controllers::ALL,
    legacy: Subsystems::NONE,
};

fn weight(number: u16) -> Option<NonZeroU16> {
    NonZeroU16::new(number)
}

/// One of every setting.
pub(super) fn full() -> Resources {
    let deny = Network {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        length: 8,
    };
    Resources {
        cpu_share: weight(250).map(CpuShare::Weight),
        cpu_quota: Some(CpuQuota {
            per_second: Some(200_000),
            period: None,
        }),
        cpus: "0-1".into(),
        memory_nodes: "0".into(),
        memory: MemoryLimits {
            min: Some(Amount::Exactly(1)),
            low: Some(Amount::Exactly(2)),
            high: Some(Amount::Exactly(3)),
            max: Some(Amount::Exactly(4)),
            swap_max: Some(Amount::Infinity),
        },
        tasks_max: Some(Amount::Exactly(64)),
        io: IoLimits {
            weight: weight(10_000),
            devices: vec![(
                (8, 16),
                DeviceLimits {
                    read_bytes: Some(1000),
                    write_operations: Some(u64::MAX),
                    weight: weight(7),
                    latency: Some(25_000),
                    ..DeviceLimits::default()
                },
            )],
        },
        ends_together: true,
        devices: Some(DeviceFilter::default()),
        traffic: Some(TrafficFilter::new(Vec::new(), vec![deny], Interfaces::Any, true).unwrap()),
        pinned: vec![PinnedProgram {
            setting: "BPFProgram",
            point: AttachPoint::EGRESS,
            path: "/sys/fs/bpf/one".into(),
        }],
        ..Resources::default()
    }
}

fn written(plan: &Plan) -> Vec<(&str, &str)> {
    let attributes = plan.attributes.iter();
    attributes
        .map(|attribute| (attribute.file, &*attribute.value))
        .collect()
}

#[test]
fn every_setting_becomes_what_the_kernel_takes() {
    let plan = Plan::new(&full(), EVERYTHING, Occasion::New);
    assert_eq!(
        written(&plan),
        [
            ("cpu.weight", "250"),
            ("cpu.max", "20000 100000"),
            ("cpuset.cpus", "0-1"),
            ("cpuset.mems", "0"),
            ("memory.min", "1"),
            ("memory.low", "2"),
            ("memory.high", "3"),
            ("memory.max", "4"),
            ("memory.swap.max", "max"),
            ("memory.oom.group", "1"),
            ("pids.max", "64"),
            ("io.weight", "default 10000"),
            ("io.bfq.weight", "default 1000"),
            ("io.weight", "8:16 7"),
            ("io.bfq.weight", "8:16 7"),
            ("io.max", "8:16 rbps=1000"),
            ("io.max", "8:16 wiops=max"),
            ("io.latency", "8:16 target=25000"),
        ]
    );
    assert_eq!(plan.controllers, Controllers::ALL);
    assert_eq!((plan.programs.len(), plan.pinned.len()), (3, 1));
    assert!(plan.unapplied.is_empty() && plan.hands_on.is_empty());
}

#[test]
fn who_asks_for_nothing_gets_nothing() {
    for mode in [Mode::Unified, Mode::Hybrid, Mode::Legacy, Mode::Sessions] {
        let offer = Offer {
            mode,
            controllers: Controllers::ALL,
            legacy: Subsystem::ALL.into_iter().collect(),
        };
        assert!(Plan::new(&Resources::default(), offer, Occasion::New).is_empty());
    }
}

#[test]
fn a_change_goes_back_to_what_a_new_group_has() {
    let plan = Plan::new(&Resources::default(), EVERYTHING, Occasion::Change);
    let now: BTreeMap<&str, &str> = written(&plan).into_iter().collect();
    assert_eq!(now["memory.max"], "max");
    assert_eq!(now["memory.low"], "0");
    assert_eq!(now["cpu.weight"], "100");
    assert_eq!(now["io.weight"], "default 100");
    assert_eq!(now["io.bfq.weight"], "default 100");
    assert_eq!(now["cpu.max"], "max 100000");
    assert_eq!(now["pids.max"], "max");
    assert_eq!(now["cpuset.cpus"], "\n");
    assert!(
        plan.attributes
            .iter()
            .all(|attribute| attribute.need == Need::Nothing)
    );
    // No controller is handed on only to be told to do nothing.
    assert!(plan.controllers.is_empty() && plan.unapplied.is_empty());
}

#[test]
fn a_group_that_is_not_given_away_is_named() {
    let resources = Resources {
        delegates: true,
        ..Resources::default()
    };
    for (mode, is_named) in [
        (Mode::Unified, false),
        (Mode::Hybrid, false),
        (Mode::Legacy, true),
        (Mode::Sessions, true),
    ] {
        let offer = Offer { mode, ..EVERYTHING };
        let unapplied = Plan::new(&resources, offer, Occasion::New).unapplied;
        let names: Vec<&str> = unapplied.iter().map(|one| one.setting).collect();
        assert_eq!(names.contains(&"Delegate"), is_named, "{mode:?}");
    }
}

#[test]
fn idle_groups_have_no_weight() {
    let idle = Resources {
        cpu_share: Some(CpuShare::Idle),
        ..Resources::default()
    };
    let plan = Plan::new(&idle, EVERYTHING, Occasion::New);
    assert_eq!(written(&plan), [("cpu.idle", "1")]);
}

#[test]
fn small_shares_are_measured_over_a_longer_time() {
    let time = |per_second, period| cpu_time(CpuQuota { per_second, period });
    assert_eq!(time(Some(2_500_000), None), (Some(250_000), 100_000));
    assert_eq!(time(Some(10_000), None), (Some(1000), 100_000));
    assert_eq!(time(Some(5_000), None), (Some(1000), 200_000));
    // Less than a millisecond per second cannot be said.
    assert_eq!(time(Some(100), None), (Some(1000), 1_000_000));
    assert_eq!(time(Some(500_000), Some(10_000)), (Some(5000), 10_000));
    assert_eq!(time(None, Some(1)), (None, 1000));
    assert_eq!(
        time(Some(1_000_000), Some(u64::MAX)),
        (Some(1_000_000), 1_000_000)
    );
}

#[test]
fn weights_of_the_other_scheduler_keep_their_middle_and_their_ends() {
    let bfq = |number| bfq_weight(weight(number).unwrap());
    assert_eq!([bfq(1), bfq(100), bfq(10_000)], [1, 100, 1000]);
    assert!((1..10_000).all(|number| bfq(number) <= bfq(number + 1)));
}

#[test]
fn what_a_slice_above_keeps_is_said() {
    let mut resources = full();
    resources.denied = Controllers::parse("memory");
    let plan = Plan::new(&resources, EVERYTHING, Occasion::New);
    assert!(!plan.controllers.contains(Controller::Memory));
    let said: Vec<String> = plan.unapplied.iter().map(ToString::to_string).collect();
    assert_eq!(
        said[0],
        "MemoryMin: a slice above it has DisableControllers=memory"
    );
    assert_eq!(said.len(), 6);
}

#[test]
fn a_slice_hands_on_what_it_has_but_not_what_it_disables() {
    let slice = Resources {
        counted: Controllers::parse("memory pids"),
        disabled: Controllers::parse("memory cpu"),
        holds_units: true,
        ..Resources::default()
    };
    let plan = Plan::new(&slice, EVERYTHING, Occasion::New);
    assert_eq!(plan.hands_on, Controllers::parse("pids"));
    assert_eq!(plan.withholds, Controllers::parse("memory cpu"));
    assert_eq!(plan.controllers, Controllers::parse("memory pids"));
}

#[test]
fn without_cgroups_of_the_second_version_every_wish_is_named_once() {
    let offer = Offer {
        mode: Mode::Sessions,
        controllers: Controllers::NONE,
        legacy: Subsystems::NONE,
    };
    let plan = Plan::new(&full(), offer, Occasion::New);
    assert!(plan.attributes.is_empty() && plan.programs.is_empty() && plan.pinned.is_empty());
    let mut names: Vec<&str> = plan.unapplied.iter().map(|one| one.setting).collect();
    for wanted in [
        "TasksMax",
        "DevicePolicy",
        "IPAddressDeny",
        "IODeviceWeight",
        "BPFProgram",
    ] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

fn amounts() -> impl Strategy<Value = Option<Amount>> {
    proptest::option::of(prop_oneof![
        any::<u64>().prop_map(Amount::Exactly),
        Just(Amount::Infinity)
    ])
}

fn resources() -> impl Strategy<Value = Resources> {
    let memory = (amounts(), amounts(), amounts()).prop_map(|(min, max, swap_max)| MemoryLimits {
        min,
        max,
        swap_max,
        ..MemoryLimits::default()
    });
    let quota = (
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<u64>()),
    )
        .prop_map(|(per_second, period)| CpuQuota { per_second, period });
    let sets = proptest::collection::vec("(cpu|cpuset|io|memory|pids)", 0..4);
    let sets = || {
        sets.clone()
            .prop_map(|names| Controllers::parse(&names.join(" ")))
    };
    (
        memory,
        amounts(),
        proptest::option::of(quota),
        proptest::option::of(1u16..=10_000),
        (sets(), sets(), sets(), sets()),
        any::<bool>(),
    )
        .prop_map(
            |(memory, tasks_max, cpu_quota, share, sets, holds_units)| Resources {
                memory,
                tasks_max,
                cpu_quota,
                cpu_share: share.and_then(NonZeroU16::new).map(CpuShare::Weight),
                counted: sets.0,
                delegated: sets.1,
                disabled: sets.2,
                denied: sets.3,
                holds_units,
                ..Resources::default()
            },
        )
}

proptest! {
    #[test]
    fn a_wish_is_either_written_or_named(
        resources in resources(),
        offered in any::<[bool; 5]>(),
        changed in any::<bool>(),
    ) {
        let controllers: Controllers = Controller::ALL
            .into_iter()
            .zip(offered)
            .filter_map(|(controller, offered)| offered.then_some(controller))
            .collect();
        let offer = Offer { mode: Mode::Unified, controllers, legacy: Subsystems::NONE };
        let occasion = if changed { Occasion::Change } else { Occasion::New };
        let plan = Plan::new(&resources, offer, occasion);
        let had = controllers.without(resources.denied);
        for (wish, setting, file) in [
            (resources.memory.min.is_some(), "MemoryMin", "memory.min"),
            (resources.memory.max.is_some(), "MemoryMax", "memory.max"),
            (resources.memory.swap_max.is_some(), "MemorySwapMax", "memory.swap.max"),
            (resources.tasks_max.is_some(), "TasksMax", "pids.max"),
            (resources.cpu_quota.is_some(), "CPUQuota", "cpu.max"),
            (resources.cpu_share.is_some(), "CPUWeight", "cpu.weight"),
        ] {
            let written = plan.attributes.iter().filter(|one| one.file == file && one.need != Need::Nothing).count();
            let named = plan.unapplied.iter().filter(|one| one.setting == setting).count();
            prop_assert_eq!(written + named, usize::from(wish), "{}", setting);
        }
        // Nothing is written that its controller is not there for, and nobody gets what is kept from him.
        for attribute in &plan.attributes {
            let name = attribute.file.split('.').next().unwrap();
            prop_assert!(had.contains(Controller::named(name).unwrap()));
        }
        prop_assert!(plan.controllers.without(had).is_empty());
        prop_assert!(plan.hands_on.within(resources.disabled).is_empty());
        prop_assert!(resources.needs().within(had) == plan.controllers);
    }

    #[test]
    fn the_kernel_takes_every_quota(per_second in proptest::option::of(any::<u64>()), period in proptest::option::of(any::<u64>())) {
        let (time, period) = cpu_time(CpuQuota { per_second, period });
        prop_assert!((1_000..=1_000_000).contains(&period));
        prop_assert!(time.is_none_or(|time| time >= 1_000));
    }
}
