//! Attempts to break out of a service: each is contained, and named in its status.

use muster_lab::machine::Build;
use muster_lab::muster;

use crate::case::{self, Case};
use crate::guest;
use crate::world::{TIME, World};

/// Beside the folder of the others, which run all in one machine.
const FILE: &str = "../escapes";

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    case::read(FILE)
}

fn attempt(name: &str) -> Case {
    let mut cases = all();
    let index = cases.iter().position(|case| case.name == name);
    cases.swap_remove(index.unwrap_or_else(|| panic!("no {name}")))
}

fn on_the_host(name: &str) {
    let world = World::new(vec![attempt(name)]);
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let machine = muster::boot(&world.furnish(muster::machine(&programs)), TIME).unwrap();
    world.run("host: escapes", &machine, "sctl");
}

/// Where processes and memory can be counted.
fn in_a_guest(name: &str) {
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let (world, disk) = (World::new(vec![attempt(name)]), guest::disk());
    world
        .on_a_machine_with(guest::FACTS)
        .run_guest("guest: escapes", muster::guest(&programs).disk(disk.path()));
}

macro_rules! escapes {
    ($($function:ident: $place:ident($name:literal),)*) => {
        $(
            #[test]
            fn $function() {
                muster_lab::require!(Root, Cgroup2, File("/bin/busybox"), Tool("linux.uml"));
                $place($name);
            }
        )*

        #[test]
        fn every_attempt_has_a_test() {
            let tried = [$($name),*];
            let cases = all();
            let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
            assert_eq!(names, tried);
        }
    };
}

escapes! {
    another_service_is_not_traced: on_the_host("escape-ptrace"),
    service_of_another_user_is_not_traced: on_the_host("escape-ptrace-of-another-user"),
    kernel_settings_are_not_written: on_the_host("escape-kernel-settings"),
    nothing_is_mounted: on_the_host("escape-mount"),
    nothing_is_mounted_without_the_capability: on_the_host("escape-mount-without-the-capability"),
    no_raw_socket_is_opened: on_the_host("escape-raw-socket"),
    no_process_stays_after_the_stop: on_the_host("escape-by-staying-after-the-stop"),
    credential_of_another_is_not_read: on_the_host("escape-to-the-credential-of-another"),
    credential_of_another_is_not_read_by_a_root_that_sees_less:
        on_the_host("escape-to-the-credential-of-another-as-root"),
    root_folder_is_not_left: on_the_host("escape-from-the-root-folder"),
    no_process_hides_in_a_group_whose_name_is_no_text: on_the_host("escape-to-a-group-whose-name-is-no-text"),
    no_process_hides_in_a_group_far_below: on_the_host("escape-to-a-group-far-below"),
    manager_does_not_wait_for_a_group_that_a_delegate_has_frozen:
        in_a_guest("escape-by-freezing-the-group-for-commands"),
    processes_are_not_exhausted: in_a_guest("escape-by-processes"),
    bomb_of_processes_ends_with_its_unit: in_a_guest("escape-by-a-bomb-of-processes"),
    memory_is_not_exhausted: in_a_guest("escape-by-memory"),
}
