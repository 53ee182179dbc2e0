//! `kill -9` of the manager, at every step: no machine is lost, made twice, or left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use muster_fault::{Action, Point, Trial, matrix, test_program};
use muster_lifecycle::State;
use muster_machines::Record;
use muster_machines::testing::{self, records};

use crate::daemons::Daemons;
use crate::rig::{HELPER, Libvirt, require_libvirt, small_image};

/// They come by every point of our own.
const STEPS: &[&str] = &["order", "a", "order", "b", "destroy", "b", "settle"];
/// And by those of the registry.
const ALL_STEPS: &[&str] = &[
    "order", "a", "order", "b", "stop", "a", "start", "a", "cancel", "c", "destroy", "b", "settle",
];

fn is_soak() -> bool {
    std::env::var_os("MUSTER_SOAK").is_some()
}

fn steps() -> &'static [&'static str] {
    if is_soak() { ALL_STEPS } else { STEPS }
}

/// Our own points in every test run; those of the registry as well where there is time.
fn points() -> Vec<Point> {
    let all = is_soak().then_some(muster_machines::FAULT_POINTS);
    let all = all.into_iter().flatten();
    let ours = muster_libvirt::FAULT_POINTS;
    ours.iter().chain(all).copied().collect()
}

fn keeper(libvirt: &Libvirt, folder: &Path, steps: &[&str]) -> Command {
    let mut command = testing::command(&test_program("libvirt_keeper"));
    command
        .args([libvirt.uri().as_str(), HELPER])
        .arg(small_image())
        .arg(folder)
        .args(steps);
    command
}

/// Compares libvirt's domains with the manager's records, and gives the keys of the living ones.
fn compare(libvirt: &Libvirt, folder: &Path) -> BTreeSet<String> {
    let mut living = records(folder).unwrap();
    living.retain(|it| it.state() != State::Terminated);
    let resource = |it: &Record| it.made().expect("settled").resource.to_string();
    let known: BTreeSet<String> = living.iter().map(resource).collect();
    let running = living.iter().filter(|it| it.state() == State::Running);
    let running: BTreeSet<String> = running.map(resource).collect();
    let listed = |which: &[&str]| -> BTreeSet<String> {
        let said = libvirt.virsh(which);
        said.lines().map(|it| it.trim().to_owned()).collect()
    };
    let there = listed(&["list", "--all", "--uuid"]);
    assert_eq!(there, known, "in libvirt, and in the records");
    let there = listed(&["list", "--uuid"]);
    assert_eq!(there, running, "running in libvirt, and in the records");
    let files = std::fs::read_dir(folder.join("libvirt/machines")).unwrap();
    let files = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(files.collect::<BTreeSet<String>>(), known, "on the disk");
    let keys = living.iter().map(|it| it.order.key.clone().expect("keyed"));
    keys.collect()
}

#[test]
fn a_kill_at_any_point_loses_no_machine_and_leaves_none_behind() {
    require_libvirt!(small_image());
    let libvirt = Libvirt::start();
    matrix(&points(), |trial: &Trial| {
        let folder = tempfile::tempdir_in(libvirt.path()).unwrap();
        let run = |steps: &[&str]| {
            testing::run_to_end(&mut keeper(&libvirt, folder.path(), steps));
        };
        let mut command = keeper(&libvirt, folder.path(), steps());
        trial.arm_at(&mut command, 1, Action::Kill);
        let output = command.output().expect("the keeper starts");
        trial.assert_killed(output.status);
        // What is left of it is known, wherever it was killed.
        run(&["settle"]);
        compare(&libvirt, folder.path());
        // The next run comes to the same end: keys make orders idempotent.
        run(steps());
        let point = trial.point().name();
        let expected = BTreeSet::from(["a".to_owned()]);
        assert_eq!(compare(&libvirt, folder.path()), expected, "{point}");
        run(&["destroy", "a"]);
        Daemons::assert_nothing_left(&libvirt, &folder.path().join("libvirt/machines"));
    });
}
