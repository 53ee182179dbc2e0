//! Lists of paths, binds and memory.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use muster_exec::Step;
use muster_exec::mounts::apply;
use muster_mounts::{Bind, Place, View};
use rustix::io::Errno;

use crate::rig::{
    Scene, bind, execute, is_root, list, memory, namespaced, place, read, seen, try_seen,
    write_into,
};

#[test]
fn read_only_paths_are_not_written_but_for_read_write_ones_in_them() {
    if !is_root("read_only_paths_are_not_written_but_for_read_write_ones_in_them") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        read_only: vec![scene.place("")],
        read_write: vec![scene.place("a")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(write_into(&scene.path("")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("c")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a")), Ok(()));
        assert_eq!(write_into(&scene.path("a/b")), Ok(()));
        fs::write(scene.path("a/new"), "stays").unwrap();
        assert_eq!(read(&scene.path("c/file")).as_deref(), Ok("in c"));
    });
    assert_eq!(read(&scene.path("a/new")).as_deref(), Ok("stays"));
    assert_eq!(write_into(&scene.path("c")), Ok(()));
}

#[test]
fn a_single_file_can_be_read_only() {
    if !is_root("a_single_file_can_be_read_only") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        read_only: vec![scene.place("a/file")],
        ..View::default()
    };
    seen(&view, || {
        let written = fs::write(scene.path("a/file"), "new");
        assert_eq!(written.map_err(crate::rig::errno), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a")), Ok(()));
    });
}

#[test]
fn what_is_mounted_below_a_read_only_path_is_read_only_too() {
    if !is_root("what_is_mounted_below_a_read_only_path_is_read_only_too") {
        return;
    }
    let scene = Scene::new();
    let below = View {
        temporary: vec![memory(&scene.path("a/b"), "")],
        ..View::default()
    };
    let view = View {
        read_only: vec![scene.place("a")],
        ..View::default()
    };
    namespaced(|| {
        apply(&below, false).unwrap();
        assert_eq!(write_into(&scene.path("a/b")), Ok(()));
        apply(&view, false).unwrap();
        assert_eq!(write_into(&scene.path("a/b")), Err(Errno::ROFS));
    });
}

#[test]
fn inaccessible_paths_of_every_type_show_nothing() {
    if !is_root("inaccessible_paths_of_every_type_show_nothing") {
        return;
    }
    let scene = Scene::new();
    let _socket = UnixListener::bind(scene.path("socket")).unwrap();
    let names = ["a", "c/file", "socket"];
    let view = View {
        inaccessible: names.map(|name| scene.place(name)).to_vec(),
        ..View::default()
    };
    let view = View {
        inaccessible: [&view.inaccessible[..], &[place("/dev/full")]].concat(),
        ..view
    };
    seen(&view, || {
        assert_eq!(list(&scene.path("a")), Ok(vec![]));
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        assert_eq!(read(&scene.path("a/file")), Err(Errno::NOENT));
        assert_eq!(read(&scene.path("c/file")).as_deref(), Ok(""));
        for name in names {
            let mode = fs::metadata(scene.path(name)).unwrap().mode();
            assert_eq!(mode & 0o7777, 0, "{name}");
        }
        let socket = fs::metadata(scene.path("socket")).unwrap();
        assert!(socket.file_type().is_socket());
        let connected = std::os::unix::net::UnixStream::connect(scene.path("socket"));
        assert!(connected.is_err());
        let device = fs::metadata("/dev/full").unwrap();
        assert!(device.file_type().is_char_device());
        assert_eq!(device.rdev(), 0);
        assert_eq!(write_into(&scene.path("c")), Ok(()));
    });
}

#[test]
fn nothing_is_executed_but_in_exec_paths() {
    if !is_root("nothing_is_executed_but_in_exec_paths") {
        return;
    }
    let scene = Scene::new();
    for folder in ["a", "a/b", "c"] {
        fs::copy("/usr/bin/true", scene.path(&format!("{folder}/true"))).unwrap();
    }
    let view = View {
        no_exec: vec![scene.place("a")],
        exec: vec![scene.place("a/b")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(execute(&scene.path("a/true")), Err(Errno::ACCESS));
        assert_eq!(execute(&scene.path("a/b/true")), Ok(()));
        assert_eq!(execute(&scene.path("c/true")), Ok(()));
        assert_eq!(write_into(&scene.path("a")), Ok(()));
    });
    let libraries = Place {
        optional: true,
        ..place("/lib64")
    };
    let view = View {
        no_exec: vec![place("/")],
        exec: vec![place("/usr"), libraries],
        read_only: vec![place("/usr")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(execute(&scene.path("c/true")), Err(Errno::ACCESS));
        assert_eq!(execute("/usr/bin/true"), Ok(()));
        assert_eq!(write_into("/usr"), Err(Errno::ROFS));
    });
}

#[test]
fn binds_show_the_machines_own_files_elsewhere() {
    if !is_root("binds_show_the_machines_own_files_elsewhere") {
        return;
    }
    let scene = Scene::new();
    let read_only = Bind {
        read_only: true,
        ..bind(&scene.path("a"), &scene.path("new/place"))
    };
    let missing = Bind {
        optional: true,
        ..bind(&scene.path("missing"), &scene.path("other"))
    };
    let file = bind(&scene.path("c/file"), &scene.path("new-file"));
    let view = View {
        binds: vec![
            read_only,
            missing,
            file,
            bind(&scene.path("c"), &scene.path("a/b")),
        ],
        ..View::default()
    };
    seen(&view, || {
        let place = scene.path("new/place");
        assert_eq!(read(&format!("{place}/file")).as_deref(), Ok("in a"));
        assert_eq!(write_into(&place), Err(Errno::ROFS));
        assert_eq!(read(&scene.path("new-file")).as_deref(), Ok("in c"));
        assert_eq!(read(&scene.path("a/b/file")).as_deref(), Ok("in c"));
        // The source is the machine's tree, not the view: what is bound into it is not seen there.
        assert_eq!(read(&format!("{place}/b/file")).as_deref(), Ok("in b"));
        assert_eq!(write_into(&scene.path("a/b")), Ok(()));
        assert!(fs::metadata(scene.path("other")).is_err());
    });
    assert_eq!(list(&scene.path("new/place")), Ok(vec![]));
    let view = View {
        binds: vec![bind(&scene.path("missing"), &scene.path("other"))],
        ..View::default()
    };
    let error = try_seen(&view, || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::NOENT));
    assert!(
        error.to_string().contains(&scene.path("missing")),
        "{error}"
    );
}

