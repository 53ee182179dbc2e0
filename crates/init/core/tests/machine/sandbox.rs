//! Units whose processes a helper sets up: what they see, what they are told, what is left of them.

use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};
use crate::upgrade::upgrade;

/// A service with these lines.
fn service(lines: &str) -> String {
    format!("[Service]\n{lines}\n")
}

/// A oneshot that runs a script which ends at the first thing that is not as it should be.
fn checks(script: &str, lines: &str) -> String {
    let script = script.split_whitespace().collect::<Vec<_>>().join(" ");
    service(&format!(
        "Type=oneshot\nRemainAfterExit=yes\n{lines}\nExecStart=/bin/sh -xec '{script}'"
    ))
}

/// Starts a unit that must start, and shows what it said if it does not.
#[track_caller]
fn start(rig: &Rig, unit: &str) {
    let started = rig.sctl(&["start", unit]);
    if !started.status.success() {
        let status = rig.sctl(&["status", "--lines=50", unit]).stdout;
        panic!("{}{status}", started.stderr);
    }
}

/// What a shell in the machine prints.
#[track_caller]
fn shell(rig: &Rig, script: &str) -> String {
    let output = rig.run(["sh", "-c", script]).unwrap();
    assert!(output.status.success(), "{script}: {}", output.stderr);
    output.stdout.trim().to_owned()
}

/// Folders of private `/tmp`s.
fn private_folders(rig: &Rig) -> String {
    shell(
        rig,
        "ls -d /tmp/muster-private-* /var/tmp/muster-private-* 2>/dev/null | wc -l",
    )
}

const BROAD: &str = "User=nobody\nStateDirectory=broad\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n\
    PrivateDevices=yes\nPrivateNetwork=yes\nProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectControlGroups=yes\n\
    CapabilityBoundingSet=\nNoNewPrivileges=yes\nRestrictRealtime=yes\nLockPersonality=yes\nRestrictNamespaces=yes\n\
    SystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\nRestrictAddressFamilies=AF_UNIX\n\
    InaccessiblePaths=/etc/shadow\nSetCredential=key:secret words\nUMask=0077";

#[test]
fn a_broad_sandbox_is_what_a_service_sees() {
    muster_lab::require!(Root, Cgroup2);
    let script = "
        touch /tmp/inside; test ! -e /tmp/outside;
        touch $STATE_DIRECTORY/kept;
        if touch /usr/changed; then exit 10; fi;
        if touch /var/lib/changed; then exit 11; fi;
        if ls /root; then exit 12; fi;
        if cat /etc/shadow; then exit 13; fi;
        test ! -e /dev/kmsg; test -c /dev/null;
        test \"$(grep -c : /proc/net/dev)\" = 1;
        grep -q \"^CapBnd:.*0000000000000000$\" /proc/self/status;
        grep -q \"^NoNewPrivs:.*1$\" /proc/self/status;
        grep -q \"^Seccomp:.*2$\" /proc/self/status;
        if unshare -U true; then exit 14; fi;
        test \"$(cat $CREDENTIALS_DIRECTORY/key)\" = \"secret words\";
        if ls /run/credentials/other.service; then exit 15; fi;
        test \"$(id -un)\" = nobody";
    let rig = Rig::boot(|builder| {
        builder.unit("broad.service", checks(script, BROAD)).unit(
            "other.service",
            service("SetCredential=key:other\nExecStart=/bin/sleep infinity\nType=exec"),
        )
    });
    shell(&rig, "touch /tmp/outside");
    start(&rig, "other.service");
    start(&rig, "broad.service");
    assert_eq!(private_folders(&rig), "2", "they are there while it is up");
    let owner = shell(&rig, "stat -c '%U %a' /var/lib/broad/kept");
    assert_eq!(owner, "nobody 600");
    let status = rig.ok(&["status", "broad.service"]);
    assert!(!status.contains("Dropped"), "{status}");
    rig.ok(&["stop", "broad.service", "other.service"]);
    let cleared = || private_folders(&rig) == "0";
    poll_until(TIME, "private folders are removed", cleared);
    assert_eq!(shell(&rig, "ls -A /run/credentials"), "");
    assert_eq!(
        shell(&rig, "ls /tmp/inside 2>&1 || true")
            .matches("cannot access")
            .count(),
        1
    );
}

