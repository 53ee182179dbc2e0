//! A guest boots, its units are held to their limits, and what the kernel and Muster say about it comes back.

use std::path::Path;
use std::time::Duration;

use muster_lab::guest::Outcome;
use muster_lab::machine::Build;
use muster_lab::muster;

const UNITS: &[(&str, &str)] = &[
    (
        "lab.slice",
        "[Slice]\nMemoryMax=300M\nDisableControllers=cpu\n",
    ),
    (
        "limits.service",
        "[Service]\nExecStart=/bin/sleep 1000\nCPUWeight=50\nCPUQuota=90%\nMemoryMax=64M\nMemoryLow=8K\n\
         MemorySwapMax=0\nTasksMax=64\nIOAccounting=yes\nOOMPolicy=kill\nAllowedCPUs=0\n",
    ),
    (
        "inside.service",
        "[Service]\nSlice=lab.slice\nExecStart=/bin/sleep 1000\nCPUWeight=50\nTasksMax=9\n",
    ),
    (
        "share.service",
        "[Service]\nExecStart=/bin/sleep 1000\nTasksMax=10%\n",
    ),
    ("plain.service", "[Service]\nExecStart=/bin/sleep 1000\n"),
    (
        "delegate.service",
        "[Service]\nExecStart=/bin/sleep 1000\nDelegate=yes\n",
    ),
    (
        "bomb.service",
        "[Service]\nTasksMax=64\nTimeoutStopSec=1\n\
         ExecStart=/usr/bin/perl /lab/bomb\n",
    ),
    // The process that is ended is not the one that the service stands or falls with.
    (
        "hog-stop.service",
        "[Service]\nMemoryMax=16M\nMemorySwapMax=0\nOOMPolicy=stop\n\
         ExecStart=/bin/sh -c '(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail) & exec /bin/sleep 1000'\n",
    ),
    (
        "hog-kill.service",
        "[Service]\nMemoryMax=16M\nMemorySwapMax=0\nOOMPolicy=kill\n\
         ExecStart=/bin/sh -c '(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail) & exec /bin/sleep 1000'\n",
    ),
    (
        "hog-continue.service",
        "[Service]\nMemoryMax=16M\nMemorySwapMax=0\nOOMPolicy=continue\n\
         ExecStart=/bin/sh -c '(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tail) & exec /bin/sleep 1000'\n",
    ),
    (
        "closed.service",
        "[Service]\nType=oneshot\nDevicePolicy=closed\n\
         ExecStart=/bin/sh -c ': </dev/zero && : >/dev/null'\nExecStart=/bin/sh -c '! (: </dev/kmsg)'\n",
    ),
    (
        "default.target",
        "[Unit]\nWants=basic.target end.service\nAfter=basic.target\n",
    ),
    (
        "end.service",
        "[Unit]\nDefaultDependencies=no\nAfter=basic.target\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\n\
         Environment=PATH=/lab/muster:/bin:/usr/bin:/sbin\nExecStart=/bin/sh /lab/look\n",
    ),
];

/// It does not end when it is asked to, and every process of it makes others all the time.
const BOMB: &str = "$SIG{TERM} = 'IGNORE';\nfork // select undef, undef, undef, 0.05 while 1;\n";

const LOOK: &str = r#"
groups=/sys/fs/cgroup/system.slice
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "in vain: $*" >>/out/trouble; return 1; }
        sleep 0.1
    done
}
try() { "$@" >>/out/trouble 2>&1 || echo "failed: $*" >>/out/trouble; }
attributes() { for file in $2; do echo "$file $(cat $1/$file)"; done; }

try sctl start limits.service inside.service delegate.service share.service plain.service
files="cpu.weight cpu.max memory.max memory.low memory.swap.max memory.oom.group pids.max"
attributes $groups/limits.service "$files" >/out/limits
sctl status limits.service >/out/limits-status
sctl show -p MemoryCurrent -p MemoryPeak -p TasksCurrent -p CPUUsageNSec -p IOReadBytes limits.service >/out/limits-show
try sctl set-property --runtime limits.service MemoryMax=32M TasksMax=infinity
attributes $groups/limits.service "memory.max pids.max cpu.weight" >/out/changed
attributes /sys/fs/cgroup/lab.slice "memory.max cgroup.subtree_control" >/out/slice
attributes /sys/fs/cgroup/lab.slice/inside.service "pids.max cgroup.controllers" >/out/inside
sctl status inside.service >/out/inside-status
attributes $groups/delegate.service "cgroup.controllers" >/out/delegate

cat /proc/sys/kernel/pid_max /proc/sys/kernel/threads-max >/out/tasks
for unit in share plain; do
    attributes $groups/$unit.service pids.max >/out/$unit
    sctl status $unit.service >/out/$unit-status
done

try sctl start closed.service

refused() { grep -q '^max [1-9]' $groups/bomb.service/pids.events; }
try sctl start bomb.service
until_true refused
cat $groups/bomb.service/pids.current >/out/bomb-tasks
sctl status bomb.service >/out/bomb-status 2>&1
begun=$(cut -d. -f1 /proc/uptime)
try sctl stop bomb.service
echo $(($(cut -d. -f1 /proc/uptime) - begun)) >/out/bomb-time
ps -o comm | grep -c '^perl' >/out/bomb-left

for policy in stop kill continue; do
    sctl start hog-$policy.service
