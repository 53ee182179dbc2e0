//! The same tests on an older kernel with cgroup v2 alone.

use std::time::Duration;

use muster_lab::guest::Guest;

const INSIDE: &str = "MUSTER_TEST_INSIDE_GUEST";

#[test]
fn a_guest_with_an_older_kernel_passes_every_test() {
    if std::env::var(INSIDE).is_ok() {
        return;
    }
    muster_lab::require!(Tool("linux.uml"), Tool("busybox"));
    let outcome = Guest::uml()
        .share_host_tools()
        .host_file(std::env::current_exe().unwrap(), "/spawn-tests")
        .script(format!(
            "mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
             {INSIDE}=1 PATH=/usr/bin:/bin /spawn-tests --test-threads=1 >/out/log 2>&1"
        ))
        .run(Duration::from_secs(120))
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(
        log.contains("groups::a_group_that_was_killed_can_be_used_again ... ok"),
        "{log}"
    );
}
