//! Images: as the root, at paths, with partitions and without.

use std::fs;
use std::os::unix::fs::symlink;

use muster_exec::Step;
use muster_exec::mounts::apply;
use muster_mounts::{MountImage, Part, ProtectSystem, Root, View};
use rustix::io::Errno;

use crate::disk::{
    HOME, LINUX, READ_ONLY, ROOT, USR, assert_free, image, make, make_disk, make_ext4,
    make_squashfs,
};
use crate::rig::{
    Scene, bind, is_root, list, memory, mounts, namespaced, options_at, place, read, seen,
    try_seen, write_into,
};

fn rooted(path: &str, options: &[(Part, &str)]) -> View {
    View {
        root: Some(Root::Image(image(path, options))),
        ..View::default()
    }
}

fn mounted(path: &str, destination: &str, words: &str) -> MountImage {
    MountImage {
        image: image(path, &[(Part::Root, words)]),
        destination: destination.into(),
        optional: false,
    }
}

fn with_images(images: Vec<MountImage>) -> View {
    View {
        images,
        ..View::default()
    }
}

#[test]
fn an_ext4_image_becomes_the_root() {
    if !is_root("an_ext4_image_becomes_the_root") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"));
    let scene = Scene::new();
    let path = scene.path("image");
    make_ext4(&scene.path("a"), &path);
    seen(&rooted(&path, &[]), || {
        assert_eq!(read("/file").as_deref(), Ok("in a"));
        fs::write("/new", "kept").unwrap();
    });
    assert_free(&path);
    seen(&rooted(&path, &[(Part::Root, "ro")]), || {
        assert_eq!(read("/new").as_deref(), Ok("kept"));
        assert_eq!(write_into("/"), Err(Errno::ROFS));
    });
    assert_free(&path);
}

#[test]
fn compressed_images_become_read_only_roots() {
    if !is_root("compressed_images_become_read_only_roots") {
        return;
    }
    muster_lab::require!(Tool("mksquashfs"), Tool("mkfs.erofs"));
    let scene = Scene::new();
    let (squash, erofs) = (scene.path("squash"), scene.path("erofs"));
    let source = scene.path("a");
    make_squashfs(&source, &squash);
    make("/usr/bin/mkfs.erofs", &[&erofs, &source]);
    for path in [&squash, &erofs] {
        seen(&rooted(path, &[(Part::Root, "rw")]), || {
            assert_eq!(read("/b/file").as_deref(), Ok("in b"));
            assert_eq!(write_into("/"), Err(Errno::ROFS));
        });
        assert_free(path);
    }
}

#[test]
fn images_are_seen_at_their_paths_among_everything_else() {
    if !is_root("images_are_seen_at_their_paths_among_everything_else") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"), Tool("mksquashfs"));
    let scene = Scene::new();
    let (ext, squash) = (scene.path("ext"), scene.path("squash"));
    make_ext4(&scene.path("a"), &ext);
    make_squashfs(&scene.path("a"), &squash);
    let (first, second) = (scene.path("new/first"), scene.path("c"));
    let view = View {
        images: vec![
            mounted(&ext, &first, ""),
            mounted(&squash, &second, "nosuid"),
        ],
        // What is below an image is of the image; what all of the machine is does not reach it.
        binds: vec![bind(&scene.path("a/b"), &format!("{first}/b"))],
        read_only: vec![place(&scene.path("a"))],
        temporary: vec![memory(&format!("{second}/b"), "")],
        protect_system: ProtectSystem::Strict,
        ..View::default()
    };
    let folder = std::env::current_dir().unwrap();
    seen(&view, || {
        assert_eq!(std::env::current_dir().unwrap(), folder);
        assert_eq!(read(&format!("{first}/file")).as_deref(), Ok("in a"));
        assert_eq!(write_into(&first), Ok(()));
        assert_eq!(read(&format!("{second}/file")).as_deref(), Ok("in a"));
        assert_eq!(write_into(&second), Err(Errno::ROFS));
        assert_eq!(list(&format!("{second}/b")), Ok(vec![]));
        assert_eq!(write_into(&scene.path("a")), Err(Errno::ROFS));
        let options = options_at(&second);
        assert!(options.contains("nosuid") && options.contains("nodev"));
        assert!(!options_at(&first).contains("nosuid"));
        // Nothing is left of the place where they waited.
        let places: Vec<String> = mounts().into_iter().map(|(place, _)| place).collect();
        assert!(places.iter().all(|place| !place.contains("unit-images")));
    });
    assert_free(&ext);
    assert_free(&squash);
}

#[test]
fn an_image_is_seen_in_another_root_and_nothing_of_its_place() {
    if !is_root("an_image_is_seen_in_another_root_and_nothing_of_its_place") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"));
    let scene = Scene::new();
    let path = scene.path("image");
    make_ext4(&scene.path("c"), &path);
    // A copy of /run with all that is mounted below it has no image either.
    let view = View {
        root: Some(Root::Folder(scene.path("a").into())),
        images: vec![mounted(&path, "/b", "ro")],
        binds: vec![bind("/run", "/machine-run")],
        ..View::default()
    };
    seen(&view, || {
        assert_eq!(read("/b/file").as_deref(), Ok("in c"));
        assert_eq!(write_into("/b"), Err(Errno::ROFS));
        let place = "/machine-run/muster/unit-images";
        assert_eq!(list(place), Ok(vec![]));
    });
    assert_free(&path);
}

