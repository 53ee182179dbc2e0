//! GNU tar in all its formats, busybox and umoci.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_layer::{Compression, Options, OverlayXattrs};

use super::source::{self, Features};
use super::{assert_has_holes, assert_same, keep, run};
use crate::overlay::Mounted;
use crate::rig::{Rig, Tree, chain};

const ALL: Features = Features {
    long_names: true,
    large_ids: true,
    exact_times: true,
    xattrs: true,
    holes: true,
    specials: true,
};
/// What archives could say before extended headers.
const OLD: Features = Features {
    exact_times: false,
    xattrs: false,
    ..ALL
};
const OLDEST: Features = Features {
    long_names: false,
    large_ids: false,
    holes: false,
    ..OLD
};

/// Makes a tree, packs it with a program, unpacks that, and compares.
fn assert_round_trip(what: &str, features: Features, pack: impl Fn(&Path, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let (from, layer) = (folder.path().join("from"), folder.path().join("layer"));
    source::make(&from, features);
    pack(&from, &layer);
    let rig = Rig::new();
    let result = rig.unpack(&fs::read(&layer).unwrap(), Compression::None, &keep());
    result.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
    println!("{what}");
    assert_same(&rig.tree(), &Tree::read(&from));
    if features.holes {
        assert_has_holes(&rig.destination().join("sparse"));
    }
}

#[test]
fn gnu_tar_in_every_format() {
    muster_lab::require!(Root, Tool("tar"));
    let whole = |features| Features {
        holes: false,
        ..features
    };
    for (options, features) in [
        (
            "--format=v7",
            Features {
                specials: false,
                ..OLDEST
            },
        ),
        ("--format=ustar", OLDEST),
        ("--format=oldgnu", whole(OLD)),
        ("--format=gnu", whole(OLD)),
        ("--format=oldgnu --sparse", OLD),
        ("--format=gnu --sparse", OLD),
        ("--format=pax --xattrs", whole(ALL)),
        ("--format=pax --xattrs --sparse --sparse-version=0.0", ALL),
        ("--format=pax --xattrs --sparse --sparse-version=0.1", ALL),
        ("--format=pax --xattrs --sparse --sparse-version=1.0", ALL),
    ] {
        assert_round_trip(options, features, |from, layer| {
            let mut tar = Command::new("tar");
            tar.args(options.split(' '))
                .args(["--numeric-owner", "--sort=name"]);
            if features.xattrs {
                tar.arg("--xattrs-include=*");
            }
            run(tar.arg("-C").arg(from).arg("-cf").arg(layer).arg("."));
        });
    }
}

#[test]
fn busybox_tar() {
    muster_lab::require!(Root, Tool("busybox"));
    let features = Features {
        large_ids: false,
        holes: false,
        ..OLD
    };
    assert_round_trip("busybox", features, |from, layer| {
        run(Command::new("busybox")
            .args(["tar", "-C"])
            .arg(from)
            .arg("-cf")
            .arg(layer)
            .arg("."));
    });
}

/// An image made by umoci from a tree and a change to it: two layers, the second with whiteouts.
#[test]
fn umoci_layers_stack_to_the_tree_they_are_of() {
    muster_lab::require!(Root, Tool("umoci"));
    let folder = tempfile::tempdir().unwrap();
    let (layout, bundle) = (folder.path().join("layout"), folder.path().join("bundle"));
    let image = format!("{}:test", layout.display());
    run(Command::new("umoci")
        .args(["init", "--layout"])
        .arg(&layout));
    run(Command::new("umoci").args(["new", "--image", &image]));
    run(Command::new("umoci")
        .args(["unpack", "--image", &image])
        .arg(&bundle));
    let root = bundle.join("rootfs");
    let features = Features {
        exact_times: false,
        holes: false,
        ..ALL
    };

    let mut known = layers(&layout);
    let mut repack = || {
        let mut command = Command::new("umoci");
        run(command
            .args(["repack", "--refresh-bundle", "--image", &image])
            .arg(&bundle));
        let now = layers(&layout);
        let new: Vec<_> = now.difference(&known).cloned().collect();
        known = now;
        let [new] = new.try_into().unwrap();
        new
    };
    source::fill(&root, features);
    // umoci leaves attributes without a value out.
    rustix::fs::removexattr(root.join("block"), "user.empty").unwrap();
    source::finish(&root, features);
    let lower = unpack_blob(&repack());

    fs::remove_file(root.join("shell")).unwrap();
    fs::remove_dir_all(root.join("bin")).unwrap();
    fs::remove_dir(root.join("empty")).unwrap();
    fs::write(root.join("empty"), "now a file").unwrap();
    fs::create_dir(root.join("bin")).unwrap();
    fs::write(root.join("bin/new"), "anew").unwrap();
    source::finish(&root, features);
    let upper = unpack_blob(&repack());

    let merged = folder.path().join("merged");
    fs::create_dir(&merged).unwrap();
    let below = [upper.destination(), lower.destination()];
    let _mounted = Mounted::overlay(&merged, &below, OverlayXattrs::Trusted);
    let mut found = Tree::read(&merged);
    for node in found.0.values_mut() {
        node.xattrs
            .retain(|name, _| !name.starts_with(b"trusted.overlay."));
    }
    let expected = Tree::read(&root);
    // Of a folder in which only names changed umoci writes no entry: an overlay shows it as the upper layer has it.
    let bin = found.0.get_mut(Path::new("bin")).unwrap();
    assert_eq!(
        (bin.mode, bin.owner, bin.mtime),
        (0o040_755, (0, 0), (0, 0))
    );
    bin.mtime = expected.node("bin").mtime;
    assert_same(&found, &expected);
}

/// The compressed blobs of a layout.
fn layers(layout: &Path) -> BTreeSet<PathBuf> {
    let blobs = fs::read_dir(layout.join("blobs/sha256"))
        .unwrap()
        .map(|blob| blob.unwrap().path());
    blobs
        .filter(|blob| fs::read(blob).unwrap().starts_with(&[0x1f, 0x8b]))
        .collect()
}

/// Unpacks a blob, and has its digest checked, which is its name.
fn unpack_blob(blob: &Path) -> Rig {
    let rig = Rig::new();
    let name = blob.file_name().unwrap().to_str().unwrap();
    let digest = hex::decode(name).unwrap().try_into().unwrap();
    let options = Options {
        digest: Some(digest),
        ..keep()
    };
    let result = rig.unpack(&fs::read(blob).unwrap(), Compression::Gzip, &options);
    result.unwrap_or_else(|error| panic!("{}", chain(&error)));
    rig
}