#[test]
fn a_dynamic_user_is_the_same_each_time_and_its_files_stay_its_own() {
    muster_lab::require!(Root, Cgroup2);
    let lines = "DynamicUser=yes\nStateDirectory=dyn\nSupplementaryGroups=daemon";
    let script = "
        id -u >>$STATE_DIRECTORY/numbers;
        test $STATE_DIRECTORY = /var/lib/dyn;
        test -O /var/lib/dyn/numbers;
        test \"$(ls /var/lib/private)\" = dyn;
        if touch /etc/changed; then exit 10; fi;
        touch /tmp/x /dev/shm/dyn-left";
    let rig = Rig::boot(|builder| builder.unit("dyn.service", checks(script, lines)));
    shell(
        &rig,
        "mkdir -p /var/lib/private/other /var/lib/dyn; echo was >/var/lib/dyn/before",
    );
    for _ in 0..2 {
        start(&rig, "dyn.service");
        let line = shell(&rig, "cat /run/muster/dynamic-users/dyn");
        let number: u32 = line.split(':').nth(2).unwrap().parse().unwrap();
        assert!((61_184..=65_519).contains(&number), "{line}");
        rig.ok(&["stop", "dyn.service"]);
        assert_eq!(shell(&rig, "ls -A /run/muster/dynamic-users"), "");
        let cleared = || shell(&rig, "ls /dev/shm").is_empty();
        poll_until(TIME, "its shared memory is removed", cleared);
    }
    let numbers = shell(&rig, "cat /var/lib/private/dyn/numbers");
    let numbers: Vec<&str> = numbers.lines().collect();
    assert_eq!(numbers.len(), 2);
    assert_eq!(numbers[0], numbers[1]);
    assert_eq!(shell(&rig, "stat -c %a /var/lib/private"), "700");
    assert_eq!(shell(&rig, "readlink /var/lib/dyn"), "/var/lib/private/dyn");
    let owner = shell(&rig, "stat -c %u /var/lib/private/dyn/before");
    assert_eq!(owner, numbers[0], "what was there before is its own, too");
    // Somebody who took the number changes nothing but the number.
    shell(
        &rig,
        &format!("echo taken:x:{}:100::/:/bin/sh >>/etc/passwd", numbers[0]),
    );
    start(&rig, "dyn.service");
    let last = shell(&rig, "tail -n 1 /var/lib/private/dyn/numbers");
    assert_ne!(last, numbers[0]);
    assert_eq!(shell(&rig, "stat -c %u /var/lib/private/dyn/before"), last);
}

#[test]
fn a_step_that_fails_is_told_with_its_object() {
    muster_lab::require!(Root, Cgroup2);
    let rig = Rig::boot(|builder| {
        builder
            .unit(
                "bind.service",
                service("Type=exec\nBindPaths=/no/such/place:/mnt\nExecStart=/bin/sleep infinity"),
            )
            .unit(
                "simple.service",
                service("BindPaths=/no/such/place:/mnt\nExecStart=/bin/sleep infinity"),
            )
            .unit(
                "exec.service",
                service("Type=exec\nPrivateTmp=yes\nExecStart=/no/such/program"),
            )
            .unit(
                "fine.service",
                service("Type=exec\nPrivateTmp=yes\nExecStart=/bin/sleep infinity"),
            )
    });
    for (unit, code, detail) in [
        ("bind.service", "226/NAMESPACE", "/no/such/place"),
        ("exec.service", "203/EXEC", "/no/such/program"),
    ] {
        let started = rig.sctl(&["start", unit]);
        assert!(!started.status.success(), "{unit}");
        let status = rig.sctl(&["status", unit]).stdout;
        assert!(status.contains(code), "{code}: {status}");
        let setup = status
            .lines()
            .find(|line| line.contains("Setup: failed at"));
        assert!(setup.is_some_and(|line| line.contains(detail)), "{status}");
    }
    // A simple service counts as started with its process, and fails by itself then.
    rig.sctl(&["start", "simple.service"]);
    poll_until(TIME, "simple.service fails", || {
        rig.sctl(&["is-failed", "simple.service"]).status.success()
    });
    assert_eq!(rig.property("simple.service", "ExecMainStatus"), "226");
    start(&rig, "fine.service");
    // Without the helper nothing is started that should have been confined.
    let core = rig.core().unwrap();
    let folder = std::fs::read_link(format!("/proc/{}/exe", core.host_pid)).unwrap();
    let helper = folder.parent().unwrap().join("muster-exec");
    shell(
        &rig,
        &format!("mount --bind /dev/null {}", helper.display()),
    );
    let started = rig.sctl(&["restart", "fine.service"]);
    assert!(!started.status.success());
    let status = rig.sctl(&["status", "fine.service"]).stdout;
    assert!(
        status.contains("203/EXEC") && status.contains("muster-exec"),
        "{status}"
    );
}

