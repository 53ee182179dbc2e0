//! Folders of units, and the real machine.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use muster_exec::Identity;
use muster_unit_file::config::DirectoryKind;
use muster_unit_file::specifier::HostFacts;

use super::rig::{Fake, START, built_by, unit, variable};
use crate::context::folders::{Folder, ending, plan};
use crate::context::machine::{Machine, RealMachine};
use crate::context::make_folders;

#[test]
fn folders_are_planned_named_and_told() {
    let lines = "ExecStart=/bin/x\nUser=web\nRuntimeDirectory=x y/z\nRuntimeDirectoryMode=0700\n\
                 StateDirectory=x:link\nConfigurationDirectory=x";
    let built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    let folder = |kind, path: &str, link: Option<&str>, mode, owner| Folder {
        kind,
        path: path.into(),
        link: link.map(Into::into),
        mode,
        owner,
    };
    let web = Some((33, 34));
    let expected = [
        folder(DirectoryKind::Runtime, "/run/x", None, 0o700, web),
        folder(DirectoryKind::Runtime, "/run/y/z", None, 0o700, web),
        folder(
            DirectoryKind::State,
            "/var/lib/x",
            Some("/var/lib/link"),
            0o755,
            web,
        ),
        folder(DirectoryKind::Configuration, "/etc/x", None, 0o755, None),
    ];
    assert_eq!(built.folders, expected);
    let told = |name| variable(&built.context, name);
    assert_eq!(told("RUNTIME_DIRECTORY"), Some("/run/x:/run/y/z"));
    assert_eq!(told("STATE_DIRECTORY"), Some("/var/lib/x"));
    assert_eq!(told("CACHE_DIRECTORY"), None);
    let error = make_folders(&built.folders, &mut Fake::default()).unwrap_err();
    assert_eq!((error.exit_code, error.errno), (233, 30));
    assert!(error.step.contains("/run/x"), "{}", error.step);
}

#[test]
fn runtime_folders_end_with_the_run_unless_they_are_kept() {
    let host = HostFacts::default();
    let ends = |preserve: &str, another_run| {
        let lines = format!("ExecStart=/bin/x\nRuntimeDirectory=x:l\nStateDirectory=s\n{preserve}");
        ending(&unit(&lines), &host, another_run).len()
    };
    assert_eq!((ends("", true), ends("", false)), (2, 2));
    let restart = "RuntimeDirectoryPreserve=restart";
    assert_eq!((ends(restart, true), ends(restart, false)), (0, 2));
    assert_eq!(ends("RuntimeDirectoryPreserve=yes", false), 0);
}

/// A folder for a unit below a temporary place, with the identity of whoever runs the test.
fn planned(root: &Path, lines: &str) -> Vec<Folder> {
    let host = HostFacts {
        runtime_directory: root.to_str().unwrap().into(),
        ..HostFacts::default()
    };
    let stat = std::fs::metadata(root).unwrap();
    let identity = Identity {
        uid: stat.uid(),
        gid: stat.gid(),
        groups: Vec::new(),
    };
    plan(
        &unit(&format!("ExecStart=/bin/x\n{lines}")),
        &host,
        Some(&identity),
    )
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn folders_are_made_mended_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut machine = RealMachine::new(Path::new("/"));
    let folders = planned(
        root.path(),
        "RuntimeDirectory=a/b:l\nRuntimeDirectoryMode=2750",
    );
    for _ in 0..2 {
        make_folders(&folders, &mut machine).unwrap();
    }
    let made = root.path().join("a/b");
    assert_eq!((mode(&made), mode(&root.path().join("a"))), (0o2750, 0o755));
    assert!(root.path().join("l").is_dir());
    std::fs::write(made.join("file"), "x").unwrap();
    std::fs::set_permissions(&made, PermissionsExt::from_mode(0o777)).unwrap();
    make_folders(&folders, &mut machine).unwrap();
    assert_eq!(mode(&made), 0o2750);
    for _ in 0..2 {
        for path in [root.path().join("l"), made.clone()] {
            machine.remove_folder(path.to_str().unwrap()).unwrap();
        }
    }
    assert!(!made.exists() && !root.path().join("l").is_symlink());
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::set_permissions(elsewhere.path(), PermissionsExt::from_mode(0o711)).unwrap();
    symlink(elsewhere.path(), root.path().join("a")).unwrap();
    let folders = planned(root.path(), "RuntimeDirectory=a\nRuntimeDirectoryMode=0777");
    let error = make_folders(&folders, &mut RealMachine::new(Path::new("/"))).unwrap_err();
    assert_eq!(error.exit_code, 233);
    assert_eq!(mode(elsewhere.path()), 0o711);
}

#[test]
fn a_new_owner_gets_everything_in_a_folder_but_nothing_outside() {
    if !rustix::process::geteuid().is_root() {
        println!(
            "a_new_owner_gets_everything_in_a_folder_but_nothing_outside: skipped, it needs root"
        );
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    std::fs::write(&outside, "").unwrap();
    std::fs::create_dir_all(root.path().join("a/deep")).unwrap();
    std::fs::write(root.path().join("a/deep/file"), "").unwrap();
    symlink(&outside, root.path().join("a/deep/link")).unwrap();
    let mut folders = planned(root.path(), "RuntimeDirectory=a");
    folders[0].owner = Some((4711, 4712));
    make_folders(&folders, &mut RealMachine::new(Path::new("/"))).unwrap();
    let owner = |path: &str| {
        std::fs::symlink_metadata(root.path().join(path))
            .unwrap()
            .uid()
    };
    for path in ["a", "a/deep", "a/deep/file", "a/deep/link"] {
        assert_eq!(owner(path), 4711, "{path}");
    }
    assert_eq!(owner("outside"), 0);
}

#[test]
fn the_real_machine_reads_matches_and_holds_data() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b.env", "a.env", ".hidden.env", "other"] {
        std::fs::write(root.path().join(name), name).unwrap();
    }
    let machine = RealMachine::new(Path::new("/"));
    let pattern = root.path().join("*.env");
    let found = machine.matching(pattern.to_str().unwrap());
    let expected =
        ["a.env", "b.env"].map(|name| root.path().join(name).to_str().unwrap().to_owned());
    assert_eq!(found, expected);
    assert_eq!(machine.read(&found[0]).unwrap(), b"a.env");
    let fifo = root.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(
        machine.read(fifo.to_str().unwrap()).unwrap(),
        b"",
        "nobody writes, nobody waits"
    );
    assert!(machine.is_program("/bin/sh") && !machine.is_program("/etc/passwd"));
    assert!(!machine.is_program("/bin"));
    let data = std::fs::File::from(machine.data(b"hello").unwrap());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut { data }, &mut text).unwrap();
    assert_eq!(text, "hello");
}
