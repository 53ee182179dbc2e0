//! Views of processes that are root in a user namespace alone.

use std::fs;
use std::process::Command;

use muster_exec::Step;
use muster_exec::mounts::apply;
use muster_mounts::{ProcOthers, ProtectHome, ProtectSystem, View};
use rustix::io::Errno;

use crate::rig::{Scene, is_root, list, namespaced, place, write_into};

/// Set in the copy of the test that runs in the namespace: a folder whose mount is not executable.
const INSIDE: &str = "MUSTER_TEST_NOT_EXECUTABLE";

#[test]
fn root_of_a_user_namespace_gets_what_the_kernel_lets_it() {
    let name = "root_of_a_user_namespace_gets_what_the_kernel_lets_it";
    if let Ok(locked) = std::env::var(INSIDE) {
        return inside(&locked);
    }
    if !is_root(name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o noexec tmpfs "$1" && exec unshare --user --map-root-user --mount "$2" --exact "$3" --nocapture"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-ec", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .arg(format!("users::{name}"))
        .env(INSIDE, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn inside(locked: &str) {
    let scene = Scene::new();
    let view = View {
        protect_system: ProtectSystem::Strict,
        protect_home: ProtectHome::Yes,
        private_devices: true,
        protect_kernel_tunables: true,
        protect_control_groups: true,
        others_processes: ProcOthers::Invisible,
        read_write: vec![scene.place("a")],
        ..View::default()
    };
    namespaced(|| {
        // Whether a user namespace may show processes depends on what it sees of them already.
        let dropped = apply(&view, false).unwrap();
        let about_processes = |dropped: &String| dropped.starts_with("ProtectProc: ");
        assert!(dropped.iter().all(about_processes), "{dropped:?}");
        assert_eq!(write_into("/usr"), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a")), Ok(()));
        assert_eq!(list("/root"), Ok(vec![]));
        fs::write("/dev/null", "gone").unwrap();
        assert!(fs::metadata("/dev/loop-control").is_err());
    });
    let view = View {
        exec: vec![place(locked)],
        ..View::default()
    };
    let error = namespaced(|| apply(&view, false)).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::PERM));
    assert!(error.to_string().contains(locked), "{error}");
    let dropped = namespaced(|| apply(&view, true)).unwrap();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert!(dropped[0].starts_with("ExecPaths: "), "{dropped:?}");
}