#[test]
fn what_is_dropped_is_said_also_by_the_next_manager() {
    muster_lab::require!(Root, Cgroup2);
    let best = "Type=exec\nSandboxBestEffort=yes\nInaccessiblePaths=/no/such\nPrivateTmp=yes\n\
                ExecStart=/bin/sleep infinity";
    let strict = "Type=exec\nInaccessiblePaths=/no/such\nExecStart=/bin/sleep infinity";
    let rig = Rig::boot(|builder| {
        builder
            .unit("best.service", service(best))
            .unit("strict.service", service(strict))
    });
    start(&rig, "best.service");
    let is_said = || {
        let status = rig.ok(&["status", "best.service"]);
        status.contains("Dropped: InaccessiblePaths")
    };
    poll_until(TIME, "status says what was dropped", is_said);
    let core = rig.core().unwrap();
    rig.kill(&core, Signal::KILL);
    rig.wait_for_another_core(&core, "a kill");
    assert!(is_said(), "{}", rig.ok(&["status", "best.service"]));
    let started = rig.sctl(&["start", "strict.service"]);
    assert!(!started.status.success());
    let status = rig.sctl(&["status", "strict.service"]).stdout;
    assert!(status.contains("226/NAMESPACE"), "{status}");
}

#[test]
fn commands_of_a_run_share_what_is_private_and_so_do_units_that_join() {
    muster_lab::require!(Root, Cgroup2);
    let both = "PrivateTmp=yes\nPrivateNetwork=yes\nPrivateIPC=yes";
    let same = "readlink /proc/self/ns/net; readlink /proc/self/ns/ipc";
    let host = format!(
        "{both}\nExecStartPre=/bin/sh -c 'echo pre >/tmp/note'\nExecStart=/bin/sleep infinity\n\
         ExecStartPost=/bin/sh -c '(cat /tmp/note; {same}) >>/lab/post'"
    );
    let guest = format!(
        "[Unit]\nJoinsNamespaceOf=host.service\nAfter=host.service\n[Service]\nType=exec\n{both}\n\
         ExecStartPre=/bin/sh -c '(cat /tmp/note; {same}) >>/lab/guest'\nExecStart=/bin/sleep infinity\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::boot(|builder| {
        builder
            .unit("host.service", service(&host))
            .unit("guest.service", guest)
            .bind(folder.path(), "/lab")
    });
    start(&rig, "host.service");
    let main = rig.property("host.service", "MainPID");
    let spaces = shell(
        &rig,
        &format!("readlink /proc/{main}/ns/net; readlink /proc/{main}/ns/ipc"),
    );
    assert_ne!(spaces, shell(&rig, same), "they are its own");
    start(&rig, "guest.service");
    for file in ["post", "guest"] {
        let said = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(said.trim(), format!("pre\n{spaces}"), "{file}");
    }
    // Whoever stays keeps the folders.
    rig.ok(&["stop", "host.service"]);
    let guest = rig.property("guest.service", "MainPID");
    let note = format!("nsenter -t {guest} -m cat /tmp/note");
    assert_eq!(shell(&rig, &note), "pre");
    rig.ok(&["stop", "guest.service"]);
    let cleared = || private_folders(&rig) == "0";
    poll_until(TIME, "private folders are removed", cleared);
}

/// Everybody may write to `/tmp`, and the id of a run can be asked for before it has its folders.
#[test]
fn a_link_of_somebody_else_leads_no_unit_to_the_private_tmp_of_another() {
    muster_lab::require!(Root, Cgroup2);
    let host = "Type=exec\nPrivateTmp=yes\nExecStartPre=/bin/sh -c 'echo $INVOCATION_ID >/lab/host'\n\
                ExecStart=/bin/sleep infinity";
    let plant = "name=/tmp/muster-private-%b; \
        exec setpriv --reuid=65534 --clear-groups ln -s \
        muster-private-%b-host.service-$(cat /lab/host) $name-%n-$INVOCATION_ID";
    let lured = format!(
        "Type=oneshot\nPrivateTmp=yes\nExecStartPre=+/bin/sh -c '{plant}'\n\
         ExecStart=/bin/touch /tmp/strange"
    );
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::boot(|builder| {
        builder
            .unit("host.service", service(host))
            .unit("lured.service", service(&lured))
            .bind(folder.path(), "/lab")
    });
    start(&rig, "host.service");
    let main = rig.property("host.service", "MainPID");
    let in_host = |script: &str| shell(&rig, &format!("nsenter -t {main} -m sh -c '{script}'"));
    in_host("echo own >/tmp/note");
    let started = rig.sctl(&["start", "lured.service"]);
    assert!(!started.status.success(), "its place was taken");
    let status = rig.sctl(&["status", "lured.service"]).stdout;
    assert!(status.contains("226/NAMESPACE"), "{status}");
    let planted = "find /tmp -maxdepth 1 -type l -user 65534 -name 'muster-private-*' | wc -l";
    assert_eq!(
        shell(&rig, planted),
        "1",
        "nobody's link is nobody's to remove"
    );
    // What comes after is done in turn: so would the folders have gone by now.
    start(&rig, "host.service");
    assert_eq!(in_host("ls /tmp; cat /tmp/note"), "note\nown");
    assert_eq!(private_folders(&rig), "3", "two, and the link");
}

