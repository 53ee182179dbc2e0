use proptest::prelude::*;

use super::super::{Plan, tests as v2};
use super::*;
use crate::filter::{DeviceAccess, DeviceFilter};
use crate::hierarchy::Mode;
use crate::resources::{CpuQuota, IoLimits, MemoryLimits};

fn everything() -> Subsystems {
    Subsystem::ALL.into_iter().collect()
}

fn offer(mode: Mode) -> Offer {
    Offer {
        mode,
        controllers: Controllers::NONE,
        legacy: everything(),
    }
}

fn written(plan: &Plan) -> Vec<(&str, &str)> {
    let attributes = plan.legacy_attributes.iter().filter(|one| !one.is_reset);
    attributes.map(|one| (one.file, &*one.value)).collect()
}

fn named(plan: &Plan) -> Vec<&str> {
    plan.unapplied.iter().map(|one| one.setting).collect()
}

#[test]
fn every_setting_becomes_what_the_kernel_takes() {
    let mut resources = v2::full();
    resources.memory.max = Some(Amount::Exactly(4096));
    resources.memory.swap_max = Some(Amount::Exactly(0));
    let plan = Plan::new(&resources, offer(Mode::Hybrid), Occasion::New);
    assert_eq!(
        written(&plan),
        [
            ("cpu.shares", "2560"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "20000"),
            ("cpuset.cpus", "0-1"),
            ("cpuset.mems", "0"),
            ("memory.limit_in_bytes", "4096"),
            ("memory.memsw.limit_in_bytes", "4096"),
            ("pids.max", "64"),
            ("blkio.bfq.weight", "1000"),
            ("blkio.bfq.weight_device", "8:16 7"),
            ("blkio.throttle.read_bps_device", "8:16 1000"),
            ("blkio.throttle.write_iops_device", "8:16 0"),
        ]
    );
    let instead: Vec<_> = plan.legacy_attributes.iter().collect();
    let instead = instead.iter().filter_map(|one| one.instead.clone());
    assert_eq!(
        instead.collect::<Vec<_>>(),
        [
            ("blkio.weight", "1000".to_owned()),
            ("blkio.weight_device", "8:16 35".to_owned())
        ]
    );
    // Filters are programs of v2, which this machine has as well, and which counts processor time.
    assert_eq!(plan.programs.len(), 3);
    assert_eq!(
        plan.legacy,
        everything().without(Subsystems::parse("cpuacct,devices"))
    );
    assert!(plan.attributes.is_empty() && plan.controllers.is_empty());
    assert_eq!(
        named(&plan),
        [
            "MemoryMin",
            "MemoryLow",
            "MemoryHigh",
            "IODeviceLatencyTargetSec"
        ]
    );
}

#[test]
fn controllers_of_the_second_version_go_first() {
    let offer = Offer {
        controllers: Controllers::parse("memory cpu"),
        ..offer(Mode::Hybrid)
    };
    let plan = Plan::new(&v2::full(), offer, Occasion::New);
    assert_eq!(plan.controllers, offer.controllers);
    assert_eq!(plan.legacy, Subsystems::parse("cpuset,blkio,pids"));
    assert!(plan.attributes.iter().any(|one| one.file == "memory.low"));
    assert!(!named(&plan).contains(&"MemoryLow"));
}

#[test]
fn devices_are_refused_and_then_allowed() {
    let rule = |kind, major, minor, access: &str| DeviceRule {
        kind,
        major,
        minor,
        access: DeviceAccess {
            read: access.contains('r'),
            write: access.contains('w'),
            mknod: access.contains('m'),
        },
    };
    let filter = DeviceFilter {
        rules: vec![
            rule(DeviceKind::Character, Some(1), Some(3), "rwm"),
            rule(DeviceKind::Character, Some(136), None, "rw"),
            rule(DeviceKind::Block, None, None, "r"),
            rule(DeviceKind::Block, Some(8), Some(0), ""),
        ],
    };
    let resources = Resources {
        devices: Some(filter),
        ..Resources::default()
    };
    let plan = Plan::new(&resources, offer(Mode::Legacy), Occasion::New);
    assert_eq!(
        written(&plan),
        [
            ("devices.deny", "a"),
            ("devices.allow", "c 1:3 rwm"),
            ("devices.allow", "c 136:* rw"),
            ("devices.allow", "b *:* r"),
        ]
    );
    assert_eq!(plan.legacy, Subsystems::parse("devices"));
    assert!(plan.programs.is_empty() && plan.unapplied.is_empty());
    let open = Plan::new(&Resources::default(), offer(Mode::Legacy), Occasion::Change);
    let last = open.legacy_attributes.last().unwrap();
    assert!(last.is_reset && (last.file, &*last.value) == ("devices.allow", "a"));
}