#[test]
fn an_absent_image_fails_the_start_unless_it_may_be_absent() {
    if !is_root("an_absent_image_fails_the_start_unless_it_may_be_absent") {
        return;
    }
    let scene = Scene::new();
    let absent = mounted(&scene.path("nothing"), &scene.path("c"), "");
    let error = try_seen(&with_images(vec![absent.clone()]), || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::NOENT));
    let expected = format!("MountImages: cannot open {}", scene.path("nothing"));
    assert_eq!(error.to_string(), expected);
    // However much may be dropped: the program would run on other files.
    let lenient = namespaced(|| apply(&with_images(vec![absent.clone()]), true));
    assert_eq!(lenient.unwrap_err().to_string(), expected);
    let optional = MountImage {
        optional: true,
        ..absent
    };
    seen(&with_images(vec![optional]), || {
        assert_eq!(read(&scene.path("c/file")).as_deref(), Ok("in c"));
    });
}

/// Two file systems on the same blocks would destroy each other.
#[test]
fn an_image_that_several_write_is_one_file_system() {
    if !is_root("an_image_that_several_write_is_one_file_system") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"));
    let scene = Scene::new();
    let path = scene.path("image");
    make_ext4(&scene.path("a"), &path);
    let place = scene.path("c");
    let of = |words| with_images(vec![mounted(&path, &place, words)]);
    let file = |name: &str| format!("{place}/{name}");
    seen(&of(""), || {
        fs::write(file("first"), "1").unwrap();
        seen(&of(""), || {
            assert_eq!(read(&file("first")).as_deref(), Ok("1"));
            fs::write(file("second"), "2").unwrap();
        });
        assert_eq!(read(&file("second")).as_deref(), Ok("2"));
        // Whoever only reads sees what is written.
        seen(&of("ro"), || {
            assert_eq!(read(&file("second")).as_deref(), Ok("2"));
            assert_eq!(write_into(&place), Err(Errno::ROFS));
        });
        fs::write(file("third"), "3").unwrap();
    });
    assert_free(&path);
    seen(&of("ro"), || {
        assert_eq!(read(&file("third")).as_deref(), Ok("3"));
    });
    assert_free(&path);
}

/// A damaged image may not end the machine, as its own superblock can ask for.
#[test]
fn an_image_cannot_ask_the_machine_to_stop() {
    if !is_root("an_image_cannot_ask_the_machine_to_stop") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"), Tool("tune2fs"));
    let scene = Scene::new();
    let path = scene.path("image");
    make_ext4(&scene.path("a"), &path);
    make("/usr/sbin/tune2fs", &["-e", "panic", &path]);
    let place = scene.path("c");
    for words in ["", "ro"] {
        seen(&with_images(vec![mounted(&path, &place, words)]), || {
            let table = read("/proc/thread-self/mountinfo").unwrap();
            let line = table.lines().find(|line| line.contains(&place)).unwrap();
            assert!(line.contains("errors=remount-ro"), "{line}");
        });
    }
}

#[test]
fn an_image_that_comes_with_a_hash_is_not_mounted_without_a_look_at_it() {
    if !is_root("an_image_that_comes_with_a_hash_is_not_mounted_without_a_look_at_it") {
        return;
    }
    muster_lab::require!(Tool("mksquashfs"));
    let scene = Scene::new();
    let path = scene.path("image.raw");
    make_squashfs(&scene.path("a"), &path);
    let view = with_images(vec![mounted(&path, &scene.path("c"), "")]);
    for beside in ["image.roothash", "image.verity"] {
        let beside = scene.path(beside);
        fs::write(&beside, "00").unwrap();
        let error = try_seen(&view, || ()).unwrap_err();
        assert_eq!(error.errno, Errno::NOSYS);
        assert!(error.to_string().contains(&beside), "{error}");
        fs::remove_file(&beside).unwrap();
    }
    seen(&view, || {
        assert_eq!(read(&scene.path("c/file")).as_deref(), Ok("in a"));
    });
}

#[test]
fn what_is_no_image_is_refused() {
    if !is_root("what_is_no_image_is_refused") {
        return;
    }
    let scene = Scene::new();
    let fifo = scene.path("fifo");
    make("/usr/bin/mkfifo", &[&fifo]);
    let file = scene.path("a/file");
    symlink("/dev/null", scene.path("null")).unwrap();
    symlink(scene.path("loop"), scene.path("loop")).unwrap();
    let refusal = |path: &str| {
        let as_root = try_seen(&rooted(path, &[]), || ()).unwrap_err();
        // That it may be absent does not make it one.
        let optional = MountImage {
            optional: true,
            ..mounted(path, &scene.path("c"), "")
        };
        let error = try_seen(&with_images(vec![optional]), || ()).unwrap_err();
        assert_eq!((error.step, error.errno), (as_root.step, as_root.errno));
        assert!(error.to_string().contains(path), "{error}");
        error.errno
    };
    assert_eq!(refusal(&file), Errno::MEDIUMTYPE);
    for path in [&fifo, &scene.path("null"), &scene.path("a"), "/dev/zero"] {
        assert_eq!(refusal(path), Errno::NOTBLK, "{path}");
    }
    assert_eq!(refusal(&scene.path("loop")), Errno::LOOP);
    assert_eq!(refusal("relative"), Errno::INVAL);
    let error = try_seen(&rooted(&scene.path("missing"), &[]), || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::NOENT));
}

