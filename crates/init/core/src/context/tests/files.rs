//! Folders of units, and the real machine.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use muster_engine::ids::InvocationId;
use muster_exec::folders::{Folder, Kind, make_all};
use muster_exec::{Identity, Keyring};
use muster_unit_file::specifier::HostFacts;

use super::rig::{Fake, START, built_by, unit, variable};
use crate::context::folders::{ending, plan};
use crate::context::machine::{Machine, RealMachine};
use crate::context::{make_folders, put_folders_away};

#[test]
fn folders_are_planned_named_and_told() {
    let lines = "ExecStart=/bin/x\nUser=web\nRuntimeDirectory=x y/z\nRuntimeDirectoryMode=0700\n\
                 StateDirectory=x:link\nConfigurationDirectory=x";
    let mut built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    let folder = |kind, root: &str, path: &str, link: Option<&str>, mode| Folder {
        kind,
        root: root.into(),
        path: path.into(),
        link: link.map(Into::into),
        mode,
        owner: Some((33, 34)),
        private: None,
    };
    let link = Some("/var/lib/link");
    let expected = [
        folder(Kind::Runtime, "/run", "/run/x", None, 0o700),
        folder(Kind::Runtime, "/run", "/run/y/z", None, 0o700),
        folder(Kind::State, "/var/lib", "/var/lib/x", link, 0o755),
        folder(Kind::Configuration, "/etc", "/etc/x", None, 0o755),
    ];
    assert_eq!(built.folders, expected);
    let told = |name| variable(&built.context, name);
    assert_eq!(told("RUNTIME_DIRECTORY"), Some("/run/x:/run/y/z"));
    assert_eq!(told("STATE_DIRECTORY"), Some("/var/lib/x"));
    assert_eq!(told("CACHE_DIRECTORY"), None);
    let error = make_folders(&mut built, &mut Fake::default()).unwrap_err();
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
    assert_eq!((ends("", true), ends("", false)), (1, 1));
    let restart = "RuntimeDirectoryPreserve=restart";
    assert_eq!((ends(restart, true), ends(restart, false)), (0, 1));
    assert_eq!(ends("RuntimeDirectoryPreserve=yes", false), 0);
    // What is in them is removed by somebody else.
    let config = unit("ExecStart=/bin/x\nRuntimeDirectory=x:l\nStateDirectory=s");
    let run = (InvocationId(7), false);
    let (paths, remarks) =
        put_folders_away(&config, &Default::default(), run, &mut Fake::default());
    assert_eq!(paths, [format!("/run/x-{:032x}", 7)]);
    assert!(remarks.is_empty());
}

/// The manager gives nobody a folder that is full of files: however long that takes, it goes on with its work.
#[test]
fn a_full_folder_gets_its_owner_from_whatever_sets_the_process_up() {
    let made = |lines: &str| {
        let lines = format!("ExecStart=/bin/x\n{lines}");
        let mut built = built_by(&mut Fake::default(), &lines, START, |_| {}).unwrap();
        make_folders(&mut built, &mut Fake::default()).unwrap();
        built.context
    };
    let quick = made("User=web\nStateDirectory=s\nCacheDirectory=c");
    assert!(quick.sandbox.is_none() && quick.keyring == Keyring::Private);
    let full = made("User=web\nStateDirectory=s\nCacheDirectory=c\nStateDirectoryMode=0777");
    let sandbox = full.sandbox.unwrap();
    let paths: Vec<&str> = sandbox.folders.iter().map(|one| &*one.path).collect();
    assert_eq!(paths, ["/var/lib/s"]);
    assert_eq!(sandbox.folders[0].owner, Some((33, 34)));
    // What it has beside that stays the same.
    assert_eq!(
        (full.keyring, sandbox.keyring),
        (Keyring::Inherit, Keyring::Private)
    );
    assert_eq!(full.identity.unwrap().uid, 33);
}

