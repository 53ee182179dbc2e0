//! Scenarios of mounts, automounts, swaps, slices, scopes and devices.

use super::world::World;
use crate::ids::Span;
use crate::protocol::{
    ActiveState, DeadlineKind, ExecKind, ExitStatus, Input, KillScope, Outcome, Output, Role,
};
use crate::spec::*;

const TERM: ExitStatus = ExitStatus::Signal(15);

fn mount() -> World {
    World::new(KindSpec::Mount(Box::default()))
}

fn mounted() -> World {
    let mut world = mount();
    world.start().is("mounting").asks(ExecKind::Mount, 0);
    world
        .give(Input::KernelTable { present: true })
        .is("mounting-done");
    assert_eq!(world.machine.active(), ActiveState::Activating);
    world.runs_well().is("mounted");
    assert!(world.deadlines.is_empty());
    world
}

#[test]
fn a_mount_is_up_when_the_table_and_the_command_agree() {
    mounted();
    mount()
        .start()
        .runs_well()
        .ended("failed", Outcome::Protocol);
    mount()
        .start()
        .runs(ExitStatus::Code(32))
        .ended("failed", Outcome::ExitCode);
    mount()
        .start()
        .spawn_fails()
        .ended("failed", Outcome::ExitCode);
    // A command that takes back what it did.
    let mut world = mount();
    world.start().give(Input::KernelTable { present: true });
    world
        .give(Input::KernelTable { present: false })
        .is("mounting");
    world
        .runs(ExitStatus::Code(1))
        .ended("failed", Outcome::ExitCode);
}

#[test]
fn a_mount_goes_when_it_is_gone_from_the_table() {
    let mut world = mounted();
    world
        .stop()
        .is("unmounting")
        .give(Input::KernelTable { present: false });
    world.runs_well().ended("dead", Outcome::Success);
    // Busy: it stays, and the stop has failed.
    let mut world = mounted();
    world
        .stop()
        .runs(ExitStatus::Code(32))
        .ended("mounted", Outcome::ExitCode);
}

#[test]
fn stacked_mounts_are_unmounted_a_bounded_number_of_times() {
    let mut world = mounted();
    world.stop();
    for _ in 0..31 {
        world.runs_well().is("unmounting");
    }
    world.runs_well().is("mounted");
    let mut world = mounted();
    world.stop().runs_well().is("unmounting");
    world
        .give(Input::KernelTable { present: false })
        .runs_well()
        .is("dead");
}

#[test]
fn somebody_elses_mounts_are_followed() {
    let mut world = mount();
    world
        .give(Input::KernelTable { present: true })
        .is("mounted");
    world
        .give(Input::KernelTable { present: false })
        .ended("dead", Outcome::Success);
    let mut world = World::new(KindSpec::Mount(Box::new(MountSpec {
        configured: false,
        ..MountSpec::default()
    })));
    world.start().ended("failed", Outcome::Resources);
}

#[test]
fn a_stop_while_mounting_leaves_nothing_mounted() {
    let mut world = mount();
    world
        .start()
        .spawned()
        .give(Input::KernelTable { present: true });
    world.stop().is("unmounting-sigterm");
    assert_eq!(world.kills(), [(KillScope::All, 15)]);
    world
        .ends(Role::Control, TERM)
        .is("unmounting")
        .asks(ExecKind::Unmount, 0);
    world.give(Input::KernelTable { present: false });
    world.runs_well().ended("dead", Outcome::Success);
    // The command appears after the stop.
    let mut world = mount();
    world.start().stop().spawned();
    assert_eq!(world.kills(), [(KillScope::All, 15)]);
    world
        .ends(Role::Control, TERM)
        .ended("dead", Outcome::Success);
}

#[test]
fn mount_commands_have_a_deadline_and_so_have_their_signals() {
    let step = DeadlineKind::Step;
    let mut world = mount();
    world
        .start()
        .spawned()
        .expire(step)
        .is("unmounting-sigterm");
    world.expire(step).is("unmounting-sigkill").expire(step);
    world.ended("failed", Outcome::Timeout);
    let mut world = mounted();
    world
        .give(Input::Reload)
        .is("remounting")
        .spawned()
        .expire(step);
    world
        .is("remounting-sigterm")
        .expire(step)
        .is("remounting-sigkill");
    world
        .ends(Role::Control, ExitStatus::Signal(9))
        .is("mounted");
    assert!(world.machine.reload_failed());
    world.give(Input::Reload).runs_well().is("mounted");
    assert!(!world.machine.reload_failed());
}

