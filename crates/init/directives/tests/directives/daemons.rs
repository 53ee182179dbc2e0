//! Daemons of Debian's packages, from the packages' own unit files, in a root that only these packages made.
//!
//! `scripts/lab-daemons` makes the root. It boots with what the packages enabled, their generators included, and each daemon
//! is then used by its own client.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use muster_lab::machine::{Build, Machine};
use muster_lab::muster;
use muster_lab::poll_until;

use crate::world::TIME;

/// A daemon, how it says that it is up, what of the kernel shows its sandbox, and a command that succeeds when it works.
struct Daemon {
    unit: &'static str,
    kind: &'static str,
    works: &'static str,
}

const DAEMONS: &[Daemon] = &[
    Daemon {
        unit: "nginx.service",
        kind: "forking",
        works: "curl -sf http://127.0.0.1/ | grep -q 'Welcome to nginx'",
    },
    Daemon {
        unit: "redis-server.service",
        kind: "notify",
        works: "redis-cli set key word | grep -q OK && redis-cli get key | grep -q word && redis-cli save | grep -q OK",
    },
    Daemon {
        unit: "cron.service",
        kind: "simple",
        works: "test \"$(cat /run/by-cron)\" = by-cron",
    },
    Daemon {
        unit: "rsyslog.service",
        kind: "notify",
        works: "logger word of the lab && grep -q 'word of the lab' /var/log/syslog",
    },
    Daemon {
        unit: "ssh.service",
        kind: "notify",
        works: "test \"$(ssh -i /root/.ssh/lab -o StrictHostKeyChecking=no -o BatchMode=yes 127.0.0.1 id -u)\" = 0",
    },
    Daemon {
        unit: "mosquitto.service",
        kind: "notify",
        works: "mosquitto_pub -r -t lab -m word && test \"$(mosquitto_sub -t lab -C 1 -W 10)\" = word",
    },
    Daemon {
        unit: "haproxy.service",
        kind: "notify",
        works: "curl -sf http://127.0.0.1:8080/ | grep -q 'Welcome to nginx'",
    },
    Daemon {
        unit: "postgresql@15-main.service",
        kind: "forking",
        works: "test \"$(runuser -u postgres -- psql -Atc 'select 6 * 7')\" = 42",
    },
];

/// What kernels of machines without such devices lack, and what is said of it.
const LACKING: &[&str] = &["DeviceAllow: the kernel has no devices char-rtc"];

const HAPROXY: &str = "global\n    stats socket /run/haproxy/admin.sock mode 660\n    user haproxy\n    group haproxy\n\
                       defaults\n    mode http\n    timeout connect 5s\n    timeout client 50s\n    timeout server 50s\n\
                       frontend lab\n    bind 127.0.0.1:8080\n    default_backend nginx\nbackend nginx\n    server a 127.0.0.1:80\n";
/// What the distribution's own init does from the packages' descriptions, and keys that a person would have put there.
const PREPARE: &str = "[Unit]\nDefaultDependencies=no\nBefore=basic.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                       ExecStart=/usr/bin/systemd-tmpfiles --create\n\
                       ExecStart=/bin/sh -ec 'mkdir -p -m 700 /root/.ssh; ssh-keygen -q -t ed25519 -N \"\" -f /root/.ssh/lab; \
                       cp /root/.ssh/lab.pub /root/.ssh/authorized_keys'\n";
const DEFAULT_TARGET: &str = "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\n";
const WANTS_PREPARE: &str = "[Unit]\nRequires=prepare.service\nAfter=prepare.service\n";

fn root() -> PathBuf {
    let cache = || {
        let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or(home)
            .unwrap()
            .join("muster/lab-daemons")
    };
    env::var_os("MUSTER_LAB_DAEMONS")
        .map_or_else(cache, PathBuf::from)
        .join("root")
}

fn shell(machine: &Machine, command: &str) -> Result<(), String> {
    let output = machine
        .run(["timeout", "20", "/bin/sh", "-c", command])
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}: {}{}",
        output.status, output.stdout, output.stderr
    ))
}

fn property(machine: &Machine, unit: &str, name: &str) -> String {
    let output = machine
        .run(["sctl", "show", "--value", "-p", name, unit])
        .unwrap();
    output.stdout.trim_end().to_owned()
}

#[test]
fn daemons_of_packages_run_from_their_own_unit_files() {
    muster_lab::require!(Root, Cgroup2);
    let root = root();
    assert!(
        root.is_dir(),
        "{} is missing; scripts/lab-daemons makes it",
        root.display()
    );
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let builder = muster::machine(&programs)
        .root(&root)
        // Of the distribution's init rather than of a daemon, and rsyslog requires it.
        .vendor_unit("syslog.socket")
        .unit("default.target", DEFAULT_TARGET)
        .unit("prepare.service", PREPARE)
        .unit("basic.target.d/prepare.conf", WANTS_PREPARE)
        .file("/etc/haproxy/haproxy.cfg", HAPROXY, 0o644)
        .file(
            "/etc/cron.d/lab",
            "@reboot root echo by-cron >/run/by-cron\n",
            0o644,
        );
    let machine = muster::boot(&builder, TIME).unwrap();
    let prepared = shell(
        &machine,
        "sctl is-active -q prepare.service || { sctl status prepare.service; false; }",
    );
    assert_eq!(prepared, Ok(()));

    let mut failures = Vec::new();
    for daemon in DAEMONS {
        let unit = daemon.unit;
        let state = property(&machine, unit, "ActiveState");
        let kind = property(&machine, unit, "Type");
        let mut last = Err("not tried".to_owned());
        let time = if state == "active" {
            TIME
        } else {
            Duration::ZERO
        };
        let works = muster_lab::try_poll_for(time, || {
            last = shell(&machine, daemon.works);
            last.is_ok().then_some(())
        });
        if works.is_none() || state != "active" || kind != daemon.kind {
            let status = machine.run(["sctl", "status", unit]).unwrap();
            failures.push(format!(
                "{unit}: {state}, {kind}, {last:?}\n{}{}",
                status.stdout, status.stderr
            ));
        } else {
            println!("{unit}: works");
        }
        // Nothing of what its packagers ask for is left out.
        let status = machine.run(["sctl", "status", unit]).unwrap().stdout;
        let mut lines = status.lines().map(str::trim);
        let is_left_out = |line: &str| {
            let what = line
                .strip_prefix("Dropped: ")
                .or_else(|| line.strip_prefix("Not applied: "));
            what.is_some_and(|what| !LACKING.contains(&what))
        };
        if lines.any(is_left_out) {
            failures.push(format!("{unit}: something was left out\n{status}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));

    // The sandbox that a package asks for is there: this one asks for nearly everything.
    let main = property(&machine, "redis-server.service", "MainPID");
    let status = machine.read(format!("/proc/{main}/status")).unwrap();
    for line in ["Seccomp:\t2", "NoNewPrivs:\t1", "CapBnd:\t0000000000000000"] {
        assert!(status.contains(line), "no {line:?} in {status}");
    }

    for daemon in DAEMONS {
        let unit = daemon.unit;
        shell(&machine, &format!("sctl stop {unit}"))
            .unwrap_or_else(|error| panic!("{unit}: {error}"));
        poll_until(TIME, &format!("nothing of {unit} is left"), || {
            let processes = machine.processes().unwrap();
            !processes
                .iter()
                .any(|process| process.cgroup.ends_with(unit))
        });
    }
}
