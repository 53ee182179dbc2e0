//! What a manager knows that takes over from another, and what it does not know.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use muster_core::options::Options;
use muster_core::record;

use crate::world::World;
use crate::{live, options, outcome, quiet_deaths};

/// A machine with one service, whose other settings are given.
fn with_service(folder: &Path, settings: &str) -> Options {
    let options = options(folder);
    let units = folder.join("units");
    let target = "[Unit]\nDefaultDependencies=no\nWants=x.service\n";
    std::fs::write(units.join("default.target"), target).unwrap();
    let unit =
        format!("[Unit]\nDefaultDependencies=no\n[Service]\n{settings}\nExecStart=/bin/daemon\n");
    std::fs::write(units.join("x.service"), unit).unwrap();
    let exit = "[Unit]\nDefaultDependencies=no\nConflicts=x.service\nRequires=end.service\nAfter=end.service\n";
    std::fs::write(units.join("exit.target"), exit).unwrap();
    let end = "[Unit]\nDefaultDependencies=no\nAfter=x.service\nSuccessAction=exit-force\n[Service]\nType=oneshot\n";
    std::fs::write(units.join("end.service"), end).unwrap();
    options
}

/// A process that was ended for lack of memory before is no reason for the next manager to stop its service.
#[test]
fn a_kill_for_memory_is_told_once() {
    quiet_deaths();
    let folder = tempfile::tempdir().unwrap();
    let options = with_service(folder.path(), "OOMPolicy=stop");
    let world = Rc::new(RefCell::new(World::default()));
    world.borrow_mut().left_behind("system.slice/x.service", 2);
    live(&world, &options);
    let expected = outcome(&world);
    assert_eq!(expected.1.len(), 1, "{:?}", expected.1);
    live(&world, &options);
    assert_eq!(outcome(&world), expected);
}

/// What a helper had to leave out is not known to a manager that was not there to hear it, and it says so.
#[test]
fn what_nobody_heard_of_is_named_as_unknown() {
    quiet_deaths();
    let folder = tempfile::tempdir().unwrap();
    let options = with_service(folder.path(), "RestrictRealtime=yes");
    let world = Rc::new(RefCell::new(World::default()));
    let dropped = || {
        let world = world.borrow();
        let recorded = record::read(world.record.as_deref().unwrap()).unwrap();
        let mut memory = recorded.memory;
        for entry in recorded.entries {
            memory.observe(entry.event.clock, &entry.event.what);
        }
        let setups = memory.setups.into_values();
        setups.flat_map(|setup| setup.dropped).collect::<Vec<_>>()
    };
    live(&world, &options);
    assert!(dropped().is_empty());
    live(&world, &options);
    let unknown = "unknown: the manager was replaced while it was set up";
    assert_eq!(dropped(), [Box::from(unknown)]);
}

/// Limits for the time while the machine starts end with that, and hold again while it ends.
#[test]
fn limits_of_the_start_hold_again_at_the_end() {
    quiet_deaths();
    for (settings, ends, times) in [
        ("StartupCPUWeight=200", false, 1),
        ("StartupCPUWeight=200", true, 2),
        ("CPUWeight=200", true, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = with_service(folder.path(), settings);
        let world = Rc::new(RefCell::new(World::default()));
        world.borrow_mut().then_ends = ends;
        live(&world, &options);
        let world = world.borrow();
        let renewed = world.renewed.iter();
        let renewed = renewed.filter(|path| path.ends_with("x.service"));
        assert_eq!(renewed.count(), times, "{settings}, ends: {ends}");
    }
}