#[test]
fn an_automount_point_holds_whoever_looks_until_there_is_an_answer() {
    let make = || {
        let mut world = World::new(KindSpec::Automount(AutomountSpec {
            idle_timeout: Span::secs(9),
        }));
        world.triggered(ActiveState::Inactive, Outcome::Success);
        world.start().is("waiting").said(&Output::Automount(true));
        world.give(Input::Waiting { pid: 7 }).is("running");
        world.said(&Output::Trigger { connection: None });
        world
    };
    let mut world = make();
    world.triggered(ActiveState::Activating, Outcome::Success);
    assert!(world.out.is_empty());
    world.triggered(ActiveState::Active, Outcome::Success);
    world.said(&Output::AnswerWaiting(0)).is("running");
    world.expire(DeadlineKind::Idle).said(&Output::ExpireMounts);
    world.give(Input::Expired).said(&Output::StopTriggered);
    world
        .triggered(ActiveState::Inactive, Outcome::Success)
        .is("waiting");
    assert!(world.deadlines.is_empty());
    // Failures are answers too.
    make()
        .triggered(ActiveState::Failed, Outcome::ExitCode)
        .said(&Output::AnswerWaiting(19))
        .is("waiting");
    make()
        .triggered(ActiveState::Failed, Outcome::StartLimitHit)
        .said(&Output::AnswerWaiting(112))
        .ended("failed", Outcome::MountStartLimitHit);
    make()
        .stop()
        .said(&Output::AnswerWaiting(112))
        .said(&Output::Automount(false))
        .is("dead");
    make()
        .give(Input::AutomountGone { errno: None })
        .ended("failed", Outcome::Unmounted);
    make()
        .give(Input::AutomountGone { errno: Some(1) })
        .ended("failed", Outcome::Resources);
}

#[test]
fn looking_at_what_is_mounted_already_is_answered_at_once() {
    let mut world = World::new(KindSpec::Automount(AutomountSpec::default()));
    world
        .triggered(ActiveState::Active, Outcome::Success)
        .start();
    world
        .give(Input::Waiting { pid: 7 })
        .said(&Output::AnswerWaiting(0));
    world.is("running");
}

#[test]
fn swap_follows_its_commands_and_the_table() {
    let swap = || World::new(KindSpec::Swap(Box::default()));
    let on = || {
        let mut world = swap();
        world
            .start()
            .is("activating")
            .give(Input::KernelTable { present: true });
        world.is("activating-done");
        assert!(world.machine.active().is_up());
        world.runs_well().is("active");
        world
    };
    let mut world = on();
    world
        .stop()
        .is("deactivating")
        .give(Input::KernelTable { present: false });
    world.runs_well().ended("dead", Outcome::Success);
    on().stop()
        .runs(ExitStatus::Code(1))
        .ended("active", Outcome::ExitCode);
    on().give(Input::KernelTable { present: false }).is("dead");
    swap()
        .give(Input::KernelTable { present: true })
        .is("active");
    swap()
        .start()
        .runs_well()
        .ended("failed", Outcome::Protocol);
    let step = DeadlineKind::Step;
    let mut world = swap();
    world
        .start()
        .spawned()
        .expire(step)
        .is("deactivating-sigterm");
    world.expire(step).is("deactivating-sigkill").expire(step);
    world.ended("failed", Outcome::Timeout);
    let mut world = swap();
    world
        .start()
        .spawned()
        .give(Input::KernelTable { present: true })
        .stop();
    world.ends(Role::Control, TERM).is("deactivating");
}

#[test]
fn a_slice_is_its_cgroup() {
    let mut world = World::new(KindSpec::Slice(SliceSpec {}));
    world.start().is("active").said(&Output::MakeCgroup);
    world.stop().is("dead").said(&Output::ReleaseCgroup);
}

fn scope(change: impl FnOnce(&mut ScopeSpec)) -> World {
    let mut spec = ScopeSpec::default();
    change(&mut spec);
    let mut world = World::new(KindSpec::Scope(Box::new(spec)));
    world.start().is("start-chown").said(&Output::MakeCgroup);
    world.give(Input::Attached).is("running");
    world
}

#[test]
fn a_scope_lives_as_long_as_its_processes() {
    scope(|_| {})
        .give(Input::CgroupEmpty)
        .ended("dead", Outcome::Success);
    let mut world = scope(|_| {});
    world
        .give(Input::Abandon)
        .is("abandoned")
        .stop()
        .is("stop-sigterm");
    world.expire(DeadlineKind::Step).is("stop-sigkill");
    world
        .give(Input::CgroupEmpty)
        .ended("failed", Outcome::Timeout);
    let mut world = World::new(KindSpec::Scope(Box::default()));
    world
        .start()
        .give(Input::CgroupEmpty)
        .ended("failed", Outcome::Resources);
}

#[test]
fn a_scope_has_limits_of_time_and_memory() {
    let mut world = scope(|spec| spec.runtime_max = Span::secs(5));
    world.expire(DeadlineKind::RuntimeMax).is("stop-sigterm");
    world
        .give(Input::CgroupEmpty)
        .ended("failed", Outcome::Timeout);
    for (policy, sub) in [
        (OomPolicy::Continue, "running"),
        (OomPolicy::Stop, "stop-sigterm"),
        (OomPolicy::Kill, "stop-sigkill"),
    ] {
        scope(|spec| spec.oom_policy = policy)
            .give(Input::OomKill)
            .is(sub);
    }
    for (mode, sub) in [
        (KillMode::Mixed, "stop-sigkill"),
        (KillMode::Process, "dead"),
        (KillMode::None, "dead"),
    ] {
        scope(|spec| spec.kill.mode = mode).stop().is(sub);
    }
}

#[test]
fn a_device_is_what_the_kernel_says() {
    let mut world = World::new(KindSpec::Device(DeviceSpec {}));
    world.start().is("dead");
    assert_eq!(world.machine.active(), ActiveState::Inactive);
    world
        .give(Input::KernelTable { present: true })
        .is("tentative");
    world.give(Input::Plugged { present: true }).is("plugged");
    world
        .give(Input::KernelTable { present: false })
        .is("plugged");
    world.give(Input::Plugged { present: false }).is("dead");
}
