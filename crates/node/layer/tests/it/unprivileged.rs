//! Without root: what a user may unpack, and remove again.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use muster_layer::{Compression, Options, OverlayXattrs, Ownership, Whiteouts};

use crate::rig::Rig;
use crate::tar::{Item, empty, file, folder, hard_link, symlink, tar};

/// Set in the process that runs the test as somebody else.
const VARIABLE: &str = "MUSTER_LAYER_UNPRIVILEGED";

#[test]
fn a_user_unpacks_and_removes_what_forbids_it() {
    if std::env::var_os(VARIABLE).is_some() || !rustix::process::geteuid().is_root() {
        return as_a_user();
    }
    muster_lab::require!(Root, Tool("setpriv"));
    // The program must be readable to the user, wherever it was built.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
        ])
        .arg(&program)
        .args([
            "--exact",
            "unprivileged::a_user_unpacks_and_removes_what_forbids_it",
            "--nocapture",
        ])
        .env(VARIABLE, "1")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{output:?}"
    );
}

fn as_a_user() {
    assert!(!rustix::process::geteuid().is_root());
    let layer = tar([
        folder("locked").mode(0o000),
        file("locked/file").mode(0o000).owner(0, 0),
        folder("locked/inner").mode(0o111),
        file("locked/inner/file").mode(0o444),
        Item::new(b'5', "read-only").mode(0o555),
        symlink("read-only/link", "/etc/passwd"),
        hard_link("read-only/hard", "locked/file"),
        empty("read-only/.wh.gone"),
        empty("read-only/deep/.wh..wh..opq"),
        file("locked/inner/file").mode(0o400),
    ]);
    let rig = Rig::new();
    let options = Options {
        ownership: Ownership::Caller,
        whiteouts: Whiteouts {
            xattrs: OverlayXattrs::User,
            ..Whiteouts::default()
        },
        ..Options::default()
    };
    let report = rig.unpack(&layer, Compression::None, &options).unwrap();
    assert_eq!((report.entries, report.whiteouts), (10, 2));
    let mode = |name: &str| {
        let meta = std::fs::symlink_metadata(rig.destination().join(name)).unwrap();
        meta.permissions().mode() & 0o7777
    };
    assert_eq!(
        (mode("locked"), mode("read-only"), mode("read-only/deep")),
        (0o500, 0o555, 0o755),
        "what nobody could look into could not be verified"
    );
    assert_eq!(
        (mode("locked/inner"), mode("read-only/hard")),
        (0o511, 0o400)
    );
    rig.clean();
    rig.assert_untouched();
}
