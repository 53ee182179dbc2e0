//! The same in a guest with nothing but cgroup v2, for the OCI runtime that does not work beside v1.

use std::path::Path;

use muster_lab::machine::Binaries;
use muster_lab::muster;

use super::{Outcome, TIME};

const PROGRAM: &str = "/lab/tests/start-bench";
const UNIT_PROGRAM: &str = "/lab/tests/muster-container";
const GUEST_KERNEL: &str = "linux.uml";
const RUNTIME: &str = "crun";

const SCRIPT: &str = r"#!/bin/sh
exec >/out/found 2>&1
busybox=/lab/bin/busybox
$busybox insmod /usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
mkdir -p /run/image/bin
cp $busybox /run/image/bin/busybox
for tool in sh sleep; do ln -s busybox /run/image/bin/$tool; done
";

/// Prints the table of the guest.
pub(crate) fn measure(programs: &Binaries) -> Outcome<()> {
    for tool in [GUEST_KERNEL, RUNTIME] {
        if !Path::new("/usr/bin").join(tool).exists() {
            println!("{RUNTIME} is not measured: needs {tool}");
            return Ok(());
        }
    }
    let run = format!(
        "{SCRIPT}{PROGRAM} inside {RUNTIME} {UNIT_PROGRAM} /run/image && touch /out/good\n"
    );
    let enough = "[Unit]\nAfter=basic.target\nWants=measure.service\n";
    let service = "[Service]\nType=oneshot\nExecStart=/lab/tests/script\nExecStopPost=/lab/muster/sctl poweroff --no-block\n\
                   Environment=PATH=/lab/muster:/usr/sbin:/usr/bin:/sbin:/bin\nTimeoutStartSec=infinity\n";
    let guest = muster::guest(programs)
        .host_file(std::env::current_exe()?, PROGRAM)
        .host_file(env!("CARGO_BIN_EXE_muster-container"), UNIT_PROGRAM)
        .file("/lab/tests/script", run, 0o755)
        .file("/etc/systemd/system/default.target", enough, 0o644)
        .file("/etc/systemd/system/measure.service", service, 0o644)
        .file(Path::new("/etc/passwd"), "root:x:0:0::/:/bin/sh\n", 0o644);
    let outcome = guest.run(TIME)?;
    let found = outcome.text("found");
    let found = found.ok_or_else(|| outcome.console.join("\n"))?;
    println!("in a guest with cgroup v2 alone:");
    print!("{found}");
    match outcome.text("good") {
        Some(_) => Ok(()),
        None => Err(format!("{RUNTIME}: failed, or a target is missed").into()),
    }
}