done
failed() { [ "$(sctl is-active $1)" = failed ]; }
until_true failed hog-stop.service
until_true failed hog-kill.service
killed() { grep -q '^oom_kill 1$' $groups/hog-continue.service/memory.events; }
until_true killed
for policy in stop kill continue; do
    sctl show -p ActiveState -p Result hog-$policy.service >/out/hog-$policy
done
sctl status hog-continue.service >/out/hog-status
sctl poweroff --no-block
"#;

fn run() -> Outcome {
    let programs = muster::programs(Build::Test, &[]).unwrap();
    let mut guest = muster::guest(&programs)
        .file("/lab/look", LOOK, 0o644)
        .file("/lab/bomb", BOMB, 0o644);
    for (name, text) in UNITS {
        guest = guest.file(Path::new("/etc/systemd/system").join(name), text, 0o644);
    }
    guest.run(Duration::from_secs(180)).unwrap()
}

/// Whether all of these are lines of the text, or parts of them.
#[track_caller]
fn assert_holds(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "{wanted:?} is missing in:\n{text}");
    }
}

#[test]
fn units_are_held_to_their_limits() {
    muster_lab::require!(
        Root,
        Tool("linux.uml"),
        File("/bin/busybox"),
        File("/usr/bin/perl")
    );
    let outcome = run();
    let console = outcome.console.join("\n");
    let text = |name: &str| {
        outcome
            .text(name)
            .unwrap_or_else(|| panic!("no {name}; console:\n{console}"))
    };
    assert_eq!(
        outcome.text("trouble").unwrap_or_default(),
        "",
        "console:\n{console}"
    );

    // Each setting is what the kernel has afterwards.
    assert_holds(
        &text("limits"),
        &[
            "cpu.weight 50\n",
            "cpu.max 90000 100000\n",
            "memory.max 67108864\n",
            "memory.low 8192\n",
            "memory.swap.max 0\n",
            "memory.oom.group 1\n",
            "pids.max 64\n",
        ],
    );
    let status = text("limits-status");
    assert_holds(
        &status,
        &[
            "Tasks: 1 (limit: 64)\n",
            "(max: 64.0M",
            "Not applied: AllowedCPUs: the kernel offers no cpuset controller here\n",
        ],
    );
    let show = text("limits-show");
    assert_holds(&show, &["TasksCurrent=1\n"]);
    for name in ["MemoryCurrent", "CPUUsageNSec", "IOReadBytes"] {
        let line = show.lines().find(|line| line.starts_with(name)).unwrap();
        let value = line.split_once('=').unwrap().1;
        assert!(
            value.parse::<u64>().is_ok_and(|value| value < u64::MAX),
            "{line}"
        );
    }
    // And is changed while the service runs; what is not stated any more goes back.
    assert_holds(
        &text("changed"),
        &["memory.max 33554432\n", "pids.max max\n", "cpu.weight 50\n"],
    );

    // Slices have limits, hand controllers on, and keep those that they disable.
    assert_holds(
        &text("slice"),
        &[
            "memory.max 314572800\n",
            "cgroup.subtree_control memory pids\n",
        ],
    );
    assert_holds(
        &text("inside"),
        &["pids.max 9\n", "cgroup.controllers memory pids\n"],
    );
    assert_holds(
        &text("inside-status"),
        &["Not applied: CPUWeight: a slice above it has DisableControllers=cpu\n"],
    );
    assert_holds(
        &text("delegate"),
        &["cgroup.controllers cpu io memory pids\n"],
    );

    // A share of tasks is one of what this kernel allows, and so is what those get who say nothing.
    let numbers = text("tasks");
    let mut numbers = numbers.lines().map(|line| line.parse::<u64>().unwrap());
    let (numbers_below, threads) = (numbers.next().unwrap(), numbers.next().unwrap());
    let tasks = threads.min(numbers_below - 1);
    for (unit, percent) in [("share", 10), ("plain", 15)] {
        let limit = tasks * percent / 100;
        assert_eq!(text(unit), format!("pids.max {limit}\n"));
        let status = text(&format!("{unit}-status"));
        assert_holds(&status, &[&format!("Tasks: 1 (limit: {limit})\n")]);
        assert!(!status.contains("Not applied"), "{status}");
    }

    // A fork bomb is contained, named and ended.
    let tasks = text("bomb-tasks");
    let count = tasks.trim().parse::<u64>();
    assert!(count.is_ok_and(|count| count <= 64), "{tasks:?}");
    assert_holds(
        &text("bomb-status"),
        &["(limit: 64)\n", "Reached: TasksMax=64 ("],
    );
    let seconds: u64 = text("bomb-time").trim().parse().unwrap();
    assert!(seconds < 5, "it took {seconds} s to stop a fork bomb");
    assert_eq!(text("bomb-left"), "0\n");

    // Memory that runs out is the end of some services, and named by all.
    assert_holds(
        &text("hog-stop"),
        &["ActiveState=failed\n", "Result=oom-kill\n"],
    );
    assert_holds(
        &text("hog-kill"),
        &["ActiveState=failed\n", "Result=oom-kill\n"],
    );
    assert_holds(
        &text("hog-continue"),
        &["ActiveState=active\n", "Result=success\n"],
    );
    assert_holds(
        &text("hog-status"),
        &["Reached: MemoryMax=16777216 (1 processes were ended for lack of memory)\n"],
    );
}
