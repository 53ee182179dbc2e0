//! What an instance is held to, seen from inside and in the kernel's files.

use crate::rig::Rig;

#[test]
fn limits_are_in_the_kernel_and_the_unit_is_not_limited() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/sys/fs/cgroup/memory")
    );
    let rig = Rig::boot();
    let options = r#"{"dmips": 2500, "ram": 33554432, "pids": 23, "files": 77, "tmp": 65536}"#;
    rig.ok(&["start", "a", "1", "exec sleep 1000", options]);
    let found = rig
        .run([
            "sh",
            "-c",
            "find /sys/fs/cgroup -path '*/muster-container-*/container' -type d",
        ])
        .unwrap()
        .stdout;
    let group = |controller: &str| {
        let mut groups = found
            .lines()
            .filter(|path| path.starts_with(&format!("/sys/fs/cgroup/{controller}/")));
        groups
            .next()
            .unwrap_or_else(|| panic!("no group of {controller} in\n{found}"))
            .to_owned()
    };
    let value = |controller: &str, file: &str| rig.line(&format!("{}/{file}", group(controller)));
    assert_eq!(value("memory", "memory.limit_in_bytes"), "33554432");
    assert_eq!(value("memory", "memory.memsw.limit_in_bytes"), "33554432");
    assert_eq!(value("pids", "pids.max"), "23");
    let cores = std::thread::available_parallelism().unwrap().get();
    // A quarter of the machine.
    assert_eq!(
        value("cpu", "cpu.cfs_quota_us"),
        (cores * 25_000).to_string()
    );
    assert_eq!(value("cpu", "cpu.cfs_period_us"), "100000");
    // In the tree by which core knows its units, the instance is below its unit.
    let mut unified = found
        .lines()
        .filter(|path| path.starts_with("/sys/fs/cgroup/unified/"));
    assert!(
        unified.any(|path| path.ends_with(".service/container")),
        "{found}"
    );
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn an_instance_is_closed_in() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.storage();
    let script = r#"
        exec >/storage/seen 2>&1
        id -u; id -g
        grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status
        touch /x 2>/dev/null && echo root is writable
        ulimit -n; ulimit -H -n
        dd if=/dev/zero of=/tmp/large bs=4096 count=100 2>/dev/null || wc -c </tmp/large
        echo $(df -k /tmp | grep /tmp)
        cat /proc/sys/net/core/somaxconn
        mount -t tmpfs x /tmp 2>/dev/null && echo may mount
        unshare -U true 2>/dev/null && echo may unshare
        ls /proc/1/root >/dev/null && echo sees itself as 1
        ls /sys/class/net
        (echo x >/proc/sys/kernel/hostname) 2>/dev/null && echo may set
        (echo 7 >/proc/sys/net/core/somaxconn) 2>/dev/null && echo may set its own
        head -c 10 /proc/kcore 2>/dev/null | wc -c
        cat /state.dat; echo changed >/state.dat
        echo $AOS_ITEM_ID $AOS_SUBJECT_ID $AOS_INSTANCE_INDEX $AOS_SECRET
        echo end
        exec sleep 1000"#;
    rig.write("/run/state", "state\n").unwrap();
    rig.run(["chown", "5001", "/run/state"]).unwrap();
    let options = r#"{"storage": "/run/storage", "state": "/run/state", "secret": "hidden", "files": 77,
        "tmp": 65536, "sysctl": {"net.core.somaxconn": "77"}}"#;
    rig.ok(&["start", "a", "1", script, options]);
    let seen = muster_lab::try_poll_for(crate::rig::TIME, || {
        rig.read("/run/storage/seen")
            .ok()
            .filter(|text| text.ends_with("\nend\n"))
    });
    let seen = seen.unwrap_or_else(|| rig.read("/run/storage/seen").unwrap());
    assert_eq!(
        seen,
        "5001\n5001\n\
         CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
         CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n\
         77\n77\n65536\ntmpfs 64 64 0 100% /tmp\n77\n\
         sees itself as 1\nlo\n0\nstate\na test 0 hidden\nend\n"
    );
    assert_eq!(rig.line("/run/state"), "changed");
    // The secret is for the instance only.
    let readable = rig
        .run(["sh", "-c", "ls -ln /run/muster/container/*/config.json"])
        .unwrap()
        .stdout;
    assert!(readable.starts_with("-rw-------"), "{readable}");
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn what_is_asked_for_and_granted_is_given() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.storage();
    let script = r#"
        exec >/storage/seen 2>&1
        grep CapEff: /proc/self/status
        touch /x && echo root is writable
        dd if=/dev/zero of=/large bs=4096 count=16384 2>/dev/null || echo not without end
        wc -c </large
        echo end
        exec sleep 1000"#;
    let options = r#"{"storage": "/run/storage", "tmp": 1048576, "capabilities": ["CAP_NET_BIND_SERVICE"], "writable": true, "uid": 0}"#;
    rig.ok(&["start", "a", "1", script, options]);
    let seen = muster_lab::try_poll_for(crate::rig::TIME, || {
        rig.read("/run/storage/seen")
            .ok()
            .filter(|text| text.ends_with("\nend\n"))
    });
    let seen = seen.unwrap_or_else(|| rig.read("/run/storage/seen").unwrap_or_default());
    let (before, written) = seen
        .trim_end_matches("end\n")
        .split_once("without end\n")
        .unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(before, "CapEff:\t0000000000000400\nroot is writable\nnot ");
    let written: u64 = written.trim().parse().unwrap();
    assert!((900_000..=1_048_576).contains(&written), "{written}");
    // Nothing of it is where core and everybody else has what they need.
    let mounts = rig.read("/proc/1/mountinfo").unwrap();
    assert!(mounts.contains("/top rw"), "{mounts}");
    let refused = rig.driver(&[
        "start",
        "b",
        "1",
        "true",
        r#"{"capabilities": ["CAP_SYS_ADMIN"]}"#,
    ]);
    assert!(
        refused
            .stderr
            .contains("CAP_SYS_ADMIN, which this node does not grant"),
        "{}",
        refused.stderr
    );
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn a_device_is_opened_by_the_group_that_owns_it_and_by_nobody_else() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.storage();
    // A camera as hosts have it, with the numbers of a device that every machine has.
    let camera = "mknod /run/camera c 1 3 && chown root:video /run/camera && chmod 660 /run/camera";
    let made = rig.run(["sh", "-c", camera]).unwrap();
    assert!(made.status.success(), "{}", made.stderr);
    let script = |name: &str| {
        format!(
            "(echo x >/dev/camera) 2>/dev/null && echo opened >/storage/{name} || echo refused >/storage/{name}; exec sleep 1000"
        )
    };
    let device = r#""storage": "/run/storage", "devices": [["/run/camera", "/dev/camera"]]"#;
    let options = format!(r#"{{{device}, "groups": ["video"]}}"#);
    rig.ok(&["start", "member", "1", &script("member"), &options]);
    let options = format!("{{{device}}}");
    rig.ok(&["start", "stranger", "1", &script("stranger"), &options]);
    assert_eq!(rig.line("/run/storage/member"), "opened");
    assert_eq!(rig.line("/run/storage/stranger"), "refused");
    rig.ok(&["stop", "member", "0"]);
    rig.ok(&["stop", "stranger", "0"]);
    rig.assert_nothing_left();
}

#[test]
fn a_folder_that_is_shown_read_only_is_so_with_what_is_mounted_within() {
    muster_lab::require!(Root, Cgroup2, Tool("runc"), File("/bin/busybox"));
    let rig = Rig::boot();
    rig.storage();
    let folder = "mkdir -p /run/shared/inner && mount -t tmpfs inner /run/shared/inner \
        && chmod 777 /run/shared /run/shared/inner";
    let made = rig.run(["sh", "-c", folder]).unwrap();
    assert!(made.status.success(), "{}", made.stderr);
    let script = r#"
        seen=
        for file in /shared/file /shared/inner/file /open/inner/file; do
            touch $file 2>/dev/null && seen="$seen $file"
        done
        echo "written:$seen" >/storage/seen
        exec sleep 1000"#;
    let options = r#"{"storage": "/run/storage",
        "mounts": [["/run/shared", "/shared", true], ["/run/shared", "/open", false]]}"#;
    rig.ok(&["start", "a", "1", script, options]);
    assert_eq!(rig.line("/run/storage/seen"), "written: /open/inner/file");
    rig.ok(&["stop", "a", "0"]);
    rig.assert_nothing_left();
}
