//! Protections of the system, the homes and temporary files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use muster_mounts::{Folders, ProtectHome, ProtectSystem, View};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::rig::{Scene, bind, is_root, list, namespaced, read, seen, write_into};

#[test]
fn protect_system_leaves_less_and_less_to_write() {
    if !is_root("protect_system_leaves_less_and_less_to_write") {
        return;
    }
    let scene = Scene::new();
    let writable = |protect_system| {
        let view = View {
            protect_system,
            ..View::default()
        };
        seen(&view, || {
            [
                "/usr",
                "/etc",
                "/var",
                "/root",
                "/dev/shm",
                &scene.path("a"),
            ]
            .map(|folder| write_into(folder).is_ok())
        })
    };
    // A guest may have its programs from a machine that does not let them be written.
    let programs = write_into("/usr").is_ok();
    let no = [programs, true, true, true, true, true];
    assert_eq!(writable(ProtectSystem::No), no);
    let yes = [false, true, true, true, true, true];
    assert_eq!(writable(ProtectSystem::Yes), yes);
    let full = [false, false, true, true, true, true];
    assert_eq!(writable(ProtectSystem::Full), full);
    let strict = [false, false, false, true, true, false];
    assert_eq!(writable(ProtectSystem::Strict), strict);
}

#[test]
fn own_folders_are_written_whatever_is_protected() {
    if !is_root("own_folders_are_written_whatever_is_protected") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        protect_system: ProtectSystem::Strict,
        own_folders: vec![scene.path("a/b").into()],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a/b")), Ok(()));
    });
}

#[test]
fn homes_are_hidden_read_only_or_empty() {
    if !is_root("homes_are_hidden_read_only_or_empty") {
        return;
    }
    let home = tempfile::tempdir_in("/root").unwrap();
    fs::write(home.path().join("file"), "secret").unwrap();
    let home = home.path().to_str().unwrap();
    let file = format!("{home}/file");
    let with = |protect_home| View {
        protect_home,
        ..View::default()
    };
    seen(&with(ProtectHome::Yes), || {
        assert_eq!(list("/root"), Ok(vec![]));
        assert_eq!(fs::metadata("/root").unwrap().mode() & 0o7777, 0);
        assert_eq!(read(&file), Err(Errno::NOENT));
    });
    seen(&with(ProtectHome::ReadOnly), || {
        assert_eq!(read(&file).as_deref(), Ok("secret"));
        assert_eq!(write_into(home), Err(Errno::ROFS));
    });
    let view = View {
        binds: vec![bind(home, home)],
        ..with(ProtectHome::Tmpfs)
    };
    seen(&view, || {
        assert_eq!(list("/root").map(|names| names.len()), Ok(1));
        assert_eq!(fs::metadata("/root").unwrap().mode() & 0o7777, 0o700);
        assert_eq!(write_into("/root"), Err(Errno::ROFS));
        assert_eq!(write_into(home), Ok(()));
    });
    seen(&with(ProtectHome::No), || {
        assert_eq!(write_into(home), Ok(()));
    });
}

#[test]
fn temporary_files_are_the_units_own() {
    if !is_root("temporary_files_are_the_units_own") {
        return;
    }
    let scene = Scene::new();
    fs::set_permissions(scene.path("a"), fs::Permissions::from_mode(0o1777)).unwrap();
    let view = View {
        private_tmp: Some(Folders {
            tmp: scene.path("a").into(),
            var_tmp: scene.path("c").into(),
        }),
        protect_system: ProtectSystem::Strict,
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(list("/tmp"), Ok(vec!["b".to_owned(), "file".to_owned()]));
        assert_eq!(fs::metadata("/tmp").unwrap().mode() & 0o7777, 0o1777);
        assert_eq!(read("/var/tmp/file").as_deref(), Ok("in c"));
        fs::write("/tmp/new", "text").unwrap();
    });
    assert_eq!(read(&scene.path("a/new")).as_deref(), Ok("text"));
    assert!(fs::metadata("/tmp/new").is_err());
}

#[test]
fn credentials_of_other_units_are_not_seen() {
    if !is_root("credentials_of_other_units_are_not_seen") {
        return;
    }
    let scene = Scene::new();
    let mut view = View {
        all_credentials: Some(scene.path("").into()),
        credentials: Some(scene.path("a").into()),
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(list(&scene.path("")), Ok(vec!["a".to_owned()]));
        assert_eq!(read(&scene.path("a/file")).as_deref(), Ok("in a"));
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        assert_eq!(read(&scene.path("c/file")), Err(Errno::NOENT));
    });
    view.credentials = None;
    seen(&view, || {
        assert_eq!(list(&scene.path("")), Ok(vec![]));
    });
}

#[test]
fn a_dynamic_users_folder_is_reached_and_those_beside_it_are_not() {
    if !is_root("a_dynamic_users_folder_is_reached_and_those_beside_it_are_not") {
        return;
    }
    let view = View {
        protect_system: ProtectSystem::Strict,
        own_folders: vec!["/var/lib/own".into()],
        ..View::default()
    };
    // The machine is a namespace whose folders are its own.
    namespaced(|| {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).unwrap();
        mount("tmpfs", "/var/lib", "tmpfs", MountFlags::empty(), None).unwrap();
        for name in ["own", "other"] {
            fs::create_dir_all(format!("/var/lib/private/{name}")).unwrap();
            symlink(format!("private/{name}"), format!("/var/lib/{name}")).unwrap();
        }
        fs::set_permissions("/var/lib/private", fs::Permissions::from_mode(0o700)).unwrap();
        seen(&view, || {
            assert_eq!(write_into("/var/lib/own"), Ok(()));
            assert_eq!(list("/var/lib/private"), Ok(vec!["own".to_owned()]));
            let mode = fs::metadata("/var/lib/private").unwrap().mode();
            assert_eq!(mode & 0o7777, 0o755);
            assert!(fs::metadata("/var/lib/other").is_err());
        });
    });
}
