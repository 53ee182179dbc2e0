//! Limits that a real file system keeps.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_instance_data::Quota;
use muster_lab::guest::Guest;

const INSIDE: &str = "MUSTER_TEST_QUOTA_FOLDER";
const USER: u32 = 5077;

/// Runs itself once more, in a guest whose kernel keeps quotas.
#[test]
fn a_user_cannot_keep_more_than_the_limit() {
    if let Some(folder) = env::var_os(INSIDE) {
        return inside(Path::new(&folder));
    }
    muster_lab::require!(Tool("linux.uml"), Tool("mke2fs"), Tool("setpriv"));
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    let made = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-O", "quota"])
        .arg(&disk)
        .arg("16M")
        .status();
    assert!(made.expect("mke2fs runs").success());
    let outcome = Guest::uml()
        .share_host_tools()
        .host_file(env::current_exe().expect("this program"), "/test")
        .module("quota_v2")
        .disk(&disk)
        .script(format!(
            "mkdir /fs && mount -t ext4 -o usrquota /dev/disk0 /fs && chmod 777 /fs || exit 3
             {INSIDE}=/fs /test --exact --nocapture a_user_cannot_keep_more_than_the_limit >/out/said 2>&1"
        ))
        .run(Duration::from_secs(60))
        .expect("the guest runs");
    let said = outcome.text("said").unwrap_or_default();
    assert_eq!(outcome.status, Some(0), "{said} {:?}", outcome.console);
    assert!(said.contains("1 passed"), "{said}");
}

fn write(folder: &Path, name: &str, kib: u32) -> (bool, String) {
    let done = Command::new("setpriv")
        .args([format!("--reuid={USER}"), format!("--regid={USER}")])
        .args(["--clear-groups", "dd", "if=/dev/zero", "bs=1024"])
        .arg(format!("count={kib}"))
        .arg(format!("of={}", folder.join(name).display()))
        .output()
        .expect("dd runs");
    (
        done.status.success(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    )
}

fn inside(folder: &Path) {
    let limit = Quota {
        uid: USER,
        bytes: 1 << 20,
    };
    limit.set(folder).expect("the file system has quotas");
    let (fits, said) = write(folder, "small", 512);
    assert!(fits, "{said}");
    let (fits, said) = write(folder, "large", 1024);
    assert!(!fits && said.contains("quota"), "{said}");
    // A limit that is lifted is no limit.
    let none = Quota {
        uid: USER,
        bytes: 0,
    };
    none.set(folder).expect("limits can be lifted");
    let (fits, said) = write(folder, "large", 1024);
    assert!(fits, "{said}");
}
