//! A guest whose kernel asks programs before files are opened.

use std::time::Duration;

use muster_lab::guest::Guest;

const INSIDE: &str = "MUSTER_TEST_INSIDE_GUEST";
const HELPER_INSIDE: &str = "/muster-exec";
/// What both programs need to run where nothing else is.
const LIBRARIES: [&str; 3] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];
const TIME: Duration = Duration::from_secs(180);

pub(crate) fn is_inside() -> bool {
    std::env::var(INSIDE).is_ok()
}

pub(crate) fn helper() -> String {
    if is_inside() {
        HELPER_INSIDE.to_owned()
    } else {
        env!("CARGO_BIN_EXE_muster-exec").to_owned()
    }
}

#[test]
fn a_guest_with_the_kernels_part_passes_every_test() {
    if is_inside() {
        return;
    }
    muster_lab::require!(Tool("qemu-system-x86_64"), Tool("busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    let mut guest = Guest::qemu()
        .memory_mib(1024)
        .kernel_arg("lsm=landlock,lockdown,yama,bpf")
        .host_file(std::env::current_exe().unwrap(), "/files-tests")
        .host_file(helper(), HELPER_INSIDE);
    for library in LIBRARIES {
        guest = guest.host_file(library, library);
    }
    let outcome = guest
        .script(format!(
            "set -e
             # What the kernel unpacks is no mount that could be left behind, so everything moves to one.
             mkdir /new && mount -t tmpfs new /new && cd /new
             cp -a /bin /lib /lib64 /lab /files-tests /muster-exec . && mkdir proc sys dev tmp ram out
             for folder in proc sys dev; do mount --rbind /$folder $folder; done
             mount -t securityfs securityfs sys/kernel/security
             mount --bind /out out && mount -t ramfs ramfs ram && echo content >ram/file && echo >tmp/file
             mount -o move . / && {INSIDE}=1 chroot . /files-tests --test-threads=1 --nocapture >/out/log 2>&1"
        ))
        .run(TIME)
        .unwrap();
    let log = outcome.text("log").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{log}\n{:#?}", outcome.console);
    assert!(
        log.contains("test result: ok. 5 passed"),
        "all of them ran: {log}"
    );
}
