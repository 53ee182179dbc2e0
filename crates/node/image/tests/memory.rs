//! What an installation takes of memory, whatever is in the image.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{TestLayout, noise, open_with, settings};
use muster_api::domain::Digest;
use muster_image::LayoutSource;
use muster_lab::oci::{Compression, Image, LayerBuilder};
use muster_lab::powercut::{reexec, role};

/// What is promised.
const MOST: u64 = 32 << 20;
/// Twice that, so that nothing can hold it whole.
const LARGE: usize = 64 << 20;
/// Their names alone are more than that.
const NAMES: u64 = 130_000;
const NAME_LENGTH: usize = 240;

/// A number of bytes that the kernel tells about this process.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() << 10
}

/// The program under test: installs and checks the one image of a layout, and says what that took.
fn install(folder: &Path) {
    let digest: Digest = fs::read_to_string(folder.join("digest"))
        .unwrap()
        .parse()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (store, _) = open_with(settings(folder)).await;
        let source = Arc::new(LayoutSource::open(folder.join("layout")).unwrap());
        let before = memory("VmRSS:");
        store.install(digest, source, None).await.unwrap();
        let checked = store.check(u64::MAX).await.unwrap();
        assert_eq!((checked.damaged.len(), checked.checked), (0, 4));
        let took = memory("VmHWM:").saturating_sub(before);
        fs::write(folder.join("took"), took.to_string()).unwrap();
    });
}

#[test]
fn large_layers_and_folders_of_many_names_take_little_memory() {
    let test = "large_layers_and_folders_of_many_names_take_little_memory";
    if let Some(role) = role() {
        return install(&role.folder);
    }
    let many = (0..NAMES).fold(
        LayerBuilder::new().folder("many", 0o755),
        |layer, number| {
            // Names that compress well would make a bomb of it.
            let rest = hex::encode(noise(number, NAME_LENGTH / 2));
            layer.file(format!("many/{number:0>6}{rest}"), "", 0o644)
        },
    );
    let large = LayerBuilder::new().file("large", noise(1, LARGE), 0o644);
    let image = Image::new()
        .layer(large.build(Compression::Gzip).unwrap())
        .layer(many.build(Compression::Zstd).unwrap())
        .entrypoint(["/large"]);
    let mut layout = TestLayout::new();
    let digest = layout.add("large", &image);
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(layout.folder.path(), folder.path().join("layout")).unwrap();
    fs::write(folder.path().join("digest"), digest.to_string()).unwrap();
    let mut installer = reexec(test, "installer", folder.path()).unwrap();
    assert!(installer.status().unwrap().success());
    let took: u64 = fs::read_to_string(folder.path().join("took"))
        .unwrap()
        .parse()
        .unwrap();
    println!("{} KiB", took >> 10);
    assert!(took <= MOST, "{} KiB", took >> 10);
}