#[test]
fn a_folder_that_may_never_answer_is_left_to_whatever_sets_the_process_up() {
    let mut fake = Fake::default();
    fake.distant = Some("/var/lib/far");
    let lines =
        "ExecStart=/bin/x\nUser=web\nStateDirectory=far/a near near:far/link\nCacheDirectory=c";
    let mut built = built_by(&mut fake, lines, START, |_| {}).unwrap();
    make_folders(&mut built, &mut fake).unwrap();
    let left = built.context.sandbox.unwrap().folders;
    let links: Vec<_> = left
        .iter()
        .map(|one| (&*one.path, one.link.as_deref()))
        .collect();
    let expected = [
        ("/var/lib/near", Some("/var/lib/far/link")),
        ("/var/lib/far/a", None),
    ];
    assert_eq!(links, expected);
    // One that is to go stays rather than keep the manager.
    fake.distant = Some("/run/far");
    let config = unit("ExecStart=/bin/x\nRuntimeDirectory=far near");
    let run = (InvocationId(7), false);
    let (paths, remarks) = put_folders_away(&config, &Default::default(), run, &mut fake);
    assert_eq!(paths, [format!("/run/near-{:032x}", 7)]);
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].contains("/run/far"), "{}", remarks[0]);
}

#[test]
fn folders_of_a_user_that_only_name_services_know_are_given_by_who_asks_them() {
    for (command, only) in [("/bin/x", false), ("+/bin/x", true), ("!/bin/x", true)] {
        let lines = format!("User=far\nStateDirectory=s\nExecStart={command}");
        let mut built = built_by(&mut Fake::default(), &lines, START, |_| {}).unwrap();
        make_folders(&mut built, &mut Fake::default()).unwrap();
        assert!(built.context.identity.is_none());
        let sandbox = built.context.sandbox.unwrap();
        let names = sandbox.names.unwrap();
        assert_eq!(names.user.as_deref(), Some("far"));
        assert_eq!(
            (names.only_for_folders, names.login_environment),
            (only, !only)
        );
        assert_eq!(sandbox.folders.len(), 1, "{command}");
        assert_eq!(sandbox.folders[0].owner, None, "{command}");
    }
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
    let mut machine = RealMachine::new(Path::new("/"), Path::new("/nonexistent"));
    let folders = planned(
        root.path(),
        "RuntimeDirectory=a/b:l\nRuntimeDirectoryMode=2750",
    );
    for _ in 0..2 {
        assert!(machine.make_folder(&folders[0]).unwrap());
    }
    let made = root.path().join("a/b");
    assert_eq!((mode(&made), mode(&root.path().join("a"))), (0o2750, 0o755));
    assert!(root.path().join("l").is_dir());
    std::fs::write(made.join("file"), "x").unwrap();
    std::fs::set_permissions(&made, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(machine.make_folder(&folders[0]).unwrap());
    assert_eq!(mode(&made), 0o2750);
    let left = machine.put_away(&folders[0], "x").unwrap().unwrap();
    assert!(Path::new(&left).join("file").exists());
    assert_eq!(machine.put_away(&folders[0], "x").unwrap(), None);
    assert!(!made.exists() && !root.path().join("l").is_symlink());
}

#[test]
fn folders_become_private_and_come_out_again_with_what_is_in_them() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::write(at("a/b/file"), "x").unwrap();
    let lines = "RuntimeDirectory=a/b\nRuntimeDirectoryPreserve=yes";
    let private = planned(root.path(), &format!("{lines}\nDynamicUser=yes"));
    for _ in 0..2 {
        make_all(&private, None).unwrap();
        assert_eq!(mode(&at("private")), 0o700);
        assert!(at("a/b").is_symlink() && at("private/a/b/file").exists());
        assert_eq!(std::fs::read(at("a/b/file")).unwrap(), b"x");
    }
    let public = planned(root.path(), lines);
    for _ in 0..2 {
        make_all(&public, None).unwrap();
        assert!(!at("a/b").is_symlink() && at("a/b/file").exists());
        assert!(!at("private/a/b").exists());
    }
    // A link to somewhere else is nobody's to take away.
    std::fs::remove_dir_all(at("a/b")).unwrap();
    symlink(at("private"), at("a/b")).unwrap();
    assert!(make_all(&public, None).is_err());
    assert!(at("a/b").is_symlink());
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::set_permissions(elsewhere.path(), PermissionsExt::from_mode(0o711)).unwrap();
    symlink(elsewhere.path(), root.path().join("a")).unwrap();
    let folders = planned(root.path(), "RuntimeDirectory=a\nRuntimeDirectoryMode=0777");
    let (step, _) = make_all(&folders, None).unwrap_err();
    assert_eq!(step.exit_code(), 233);
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
    make_all(&folders, None).unwrap();
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
    let mut machine = RealMachine::new(Path::new("/"), Path::new("/nonexistent"));
    let pattern = root.path().join("*.env");
    let found = machine.matching(pattern.to_str().unwrap()).unwrap();
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
