//! A day of mixed load in minutes: starts, stops, reloads, kills. What a manager uses must not grow with what it has done.

use muster_lab::machine::MachineProcess;
use muster_lab::poll_until;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;

use crate::rig::{Rig, TIME};
use crate::scene::{self, Scene, Size};

const SIZE: Size = Size {
    daemons: 20,
    sockets: 5,
    timers: 3,
};
/// Units that the load starts and stops, besides the scene that must not notice.
const VICTIMS: usize = 20;
/// The allocator and the record settle in the first rounds; what comes after must stay.
const WARM_ROUNDS: u32 = 2;
const SLACK: u64 = 4 << 20;

/// What the manager has of everything that could leak.
#[derive(Debug)]
struct Usage {
    resident: u64,
    descriptors: usize,
    processes: usize,
    groups: usize,
}

impl Usage {
    fn of(rig: &Rig) -> Self {
        let managers: [MachineProcess; 2] =
            [rig.only("muster-init"), rig.core().expect("a core runs")];
        Self {
            resident: managers
                .iter()
                .map(|process| process.resident_bytes().unwrap())
                .sum(),
            descriptors: managers
                .iter()
                .map(|process| process.open_descriptors().unwrap())
                .sum(),
            processes: rig.processes().unwrap().len(),
            groups: groups(rig.cgroup().unwrap()),
        }
    }

    /// Clients of the scene come and go, so a few more of everything are no leak.
    fn assert_within(&self, settled: &Self) {
        let grown = self.resident > settled.resident + SLACK
            || self.descriptors > settled.descriptors + 16
            || self.processes > settled.processes + 16
            || self.groups > settled.groups + 16;
        assert!(!grown, "the manager grows: {settled:?} -> {self:?}");
    }
}

fn groups(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let folders = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir());
    folders.map(|entry| 1 + groups(&entry.path())).sum()
}

/// One random act against the victims.
fn act(rig: &Rig, random: &mut StdRng) {
    let victim = format!("victim-{}.service", random.random_range(0..VICTIMS));
    match random.random_range(0..12) {
        0..=3 => drop(rig.sctl(&["start", &victim])),
        4..=5 => drop(rig.sctl(&["stop", &victim])),
        6 => drop(rig.sctl(&["restart", "--no-block", &victim])),
        7 => drop(rig.sctl(&["kill", "--signal", "KILL", &victim])),
        8 => {
            let text = format!("[Unit]\nDescription=Seen {}\n", random.random::<u32>());
            rig.write(format!("/etc/systemd/system/{victim}.d/seen.conf"), text)
                .unwrap();
            rig.ok(&["daemon-reload"]);
        }
        9 => drop(rig.sctl(&["run", "--wait", "--quiet", "/bin/true"])),
        10 => drop(rig.sctl(&["list-units", "--all"])),
        _ => drop(rig.sctl(&["reset-failed"])),
    }
}

/// Everything that the load has started is stopped, and everything that it left is gone.
fn calm(rig: &Rig) -> Usage {
    rig.ok(&["stop", "victim-*.service"]);
    rig.ok(&["reset-failed"]);
    poll_until(TIME, "no job is left", || {
        rig.ok(&["list-jobs", "--no-legend"]).trim().is_empty()
    });
    Usage::of(rig)
}

#[test]
fn soak_leaves_nothing_behind() {
    muster_lab::require!(Root, Cgroup2);
    let mut random = StdRng::seed_from_u64(muster_lab::seed());
    let rig = Rig::boot(|mut builder| {
        for n in 0..VICTIMS {
            let text = match n % 4 {
                0 => "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\nRestartSec=0\n",
                1 => "[Service]\nType=oneshot\nExecStart=/bin/true\n",
                2 => "[Service]\nType=oneshot\nExecStart=/bin/false\n",
                _ => {
                    "[Service]\nExecStart=/bin/sh -c 'sleep 1000 & sleep 1000'\nTimeoutStopSec=1\n"
                }
            };
            builder = builder.unit(
                format!("victim-{n}.service"),
                format!("[Unit]\nStartLimitIntervalSec=0\n{text}"),
            );
        }
        scene::build(builder, SIZE)
    });
    let scene = Scene::start(&rig, SIZE);
    let acts = muster_lab::rounds(40, 600);
    let mut settled: Option<Usage> = None;
    for round in 0..muster_lab::rounds(4, 40) {
        for _ in 0..acts {
            act(&rig, &mut random);
        }
        let usage = calm(&rig);
        eprintln!("after round {round}: {usage:?}");
        match &settled {
            Some(settled) => usage.assert_within(settled),
            None if round + 1 == WARM_ROUNDS => settled = Some(usage),
            None => {}
        }
        // A crash now and then is part of a day; in between, one core is to live long enough to show a leak.
        if round % 4 == 0 {
            let core = rig.core().expect("a core runs");
            rig.kill(&core, Signal::KILL);
            rig.wait_for_another_core(&core, &format!("round {round}"));
        }
        scene.assert_goes_on(&rig, &format!("round {round}"));
    }
    scene.finish(&rig);
}
