//! Layers of other programs, compared with what they were made of.

mod programs;
mod source;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use muster_layer::{
    Compression, Durability, IdRange, Options, Ownership, Privilege, Report, Special, UnpackError,
};

use crate::rig::{Rig, Tree, chain};
use crate::tar::{Item, empty, file, folder, hard_link, symlink, tar};

/// Everything is kept.
fn keep() -> Options {
    Options {
        set_id: Privilege::Keep,
        capabilities: Privilege::Keep,
        devices: Special::Make,
        fifos: Special::Make,
        durability: Durability::None,
        ..Options::default()
    }
}

fn unpacked(items: impl IntoIterator<Item = Item>, options: &Options) -> (Rig, Report) {
    let rig = Rig::new();
    let report = rig.unpack(&tar(items), Compression::None, options);
    let report = report.unwrap_or_else(|error| panic!("{}", chain(&error)));
    (rig, report)
}

#[test]
fn privileges_are_stripped_unless_kept() {
    muster_lab::require!(Root);
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let items = || {
        [
            file("sh").mode(0o6755),
            file("ping").pax("SCHILY.xattr.security.capability", capability),
            folder("shared").mode(0o2775),
        ]
    };
    let options = Options {
        durability: Durability::None,
        ..Options::default()
    };
    let (rig, report) = unpacked(items(), &options);
    assert_eq!(
        (report.stripped_set_id, report.stripped_capabilities),
        (1, 1)
    );
    let tree = rig.tree();
    assert_eq!(tree.node("sh").mode, 0o100_755);
    assert_eq!(tree.node("shared").mode, 0o042_775, "not a privilege");
    assert!(tree.node("ping").xattrs.is_empty());

    let (rig, report) = unpacked(items(), &keep());
    assert_eq!(
        (report.stripped_set_id, report.stripped_capabilities),
        (0, 0)
    );
    let tree = rig.tree();
    assert_eq!(tree.node("sh").mode, 0o106_755);
    assert_eq!(
        tree.node("ping").xattrs[&b"security.capability"[..]],
        capability
    );
}

#[test]
fn special_files_are_left_out_where_wanted() {
    muster_lab::require!(Root);
    let options = Options {
        devices: Special::Skip,
        fifos: Special::Skip,
        ..keep()
    };
    let items = [
        Item::new(b'3', "null").device(1, 3),
        Item::new(b'6', "pipe"),
        file("x"),
    ];
    let (rig, report) = unpacked(items, &options);
    assert_eq!(
        (report.skipped_specials, report.specials, report.files),
        (2, 0, 1)
    );
    assert_eq!(rig.tree().names(), [Path::new(""), Path::new("x")]);
}

#[test]
fn owners_are_kept_mapped_or_the_callers() {
    muster_lab::require!(Root);
    let items = || {
        [
            file("x").owner(7, 8),
            symlink("l", "x").owner(7, 8),
            folder("d").owner(7, 8),
        ]
    };
    let range = |outside| {
        vec![IdRange {
            inside: 0,
            outside,
            count: 65_536,
        }]
    };
    let map = Ownership::Map {
        users: range(100_000),
        groups: range(200_000),
    };
    for (ownership, expected, root) in [
        (Ownership::Keep, (7, 8), (0, 0)),
        (Ownership::Caller, (0, 0), (0, 0)),
        (map, (100_007, 200_008), (100_000, 200_000)),
    ] {
        let (rig, _) = unpacked(
            items(),
            &Options {
                ownership,
                ..keep()
            },
        );
        let tree = rig.tree();
        for name in ["x", "l", "d"] {
            assert_eq!(tree.node(name).owner, expected, "{name}");
        }
        assert_eq!(tree.node("").owner, root);
    }
}

/// Folders that no entry describes are the same each time, whoever made the destination and however.
#[test]
fn undescribed_folders_are_always_the_same() {
    muster_lab::require!(Root);
    let items = [file("a/b/c"), empty("a/d/.wh.x"), folder("e"), file("e/f")];
    let (rig, report) = unpacked(items, &keep());
    assert_eq!(report.undescribed_folders, 3);
    let tree = rig.tree();
    for name in ["", "a", "a/b", "a/d"] {
        let node = tree.node(name);
        assert_eq!(
            (node.mode, node.owner, node.mtime),
            (0o040_755, (0, 0), (0, 0)),
            "{name:?}"
        );
    }
}

