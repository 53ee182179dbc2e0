//! What images leave of a file system to others.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use common::{TestLayout, layer, noise, open_with, settings};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{
    BlobPlace, BlobSource, BlobStream, BoxError, InstallError, LayoutSource, OpenBlobError,
};
use muster_lab::oci::{Compression, Image, LayerBuilder};
use muster_lab::powercut::LoggedDisk;
use tokio::sync::Semaphore;

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

/// A layout that stops in the middle of large blobs until it is let go on.
#[derive(Debug)]
struct Gated {
    layout: Arc<LayoutSource>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    /// Bytes of a blob that come at once.
    first: usize,
    arrived: Semaphore,
    open: Semaphore,
}

struct GatedPlace(Box<dyn BlobPlace>, Arc<Gate>);

impl BlobSource for Gated {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let places = self.layout.places(digest).await?.into_iter();
            let gated =
                |place| Box::new(GatedPlace(place, Arc::clone(&self.gate))) as Box<dyn BlobPlace>;
            Ok(places.map(gated).collect())
        })
    }
}

impl BlobPlace for GatedPlace {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(async move {
            let BlobStream { from, bytes } = self.0.open(from).await?;
            let gate = Arc::clone(&self.1);
            let mut come = 0;
            let pass = move |piece: std::io::Result<bytes::Bytes>| {
                come += piece.as_ref().map_or(0, bytes::Bytes::len);
                let gate = (come > gate.first).then(|| Arc::clone(&gate));
                async move {
                    if let Some(gate) = gate {
                        gate.arrived.add_permits(1);
                        // Once open, it stays open.
                        drop(gate.open.acquire().await);
                    }
                    piece
                }
            };
            let bytes = bytes.then(pass).boxed();
            Ok(BlobStream { from, bytes })
        })
    }
}

#[test]
fn what_downloads_have_written_does_not_count_twice() {
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let disk = LoggedDisk::create(96 * MIB as u64).unwrap();
    let mounted = disk.mount().unwrap();
    let mut layout = TestLayout::new();
    let old = layout.add(
        "old",
        &Image::new().layer(layer(1, 100_000, Compression::Gzip)),
    );
    let blob = |seed, bytes| {
        let kind = "application/vnd.aos.image.component.full.v1+squashfs";
        let blob = muster_lab::oci::Layer::from_tar_bytes(kind, noise(seed, bytes));
        Image::new()
            .layer(blob)
            .edit_config(|config| *config = serde_json::json!({}))
    };
    let (large, other) = (
        layout.add("large", &blob(2, 44 * MIB)),
        layout.add("other", &blob(3, 24 * MIB)),
    );
    let gate = Arc::new(Gate {
        first: 40 * MIB,
        arrived: Semaphore::new(0),
        open: Semaphore::new(0),
    });
    let gated = Arc::new(Gated {
        layout: layout.source(),
        gate: Arc::clone(&gate),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut settings = settings(mounted.path());
        settings.documents.document_bytes = 64 << 10;
        let (store, _) = open_with(settings).await;
        store.install(old, layout.source(), None).await.unwrap();
        let wanted = BTreeSet::from([large, other]);
        store.keep(&wanted, SystemTime::now()).await.unwrap();
        let (first, from) = (store.clone(), gated.clone());
        let first = tokio::spawn(async move { first.install(large, from, None).await });
        drop(gate.arrived.acquire().await);
        // Almost all of the large one has been taken from what is free, and there is room for the other.
        store.install(other, layout.source(), None).await.unwrap();
        let removed = store.installed(old).await.unwrap();
        assert!(removed.is_some(), "nothing had to go for it");
        gate.open.add_permits(1);
        first.await.unwrap().unwrap();
    });
}

#[test]
fn holes_of_files_need_no_space() {
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    const SIZE: u64 = 256 << 20;
    let disk = LoggedDisk::create(64 * MIB as u64).unwrap();
    let mounted = disk.mount().unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    let size = SIZE.to_string();
    let sparse = [
        ("GNU.sparse.size", size.as_bytes()),
        ("GNU.sparse.map", &b"0,7"[..]),
    ];
    tar.append_pax_extensions(sparse).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(7);
    header.set_mode(0o644);
    tar.append_data(&mut header, "disk.img", &b"content"[..])
        .unwrap();
    let kind = "application/vnd.oci.image.layer.v1.tar";
    let layer = muster_lab::oci::Layer::from_tar_bytes(kind, tar.into_inner().unwrap());
    let mut layout = TestLayout::new();
    let digest = layout.add("sparse", &Image::new().layer(layer));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let (store, _) = open_with(settings(mounted.path())).await;
        let installed = store.install(digest, layout.source(), None).await.unwrap();
        let file = installed.layers[0].join("disk.img");
        assert_eq!(file.metadata().unwrap().len(), SIZE);
        assert!(store.usage().used_bytes < MIB as u64);
    });
}
