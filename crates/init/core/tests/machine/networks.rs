//! Sockets of units that have a network of their own.

use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};

/// Whether something listens at a port, in the words of the kernel's tables.
fn is_listened_at(tables: &str, port: u16) -> bool {
    let place = format!(":{port:04X} ");
    let mut lines = tables.lines();
    lines.any(|line| line.contains(&place) && line.contains(" 0A "))
}

#[track_caller]
fn shell(rig: &Rig, script: &str) -> String {
    let output = rig.run(["sh", "-c", script]).unwrap();
    assert!(output.status.success(), "{script}: {}", output.stderr);
    output.stdout.trim().to_owned()
}

const TABLES: &str = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true";

#[test]
fn a_port_of_a_private_network_is_nowhere_else() {
    muster_lab::require!(Root, Cgroup2);
    let joins = "[Unit]\nJoinsNamespaceOf=door.socket\n[Service]\nPrivateNetwork=yes\n";
    let rig = Rig::boot(|builder| {
        builder
            .unit(
                "door.socket",
                "[Socket]\nListenStream=7777\nPrivateNetwork=yes\n",
            )
            .unit(
                "door.service",
                format!("{joins}Type=exec\nExecStart=/bin/sleep infinity\n"),
            )
            .unit(
                "visitor.service",
                format!(
                    "{joins}Type=oneshot\nExecStart=/usr/bin/perl -MIO::Socket::INET \
                     -e 'IO::Socket::INET->new(\"127.0.0.1:7777\") or die $!'\n"
                ),
            )
    });
    rig.ok(&["start", "door.socket"]);
    assert!(!is_listened_at(&shell(&rig, TABLES), 7777));
    rig.ok(&["start", "visitor.service"]);
    let is_up = || rig.sctl(&["is-active", "door.service"]).status.success();
    poll_until(TIME, "a visitor starts the service", is_up);
    let main = rig.property("door.service", "MainPID");
    let inside = shell(&rig, &format!("nsenter -t {main} -n sh -c '{TABLES}'"));
    assert!(is_listened_at(&inside, 7777), "{inside}");
    // The next manager knows where they are.
    rig.ok(&["stop", "door.service"]);
    let core = rig.core().unwrap();
    rig.kill(&core, Signal::KILL);
    rig.wait_for_another_core(&core, "a kill");
    rig.ok(&["start", "visitor.service"]);
    poll_until(TIME, "a visitor starts the service again", is_up);
    assert!(!is_listened_at(&shell(&rig, TABLES), 7777));
}

#[test]
fn a_port_of_a_named_network_is_there_or_the_start_fails() {
    muster_lab::require!(Root, Cgroup2);
    let socket = |port: u16, path: &str| {
        format!("[Socket]\nListenStream={port}\nNetworkNamespacePath={path}\n")
    };
    let rig = Rig::boot(|builder| {
        builder
            .unit("named.socket", socket(7778, "/run/named-network"))
            .unit("missing.socket", socket(7779, "/run/no-such-network"))
            .unit(
                "named.service",
                "[Unit]\nJoinsNamespaceOf=named.socket\n[Service]\nPrivateNetwork=yes\nType=exec\n\
                 ExecStart=/bin/sleep infinity\n",
            )
            .unit(
                "missing.service",
                "[Service]\nExecStart=/bin/sleep infinity\n",
            )
    });
    shell(
        &rig,
        "touch /run/named-network; unshare --net=/run/named-network true",
    );
    rig.ok(&["start", "named.socket"]);
    let started = rig.sctl(&["start", "missing.socket"]);
    assert!(!started.status.success());
    let status = rig.sctl(&["status", "--lines=20", "missing.socket"]).stdout;
    assert!(status.contains("/run/no-such-network"), "{status}");
    let outside = shell(&rig, TABLES);
    for port in [7778, 7779] {
        assert!(!is_listened_at(&outside, port), "{port}: {outside}");
    }
    let inside = shell(
        &rig,
        &format!("nsenter --net=/run/named-network sh -c '{TABLES}'"),
    );
    assert!(is_listened_at(&inside, 7778), "{inside}");
    // Whoever joins a unit that is in somebody's network is in it too.
    rig.ok(&["start", "named.service"]);
    let main = rig.property("named.service", "MainPID");
    let of = |path: &str| shell(&rig, &format!("stat -L -c %i {path}"));
    assert_eq!(
        of(&format!("/proc/{main}/ns/net")),
        of("/run/named-network")
    );
}
