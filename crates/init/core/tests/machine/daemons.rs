//! Real daemons of the distribution, from the unit files that their packages ship.

use muster_lab::machine::MachineBuilder;
use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};

/// A daemon, what kind of service it is, and how to see that it works.
struct Daemon {
    unit: &'static str,
    also: &'static [&'static str],
    process: &'static str,
    kind: &'static str,
    /// A shell command in the machine that succeeds when the daemon does its work.
    works: &'static str,
}

const CRON: Daemon = Daemon {
    unit: "cron.service",
    also: &[],
    process: "cron",
    kind: "simple",
    works: "test \"$(cat /run/crond.pid)\" = \"$(sctl show --value -p MainPID cron)\"",
};

const SSH: Daemon = Daemon {
    unit: "ssh.service",
    also: &[],
    process: "sshd",
    kind: "notify",
    works: "ssh-keyscan -t ed25519 127.0.0.1 2>/dev/null | grep -q ssh-ed25519",
};

const NGINX: Daemon = Daemon {
    unit: "nginx.service",
    also: &[],
    process: "nginx",
    kind: "forking",
    works: "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc 127.0.0.1 80 | grep -q 'HTTP/1.1 200'",
};

const DBUS: Daemon = Daemon {
    unit: "dbus.service",
    also: &["dbus.socket"],
    process: "dbus-daemon",
    kind: "notify",
    works: "dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId",
};

impl Daemon {
    fn install(&self, builder: MachineBuilder) -> MachineBuilder {
        let builder = builder.vendor_unit(self.unit);
        self.also.iter().fold(builder, MachineBuilder::vendor_unit)
    }

    #[track_caller]
    fn assert_works(&self, rig: &Rig) {
        let output = rig.run(["/bin/sh", "-c", self.works]).unwrap();
        assert!(
            output.status.success(),
            "{}: {}{}",
            self.unit,
            output.stdout,
            output.stderr
        );
    }

    /// Up, working, reloaded or not, killed and back if it says so, and down without a trace.
    fn live(&self) {
        let rig = Rig::boot(|builder| self.install(builder));
        // What the packages make when they are installed, on a file system that is empty here.
        rig.write("/var/log/nginx/error.log", "").unwrap();
        rig.ok(&["start", self.unit]);
        assert_eq!(rig.property(self.unit, "Type"), self.kind);
        assert_eq!(rig.property(self.unit, "ActiveState"), "active");
        let main: i32 = rig.property(self.unit, "MainPID").parse().unwrap();
        let running = rig.named(self.process);
        assert!(
            running.iter().any(|process| process.pid == main),
            "{main}: {running:?}"
        );
        assert!(
            running
                .iter()
                .all(|process| process.cgroup.ends_with(self.unit)),
            "{running:?}"
        );
        self.assert_works(&rig);

        if rig.property(self.unit, "CanReload") == "yes" {
            rig.ok(&["reload", self.unit]);
            assert_eq!(
                rig.property(self.unit, "MainPID"),
                main.to_string(),
                "a reload is no restart"
            );
            self.assert_works(&rig);
        }
        if rig.property(self.unit, "Restart") == "on-failure" {
            let old = running.iter().find(|process| process.pid == main).unwrap();
            rig.kill(old, Signal::KILL);
            poll_until(TIME, "it was started again", || {
                // The process first: without one the state that was asked for before may be that of the one killed.
                let now = rig.property(self.unit, "MainPID");
                now != "0"
                    && now != main.to_string()
                    && rig.property(self.unit, "ActiveState") == "active"
            });
            assert_eq!(rig.property(self.unit, "NRestarts"), "1");
            self.assert_works(&rig);
        }
        let units: Vec<&str> = self.also.iter().chain([&self.unit]).copied().collect();
        rig.ok(&[&["stop"], &units[..]].concat());
        assert_eq!(rig.property(self.unit, "ActiveState"), "inactive");
        assert_eq!(rig.property(self.unit, "Result"), "success");
        assert_eq!(rig.named(self.process), []);
    }
}

#[test]
fn cron_lives_from_its_own_unit_file() {
    muster_lab::require!(Root, Cgroup2, File("/usr/sbin/cron"));
    CRON.live();
}

#[test]
fn ssh_lives_from_its_own_unit_file() {
    muster_lab::require!(Root, Cgroup2, File("/usr/sbin/sshd"), Tool("ssh-keyscan"));
    SSH.live();
}

#[test]
fn nginx_lives_from_its_own_unit_file() {
    muster_lab::require!(Root, Cgroup2, File("/usr/sbin/nginx"), File("/bin/busybox"));
    NGINX.live();
}

#[test]
fn dbus_lives_from_its_own_unit_file() {
    muster_lab::require!(Root, Cgroup2, Tool("dbus-daemon"), Tool("dbus-send"));
    DBUS.live();
}
