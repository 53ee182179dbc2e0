//! Mounts stay where they belong.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;

use muster_exec::mounts::apply;
use muster_mounts::{Propagation, ProtectHome, ProtectSystem, View};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::umask;

use crate::rig::{Scene, bind, is_root, list, memory, mounts, namespaced, seen, write_into};

#[test]
fn nothing_of_a_view_is_seen_by_the_machine() {
    if !is_root("nothing_of_a_view_is_seen_by_the_machine") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        protect_system: ProtectSystem::Strict,
        protect_home: ProtectHome::Tmpfs,
        private_devices: true,
        protect_kernel_tunables: true,
        protect_control_groups: true,
        protect_kernel_logs: true,
        only_processes: true,
        temporary: vec![memory(&scene.path("a"), "")],
        binds: vec![bind(&scene.path("c"), &scene.path("a/b"))],
        ..View::default()
    };
    // The machine is a namespace that shares its mounts, so that what could travel would.
    namespaced(|| {
        mount_change(
            "/",
            MountPropagationFlags::SHARED | MountPropagationFlags::REC,
        )
        .unwrap();
        let before = mounts();
        let inside = seen(&view, mounts);
        assert!(inside.len() > before.len());
        assert_eq!(mounts(), before);
    });
}

#[test]
fn mounts_of_the_machine_arrive_unless_they_are_private() {
    if !is_root("mounts_of_the_machine_arrive_unless_they_are_private") {
        return;
    }
    for (propagation, arrives) in [
        (None, true),
        (Some(Propagation::Shared), true),
        (Some(Propagation::Slave), true),
        (Some(Propagation::Private), false),
    ] {
        let scene = Scene::new();
        let view = View {
            propagation,
            ..View::default()
        };
        namespaced(|| {
            mount_change(
                "/",
                MountPropagationFlags::SHARED | MountPropagationFlags::REC,
            )
            .unwrap();
            let (ready, is_ready) = mpsc::sync_channel(1);
            let (mounted, is_mounted) = mpsc::sync_channel::<()>(1);
            std::thread::scope(|scope| {
                let (view, scene) = (&view, &scene);
                let process = scope.spawn(move || {
                    namespaced(move || {
                        apply(view, false).unwrap();
                        ready.send(()).unwrap();
                        is_mounted.recv().unwrap();
                        list(&scene.path("a")).unwrap().is_empty()
                    })
                });
                is_ready.recv().unwrap();
                let flags = MountFlags::empty();
                mount("tmpfs", scene.path("a"), "tmpfs", flags, None).unwrap();
                mounted.send(()).unwrap();
                assert_eq!(process.join().unwrap(), arrives, "{propagation:?}");
                unmount(scene.path("a"), UnmountFlags::empty()).unwrap();
            });
        });
    }
}

#[test]
fn the_modes_of_what_is_made_do_not_depend_on_the_mask() {
    if !is_root("the_modes_of_what_is_made_do_not_depend_on_the_mask") {
        return;
    }
    let scene = Scene::new();
    let view = View {
        temporary: vec![memory(&scene.path("a"), "")],
        binds: vec![bind(&scene.path("c"), &scene.path("a/deep/place"))],
        private_devices: true,
        ..View::default()
    };
    namespaced(|| {
        let strict = Mode::from_raw_mode(0o077);
        umask(strict);
        apply(&view, false).unwrap();
        let mode = |path: &str| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&scene.path("a/deep")), 0o755);
        assert_eq!(mode("/dev/null"), 0o666);
        assert_eq!(umask(strict), strict);
    });
}

#[test]
fn a_second_view_narrows_the_first() {
    if !is_root("a_second_view_narrows_the_first") {
        return;
    }
    let scene = Scene::new();
    let view = |inside: &str| View {
        read_only: vec![scene.place(inside)],
        ..View::default()
    };
    namespaced(|| {
        apply(&view("a"), false).unwrap();
        apply(&view("c"), false).unwrap();
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        assert_eq!(write_into(&scene.path("c")), Err(Errno::ROFS));
    });
}
