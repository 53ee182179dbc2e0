//! The same tests, and those of the controllers, on a machine with cgroup v2 alone.

use std::process::Command;
use std::time::Duration;

use muster_cgroup::{
    Allotted, Amount, CgroupPath, Controllers, CpuQuota, CpuShare, DeviceLimits, Hierarchy,
    IoLimits, Memory, MemoryLimits, Mode, Occasion, Plan, Resources, Tree,
};
use muster_lab::guest::Guest;

use crate::{pid_of, place, wait_for};

pub(crate) const INSIDE: &str = "MUSTER_TEST_INSIDE_GUEST";

#[test]
fn a_guest_with_cgroup_v2_alone_passes_every_test() {
    if std::env::var(INSIDE).is_ok() {
        return;
    }
    muster_lab::require!(Tool("linux.uml"), Tool("busybox"));
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let made = std::fs::File::create(&disk).and_then(|file| file.set_len(1 << 20));
    made.unwrap();
    let outcome = Guest::uml()
        .disk(&disk)
        .share_host_tools()
        .host_file(std::env::current_exe().unwrap(), "/tree-tests")
        .script(format!(
            "{INSIDE}=1 /tree-tests --test-threads=1 >/out/log 2>&1"
        ))
        .run(Duration::from_secs(120))
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(log.contains("controllers_limit_and_count ... ok"), "{log}");
    assert!(
        log.contains("room_for_commands_is_never_the_delegates ... ok"),
        "{log}"
    );
    assert!(
        log.contains("chains_that_never_stop_forking_are_ended_by_a_kill ... ok"),
        "{log}"
    );
}

/// Runs in the guest only: the host has no controllers to hand on.
#[test]
fn controllers_limit_and_count() {
    if std::env::var(INSIDE).is_err() {
        return;
    }
    let hierarchy = Hierarchy::detect().unwrap();
    assert_eq!(hierarchy.mode, Mode::Unified);
    let mut tree = Tree::open(&hierarchy, &CgroupPath::root()).unwrap();
    assert_eq!(tree.notice(), None);
    let own = rustix::process::getpid();
    assert_eq!(
        tree.settle(&[own]).unwrap(),
        Controllers::parse("cpu io memory pids")
    );
    // Whoever starts again finds the same root.
    assert_eq!(Hierarchy::detect().unwrap(), hierarchy);
    let unit = place("c.slice/c-d.slice/hog.service");
    limits_are_read_back(&tree, &unit);
    controllers_that_a_slice_disables_stop_there(&tree);
    let hog = "read line; /usr/bin/head -c 67108864 /dev/zero | /usr/bin/tail";
    let mut child = Command::new("/bin/sh")
        .args(["-c", hog])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    tree.attach(&unit, pid_of(&child)).unwrap();
    assert!(matches!(
        tree.usage(&unit).unwrap().memory,
        Some(Memory::Charged(_))
    ));
    drop(child.stdin.take());
    child.wait().unwrap();
    wait_for("the kernel ends the hog", || {
        tree.oom_kills(&unit) > Some(0)
    });
    wait_for("nobody is left", || !tree.is_populated(&unit).unwrap());
    let usage = tree.usage(&unit).unwrap();
    assert!(
        usage.cpu_usec > Some(0) && usage.io_read.is_some() && usage.io_reads.is_some(),
        "{usage:?}"
    );
    // The limit is its own, nobody limits what it lies in, and the machine has no controller of processors.
    let allotted = tree.allotted(&unit);
    assert!(
        allotted.memory.is_some_and(|left| left <= 16 << 20),
        "{allotted:?}"
    );
    assert_eq!(tree.allotted(&place("c.slice")), Allotted::default());
    assert_eq!(&*allotted.processors, "");
    let refusals = tree.refusals(&unit);
    assert!(refusals.killed > Some(0) && refusals.tasks == Some(0));
    assert!(refusals.memory > Some(0));
    // What has ended counts until it is reaped, which whoever adopts orphans does in its own time.
    wait_for("the dead are buried", || {
        tree.usage(&unit).unwrap().tasks == Some(0)
    });
    for slice in ["c.slice", "e.slice"] {
        tree.remove(&place(slice)).unwrap();
    }
    // Back to where the other tests expect this process.
    tree.attach(&CgroupPath::root(), own).unwrap();
    tree.remove(&place("init.scope")).unwrap();
}

