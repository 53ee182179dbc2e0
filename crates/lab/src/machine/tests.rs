use std::fs;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::*;
use crate::leaks::Watch;
use crate::{peer, poll_until};

const TIME: Duration = Duration::from_secs(30);
/// An init that does what one must: it reaps, and lives.
const SHELL_INIT: &str = "trap 'exit 3' TERM; echo up; while :; do sleep 600 & wait; done";

fn shell() -> MachineBuilder {
    Machine::builder().init(["/bin/sh", "-c", SHELL_INIT])
}

#[test]
fn machine_has_its_own_everything() {
    crate::require!(Root, Cgroup2);
    let machine = shell()
        .unit("x.service", "text of x")
        .vendor_unit("basic.target")
        .file("/etc/lab/note", "note", 0o600)
        .boot()
        .unwrap();
    let sh = |script: &str| {
        let output = machine.run(["/bin/sh", "-c", script]).unwrap();
        assert!(output.status.success(), "{script}: {}", output.stderr);
        output.stdout
    };
    assert_eq!(sh("cat /proc/1/comm; hostname"), "sh\nmachine\n");
    assert_eq!(sh("cat /etc/systemd/system/x.service"), "text of x\n");
    assert_eq!(
        sh("stat -c %a /etc/lab/note; cat /etc/lab/note"),
        "600\nnote\n"
    );
    assert_eq!(sh("cat /proc/1/cgroup | grep ^0:"), "0::/\n");
    assert_eq!(
        sh("ls /sys/class/net; ls /run /tmp /var/log"),
        "lo\n/run:\n\n/tmp:\n\n/var/log:\n"
    );
    sh(
        "mkdir /sys/fs/cgroup/child; echo x >/usr/lib/lab-was-here; echo y >/dev/null; test -w /dev/ptmx",
    );
    assert!(machine.cgroup().unwrap().join("child").is_dir());
    assert!(!Path::new("/usr/lib/lab-was-here").exists());
    let refused = machine
        .run(["/bin/sh", "-c", "echo 1 >/proc/sys/kernel/pid_max"])
        .unwrap();
    assert!(!refused.status.success());
    assert_eq!(sh("ls /usr/lib/systemd/system"), "basic.target\n");
}

#[test]
fn host_reads_writes_and_connects_through_the_machines_root() {
    crate::require!(Root, Cgroup2, File("/usr/bin/python3"));
    let listener = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/run/s'); s.listen(); s.accept()[0].send(b'hi')";
    let machine = shell().boot().unwrap();
    machine.write("/run/a/b", "text").unwrap();
    assert_eq!(machine.read("/run/a/b").unwrap(), "text");
    let mut server = machine
        .program(["python3", "-c", listener])
        .start()
        .unwrap();
    machine.wait_for_path("/run/s", TIME).unwrap();
    let mut greeting = String::new();
    let mut connected = None;
    poll_until(TIME, "the server listens", || {
        connected = UnixStream::connect(machine.path("/run/s")).ok();
        connected.is_some()
    });
    io::Read::read_to_string(&mut connected.unwrap(), &mut greeting).unwrap();
    assert_eq!(greeting, "hi");
    assert!(server.wait(TIME).unwrap().success());
}

#[test]
fn end_of_the_init_is_the_end_of_the_machine() {
    crate::require!(Root, Cgroup2);
    let mut machine = shell().boot().unwrap();
    let script = "echo inside; exec sleep 600";
    let mut inside = machine.program(["sh", "-c", script]).start().unwrap();
    inside.wait_for_line("inside", TIME).unwrap();
    machine.wait_for_line("up", TIME).unwrap();
    machine.signal(rustix::process::Signal::TERM).unwrap();
    assert_eq!(machine.wait_ended(TIME).unwrap(), Ended::Exited(3));
    poll_until(TIME, "what ran inside is gone", || {
        !processes::is_alive(inside.pid())
    });

    let mut killed = shell().boot().unwrap();
    killed.signal(rustix::process::Signal::KILL).unwrap();
    assert_eq!(killed.wait_ended(TIME).unwrap(), Ended::Killed(9));
}

