//! On cgroup v2 alone, with controllers: a guest with a kernel of its own, and both OCI runtimes.

use std::path::Path;
use std::time::Duration;

use muster_lab::machine::Build;
use muster_lab::muster;

const TIME: Duration = Duration::from_secs(240);

/// What the guest does, and then it ends. Everything that it finds goes to `/out/found`.
const SCRIPT: &str = r#"
exec >/out/found 2>&1
set -x
export DRIVER_UNIT_PROGRAM=/lab/tests/muster-container
driver=/lab/tests/container-driver
busybox=/lab/bin/busybox
$busybox insmod /usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
mkdir -p /run/storage /run/image/bin; chmod 777 /run/storage
cp $busybox /run/image/bin/busybox
for tool in sh sleep dd id cat; do ln -s busybox /run/image/bin/$tool; done
# Looks again until a command prints something like this; what it printed is in `seen`.
until_seen() {
    for try in $(seq 100); do
        seen=$(eval "$2")
        echo "$seen" | grep -q "$1" && return
        sleep 0.1
    done
}
image='"layers": ["/run/image"]'
for runtime in runc crun; do
    export DRIVER_OCI_RUNTIME=$runtime
    $driver start $runtime 1 'sleep 0.2; exec sleep 1000' '{"dmips": 2500, "ram": 33554432, "pids": 23, '"$image}" || continue
    group=$(echo /sys/fs/cgroup/system.slice/muster-container-*/container)
    set +x
    echo "$runtime memory $(cat $group/memory.max)"
    echo "$runtime pids $(cat $group/pids.max)"
    echo "$runtime cpu $(cat $group/cpu.max)"
    echo "$runtime $($driver adopt $runtime)"
    set -x
    # Killed from outside, it is started again by core, in the same unit.
    kill -9 $(cat /run/muster/container/*/pid)
    until_seen 'Running restarts 1' 'echo $($driver adopt $runtime) restarts $(sctl show --value -p NRestarts "muster-container-*")'
    echo "$runtime again $seen"
    $driver stop $runtime 0
    $driver start hungry 2 'sleep 0.3; exec dd if=/dev/zero of=/dev/null bs=100M' '{"ram": 16000000, "burst": 1, '"$image}"
    until_seen 'Ended(OutOfMemory)' '$driver adopt hungry'
    echo "$runtime $seen"
    $driver stop hungry 0
    $driver start users 1 'id -u >/storage/users; cat /proc/self/uid_map >>/storage/users; exec sleep 1000' '{"user_namespace": true, "storage": "/run/storage", '"$image}"
    until_seen '65536\|60534' 'cat /run/storage/users'
    set +x
    echo "$runtime users $(head -n 1 /run/storage/users) $(wc -l </run/storage/users)"
    rm -f /run/storage/users
    set -x
    $driver stop users 0
    set +x
    echo "$runtime left: $($driver leftovers)"
    set -x
done
echo end
"#;

#[test]
fn limits_restarts_and_want_of_memory_are_right_on_cgroup_v2() {
    muster_lab::require!(
        Root,
        Tool("linux.uml"),
        Tool("runc"),
        Tool("crun"),
        File("/bin/busybox")
    );
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).expect("programs");
    let enough = "[Unit]\nAfter=basic.target\nWants=basic.target try.service\n";
    let service = "[Service]\nType=oneshot\nExecStart=/lab/tests/script\nExecStopPost=/lab/muster/sctl poweroff --no-block\n\
                   Environment=PATH=/lab/muster:/usr/sbin:/usr/bin:/sbin:/bin\n";
    let guest = muster::guest(&programs)
        .host_file(
            muster_fault::test_program("container-driver"),
            "/lab/tests/container-driver",
        )
        .host_file(
            env!("CARGO_BIN_EXE_muster-container"),
            "/lab/tests/muster-container",
        )
        .file("/lab/tests/script", format!("#!/bin/sh\n{SCRIPT}"), 0o755)
        .file("/etc/systemd/system/default.target", enough, 0o644)
        .file("/etc/systemd/system/try.service", service, 0o644)
        .file(Path::new("/etc/passwd"), "root:x:0:0::/:/bin/sh\n", 0o644);
    let outcome = guest.run(TIME).expect("the guest runs");
    let console = outcome.console.join("\n");
    let found = outcome
        .text("found")
        .unwrap_or_else(|| panic!("nothing found; console:\n{console}"));
    for runtime in ["runc", "crun"] {
        for wanted in [
            format!("{runtime} memory 33554432"),
            format!("{runtime} pids 23"),
            format!("{runtime} cpu 25000 100000"),
            format!("{runtime} adopted {runtime} 1 Running"),
            format!("{runtime} again adopted {runtime} 1 Running restarts 1"),
            format!("{runtime} adopted hungry 2 Ended(OutOfMemory)"),
            format!("{runtime} users 5001 4"),
            format!("{runtime} left: "),
        ] {
            assert!(
                found.lines().any(|line| line == wanted),
                "{wanted:?} is not in\n{found}\n{console}"
            );
        }
    }
}
