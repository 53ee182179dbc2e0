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

/// A daemon, how it says that it is up, what the kernel shows of its sandbox, and a command that succeeds when it works.
struct Daemon {
    unit: &'static str,
    kind: &'static str,
    shows: Shows,
    works: &'static str,
}

/// What the kernel shows of the sandbox of a main process.
#[derive(Debug, PartialEq, Eq)]
struct Shows {
    /// Whether programs give it rights.
    no_new_privileges: bool,
    /// Whether its system calls are filtered.
    filtered: bool,
    /// Whether its mounts, its users and the host's name are its own.
    own: [bool; 3],
    /// What its bounding set lacks of the first process's: nothing or all of it.
    bounded: bool,
}

/// Of a unit file that asks for no sandbox: whatever is there is none of Muster's making.
const OPEN: Shows = Shows {
    no_new_privileges: false,
    filtered: false,
    own: [false, false, false],
    bounded: false,
};

impl Shows {
    /// Of a process of a machine.
    fn of(machine: &Machine, pid: &str) -> Self {
        let status = machine.read(format!("/proc/{pid}/status")).unwrap();
        let first = machine.read("/proc/1/status").unwrap();
        let number = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {status}"));
            u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
        };
        let own = ["mnt", "user", "uts"].map(|kind| {
            let command = format!(
                "test \"$(readlink /proc/{pid}/ns/{kind})\" = \"$(readlink /proc/1/ns/{kind})\""
            );
            shell(machine, &command).is_err()
        });
        let bounding = number(&status, "CapBnd");
        assert!(
            bounding == 0 || bounding == number(&first, "CapBnd"),
            "{status}"
        );
        Self {
            no_new_privileges: number(&status, "NoNewPrivs") == 1,
            filtered: number(&status, "Seccomp") == 2,
            own,
            bounded: bounding == 0,
        }
    }
}

const DAEMONS: &[Daemon] = &[
    Daemon {
        unit: "nginx.service",
        kind: "forking",
        shows: OPEN,
        works: "curl -sf http://127.0.0.1/ | grep -q 'Welcome to nginx'",
    },
    Daemon {
        unit: "redis-server.service",
        kind: "notify",
        shows: Shows {
            no_new_privileges: true,
            filtered: true,
            own: [true, true, true],
            bounded: true,
        },
        works: "redis-cli set key word | grep -q OK && redis-cli get key | grep -q word && redis-cli save | grep -q OK",
    },
    Daemon {
        unit: "cron.service",
        kind: "simple",
        shows: OPEN,
        works: "test \"$(cat /run/by-cron)\" = by-cron",
    },
    Daemon {
        unit: "rsyslog.service",
        kind: "notify",
        shows: OPEN,
        works: "logger word of the lab && grep -q 'word of the lab' /var/log/syslog",
    },
    Daemon {
        unit: "ssh.service",
        kind: "notify",
        shows: OPEN,
        works: "test \"$(ssh -i /root/.ssh/lab -o StrictHostKeyChecking=no -o BatchMode=yes 127.0.0.1 id -u)\" = 0",
    },
    Daemon {
        unit: "mosquitto.service",
        kind: "notify",
        shows: OPEN,
        works: "mosquitto_pub -r -t lab -m word && test \"$(mosquitto_sub -t lab -C 1 -W 10)\" = word",
    },
    Daemon {
        unit: "haproxy.service",
        kind: "notify",
        // It binds the log's socket into its own folder.
        shows: Shows {
            own: [true, false, false],
            ..OPEN
        },
        works: "curl -sf http://127.0.0.1:8080/ | grep -q 'Welcome to nginx'",
    },
    Daemon {
        unit: "postgresql@15-main.service",
        kind: "forking",
        shows: OPEN,
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
            // The sandbox that its packagers ask for is there, and none that they do not ask for.
            let shows = Shows::of(&machine, &property(&machine, unit, "MainPID"));
            if shows != daemon.shows {
                failures.push(format!("{unit}: {shows:?} rather than {:?}", daemon.shows));
            }
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
