//! Sets of instances: only what changes is touched.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_lab::instances::Pids;
use muster_lab::poll_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Rig, TIME};

pub(crate) fn set(items: impl IntoIterator<Item = (usize, usize)>) -> BTreeMap<String, usize> {
    items
        .into_iter()
        .map(|(number, version)| (format!("item{number:02}"), version))
        .collect()
}

/// How many processes of `before` are still there.
fn kept(before: &Pids, after: &Pids) -> usize {
    let kept = before
        .iter()
        .filter(|(group, pid)| after.get(*group) == Some(pid));
    kept.count()
}

#[test]
fn only_what_changes_is_touched_and_a_killed_manager_touches_nothing() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot(2);
    rig.run_set(&set((0..50).map(|number| (number, 0))));
    let all = rig.pids();
    assert_eq!(all.len(), 50);

    // Five change, ten go.
    let fewer = set((0..40).map(|number| (number, usize::from(number < 5))));
    rig.run_set(&fewer);
    let after = rig.pids();
    assert_eq!(after.len(), 40);
    assert_eq!(kept(&all, &after), 35);

    // The manager is killed: nobody else notices.
    let manager = rig.manager().expect("a manager");
    let pid = Pid::from_raw(manager).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    rig.wait_for_another_manager(manager);
    rig.run_set(&fewer);
    assert_eq!(rig.pids(), after);

    // Everything goes, and nothing stays.
    rig.run_set(&BTreeMap::new());
    assert!(rig.pids().is_empty());
    let left = rig.run(["sh", "-c", "cat /proc/self/mounts; ls /run/muster/sm/runc"]);
    let left = left.expect("a command").stdout;
    assert!(!left.contains("/run/muster/sm/"), "{left}");
}

/// So long a version has to run to be gone back to: the `startInterval` of an item that says nothing, or the node's health period,
/// whichever is longer.
const HEALTHY: Duration = Duration::from_secs(10);

/// What the node last said about an item, of all that it has: version, state and message.
fn told(message: &serde_json::Value, item: &str) -> Option<(String, String, String)> {
    // As it happens, and all together when there is no more to happen.
    let mut words = ["nodeInstancesStatus", "updateInstancesStatus"].into_iter();
    let all = words.find_map(|word| message[word]["instances"].as_array())?;
    let of_item = |it: &&serde_json::Value| it["instance"]["itemId"] == item;
    let status = all.iter().find(of_item)?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Some((
        text(&status["manifestDigest"]),
        text(&status["state"]),
        text(&status["error"]["message"]),
    ))
}

#[test]
fn a_version_that_crashes_at_once_is_gone_back_from_and_the_controller_hears_why() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let mut rig = Rig::boot_failing(2);
    let both = |second| set([(0, 0), (1, second)]);
    rig.run_set(&both(0));
    let before = rig.pids();
    assert_eq!(before.len(), 2);
    // The old version has shown that it works.
    let begun = Instant::now();
    poll_until(TIME, "a healthy period has passed", || {
        begun.elapsed() >= HEALTHY
    });
    rig.send_set(&both(1));
    let (good, bad) = (rig.versions[0].clone(), rig.versions[1].clone());
    let why = rig.wait_until_said("that the old version runs again", |message| {
        let (digest, state, why) = told(message, "item01")?;
        (digest == good && state == "active" && !why.is_empty()).then_some(why)
    });
    let version = &bad[7..15];
    assert!(
        why.contains(version) && why.contains("exit code 1"),
        "{why}"
    );
    // Its own process, and nobody touched the bystander.
    let after = rig.pids();
    assert_eq!((after.len(), kept(&before, &after)), (2, 1));
    // Another manager neither touches it nor tries the new version again.
    let manager = rig.manager().expect("a manager");
    let pid = Pid::from_raw(manager).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    rig.wait_for_another_manager(manager);
    rig.run_set(&both(0));
    assert_eq!(rig.pids(), after);
}

/// Where the manager can die while it gets an image, replaces an instance, starts one and stops one.
fn points() -> Vec<&'static str> {
    let all = [
        muster_launcher::FAULT_POINTS,
        muster_bundle::FAULT_POINTS,
        muster_image::FAULT_POINTS,
        muster_layer::FAULT_POINTS,
    ];
    let elsewhere = |name: &&str| {
        // Removal and damage are the image store's own tests' business.
        !name.starts_with("image.removal") && !name.starts_with("image.damage")
    };
    let names = all
        .iter()
        .flat_map(|list| list.iter().map(|point| point.name()));
    names.filter(elsewhere).collect()
}

#[test]
fn a_manager_killed_at_any_point_ends_where_it_should_and_touches_no_bystander() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let points = points();
    let mut rig = Rig::boot(points.len() + 1);
    let none = rig.traces();
    let mut wanted = set([(0, 0), (1, 0)]);
    rig.run_set(&wanted);
    let two = rig.traces();
    assert_eq!(two, none.with(&two, 2, 2), "the same of each instance");
    let bystander: Pids = one(&rig.pids(), &rig);
    for (index, name) in points.iter().enumerate() {
        rig.arm(name);
        // Item 1 is replaced by another version, and item 2 comes or goes.
        let mut next = set([(0, 0), (1, index + 1)]);
        if index % 2 == 0 {
            next.insert("item02".into(), 0);
        }
        rig.run_set(&next);
        assert!(rig.disarm(), "{name} was never reached");
        wanted = next;
        let now = rig.pids();
        assert_eq!(now.len(), wanted.len(), "{name}: {now:?}");
        for (unit, pid) in &bystander {
            assert_eq!(now.get(unit), Some(pid), "{name}: a bystander was touched");
        }
        let places = rig.places().lines().count();
        assert_eq!(places, wanted.len() + 1, "{name}: {}", rig.places());
        rig.wait_for_traces(&none.with(&two, 2, wanted.len()), name);
    }
    rig.run_set(&BTreeMap::new());
    assert_eq!(rig.places(), "0\n");
    rig.wait_for_traces(&none, "in the end");
}

/// The process of item 0, which nobody changes.
pub(crate) fn one(pids: &Pids, rig: &Rig) -> Pids {
    let id = rig.instance_id("item00");
    let own = pids.iter().filter(|(unit, _)| unit.contains(&id));
    let own: Pids = own.map(|(unit, pid)| (unit.clone(), *pid)).collect();
    assert_eq!(own.len(), 1, "{pids:?}");
    own
}