fn limits() -> Resources {
    let weight = |number| std::num::NonZeroU16::new(number);
    Resources {
        cpu_share: weight(50).map(CpuShare::Weight),
        cpu_quota: Some(CpuQuota {
            per_second: Some(900_000),
            period: None,
        }),
        memory: MemoryLimits {
            min: Some(Amount::Exactly(4096)),
            low: Some(Amount::Exactly(8192)),
            high: Some(Amount::Infinity),
            max: Some(Amount::Exactly(16 << 20)),
            swap_max: Some(Amount::Exactly(0)),
        },
        tasks_max: Some(Amount::Exactly(20)),
        io: IoLimits {
            weight: None,
            // The disk that every guest has.
            devices: vec![(
                (98, 0),
                DeviceLimits {
                    read_bytes: Some(1 << 20),
                    write_operations: Some(100),
                    ..DeviceLimits::default()
                },
            )],
        },
        ends_together: true,
        ..Resources::default()
    }
}

fn read(tree: &Tree, path: &CgroupPath, file: &str) -> String {
    let file = tree.folder(path).unwrap().join(file);
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.trim_end().to_owned()
}

/// What was asked for is what the kernel says afterwards; asked for no more, it is as before.
fn limits_are_read_back(tree: &Tree, unit: &CgroupPath) {
    let offer = tree.offer();
    let mut limits = limits();
    let plan = Plan::new(&limits, offer, Occasion::New);
    tree.create(unit).unwrap();
    let unapplied = tree.limit(unit, &plan, Occasion::New).unwrap();
    assert_eq!(unapplied, []);
    let expected = [
        ("cpu.weight", "50"),
        ("cpu.max", "90000 100000"),
        ("memory.min", "4096"),
        ("memory.low", "8192"),
        ("memory.high", "max"),
        ("memory.max", "16777216"),
        ("memory.oom.group", "1"),
        ("pids.max", "20"),
    ];
    for (file, value) in expected {
        assert_eq!(read(tree, unit, file), value, "{file}");
    }
    let line = "98:0 rbps=1048576 wbps=max riops=max wiops=100";
    assert_eq!(read(tree, unit, "io.max"), line);
    let nothing = Plan::new(&Resources::default(), offer, Occasion::Change);
    assert_eq!(tree.limit(unit, &nothing, Occasion::Change).unwrap(), []);
    for (file, value) in [
        ("cpu.weight", "100"),
        ("cpu.max", "max 100000"),
        ("memory.min", "0"),
        ("memory.max", "max"),
        ("memory.oom.group", "0"),
        ("pids.max", "max"),
    ] {
        assert_eq!(read(tree, unit, file), value, "{file}");
    }
    assert_eq!(read(tree, unit, "io.max"), "");
    tree.limit(unit, &plan, Occasion::Change).unwrap();
    // A controller that this kernel does not have is named, and everything else is done.
    limits.cpus = "0".into();
    let plan = Plan::new(&limits, offer, Occasion::Change);
    let said: Vec<String> = plan.unapplied.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["AllowedCPUs: the kernel offers no cpuset controller here"]
    );
}

fn controllers_that_a_slice_disables_stop_there(tree: &Tree) {
    let slice = place("e.slice");
    let resources = Resources {
        counted: Controllers::parse("memory pids"),
        disabled: Controllers::parse("memory"),
        holds_units: true,
        ..Resources::default()
    };
    let plan = Plan::new(&resources, tree.offer(), Occasion::New);
    tree.create(&slice).unwrap();
    assert_eq!(tree.limit(&slice, &plan, Occasion::New).unwrap(), []);
    assert_eq!(read(tree, &slice, "cgroup.subtree_control"), "pids");
    let unit = place("e.slice/x.service");
    let inside = Resources {
        denied: Controllers::parse("memory"),
        ..limits()
    };
    let plan = Plan::new(&inside, tree.offer(), Occasion::New);
    tree.create(&unit).unwrap();
    tree.limit(&unit, &plan, Occasion::New).unwrap();
    assert_eq!(read(tree, &unit, "cgroup.controllers"), "cpu io pids");
    assert_eq!(read(tree, &unit, "pids.max"), "20");
}
