//! The way up.

use crate::protocol::{ExecKind::*, ExitStatus, Input, Outcome, Output, Role};
use crate::spec::{ExitType, ServiceType};
use crate::types::tests::world::{World, commands};

fn of_type(service_type: ServiceType) -> World {
    World::service(|spec| spec.service_type = service_type)
}

#[test]
fn simple_exec_and_idle_are_up_with_their_process() {
    for service_type in [ServiceType::Simple, ServiceType::Exec] {
        let mut world = of_type(service_type);
        world.start().is("start").spawned().is("running");
        assert!(world.deadlines.is_empty());
    }
    let mut world = of_type(ServiceType::Idle);
    world.start().is("start");
    assert!(
        world.asked.is_empty(),
        "held back until nothing else is to be done"
    );
    assert!(world.machine.active().is_up(), "nobody waits for it");
    world.give(Input::Idle).spawned().is("running");
}

#[test]
fn exec_waits_until_the_program_runs_and_simple_only_for_what_comes_next() {
    let mut world = of_type(ServiceType::Exec);
    world
        .start()
        .delegated()
        .is("start")
        .executed()
        .is("running");
    let mut world = of_type(ServiceType::Exec);
    world.start().delegated().is("start");
    world.ends(Role::Main, ExitStatus::Code(226));
    world.ended("failed", Outcome::ExitCode);
    let mut world = of_type(ServiceType::Simple);
    world.start().delegated().is("running").executed();
    world.is("running");
    let mut world = World::service(|spec| spec.commands = commands(&[Start, StartPost]));
    world.start().delegated().is("start").executed();
    world.is("start-post").delegated();
    world.ends(Role::Control, ExitStatus::Code(0));
    world.is("running");
}

#[test]
fn idle_is_held_for_five_seconds_at_most_and_not_at_all_after_a_stop() {
    let mut world = of_type(ServiceType::Idle);
    world.start().expire(crate::protocol::DeadlineKind::Idle);
    world.spawned().is("running");
    let mut world = of_type(ServiceType::Idle);
    world.start().stop().is("dead").give(Input::Idle).is("dead");
    assert!(world.asked.is_empty());
}

#[test]
fn notify_waits_for_ready_even_if_it_comes_first() {
    for service_type in [ServiceType::Notify, ServiceType::NotifyReload] {
        let mut world = of_type(service_type);
        world.start().spawned().is("start").ready().is("running");
        let mut world = of_type(service_type);
        world.start().ready().is("start").spawned().is("running");
    }
}

#[test]
fn dbus_waits_for_its_name_and_ends_without_it() {
    let mut world = of_type(ServiceType::Dbus);
    world.start().said(&Output::WatchBusName(true));
    world.spawned().is("start");
    world.give(Input::BusName { owned: true }).is("running");
    world
        .give(Input::BusName { owned: false })
        .is("stop-sigterm");
    world.ends(Role::Main, ExitStatus::Signal(15));
    world.ended("dead", Outcome::Success);
    world.said(&Output::WatchBusName(false));
}

#[test]
fn oneshot_runs_its_commands_in_turn() {
    let mut world = World::service(|spec| {
        spec.service_type = ServiceType::Oneshot;
        spec.commands = commands(&[Start, Start, Start]);
    });
    world.start().asks(Start, 0).runs_well();
    world.asks(Start, 1).runs_well();
    world.is("start").asks(Start, 2).runs_well();
    world.ended("dead", Outcome::Success);
    let mut world = World::service(|spec| {
        spec.service_type = ServiceType::Oneshot;
        spec.commands = commands(&[Start, Start]);
        spec.remain_after_exit = true;
    });
    world.start().runs_well().runs_well().is("exited");
    assert!(world.deadlines.is_empty());
    world.start();
    world.is("exited").stop().is("dead");
    world.start().runs(ExitStatus::Code(1));
    world.ended("failed", Outcome::ExitCode);
    assert!(world.asked.is_empty(), "the second command is not run");
}

#[test]
fn oneshot_without_commands_is_exited_even_if_its_preparation_left_something() {
    let mut world = World::service(|spec| {
        spec.service_type = ServiceType::Oneshot;
        spec.commands = commands(&[StartPre]);
        spec.remain_after_exit = true;
    });
    world.start().spawned();
    let pid = world.processes[0].0;
    let status = ExitStatus::Code(0);
    world.give(Input::Exited { pid, status }).is("exited");
}

