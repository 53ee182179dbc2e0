use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{Mode, mkdirat, openat};

use super::*;

fn empty(folder: &Path) {
    let file = File::open(folder).unwrap();
    remove_contents(file.as_fd()).unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn links_are_removed_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    let tree = folder.path().join("tree");
    fs::create_dir_all(outside.join("inner")).unwrap();
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(outside.join("file"), "stays").unwrap();
    symlink(&outside, tree.join("link")).unwrap();
    symlink("../../../outside", tree.join("a/b/link")).unwrap();
    fs::hard_link(outside.join("file"), tree.join("a/file")).unwrap();
    let parent = File::open(folder.path()).unwrap();
    remove_tree(parent.as_fd(), b"tree").unwrap();
    assert!(!tree.exists());
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "stays");
    assert!(outside.join("inner").exists());
    remove_tree(parent.as_fd(), b"tree").unwrap();
}

#[test]
fn a_link_given_as_the_tree_is_removed_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("outside")).unwrap();
    fs::write(folder.path().join("outside/file"), "stays").unwrap();
    symlink("outside", folder.path().join("link")).unwrap();
    let parent = File::open(folder.path()).unwrap();
    remove_tree(parent.as_fd(), b"link").unwrap();
    assert!(!folder.path().join("link").is_symlink());
    assert!(folder.path().join("outside/file").exists());
}

/// In memory, where thousands of folders take no time.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Far deeper than a path can say and than descriptors reach.
#[test]
fn a_tree_of_any_depth_is_removed() {
    let folder = in_memory();
    let mut at: OwnedFd = File::open(folder.path()).unwrap().into();
    for _ in 0..10_000 {
        mkdirat(&at, c"d", Mode::RWXU).unwrap();
        mkdirat(&at, c"e", Mode::RWXU).unwrap();
        at = openat(&at, c"d", FOLDER, Mode::empty()).unwrap();
    }
    drop(at);
    empty(folder.path());
}

#[test]
fn wide_trees_and_names_of_its_own_are_removed() {
    let folder = in_memory();
    for n in 0..3000 {
        let inner = folder.path().join(format!("{n}/.removing-{}", n % 7));
        fs::create_dir_all(inner).unwrap();
    }
    fs::create_dir_all(folder.path().join(".removing-0/x/y")).unwrap();
    fs::write(folder.path().join(".removing-1"), "a file").unwrap();
    empty(folder.path());
}

#[test]
fn modes_and_flags_do_not_protect() {
    muster_lab::require!(Root);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir_all(path.join("a/b/c")).unwrap();
    for file in ["a/file", "a/b/file", "a/b/c/file"] {
        fs::write(path.join(file), "x").unwrap();
    }
    fs::set_permissions(path.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
    let flag = |name: &str, flag| {
        let file = File::open(path.join(name)).unwrap();
        let flags = fs_flags(&file);
        rustix::fs::ioctl_setflags(&file, flags | flag).unwrap();
    };
    flag("a/b/c/file", IFlags::IMMUTABLE);
    flag("a/b/file", IFlags::APPEND);
    flag("a/b/c", IFlags::IMMUTABLE);
    flag("a/b", IFlags::APPEND);
    flag("a", IFlags::IMMUTABLE);
    empty(path);
}

fn fs_flags(file: &File) -> IFlags {
    rustix::fs::ioctl_getflags(file).unwrap()
}

#[test]
fn names_that_are_no_names_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let parent = File::open(folder.path()).unwrap();
    for name in [&b"a\0b"[..], b"a/../../b", b"..", b"."] {
        fs::create_dir_all(folder.path().join("a")).unwrap();
        let result = remove_tree(parent.as_fd(), name);
        assert!(result.is_err(), "{}", name.escape_ascii());
        assert!(folder.path().join("a").exists());
    }
}
