//! What images leave of a file system to others.

mod common;

use common::{TestLayout, open_with, settings};
use muster_image::InstallError;
use muster_lab::oci::{Compression, Image, LayerBuilder};
use muster_lab::powercut::LoggedDisk;

const MIB: usize = 1 << 20;

#[test]
fn layers_that_grow_leave_a_part_of_the_file_system_to_others() {
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let disk = LoggedDisk::create(64 * MIB as u64).unwrap();
    let mounted = disk.mount().unwrap();
    let mut image = Image::new();
    for number in 0..3_u8 {
        // Almost nothing comes, and one of them has room.
        let large = LayerBuilder::new().file("large", vec![number; 32 * MIB], 0o644);
        image = image.layer(large.build(Compression::Gzip).unwrap());
    }
    let mut layout = TestLayout::new();
    let digest = layout.add("large", &image);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let error = runtime.unwrap().block_on(async {
        let (store, _) = open_with(settings(mounted.path())).await;
        assert_eq!(store.usage().max_bytes, None);
        let installed = store.install(digest, layout.source(), None).await;
        installed.unwrap_err()
    });
    // Refused in time, by a rule of the store: not by the file system when nothing was left for anybody.
    let InstallError::Unpack { source, .. } = error else {
        panic!("{error:?}");
    };
    let rule = std::error::Error::source(&*source).map(ToString::to_string);
    assert!(
        rule.as_ref().is_some_and(|it| it.contains("no space left")),
        "{source:?}"
    );
}