#[test]
fn options_that_the_file_system_does_not_know_are_refused() {
    if !is_root("options_that_the_file_system_does_not_know_are_refused") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"));
    let scene = Scene::new();
    let path = scene.path("image");
    make_ext4(&scene.path("a"), &path);
    let view = with_images(vec![mounted(&path, &scene.path("c"), "no-such-option")]);
    let error = try_seen(&view, || ()).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Namespace, Errno::INVAL));
    assert_free(&path);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn partitions_are_mounted_where_they_belong() {
    if !is_root("partitions_are_mounted_where_they_belong") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"), Tool("mksquashfs"));
    let scene = Scene::new();
    // In the root, /home leads to a folder of the image, not of the machine.
    symlink("/b", scene.path("a/home")).unwrap();
    let (root, usr, home) = (scene.path("r"), scene.path("u"), scene.path("h"));
    make_ext4(&scene.path("a"), &root);
    make_squashfs(&scene.path("c"), &usr);
    make_ext4(&scene.path("c"), &home);
    let disk = scene.path("disk");
    make_disk(
        &disk,
        &[(HOME, READ_ONLY, &home), (USR, 0, &usr), (ROOT, 0, &root)],
    );
    let options = [(Part::Root, "nosuid"), (Part::Usr, "noexec")];
    let look = |at: &str| {
        assert_eq!(read(&format!("{at}/file")).as_deref(), Ok("in a"));
        assert_eq!(write_into(&format!("{at}/")), Ok(()));
        assert_eq!(read(&format!("{at}/usr/file")).as_deref(), Ok("in c"));
        assert_eq!(read(&format!("{at}/b/file")).as_deref(), Ok("in c"));
        assert_eq!(write_into(&format!("{at}/b")), Err(Errno::ROFS));
        assert!(options_at(&format!("{at}/usr")).contains("noexec"));
    };
    let view = View {
        kernel_file_systems: true,
        ..rooted(&disk, &options)
    };
    seen(&view, || look(""));
    assert_free(&disk);
    let there = scene.path("c");
    let view = with_images(vec![MountImage {
        image: image(&disk, &options),
        destination: there.as_str().into(),
        optional: false,
    }]);
    seen(&view, || look(&there));
    assert_free(&disk);
}

#[test]
fn the_only_partition_of_a_disk_is_its_root() {
    if !is_root("the_only_partition_of_a_disk_is_its_root") {
        return;
    }
    muster_lab::require!(Tool("mkfs.ext4"));
    let scene = Scene::new();
    let (content, disk) = (scene.path("content"), scene.path("disk"));
    make_ext4(&scene.path("a"), &content);
    make_disk(&disk, &[(LINUX, 0, &content)]);
    seen(&rooted(&disk, &[]), || {
        assert_eq!(read("/file").as_deref(), Ok("in a"));
        fs::write("/new", "kept").unwrap();
    });
    assert_free(&disk);
    make_disk(&disk, &[(LINUX, 0, &content), (LINUX, 0, &content)]);
    let error = try_seen(&rooted(&disk, &[]), || ()).unwrap_err();
    assert_eq!(error.errno, Errno::MEDIUMTYPE);
    assert!(error.to_string().contains("several"), "{error}");
}

#[test]
fn a_disk_with_a_hostile_table_is_refused() {
    if !is_root("a_disk_with_a_hostile_table_is_refused") {
        return;
    }
    let scene = Scene::new();
    let (content, disk) = (scene.path("content"), scene.path("disk"));
    fs::write(&content, vec![0; 4096]).unwrap();
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        make_disk(&disk, &[(LINUX, 0, &content)]);
        let mut bytes = fs::read(&disk).unwrap();
        change(&mut bytes);
        fs::write(&disk, bytes).unwrap();
        let error = try_seen(&rooted(&disk, &[]), || ()).unwrap_err();
        assert_eq!(error.errno, Errno::MEDIUMTYPE);
        assert_free(&disk);
        error.to_string()
    };
    assert!(refusal(&|_| {}).contains("in its root partition holds no ext4"));
    assert!(refusal(&|bytes| bytes[1024 + 40] ^= 1).contains("checksum of its list"));
    assert!(refusal(&|bytes| bytes[512 + 80] ^= 1).contains("checksum of its header"));
    assert!(refusal(&|bytes| bytes.truncate(2000)).contains("outside of the image"));
    assert!(refusal(&|bytes| bytes.truncate(32 << 10)).contains("behind the image"));
}