#[test]
fn init_beside_another_is_not_process_one() {
    crate::require!(Root, Cgroup2);
    let init = "trap 'exit 7' TERM; echo \"I am $$\"; sleep 600 & wait";
    let mut machine = Machine::builder()
        .init(["/bin/sh", "-c", init])
        .beside_an_init()
        .without_cgroups()
        .boot()
        .unwrap();
    let line = machine.wait_for_line("I am ", TIME).unwrap();
    assert_ne!(line.text, "I am 1");
    assert!(machine.cgroup().is_none());
    assert_eq!(machine.run(["ls", "/sys/fs/cgroup"]).unwrap().stdout, "");
    let processes = machine.processes().unwrap();
    assert_eq!(processes[0].host_pid, machine.host_pid());
    assert!(
        format!("I am {}", processes[1].pid) == line.text,
        "{processes:?}"
    );
    machine.signal(rustix::process::Signal::TERM).unwrap();
    assert_eq!(machine.wait_ended(TIME).unwrap(), Ended::Exited(7));
}

#[test]
fn machine_that_cannot_start_says_why() {
    crate::require!(Root, Cgroup2);
    assert!(matches!(
        Machine::builder().boot(),
        Err(MachineError::NoInit)
    ));
    let mut missing = Machine::builder().init(["/no/such/init"]).boot().unwrap();
    assert_eq!(missing.wait_ended(TIME).unwrap(), Ended::Exited(127));
    let unknown = shell()
        .vendor_unit("no-such.service")
        .boot()
        .map(drop)
        .unwrap_err();
    assert!(unknown.to_string().contains("no-such.service"), "{unknown}");
    let gone = missing.wait_for_path("/run/x", TIME).unwrap_err();
    assert!(gone.to_string().contains("not found"), "{gone}");
}

#[test]
fn nothing_is_left_of_machines_even_after_a_panic() {
    crate::require!(Root, Cgroup2);
    crate::alone!();
    // Starts what the lab keeps for as long as the test process lives.
    drop(shell().boot().unwrap());
    let groups = shell()
        .boot()
        .unwrap()
        .cgroup()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let own = format!("muster-lab-{}-", std::process::id());
    let before = Watch::own().take().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let machine = shell().boot().unwrap();
        machine
            .run([
                "/bin/sh",
                "-c",
                "mkdir -p /sys/fs/cgroup/a/b; setsid sleep 600 >/dev/null 2>&1 &",
            ])
            .unwrap();
        assert_eq!(machine.processes().unwrap().len(), 0, "on purpose");
    }));
    assert!(panicked.is_err());
    before.assert_unchanged(TIME);
    let left = fs::read_dir(groups).unwrap().filter_map(Result::ok);
    assert_eq!(
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own))
            .count(),
        0
    );
}

#[test]
fn systemd_boots_runs_units_and_powers_off() {
    crate::require!(Root, Cgroup2, File("/lib/systemd/systemd"));
    let daemon = "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n";
    let builder = peer::systemd().unit("daemon.service", daemon);
    let mut machine = peer::boot_systemd(&builder, TIME).unwrap();
    let state = machine.run(["systemctl", "is-system-running"]).unwrap();
    assert_eq!(state.stdout, "running\n");
    let started = machine.run(["systemctl", "start", "daemon"]).unwrap();
    assert!(started.status.success(), "{}", started.stderr);
    let processes = machine.processes().unwrap();
    let sleep = processes
        .iter()
        .find(|process| process.name == "sleep")
        .unwrap();
    assert!(
        sleep.cgroup.ends_with("/system.slice/daemon.service"),
        "{sleep:?}"
    );
    assert_eq!(sleep.host_parent, machine.host_pid());
    machine.run(["systemctl", "poweroff"]).unwrap();
    assert_eq!(machine.wait_ended(TIME).unwrap(), Ended::PowerOff);
}