fn kill(rig: &Rig) {
    let core = rig.core().unwrap();
    rig.kill(&core, Signal::KILL);
    rig.wait_for_another_core(&core, "a kill");
}

/// A unit that has no process left, but is up, has what it was given: so has whoever joins it, whichever manager is there.
#[test]
fn namespaces_are_kept_for_whoever_joins_later_also_by_the_next_manager() {
    muster_lab::require!(Root, Cgroup2);
    assert_namespaces_are_kept(kill);
}

/// The same where the next manager is another program.
#[test]
fn namespaces_are_kept_for_whoever_joins_later_also_by_a_manager_that_takes_over() {
    muster_lab::require!(Root, Cgroup2);
    assert_namespaces_are_kept(upgrade);
}

fn assert_namespaces_are_kept(replace: fn(&Rig)) {
    let own = "PrivateTmp=yes\nPrivateNetwork=yes\nPrivateIPC=yes";
    let seen = |name: &str| {
        format!("(cat /tmp/note && readlink /proc/self/ns/net /proc/self/ns/ipc) >/lab/{name}")
    };
    let host = format!(
        "Type=oneshot\nRemainAfterExit=yes\n{own}\nExecStartPre=/bin/sh -c 'echo pre >/tmp/note'\n\
         ExecStart=/bin/sh -c '{}'",
        seen("host")
    );
    let joins = |other: &str, name: &str| {
        format!(
            "[Unit]\nJoinsNamespaceOf={other}\n[Service]\nType=exec\n{own}\n\
             ExecStartPre=/bin/sh -c '{}'\nExecStart=/bin/sleep infinity\n",
            seen(name)
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::boot(|builder| {
        builder
            .unit("host.service", service(&host))
            .unit("one.service", joins("host.service", "one"))
            .unit("two.service", joins("one.service", "two"))
            .unit("late.service", joins("two.service", "late"))
            .bind(folder.path(), "/lab")
    });
    let said = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    start(&rig, "host.service");
    replace(&rig);
    start(&rig, "one.service");
    assert_eq!(said("one"), said("host"));
    // Whoever is left keeps it, and the manager may go once more.
    rig.ok(&["stop", "host.service"]);
    replace(&rig);
    start(&rig, "two.service");
    assert_eq!(said("two"), said("host"));
    rig.ok(&["stop", "one.service"]);
    let two = rig.property("two.service", "MainPID");
    let note = format!("nsenter -t {two} -m cat /tmp/note");
    assert_eq!(shell(&rig, &note), "pre");
    rig.ok(&["stop", "two.service"]);
    let cleared = || private_folders(&rig) == "0";
    poll_until(TIME, "private folders are removed", cleared);
    // Nobody is left to share it with.
    let shown = rig.sctl(&["start", "late.service"]);
    assert!(!shown.status.success(), "there is no note any more");
}

/// A manager may be replaced between two commands of a run, or while one of them sets its namespaces up for the others.
#[test]
fn commands_before_and_after_an_upgrade_share_what_is_private() {
    muster_lab::require!(Root, Cgroup2);
    let seen = |name: &str| {
        format!("(cat /tmp/note && readlink /proc/self/ns/net /proc/self/ns/ipc) >/lab/{name}")
    };
    let lines = format!(
        "PrivateTmp=yes\nPrivateNetwork=yes\nPrivateIPC=yes\n\
         ExecStartPre=/bin/sh -c 'echo pre >/tmp/note; {}; read line </lab/go'\n\
         ExecStart=/bin/sh -c '{}; exec /bin/sleep infinity'\nExecReload=/bin/sh -c '{}'\n\
         ExecStopPost=/bin/sh -c '{}'",
        seen("pre"),
        seen("main"),
        seen("reload"),
        seen("post")
    );
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::boot(|builder| {
        builder
            .unit("run.service", service(&lines))
            .bind(folder.path(), "/lab")
    });
    let said = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let is_said = |name: &str| {
        poll_until(TIME, &format!("{name} has looked"), || {
            said(name).lines().count() == 3
        });
        said(name)
    };
    shell(&rig, "mkfifo /lab/go");
    rig.ok(&["start", "--no-block", "run.service"]);
    let first = is_said("pre");
    upgrade(&rig);
    shell(&rig, "echo >/lab/go");
    assert_eq!(is_said("main"), first);
    upgrade(&rig);
    rig.ok(&["reload", "run.service"]);
    assert_eq!(said("reload"), first);
    upgrade(&rig);
    rig.ok(&["stop", "run.service"]);
    assert_eq!(said("post"), first);
    let cleared = || private_folders(&rig) == "0";
    poll_until(TIME, "private folders are removed", cleared);
}
