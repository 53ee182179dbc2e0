//! What is measured, each on a machine of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use muster_lab::machine::Machine;
use rustix::process::{Pid, Signal, kill_process};

use crate::manager::{Manager, Outcome};
use crate::workload::{self, Workload};

/// How many programs are started before the oldest is waited for.
const IN_FLIGHT: usize = 64;
const RESPAWNS: usize = 51;
const DEADLINE: Duration = Duration::from_secs(30);
/// A manager that has used next to nothing for this long has nothing more to do.
const QUIET: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// How long a start took, and what the manager spent on it.
pub(crate) struct Start {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

pub(crate) fn start(manager: &Manager, workload: &Workload) -> Outcome<Start> {
    let machine = manager.boot(Some(workload))?;
    let before = manager.cpu_time(&machine)?;
    let wall = manager.timed(&machine, &["start", workload.target])?;
    let cpu = manager.cpu_time(&machine)? - before;
    Ok(Start { wall, cpu })
}

impl Start {
    pub(crate) fn better(self, other: Self) -> Self {
        if other.wall < self.wall { other } else { self }
    }
}

/// The same programs without any manager.
pub(crate) fn bare_spawns(count: usize) -> Outcome<Duration> {
    let started = Instant::now();
    let mut running: Vec<Child> = Vec::with_capacity(IN_FLIGHT);
    for _ in 0..count {
        if running.len() == IN_FLIGHT {
            running.remove(0).wait()?;
        }
        running.push(Command::new("/bin/true").spawn()?);
    }
    for mut child in running {
        child.wait()?;
    }
    Ok(started.elapsed())
}

/// How long a manager is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(3);

/// Memory of a manager that has nothing to do, and of one that knows many units; and what a reload takes then.
pub(crate) struct Loaded {
    pub(crate) idle: u64,
    pub(crate) loaded: u64,
    pub(crate) reload: Duration,
    pub(crate) reload_changed: Duration,
}

impl Loaded {
    pub(crate) fn better(self, other: Self) -> Self {
        Self {
            idle: self.idle.min(other.idle),
            loaded: self.loaded.min(other.loaded),
            reload: self.reload.min(other.reload),
            reload_changed: self.reload_changed.min(other.reload_changed),
        }
    }
}

pub(crate) fn loaded(manager: &Manager, count: usize) -> Outcome<Loaded> {
    let idle = resident_at_rest(manager, &manager.boot(None)?)?;
    let workload = workload::loaded(count);
    let machine = manager.boot(Some(&workload))?;
    manager.timed(&machine, &["start", workload.target])?;
    let loaded = resident_at_rest(manager, &machine)?;
    let reload = (0..3)
        .map(|_| manager.timed(&machine, &["daemon-reload"]))
        .collect::<Outcome<Vec<_>>>()?;
    machine.write(
        "/etc/systemd/system/loaded-0.service.d/x.conf",
        "[Unit]\nDescription=Changed\n",
    )?;
    let reload_changed = manager.timed(&machine, &["daemon-reload"])?;
    Ok(Loaded {
        idle,
        loaded,
        reload: reload.into_iter().min().unwrap_or_default(),
        reload_changed,
    })
}

/// Memory of a manager to which nothing has happened for a while: what a machine pays for as long as it is up.
fn resident_at_rest(manager: &Manager, machine: &Machine) -> Outcome<u64> {
    std::thread::sleep(REST);
    manager.resident_bytes(machine)
}

/// The median time from killing a daemon to the next one running.
pub(crate) fn respawn(manager: &Manager) -> Outcome<Duration> {
    let workload = workload::respawning();
    let machine = manager.boot(Some(&workload))?;
    manager.timed(&machine, &["start", workload.target])?;
    let group = machine
        .cgroup()
        .ok_or("no control groups")?
        .join("system.slice/respawn.service");
    let mut times = Vec::new();
    let mut running = wait_for_sleep(&group, None)?;
    for _ in 0..RESPAWNS {
        let killed = Instant::now();
        kill_process(running, Signal::KILL)?;
        running = wait_for_sleep(&group, Some(running))?;
        times.push(killed.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Waits for a process of the group, other than `old`, that has become the daemon.
fn wait_for_sleep(group: &Path, old: Option<Pid>) -> Outcome<Pid> {
    let until = Instant::now() + DEADLINE;
    while Instant::now() < until {
        // The group goes and comes between two runs.
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let pids = members
            .lines()
            .filter_map(|line| Pid::from_raw(line.parse().ok()?));
        for pid in pids.filter(|pid| Some(*pid) != old) {
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
            if name.is_ok_and(|name| name == "sleep\n") {
                return Ok(pid);
            }
        }
    }
    Err("the daemon was not started again".into())
}

/// How long a manager is away that was killed while daemons run, or why it does not come back.
pub(crate) fn crash(manager: &Manager, workload: &Workload) -> Outcome<Result<Duration, String>> {
    let machine = manager.boot(Some(workload))?;
    manager.timed(&machine, &["start", workload.target])?;
    let daemons = daemons_of(&machine)?;
    // The process that has the state: the only one, or the one that is started again.
    let managers = manager.processes(&machine)?;
    let victim = managers
        .last()
        .and_then(|process| Pid::from_raw(process.host_pid));
    let killed = Instant::now();
    kill_process(victim.ok_or("no manager")?, Signal::KILL)?;
    if manager
        .timed(&machine, &["is-active", workload.target])
        .is_err()
    {
        return Ok(Err("the machine is gone".to_owned()));
    }
    let away = killed.elapsed();
    let after = daemons_of(&machine)?;
    if after != daemons {
        let same = after.intersection(&daemons).count();
        return Ok(Err(format!(
            "{same} of {} daemons are the same",
            daemons.len()
        )));
    }
    Ok(Ok(away))
}

/// The daemons of a machine, by what names a process for good.
fn daemons_of(machine: &Machine) -> Outcome<BTreeSet<(i32, u64)>> {
    let processes = machine.processes()?.into_iter();
    let daemons = processes.filter(|process| process.name == "sleep");
    Ok(daemons
        .map(|process| (process.host_pid, process.start_time))
        .collect())
}

/// Mounts so many empty file systems, as fast as one process can.
const STORM: &str = r#"
    mkdir "/mnt/storm"; for my $n (1 .. $ARGV[0]) { mkdir "/mnt/storm/$n"; }
    my ($none, $kind) = ("lab", "tmpfs");
    for my $n (1 .. $ARGV[0]) { my $to = "/mnt/storm/$n"; syscall(165, $none, $to, $kind, 0, 0) == 0 or die "mount $n: $!"; }
"#;

/// The processor time that a manager spends on many mounts that appear at once.
pub(crate) fn mount_storm(manager: &Manager, count: usize) -> Outcome<Duration> {
    let machine = manager.boot(None)?;
    let before = manager.cpu_time(&machine)?;
    let output = machine.run(["perl", "-e", STORM, &count.to_string()])?;
    if !output.status.success() {
        return Err(output.stderr.into());
    }
    // It is over when the manager rests.
    let mut used = manager.cpu_time(&machine)?;
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < QUIET {
        std::thread::sleep(PAUSE);
        let now = manager.cpu_time(&machine)?;
        if now > used + PAUSE / 20 {
            quiet_since = Instant::now();
        }
        used = now;
    }
    Ok(used - before)
}
