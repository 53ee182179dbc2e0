//! The manager dies at every single moment of its work, and whoever looks at the machine afterwards cannot tell.
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod taken_over;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use muster_core::Core;
use muster_core::core::CoreError;
use muster_core::options::Options;
use muster_handover::{Begun, Cause, Outcome};
use muster_units::Host;
use world::{Death, Sim, World};

/// Less, in microseconds, than a service is given to end.
const PATIENCE: u64 = 60_000_000;

const UNITS: &[(&str, &str)] = &[
    (
        "default.target",
        "[Unit]\nDefaultDependencies=no\nRequires=chain3.service daemon.service many.target\nAfter=chain3.service\n",
    ),
    (
        "chain1.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStartPre=/bin/true\nExecStart=/bin/true\nExecStart=/bin/true\n",
    ),
    (
        "chain2.service",
        "[Unit]\nDefaultDependencies=no\nRequires=chain1.service\nAfter=chain1.service\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
    ),
    (
        "chain3.service",
        "[Unit]\nDefaultDependencies=no\nWants=chain2.service\nAfter=chain2.service\n[Service]\nExecStart=/bin/daemon\nExecStartPost=/bin/true\n",
    ),
    (
        "daemon.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/daemon\nExecStop=/bin/true\nExecStopPost=/bin/true\n",
    ),
    (
        "exit.target",
        "[Unit]\nDefaultDependencies=no\nConflicts=chain3.service daemon.service\nRequires=end.service\nAfter=chain3.service daemon.service end.service\n",
    ),
    (
        "end.service",
        "[Unit]\nDefaultDependencies=no\nAfter=chain3.service daemon.service\nSuccessAction=exit-force\n[Service]\nType=oneshot\n",
    ),
    (
        "many.target",
        "[Unit]\nDefaultDependencies=no\nWants=m@1.service m@2.service m@3.service m@4.service\n",
    ),
    (
        "m@.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
    ),
];

fn options(folder: &Path) -> Options {
    let units = folder.join("units");
    std::fs::create_dir_all(&units).unwrap();
    for (name, text) in UNITS {
        std::fs::write(units.join(name), text).unwrap();
    }
    Options {
        runtime: folder.join("run"),
        state: folder.join("state"),
        unit_path: Some(vec![units.to_str().unwrap().to_owned()]),
        generator_path: Some(Vec::new()),
        kernel_units: false,
        ..Options::default()
    }
}

/// Lets managers live and die until nothing happens any more; gives the number of lives.
fn live(world: &Rc<RefCell<World>>, options: &Options) -> usize {
    for life in 1..50 {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let (exits, record) = {
                let mut world = world.borrow_mut();
                (world.begin(), world.record.clone())
            };
            let cause = match record {
                None => Cause::FirstBoot,
                Some(_) => Cause::Crash {
                    outcome: Outcome { raw: 9 },
                },
            };
            let begun = Begun {
                cause,
                crashes: 0,
                safe_mode: false,
                supervised: true,
                init_version: 1,
                kept: BTreeMap::new(),
                exits,
            };
            let platform = Box::new(Sim(Rc::clone(world)));
            let mut core = Core::begin(platform, options.clone(), Host::default(), begun, record)?;
            core.run().map(|_| ())
        }));
        match lived {
            Ok(Err(CoreError::Wait(_))) => return life,
            Ok(Ok(())) if world.borrow().ended => return life,
            Ok(other) => panic!("the manager ended by itself: {other:?}"),
            Err(payload) => {
                assert!(payload.is::<Death>(), "the manager panicked");
                world.borrow_mut().dead();
            }
        }
    }
    panic!("the manager never came to rest");
}

/// A death that a test asked for is no news.
fn quiet_deaths() {
    std::panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Death>() {
            eprintln!("{info}");
        }
    }));
}

fn outcome(world: &Rc<RefCell<World>>) -> (Vec<String>, Vec<String>) {
    let world = world.borrow();
    assert_eq!(world.unlimited, [""; 0], "everybody had limits");
    assert!(!world.outer_limits_lifted, "whoever made ours may limit it");
    let mut started = world.started.clone();
    started.sort();
    let running = world.running.values();
    let mut running: Vec<String> = running
        .map(|one| format!("{} {}", one.cgroup, one.program))
        .collect();
    running.sort();
    (started, running)
}

