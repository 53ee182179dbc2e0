//! Other roots: folders and memory.

use std::fs;
use std::os::unix::fs::symlink;

use muster_exec::Step;
use muster_mounts::{Bind, Place, ProtectSystem, Root, View};
use rustix::io::Errno;

use crate::rig::{
    Scene, bind, execute, is_root, list, memory, mounts, read, seen, try_seen, write_into,
};

/// Programs and what they need, read-only.
fn programs() -> Vec<Bind> {
    let mut binds = Vec::new();
    for folder in ["/usr", "/lib64", "/lib", "/bin"] {
        if fs::metadata(folder).is_ok() {
            binds.push(Bind {
                read_only: true,
                ..bind(folder, folder)
            });
        }
    }
    binds
}

fn folder(path: &str) -> Option<Root> {
    Some(Root::Folder(path.into()))
}

#[test]
fn a_folder_becomes_the_root_and_nothing_else_is_reached() {
    if !is_root("a_folder_becomes_the_root_and_nothing_else_is_reached") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        root: folder(&scene.path("a")),
        binds: programs(),
        kernel_file_systems: true,
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(read("/file").as_deref(), Ok("in a"));
        assert_eq!(read("/b/file").as_deref(), Ok("in b"));
        assert_eq!(
            fs::read_dir("/..").unwrap().count(),
            fs::read_dir("/").unwrap().count()
        );
        assert_eq!(std::env::current_dir().unwrap().to_str(), Some("/"));
        assert!(fs::metadata("/etc").is_err());
        assert_eq!(execute("/usr/bin/true"), Ok(()));
        assert!(fs::metadata("/proc/self/status").is_ok());
        assert!(fs::metadata("/dev/null").is_ok());
        assert!(fs::metadata("/sys/kernel").is_ok());
        assert_eq!(write_into("/run"), Ok(()));
        assert_eq!(write_into("/"), Ok(()));
        let places: Vec<String> = mounts().into_iter().map(|(place, _)| place).collect();
        assert!(
            places.iter().all(|place| !place.contains("muster")),
            "{places:?}"
        );
    });
}

#[test]
fn lists_are_of_the_other_root_where_they_say_so() {
    if !is_root("lists_are_of_the_other_root_where_they_say_so") {
        return;
    }
    let scene = Scene::new();
    // A symlink that would lead to the machine's own folder if it were followed from there.
    symlink("/c", scene.path("a/link")).unwrap();
    fs::create_dir(scene.path("a/c")).unwrap();
    fs::create_dir(scene.path("a/d")).unwrap();
    let in_root = Place {
        in_root: true,
        ..crate::rig::place("/link")
    };
    let view = View {
        root: folder(&scene.path("a")),
        read_only: vec![in_root, scene.place("a/b"), scene.place("c")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(write_into("/c"), Err(Errno::ROFS));
        assert_eq!(write_into("/b"), Err(Errno::ROFS));
        assert_eq!(write_into("/d"), Ok(()));
    });
    let view = View {
        root: folder(&scene.path("nowhere")),
        ..View::default()
    };
    let error = try_seen(&view, || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::NOENT));
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_units_own_folders_and_secrets_are_seen_in_another_root() {
    if !is_root("a_units_own_folders_and_secrets_are_seen_in_another_root") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        root: folder(&scene.path("a")),
        kernel_file_systems: true,
        protect_system: ProtectSystem::Strict,
        own_folders: vec![scene.path("c").into()],
        credentials: Some(scene.path("a/b").into()),
        all_credentials: Some(scene.path("a").into()),
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(read(&scene.path("c/file")).as_deref(), Ok("in c"));
        assert_eq!(write_into(&scene.path("c")), Ok(()));
        assert_eq!(read(&scene.path("a/b/file")).as_deref(), Ok("in b"));
        assert_eq!(write_into(&scene.path("a/b")), Err(Errno::ROFS));
        assert_eq!(list(&scene.path("a")), Ok(vec!["b".to_owned()]));
        assert_eq!(write_into("/"), Err(Errno::ROFS));
    });
}

#[test]
fn an_inaccessible_root_is_empty() {
    if !is_root("an_inaccessible_root_is_empty") {
        return;
    }
    let view = View {
        inaccessible: vec![crate::rig::place("/")],
        ..View::default()
    };
    seen(&view, || assert_eq!(list("/"), Ok(vec![])));
}

#[test]
fn a_root_of_memory_holds_what_is_bound_into_it() {
    if !is_root("a_root_of_memory_holds_what_is_bound_into_it") {
        return;
    }
    let scene = Scene::new();
    let mut binds = programs();
    binds.push(bind(&scene.path("a/file"), "/data/file"));
    let view = View {
        temporary: vec![memory("/", "ro")],
        binds,
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(read("/data/file").as_deref(), Ok("in a"));
        assert_eq!(execute("/usr/bin/true"), Ok(()));
        assert_eq!(write_into("/"), Err(Errno::ROFS));
        assert!(fs::metadata("/etc").is_err());
        let names = list("/").unwrap();
        assert!(names.iter().all(|name| name != "home"), "{names:?}");
    });
}