#[test]
fn forking_takes_its_main_process_from_the_pid_file() {
    let mut world = World::service(|spec| {
        spec.service_type = ServiceType::Forking;
        spec.has_pid_file = true;
    });
    world.start();
    assert_eq!(world.asked[0].0, Role::Control);
    let daemon = world.process();
    world.spawned();
    world.processes.push((daemon.pid, Role::Main));
    world.ends(Role::Control, ExitStatus::Code(0)).is("start");
    world.said(&Output::WatchPidFile(true));
    world.give(Input::PidFile { process: None }).is("start");
    world
        .give(Input::PidFile {
            process: Some(daemon),
        })
        .is("running");
    world
        .ends(Role::Main, ExitStatus::Signal(11))
        .ended("failed", Outcome::Signal);
}

#[test]
fn forking_that_left_nothing_behind() {
    // Either order of the two reports must come to the same end.
    for empty_first in [false, true] {
        for (has_pid_file, sub, outcome) in [
            (true, "failed", Outcome::Protocol),
            (false, "dead", Outcome::Success),
        ] {
            let mut world = World::service(|spec| {
                spec.service_type = ServiceType::Forking;
                spec.has_pid_file = has_pid_file;
            });
            world.start().spawned();
            let pid = world.processes.pop().unwrap().0;
            let exited = Input::Exited {
                pid,
                status: ExitStatus::Code(0),
            };
            if empty_first {
                world.give(Input::CgroupEmpty).give(exited);
                if has_pid_file {
                    world.said(&Output::WatchPidFile(true));
                    world.give(Input::PidFile { process: None });
                }
            } else {
                world.give(exited).give(Input::CgroupEmpty);
            }
            world.ended(sub, outcome);
        }
    }
}

#[test]
fn forking_whose_main_process_ended_at_once_ended_as_that_did() {
    for (status, sub, outcome) in [
        (ExitStatus::Code(3), "failed", Outcome::ExitCode),
        (ExitStatus::Code(0), "dead", Outcome::Success),
    ] {
        let mut world = World::service(|spec| {
            spec.service_type = ServiceType::Forking;
            spec.has_pid_file = true;
        });
        world.start();
        let daemon = world.process();
        world.spawned().give(Input::CgroupEmpty);
        let parent = Input::Exited {
            pid: world.processes.pop().unwrap().0,
            status: ExitStatus::Code(0),
        };
        world.give(parent).is("start");
        world.said(&Output::WatchPidFile(true));
        let pid = daemon.pid;
        world.give(Input::PidFile {
            process: Some(daemon),
        });
        world.give(Input::Exited { pid, status });
        world.give(Input::CgroupEmpty).ended(sub, outcome);
    }
}

#[test]
fn forking_without_a_pid_file_lives_as_long_as_its_cgroup() {
    let mut world = World::service(|spec| spec.service_type = ServiceType::Forking);
    world.start().spawned();
    world.processes.push((999, Role::Main));
    world.ends(Role::Control, ExitStatus::Code(0)).is("start");
    world.give(Input::PidFile { process: None }).is("running");
    world
        .give(Input::CgroupEmpty)
        .ended("dead", Outcome::Success);
}

#[test]
fn a_condition_decides_by_its_exit_code() {
    let cases = [
        (ExitStatus::Code(0), "start", Outcome::Success),
        (ExitStatus::Code(1), "dead", Outcome::ExecCondition),
        (ExitStatus::Code(254), "dead", Outcome::ExecCondition),
        (ExitStatus::Code(255), "failed", Outcome::ExitCode),
        (ExitStatus::Signal(9), "failed", Outcome::Signal),
    ];
    for (status, sub, outcome) in cases {
        let mut world = World::service(|spec| spec.commands = commands(&[Condition, Start]));
        world.start().is("condition").runs(status);
        world.ended(sub, outcome);
    }
}