/// No command runs twice, none is left out, and nobody who runs is touched, whichever call the manager dies in.
#[test]
fn a_death_at_any_moment_is_not_seen_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    quiet_deaths();
    let untouched = Rc::new(RefCell::new(World::default()));
    assert_eq!(live(&untouched, &options), 1);
    let expected = outcome(&untouched);
    assert_eq!(expected.0.len(), 11, "{:?}", expected.0);
    assert_eq!(expected.1.len(), 2, "{:?}", expected.1);
    let moments = untouched.borrow().calls();
    for moment in 1..=moments {
        let world = Rc::new(RefCell::new(World::default()));
        world.borrow_mut().dies_at = Some(moment);
        live(&world, &options);
        assert_eq!(
            outcome(&world),
            expected,
            "death at call {moment} of {moments}"
        );
        assert!(
            world.borrow().exits.is_empty(),
            "all exits are acknowledged"
        );
        assert!(world.borrow().adopted);
    }
}

/// The same on the way down: every stop command runs once, and the machine is handed over at the end.
#[test]
fn a_death_while_stopping_is_not_seen_either() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    quiet_deaths();
    let whole = || {
        let world = Rc::new(RefCell::new(World::default()));
        world.borrow_mut().then_ends = true;
        world
    };
    let untouched = whole();
    assert_eq!(live(&untouched, &options), 1);
    let expected = outcome(&untouched);
    assert_eq!(expected.0.len(), 13, "{:?}", expected.0);
    assert_eq!(expected.1, [""; 0], "nobody is left");
    for moment in 1..=untouched.borrow().calls() {
        let world = whole();
        world.borrow_mut().dies_at = Some(moment);
        live(&world, &options);
        assert_eq!(outcome(&world), expected, "death at call {moment}");
        assert!(world.borrow().ended);
    }
}

/// Whoever is left when a service's own process has ended is waited for, also where the kernel does not say when that is.
#[test]
fn a_stop_lasts_until_nobody_is_left() {
    quiet_deaths();
    for is_silent in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let units = folder.path().join("units");
        for (name, text) in [
            (
                "default.target",
                "[Unit]\nDefaultDependencies=no\nRequires=family.service\n",
            ),
            (
                "family.service",
                "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/family\nExecStopPost=/bin/true\n",
            ),
            (
                "exit.target",
                "[Unit]\nDefaultDependencies=no\nConflicts=family.service\nRequires=end.service\nAfter=family.service end.service\n",
            ),
            (
                "end.service",
                "[Unit]\nDefaultDependencies=no\nAfter=family.service\nSuccessAction=exit-force\n[Service]\nType=oneshot\n",
            ),
        ] {
            std::fs::write(units.join(name), text).unwrap();
        }
        let whole = || {
            let world = Rc::new(RefCell::new(World::default()));
            world.borrow_mut().then_ends = true;
            world.borrow_mut().is_silent = is_silent;
            world
        };
        let untouched = whole();
        assert_eq!(live(&untouched, &options), 1);
        let expected = outcome(&untouched);
        assert_eq!(expected.0.len(), 2, "{:?}", expected.0);
        assert_eq!(expected.1, [""; 0], "nobody is left");
        let moments = untouched.borrow().calls();
        for moment in 1..=moments {
            let world = whole();
            world.borrow_mut().dies_at = Some(moment);
            live(&world, &options);
            assert_eq!(outcome(&world), expected, "death at call {moment}");
            let world = world.borrow();
            assert!(world.ended && world.now < PATIENCE, "{}", world.now);
        }
    }
}

/// Deaths during the recovery from deaths.
#[test]
fn many_deaths_in_a_row_are_not_seen_either() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    quiet_deaths();
    let untouched = Rc::new(RefCell::new(World::default()));
    live(&untouched, &options);
    let expected = outcome(&untouched);
    // Steps that share no factor with each other meet the work, and the recoveries, at ever other places.
    for step in [7, 11, 17, 23, 37, 53] {
        let world = Rc::new(RefCell::new(World::default()));
        world.borrow_mut().dies_every = Some(step * 4 + 1);
        live(&world, &options);
        assert_eq!(outcome(&world), expected, "death at every {step}th moment");
    }
}

