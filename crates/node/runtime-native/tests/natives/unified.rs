//! On cgroup v2 alone, with controllers: a guest with a kernel of its own.

use std::time::Duration;

use muster_lab::machine::Build;
use muster_lab::muster;

const TIME: Duration = Duration::from_secs(240);

/// What the guest does, and then it ends. Everything that it finds goes to `/out/found`.
const SCRIPT: &str = r#"#!/bin/sh
exec >/out/found 2>&1
set -x
export DRIVER_UNIT_PROGRAM=/lab/tests/muster-native-exec
driver=/lab/tests/native-driver
busybox=/lab/bin/busybox
$busybox insmod /usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
mkdir -p /run/image/bin
cp $busybox /run/image/bin/busybox
for tool in sh sleep dd; do ln -s busybox /run/image/bin/$tool; done
# Looks again until a command prints something like this; what it printed is in `seen`.
until_seen() {
    for try in $(seq 100); do
        seen=$(eval "$2")
        echo "$seen" | grep -q "$1" && return
        sleep 0.1
    done
}
image='"layers": ["/run/image"]'
$driver start a 1 'exec sleep 1000' '{"dmips": 2500, "ram": 33554432, "pids": 23, '"$image}"
group=$(echo /sys/fs/cgroup/system.slice/muster-native-*/container)
set +x
echo "memory $(cat $group/memory.max)"
echo "pids $(cat $group/pids.max)"
echo "cpu $(cat $group/cpu.max)"
echo "processes $(wc -l <$group/cgroup.procs)"
echo "dropped: $(cat /run/muster/native/*/report)"
echo "$($driver adopt a)"
set -x
# The same where nobody passes controllers down: what is above the unit's group is not ours to change.
cp -r /run/muster/native/* /run/odd
mkdir -p /sys/fs/cgroup/odd/unit
sh -c 'echo $$ >/sys/fs/cgroup/odd/unit/cgroup.procs; exec /lab/tests/muster-native-exec start /run/odd' &
until_seen . 'cat /sys/fs/cgroup/odd/unit/container/cgroup.procs'
until_seen pids 'cat /run/odd/report'
set +x
echo "odd has: $(cat /sys/fs/cgroup/odd/cgroup.controllers | grep -o memory)"
echo "odd passes down: $(cat /sys/fs/cgroup/odd/cgroup.subtree_control)"
cat /run/odd/report
set -x
kill -9 $!
$driver stop a 0
$driver start hungry 2 'sleep 0.3; exec dd if=/dev/zero of=/dev/null bs=100M' '{"ram": 16000000, "burst": 1, '"$image}"
until_seen 'Ended(OutOfMemory)' '$driver adopt hungry'
echo "$seen"
$driver stop hungry 0
set +x
echo "left: $($driver leftovers)"
set -x
echo end
"#;

#[test]
fn limits_are_in_the_units_own_group_on_cgroup_v2() {
    muster_lab::require!(Root, Tool("linux.uml"), File("/bin/busybox"));
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).expect("programs");
    let target = "[Unit]\nAfter=basic.target\nWants=basic.target try.service\n";
    let service = "[Service]\nType=oneshot\nExecStart=/lab/tests/script\nExecStopPost=/lab/muster/sctl poweroff --no-block\n\
                   Environment=PATH=/lab/muster:/usr/sbin:/usr/bin:/sbin:/bin\n";
    let (driver, exec) = (
        muster_fault::test_program("native-driver"),
        env!("CARGO_BIN_EXE_muster-native-exec"),
    );
    let guest = muster::guest(&programs)
        .host_file(driver, "/lab/tests/native-driver")
        .host_file(exec, "/lab/tests/muster-native-exec")
        .file("/lab/tests/script", SCRIPT, 0o755)
        .file("/etc/systemd/system/default.target", target, 0o644)
        .file("/etc/systemd/system/try.service", service, 0o644);
    let outcome = guest.run(TIME).expect("the guest runs");
    let console = outcome.console.join("\n");
    let found = outcome.text("found").unwrap_or_default();
    for wanted in [
        "memory 33554432",
        "pids 23",
        "cpu 25000 100000",
        "processes 1",
        "dropped: ",
        "adopted a 1 Running",
        "odd has: memory",
        "odd passes down: ",
        "adopted hungry 2 Ended(OutOfMemory)",
        "left: ",
    ] {
        assert!(
            found.lines().any(|line| line == wanted),
            "{wanted:?} is not in\n{found}\n{console}"
        );
    }
    for limit in ["memory", "pids", "cpu"] {
        let limit = format!("the limit of {limit}");
        assert!(
            found.lines().any(|line| line.contains(&limit)),
            "{limit} is not listed as dropped in\n{found}"
        );
    }
}
