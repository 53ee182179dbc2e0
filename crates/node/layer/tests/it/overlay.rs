//! What whiteouts mean, as the kernel's overlayfs sees it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use muster_layer::{Compression, Durability, Options, OverlayXattrs, WhiteoutForm, Whiteouts};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::rig::Rig;
use crate::tar::{Item, empty, file, folder, tar};

/// A mount that is taken away with the value.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Layers, the upper ones first, as one folder that cannot be changed.
    pub(crate) fn overlay(at: &Path, layers: &[PathBuf], xattrs: OverlayXattrs) -> Self {
        let layers: Vec<_> = layers.iter().map(|layer| layer.to_str().unwrap()).collect();
        let mut options = format!("lowerdir={}", layers.join(":"));
        if xattrs == OverlayXattrs::User {
            options.push_str(",userxattr");
        }
        Self::mount("overlay", at, MountFlags::RDONLY, &options)
    }

    pub(crate) fn tmpfs(at: &Path, options: &str) -> Self {
        Self::mount("tmpfs", at, MountFlags::empty(), options)
    }

    fn mount(kind: &str, at: &Path, flags: MountFlags, options: &str) -> Self {
        let options = CString::new(options).unwrap();
        mount(kind, at, kind, flags, Some(options.as_c_str())).unwrap();
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may still be in use, by whatever made the test fail.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// What is seen of `upper` on top of `lower`.
fn merged(upper: &Path, lower: &Path, xattrs: OverlayXattrs) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let layers = [upper.to_owned(), lower.to_owned()];
    let mounted = Mounted::overlay(folder.path(), &layers, xattrs);
    let mut seen = BTreeSet::new();
    let mut waiting = vec![folder.path().to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder.path()).unwrap();
            seen.insert(name.to_str().unwrap().to_owned());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    drop(mounted);
    seen
}

fn lower() -> Vec<Item> {
    [
        "a/1", "a/2", "b/1", "b/2", "c", "d/1/x", "e/1", "f/1", "g/1", "h/1",
    ]
    .map(file)
    .to_vec()
}

fn assert_seen(form: WhiteoutForm, xattrs: OverlayXattrs, upper: Vec<Item>, expected: &[&str]) {
    let options = Options {
        whiteouts: Whiteouts { form, xattrs },
        durability: Durability::None,
        ..Options::default()
    };
    let (below, above) = (Rig::new(), Rig::new());
    below
        .unpack(&tar(lower()), Compression::None, &options)
        .unwrap();
    above
        .unpack(&tar(upper), Compression::None, &options)
        .unwrap();
    let seen = merged(&above.destination(), &below.destination(), xattrs);
    let expected = expected.iter().map(ToString::to_string).collect();
    assert_eq!(seen, expected, "{form:?} {xattrs:?}");
}

/// The same names in every order that makes a difference to a program that applies entry after entry.
fn uppers() -> [Vec<Item>; 2] {
    let plain = vec![
        // One of two is gone.
        empty("a/.wh.1"),
        // Everything that was there is gone, in whatever order the layer says so.
        empty("b/.wh..wh..opq"),
        file("b/3"),
        empty(".wh.c"),
        // Gone and made anew: nothing of the old one is seen.
        empty(".wh.e"),
        folder("e"),
        file("e/2"),
        empty(".wh.f"),
        file("f/2"),
        // A file in place of a folder needs no whiteout.
        file("g"),
        empty(".wh.h"),
        file("h"),
    ];
    let mut reversed = plain.clone();
    reversed.reverse();
    [plain, reversed]
}

const SEEN: [&str; 12] = [
    "a", "a/2", "b", "b/3", "d", "d/1", "d/1/x", "e", "e/2", "f", "f/2", "g",
];

#[test]
fn whiteouts_hide_what_lower_layers_have_and_nothing_else() {
    muster_lab::require!(Root);
    let expected = [&SEEN[..], &["h"]].concat();
    for upper in uppers() {
        for xattrs in [OverlayXattrs::Trusted, OverlayXattrs::User] {
            assert_seen(WhiteoutForm::CharDevice, xattrs, upper.clone(), &expected);
            assert_seen(WhiteoutForm::EmptyFile, xattrs, upper.clone(), &expected);
        }
    }
}