/// Half an entry at the end of the record is cut off: what the next manager records behind it is not hidden by it.
#[test]
fn a_torn_end_of_the_record_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    quiet_deaths();
    let untouched = Rc::new(RefCell::new(World::default()));
    live(&untouched, &options);
    let expected = outcome(&untouched);
    for step in [29, 41, 67, 101, 149] {
        let world = Rc::new(RefCell::new(World::default()));
        {
            let mut world = world.borrow_mut();
            world.dies_every = Some(step);
            world.tears = true;
        }
        live(&world, &options);
        assert_eq!(outcome(&world), expected, "death at every {step}th moment");
    }
}

/// A record that every manager dies of is given up at last, and nobody who runs is touched.
#[test]
fn a_deadly_record_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let world = Rc::new(RefCell::new(World::default()));
    live(&world, &options);
    let before = outcome(&world);
    for _ in 0..8 {
        let attempt = muster_core::record::attempt();
        let mut world = world.borrow_mut();
        world.record.as_mut().unwrap().extend_from_slice(&attempt);
    }
    live(&world, &options);
    assert_eq!(outcome(&world), before);
}

/// A state that cannot be read is rebuilt from what runs: nobody is ended, nobody is started.
#[test]
fn a_lost_state_touches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let world = Rc::new(RefCell::new(World::default()));
    live(&world, &options);
    let before = outcome(&world);
    world.borrow_mut().record = Some(b"nonsense".to_vec());
    live(&world, &options);
    assert_eq!(outcome(&world), before);
}

/// A service that says which devices, ports and network interfaces it may use does not run without that being so, unless it says
/// that it may. What a slice above it says holds for it too.
#[test]
fn a_wall_that_cannot_be_had_keeps_its_service_down() {
    let lenient = "SandboxBestEffort=yes";
    for (lines, of_slice, refused, starts) in [
        ("DevicePolicy=closed", "", "DevicePolicy", false),
        ("DeviceAllow=/dev/null rw", "", "DevicePolicy", false),
        (
            "DevicePolicy=closed\nSandboxBestEffort=yes",
            "",
            "DevicePolicy",
            true,
        ),
        ("PrivateDevices=yes", "", "DevicePolicy", true),
        ("", "", "DevicePolicy", true),
        ("SocketBindDeny=any", "", "SocketBindDeny", false),
        (
            "SocketBindDeny=any\nSandboxBestEffort=yes",
            "",
            "SocketBindDeny",
            true,
        ),
        (
            "RestrictNetworkInterfaces=lo",
            "",
            "RestrictNetworkInterfaces",
            false,
        ),
        ("IPAddressDeny=any", "", "IPAddressDeny", true),
        ("", "DevicePolicy=closed", "DevicePolicy", false),
        ("", "SocketBindDeny=any", "SocketBindDeny", false),
        (
            "",
            "RestrictNetworkInterfaces=lo",
            "RestrictNetworkInterfaces",
            false,
        ),
        (lenient, "SocketBindDeny=any", "SocketBindDeny", true),
        ("", "IPAddressDeny=any", "IPAddressDeny", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let unit = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nSlice=a-b.slice\n{lines}\nExecStart=/bin/daemon\n"
        );
        let slice = format!("[Unit]\nDefaultDependencies=no\n[Slice]\n{of_slice}\n");
        let target = "[Unit]\nDefaultDependencies=no\nWants=x.service\n";
        let units = folder.path().join("units");
        std::fs::write(units.join("default.target"), target).unwrap();
        std::fs::write(units.join("a.slice"), slice).unwrap();
        std::fs::write(units.join("x.service"), unit).unwrap();
        for refuses in [None, Some(refused)] {
            let world = Rc::new(RefCell::new(World::default()));
            world.borrow_mut().refuses = refuses;
            live(&world, &options);
            let started = world.borrow().started.len();
            let expected = usize::from(starts || refuses.is_none());
            assert_eq!(
                started, expected,
                "{lines} in a slice with {of_slice} where {refuses:?} is refused"
            );
        }
    }
}