#[test]
fn what_nobody_asked_for_takes_no_group() {
    let default = Resources {
        counted: Controllers::parse("memory pids"),
        delegated: Controllers::ALL,
        tasks_max: Some(Amount::Exactly(100)),
        tasks_by_default: true,
        ..Resources::default()
    };
    let plan = Plan::new(&default, offer(Mode::Hybrid), Occasion::New);
    assert!(plan.is_empty(), "{plan:?}");
    // In a slice that counts tasks it has a group, and then also the limit that all have.
    let inside = Resources {
        above: Subsystems::parse("pids"),
        ..default.clone()
    };
    let plan = Plan::new(&inside, offer(Mode::Hybrid), Occasion::New);
    assert_eq!(plan.legacy, inside.above);
    assert_eq!(written(&plan), [("pids.max", "100")]);
    let counted = Resources {
        counts_asked_for: Controllers::parse("cpu memory"),
        ..default
    };
    let plan = Plan::new(&counted, offer(Mode::Legacy), Occasion::New);
    assert_eq!(plan.legacy, Subsystems::parse("cpuacct,memory"));
}

#[test]
fn what_a_slice_above_keeps_is_said() {
    let mut resources = v2::full();
    resources.denied = Controllers::parse("memory");
    let plan = Plan::new(&resources, offer(Mode::Hybrid), Occasion::New);
    assert!(!plan.legacy.contains(Subsystem::Memory));
    let max = plan
        .unapplied
        .iter()
        .find(|one| one.setting == "MemoryMax")
        .unwrap();
    assert_eq!(max.reason, "a slice above it has DisableControllers=memory");
}

#[test]
fn swap_is_limited_together_with_memory_only() {
    let swap = |max, swap_max| {
        let resources = Resources {
            memory: MemoryLimits {
                max,
                swap_max: Some(swap_max),
                ..MemoryLimits::default()
            },
            ..Resources::default()
        };
        Plan::new(&resources, offer(Mode::Hybrid), Occasion::New)
    };
    let (ten, none) = (Amount::Exactly(10), Amount::Infinity);
    assert_eq!(named(&swap(None, ten)), ["MemorySwapMax"]);
    assert_eq!(named(&swap(Some(none), ten)), ["MemorySwapMax"]);
    assert_eq!(
        written(&swap(Some(ten), none)),
        [("memory.limit_in_bytes", "10")]
    );
    let both = swap(Some(ten), ten);
    let files: Vec<_> = both.legacy_attributes.iter().map(|one| one.file).collect();
    assert_eq!(files[0], files[2], "out of the way first, back last");
    assert_eq!(both.legacy_attributes[2].value, "20");
}

#[test]
fn idle_and_old_shares() {
    let plan = |share| {
        let resources = Resources {
            cpu_share: Some(share),
            ..Resources::default()
        };
        Plan::new(&resources, offer(Mode::Hybrid), Occasion::New)
    };
    assert_eq!(
        written(&plan(CpuShare::Idle)),
        [("cpu.shares", "2"), ("cpu.idle", "1")]
    );
    assert_eq!(
        written(&plan(CpuShare::Shares(1000))),
        [("cpu.shares", "1000")]
    );
    assert_eq!(written(&plan(CpuShare::Shares(0))), [("cpu.shares", "2")]);
}

fn resources() -> impl Strategy<Value = Resources> {
    let amount = || {
        proptest::option::of(prop_oneof![
            any::<u64>().prop_map(Amount::Exactly),
            Just(Amount::Infinity)
        ])
    };
    let quota = (
        proptest::option::of(any::<u64>()),
        proptest::option::of(any::<u64>()),
    );
    let disk = (proptest::option::of(any::<u64>()), 1u16..=10_000);
    (
        amount(),
        amount(),
        amount(),
        proptest::option::of(quota),
        proptest::option::of(1u16..=10_000),
        proptest::option::of(disk),
    )
        .prop_map(|(max, swap_max, tasks_max, quota, share, disk)| Resources {
            memory: MemoryLimits {
                max,
                swap_max,
                ..MemoryLimits::default()
            },
            tasks_max,
            cpu_quota: quota.map(|(per_second, period)| CpuQuota { per_second, period }),
            cpu_share: share.and_then(NonZeroU16::new).map(CpuShare::Weight),
            io: IoLimits {
                weight: disk.and_then(|(_, weight)| NonZeroU16::new(weight)),
                devices: disk
                    .map(|(limit, _)| {
                        let limits = DeviceLimits {
                            write_bytes: limit,
                            read_operations: limit,
                            ..DeviceLimits::default()
                        };
                        vec![((8, 0), limits)]
                    })
                    .unwrap_or_default(),
            },
            ..Resources::default()
        })
}

