//! The same tests on an older kernel.

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
        .module("loop")
        .module("ext4")
        .module("squashfs")
        .module("erofs")
        .module("overlay")
        .host_file(std::env::current_exe().unwrap(), "/view-tests")
        .script(format!(
            "mkdir -p /dev/pts /dev/shm /tmp /var/tmp /var/lib /root /etc /home /run
             mount -t devpts devpts /dev/pts && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp
             {INSIDE}=1 PATH=/usr/bin:/bin:/usr/sbin:/sbin /view-tests --test-threads=1 >/out/log 2>&1"
        ))
        .run(Duration::from_secs(120))
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(
        log.contains("travel::nothing_of_a_view_is_seen_by_the_machine ... ok"),
        "{log}"
    );
}