/// Nobody listens where a wall of the socket unit, or of a slice above it, cannot be had.
#[test]
fn sockets_are_not_opened_without_a_wall() {
    for (lines, of_slice, opens) in [
        ("SocketBindDeny=tcp", "", false),
        ("", "SocketBindDeny=tcp", false),
        ("", "", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let units = folder.path().join("units");
        let socket = format!(
            "[Unit]\nDefaultDependencies=no\n[Socket]\nSlice=a.slice\nListenDatagram=127.0.0.1:47211\n{lines}\n"
        );
        for (name, text) in [
            (
                "default.target",
                "[Unit]\nDefaultDependencies=no\nWants=x.socket\n".to_owned(),
            ),
            (
                "a.slice",
                format!("[Unit]\nDefaultDependencies=no\n[Slice]\n{of_slice}\n"),
            ),
            ("x.socket", socket),
            (
                "x.service",
                "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/daemon\n".to_owned(),
            ),
        ] {
            std::fs::write(units.join(name), text).unwrap();
        }
        for refuses in [None, Some("SocketBindDeny")] {
            let world = Rc::new(RefCell::new(World::default()));
            world.borrow_mut().refuses = refuses;
            live(&world, &options);
            let is_open = world.borrow().kept.contains_key("sock:x.socket:0");
            assert_eq!(
                is_open,
                opens || refuses.is_none(),
                "{lines} in a slice with {of_slice} where {refuses:?} is refused"
            );
        }
    }
}

/// What a unit's settings say about the end of the machine goes with it, whether that comes at once or in order.
#[test]
fn a_unit_says_what_goes_with_the_end_of_the_machine() {
    for (settings, program, expected) in [
        (
            "FailureAction=exit-force\nFailureActionExitStatus=7\nSuccessActionExitStatus=9",
            "false",
            "exit 7",
        ),
        ("FailureAction=exit-force", "false", "exit 1"),
        (
            "FailureAction=exit\nFailureActionExitStatus=7",
            "false",
            "exit 7",
        ),
        (
            "SuccessAction=exit\nFailureActionExitStatus=7\nSuccessActionExitStatus=9",
            "true",
            "exit 9",
        ),
        ("SuccessAction=exit-force", "true", "exit 0"),
        (
            "FailureAction=reboot-force\nRebootArgument=again",
            "false",
            "reboot again",
        ),
        (
            "FailureAction=reboot\nRebootArgument=again",
            "false",
            "reboot again",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        write_the_end(&folder.path().join("units"), settings, program);
        let world = Rc::new(RefCell::new(World::default()));
        live(&world, &options);
        assert_eq!(world.borrow().ending, expected, "{settings}");
    }
}

/// The same by whichever manager lives to see the end.
#[test]
fn what_goes_with_the_end_of_the_machine_outlives_the_manager() {
    quiet_deaths();
    for (settings, expected) in [
        ("FailureAction=exit\nFailureActionExitStatus=7", "exit 7"),
        ("FailureAction=reboot\nRebootArgument=again", "reboot again"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        write_the_end(&folder.path().join("units"), settings, "false");
        let untouched = Rc::new(RefCell::new(World::default()));
        live(&untouched, &options);
        let moments = untouched.borrow().calls();
        for moment in 1..=moments {
            let world = Rc::new(RefCell::new(World::default()));
            world.borrow_mut().dies_at = Some(moment);
            live(&world, &options);
            let ending = &world.borrow().ending;
            assert_eq!(ending, expected, "death at call {moment} of {moments}");
            let started = &world.borrow().started;
            let words = started.iter().filter(|it| it.contains("words.service"));
            assert_eq!(words.count(), 1, "in order, with {started:?}");
        }
    }
}

/// Units of a machine that ends with the service `last`.
fn write_the_end(units: &Path, settings: &str, program: &str) {
    let end = |action: &str| {
        format!(
            "[Unit]\nDefaultDependencies=no\nSuccessAction={action}\nRequires=words.service\nAfter=words.service\n[Service]\nType=oneshot\n"
        )
    };
    let needs = "[Unit]\nDefaultDependencies=no\nRequires=";
    for (name, text) in [
        ("default.target", format!("{needs}last.service\n")),
        ("exit.target", format!("{needs}end.service\n")),
        ("end.service", end("exit-force")),
        ("reboot.target", format!("{needs}again.service\n")),
        ("again.service", end("reboot-force")),
        (
            "words.service",
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
                .to_owned(),
        ),
        (
            "last.service",
            format!(
                "[Unit]\nDefaultDependencies=no\n{settings}\n[Service]\nType=oneshot\nExecStart=/bin/{program}\n"
            ),
        ),
    ] {
        std::fs::write(units.join(name), text).unwrap();
    }
}