#[test]
fn memory_covers_what_is_there_but_for_what_is_bound_into_it() {
    if !is_root("memory_covers_what_is_there_but_for_what_is_bound_into_it") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        temporary: vec![
            memory(&scene.path("a"), "ro,mode=0711"),
            memory(&scene.path("c"), "size=64k,noexec"),
        ],
        binds: vec![bind(&scene.path("a/b"), &scene.path("a/b"))],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(list(&scene.path("a")), Ok(vec!["b".to_owned()]));
        assert_eq!(read(&scene.path("a/b/file")).as_deref(), Ok("in b"));
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a/b")), Ok(()));
        let mode = fs::metadata(scene.path("a")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o711);
        assert_eq!(write_into(&scene.path("c")), Ok(()));
        let filled = fs::write(scene.path("c/big"), vec![1; 1 << 20]);
        assert_eq!(filled.map_err(crate::rig::errno), Err(Errno::NOSPC));
        let options = crate::rig::options_at(&scene.path("c"));
        for option in ["nodev", "noexec", "size=64k"] {
            assert!(options.contains(option), "{option} is not in {options}");
        }
    });
    let view = View {
        temporary: vec![memory(&scene.path("c"), "nonsense=1")],
        ..View::default()
    };
    let error = try_seen(&view, || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::INVAL));
}

#[test]
fn symlinks_in_lists_are_followed() {
    if !is_root("symlinks_in_lists_are_followed") {
        return;
    }
    let scene = Scene::new();
    symlink("a/b", scene.path("link")).unwrap();
    let view = View {
        read_only: vec![scene.place("link")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(write_into(&scene.path("a/b")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("a")), Ok(()));
    });
}

#[test]
fn what_is_missing_fails_the_start_unless_it_may() {
    if !is_root("what_is_missing_fails_the_start_unless_it_may") {
        return;
    }
    let scene = Scene::new();
    let mut view = View {
        read_only: vec![scene.place("a"), scene.place("missing")],
        ..View::default()
    };
    let error = try_seen(&view, || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::NOENT));
    let said = format!("ReadOnlyPaths: {} does not exist", scene.path("missing"));
    assert_eq!(error.to_string(), said);
    let dropped = namespaced(|| {
        let dropped = apply(&view, true).unwrap();
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        dropped
    });
    assert_eq!(dropped, [said]);
    view.read_only[1] = Place {
        optional: true,
        ..scene.place("missing")
    };
    seen(&view, || {
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
    });
}
