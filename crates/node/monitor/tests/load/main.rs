//! Load in real groups, on machines of both kinds: what is reported is what the kernel says.
//!
//! The tests of `inside` run in a machine of the lab, started by those here: with the host's v1 controllers beside v2, and in a
//! guest with cgroup v2 alone.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod inside;
mod quota;
mod rig;

use std::time::Duration;

use muster_lab::guest::Guest;
use muster_lab::machine::Machine;

const TIME: Duration = Duration::from_secs(240);
const TESTS: &str = "/monitor-tests";
/// Those of `inside`, one after the other, so that none is the load of another.
const ARGUMENTS: [&str; 4] = ["inside::", "--ignored", "--test-threads=1", "--nocapture"];
const COUNT: &str = "5 passed";

#[test]
fn a_machine_with_v1_controllers_reports_what_the_kernel_says() {
    muster_lab::require!(Root, Cgroup2, File("/sys/fs/cgroup/memory"));
    let machine = Machine::builder()
        .hybrid_cgroups()
        .bind(std::env::current_exe().unwrap(), TESTS)
        .init(["/bin/sleep", "infinity"])
        .boot()
        .unwrap();
    let command = [TESTS].into_iter().chain(ARGUMENTS);
    let output = machine.run_within(TIME, command).unwrap();
    assert!(
        output.status.success() && output.stdout.contains(COUNT),
        "{}\n{}",
        output.stdout,
        output.stderr
    );
}

#[test]
fn a_guest_with_cgroup_v2_alone_reports_what_the_kernel_says() {
    muster_lab::require!(Tool("linux.uml"), Tool("busybox"));
    let outcome = Guest::uml()
        .share_host_tools()
        .module("fuse")
        .host_file(std::env::current_exe().unwrap(), TESTS)
        .script(format!("{TESTS} {} >/out/log 2>&1", ARGUMENTS.join(" ")))
        .run(TIME)
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(log.contains(COUNT), "{log}");
}