#[test]
fn each_step_that_fails_ends_the_run_unless_it_is_ignored() {
    for kind in [StartPre, Start, StartPost] {
        for (ignored, spawns) in [(false, true), (false, false), (true, true), (true, false)] {
            let mut world = World::service(|spec| {
                spec.service_type = ServiceType::Oneshot;
                spec.remain_after_exit = true;
                spec.commands = commands(&[StartPre, Start, StartPost, StopPost]);
                for command in &mut spec.commands {
                    command.ignore_failure = ignored && command.kind == kind;
                }
            });
            world.start();
            while world.asked[0].1.kind != kind {
                world.runs_well();
            }
            if spawns {
                world.runs(ExitStatus::Code(3));
            } else {
                world.spawn_fails().report_empty();
            }
            if ignored {
                while !world.asked.is_empty() {
                    world.runs_well();
                }
                world.ended("exited", Outcome::Success);
            } else {
                world.is("stop-post").asks(StopPost, 0).runs_well();
                world.ended("failed", Outcome::ExitCode);
            }
        }
    }
}

#[test]
fn what_cannot_even_be_put_together_is_a_lack_of_resources_and_never_forgiven() {
    for kind in [Condition, StartPre, Start, StartPost] {
        for service_type in [ServiceType::Oneshot, ServiceType::Simple] {
            let mut world = World::service(|spec| {
                spec.service_type = service_type;
                spec.commands = commands(&[Condition, StartPre, Start, StartPost]);
                for command in &mut spec.commands {
                    command.ignore_failure = true;
                }
            });
            world.start();
            while world.asked[0].1.kind != kind {
                match world.asked[0].0 {
                    Role::Main if service_type == ServiceType::Simple => world.spawned(),
                    _ => world.runs_well(),
                };
            }
            world.spawn_fails_early().report_empty();
            if service_type == ServiceType::Simple && kind == StartPost {
                world.ends(Role::Main, ExitStatus::Signal(15));
            }
            world.ended("failed", Outcome::Resources);
        }
    }
}

#[test]
fn a_daemon_that_ends_before_it_is_ready_has_failed() {
    for (status, outcome) in [
        (ExitStatus::Code(0), Outcome::Protocol),
        (ExitStatus::Code(1), Outcome::ExitCode),
        (ExitStatus::Core(6), Outcome::CoreDump),
    ] {
        let mut world = of_type(ServiceType::Notify);
        world.start().runs(status).ended("failed", outcome);
    }
}

#[test]
fn main_that_ends_during_start_post_is_noticed_after_it() {
    for (status, sub, outcome) in [
        (ExitStatus::Code(0), "dead", Outcome::Success),
        (ExitStatus::Code(7), "failed", Outcome::ExitCode),
    ] {
        let mut world = World::service(|spec| spec.commands = commands(&[Start, StartPost]));
        world.start().spawned().is("start-post").spawned();
        world.ends(Role::Main, status).is("start-post");
        world.ends(Role::Control, ExitStatus::Code(0));
        world.ended(sub, outcome);
    }
}

#[test]
fn with_exit_type_cgroup_the_last_process_decides() {
    let mut world = World::service(|spec| spec.exit_type = ExitType::Cgroup);
    world.start().spawned();
    world.processes.push((999, Role::Main));
    world.ends(Role::Main, ExitStatus::Code(0)).is("running");
    world.processes.clear();
    world.report_empty().ended("dead", Outcome::Success);
}

#[test]
fn what_is_found_running_after_a_lost_state_is_looked_after_again() {
    let mut world = of_type(ServiceType::Notify);
    let main = world.process();
    world.give(Input::Found {
        main: Some(main.clone()),
    });
    world.is("running");
    assert!(world.asked.is_empty(), "nothing is started");
    world.give(Input::Found { main: None }).is("running");
    world.stop().is("stop-sigterm");
}

#[test]
fn dbus_without_a_bus_fails_at_once() {
    let mut world = of_type(ServiceType::Dbus);
    world
        .start()
        .spawned()
        .give(Input::NoBus)
        .is("stop-sigterm");
    world.ends(Role::Main, ExitStatus::Signal(15));
    world.ended("failed", Outcome::Resources);
    let mut world = of_type(ServiceType::Dbus);
    world.start().spawned();
    world.give(Input::BusName { owned: true }).is("running");
    world.give(Input::NoBus).is("running");
}