proptest! {
    #[test]
    fn a_wish_for_the_first_version_is_either_written_or_named(
        resources in resources(),
        offered in any::<[bool; 7]>(),
        changed in any::<bool>(),
    ) {
        let legacy: Subsystems = Subsystem::ALL
            .into_iter()
            .zip(offered)
            .filter_map(|(one, offered)| offered.then_some(one))
            .collect();
        let offer = Offer { legacy, ..offer(Mode::Hybrid) };
        let occasion = if changed { Occasion::Change } else { Occasion::New };
        let plan = Plan::new(&resources, offer, occasion);
        let written = written(&plan);
        for (wish, setting, file) in [
            (resources.memory.max.is_some(), "MemoryMax", "memory.limit_in_bytes"),
            (resources.tasks_max.is_some(), "TasksMax", "pids.max"),
            (resources.cpu_quota.is_some(), "CPUQuota", "cpu.cfs_quota_us"),
            (resources.cpu_share.is_some(), "CPUWeight", "cpu.shares"),
            (resources.io.weight.is_some(), "IOWeight", "blkio.bfq.weight"),
        ] {
            let written = written.iter().filter(|(of, _)| *of == file).count();
            let named = plan.unapplied.iter().filter(|one| one.setting == setting).count();
            prop_assert_eq!(written + named, usize::from(wish), "{}", setting);
        }
        // What is written has its controller, and whoever asks of one is in its hierarchy.
        for attribute in &plan.legacy_attributes {
            prop_assert!(legacy.contains(attribute.subsystem));
            prop_assert!(attribute.is_reset || plan.legacy.contains(attribute.subsystem));
            prop_assert!(attribute.file.starts_with(attribute.subsystem.name()));
        }
    }

    #[test]
    fn the_kernel_takes_every_weight(weight in 1u16..=10_000, old in any::<u32>()) {
        let weight = NonZeroU16::new(weight).unwrap();
        prop_assert!((2..=262_144).contains(&shares(CpuShare::Weight(weight))));
        prop_assert!((2..=262_144).contains(&shares(CpuShare::Shares(old))));
        prop_assert!((10..=1000).contains(&block_weight(weight)));
        let next = NonZeroU16::new(weight.get() + 1).unwrap();
        prop_assert!(shares(CpuShare::Weight(weight)) <= shares(CpuShare::Weight(next)));
        prop_assert!(block_weight(weight) <= block_weight(next));
        // The middles of all scales are the same.
        let middle = NonZeroU16::new(100).unwrap();
        prop_assert_eq!(shares(CpuShare::Weight(middle)), 1024);
        prop_assert_eq!(block_weight(middle), 500);
    }

    #[test]
    fn no_limit_of_a_disk_is_lost(limit in any::<u64>()) {
        let limits = DeviceLimits { read_bytes: Some(limit), read_operations: Some(limit), ..DeviceLimits::default() };
        for (setting, _, written) in throttles(&limits) {
            let Some(written) = written else { continue };
            // Nought stands for none, and only for that.
            prop_assert_eq!(written == 0, limit == u64::MAX, "{}", setting);
            prop_assert!(setting != "IOReadIOPSMax" || written <= u64::from(u32::MAX));
        }
    }

    #[test]
    fn swap_never_lies_below_memory(max in any::<u64>(), swap in any::<u64>()) {
        let resources = Resources {
            memory: MemoryLimits {
                max: Some(Amount::Exactly(max)),
                swap_max: Some(Amount::Exactly(swap)),
                ..MemoryLimits::default()
            },
            ..Resources::default()
        };
        let plan = Plan::new(&resources, offer(Mode::Hybrid), Occasion::Change);
        let value = |file: &str| written(&plan).iter().find(|(of, _)| *of == file).unwrap().1.parse::<u64>().unwrap();
        prop_assert!(value("memory.memsw.limit_in_bytes") >= value("memory.limit_in_bytes"));
    }
}