#[test]
fn the_last_of_several_entries_wins() {
    muster_lab::require!(Root);
    let (rig, report) = unpacked(
        [
            folder("d").mode(0o700).pax("SCHILY.xattr.user.a", "1"),
            file("d/x").content("first"),
            hard_link("d/y", "d/x"),
            file("d/x").content("second").mode(0o600),
            folder("d").mode(0o711).pax("SCHILY.xattr.user.b", "2"),
            file("swap"),
            folder("swap"),
            file("swap/in"),
            folder("gone/deep/er"),
            file("gone").content("now a file"),
            hard_link("d/y", "d/y"),
        ],
        &keep(),
    );
    assert_eq!(report.entries, 11);
    let tree = rig.tree();
    assert_eq!(tree.node("d/x").content, b"second");
    assert_eq!(
        tree.node("d/y").content,
        b"first",
        "the old inode, which was not written into"
    );
    assert_eq!(
        (tree.node("d").mode, tree.node("d").xattrs.len()),
        (0o040_711, 1)
    );
    assert!(tree.node("d").xattrs.contains_key(&b"user.b"[..]));
    assert!(tree.has("swap/in"));
    assert_eq!(tree.node("gone").content, b"now a file");
    assert!(!tree.has("gone/deep"));
}

#[test]
fn foreign_attributes_are_left_out_and_counted() {
    muster_lab::require!(Root);
    let items = [
        file("x")
            .pax("SCHILY.xattr.security.selinux", "label")
            .pax("SCHILY.xattr.user.a", "kept"),
        symlink("l", "x").pax("SCHILY.xattr.user.a", "not on links"),
        file("y")
            .pax("LIBARCHIVE.xattr.user.b", "eA==")
            .pax("comment", "ignored"),
    ];
    let (rig, report) = unpacked(items, &keep());
    assert_eq!(report.dropped_xattrs, 2);
    assert_eq!(
        rig.tree().node("x").xattrs.keys().collect::<Vec<_>>(),
        [b"user.a"]
    );
}

#[test]
fn extended_headers_override_the_header() {
    muster_lab::require!(Root);
    let global = Item::new(b'g', "g").content(b"12 uid=1234\n12 gid=4321\n14 mtime=5.25\n");
    let items = [
        global,
        file("short")
            .content("seven b")
            .size(b"00000000000\0")
            .pax("size", "7"),
        file("x")
            .pax("path", "long")
            .pax("uid", "4000000000")
            .pax("mtime", "-1.5"),
    ];
    let (rig, _) = unpacked(items, &keep());
    let tree = rig.tree();
    let short = tree.node("short");
    assert_eq!(
        (short.content.as_slice(), short.owner),
        (&b"seven b"[..], (1234, 4321))
    );
    assert_eq!(short.mtime, (5, 250_000_000));
    let long = tree.node("long");
    assert_eq!(
        (long.owner, long.mtime),
        ((4_000_000_000, 4321), (-2, 500_000_000))
    );
}

/// A full disk is told with the entry, and what was made can be removed.
#[test]
fn a_full_disk_is_an_error_of_the_entry() {
    muster_lab::require!(Root);
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let _mounted = crate::overlay::Mounted::tmpfs(&disk, "size=1m");
    let layer = tar([file("small"), file("large").content(vec![7; 2 << 20])]);
    let destination = fs::File::open(&disk).unwrap();
    let fd = std::os::fd::AsFd::as_fd(&destination);
    let error = muster_layer::unpack(&*layer, Compression::None, fd, &keep()).unwrap_err();
    assert!(matches!(error, UnpackError::FileSystem { .. }));
    let text = chain(&error);
    assert!(
        text.starts_with("cannot write the file for entry 2 \"large\": No space left"),
        "{text}"
    );
    muster_layer::remove_contents(fd).unwrap();
}

/// Whoever does not choose gets a tree that survives a power cut.
#[test]
fn durability_is_the_default() {
    muster_lab::require!(Root);
    assert_eq!(Options::default().durability, Durability::SyncFs);
    let (_, report) = unpacked([file("x")], &Options::default());
    assert_eq!(report.files, 1);
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// One difference at a time is easier to read than two trees.
fn assert_same(found: &Tree, expected: &Tree) {
    assert_eq!(found.names(), expected.names());
    for (name, node) in &expected.0 {
        assert_eq!(&found.0[name], node, "{}", name.display());
    }
}

fn assert_has_holes(path: &Path) {
    let meta = fs::metadata(path).unwrap();
    assert!(
        meta.blocks() * 512 < meta.size() / 2,
        "{} blocks of {}",
        meta.blocks(),
        meta.size()
    );
}
