//! Documents that are larger than documents are, or say so: refused before anything is reserved, asked for or read into memory.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::server::{Faults, FileServer};
use common::{TestLayout, image, layer, layer_content, noise, open_with, settings, url_source};
use muster_api::domain::Digest;
use muster_image::build::{self, PullError};
use muster_image::{BlobSource, FetchBlobError, InstallError};
use muster_lab::oci::{Blob, Compression, Image, media_type};
use serde_json::json;

const THREE_GB: u64 = 3 << 30;

fn digest_of(blob: &Blob) -> Digest {
    blob.descriptor.digest.as_str().parse().unwrap()
}

fn path_of(digest: &Digest) -> String {
    format!("/{}", digest.to_hex())
}

/// An index with one manifest of this size.
fn index(manifest: &Digest, size: u64) -> Blob {
    let text = json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": media_type::MANIFEST,
            "digest": manifest.to_string(),
            "size": size,
        }],
    });
    Blob::new(media_type::INDEX, text.to_string().into_bytes())
}

#[track_caller]
fn assert_too_large<T: std::fmt::Debug>(result: Result<T, InstallError>, document: Digest) {
    match result {
        Err(InstallError::Fetch {
            digest,
            source: FetchBlobError::TooLarge { .. },
        }) => assert_eq!(digest, document),
        other => panic!("{other:?}"),
    }
}

/// Every way to a document, each with a store of its own; answers what was asked for, all in all.
async fn try_all(blobs: BTreeMap<String, Vec<u8>>, item: Digest, document: Digest) -> Vec<String> {
    let server = FileServer::start(blobs, Faults::default());
    let source = || -> Arc<dyn BlobSource> { url_source(&[&server.url()]) };
    let folder = tempfile::tempdir().unwrap();
    let mut roomy = settings(folder.path());
    // Plenty: it is not the space that forbids it.
    roomy.max_bytes = Some(2 * THREE_GB);
    let (store, _) = open_with(roomy).await;
    assert_too_large(store.install(item, source(), None).await, document);
    assert_eq!(store.installed(item).await.unwrap(), None);
    assert_too_large(store.mirror(item, source(), None).await, document);
    assert_too_large(store.inspect(item, source()).await, document);
    assert_eq!(store.usage().reserved_bytes, 0);
    assert!(store.inventory().partials.is_empty());
    server.asked().into_iter().map(|(path, _)| path).collect()
}

#[tokio::test]
async fn a_manifest_that_claims_three_gigabytes_is_neither_reserved_nor_asked_for() {
    let manifest = Digest::from_sha256([7; 32]);
    let index = index(&manifest, THREE_GB);
    let item = digest_of(&index);
    let blobs = BTreeMap::from([(path_of(&item), index.bytes.clone())]);
    let asked = try_all(blobs.clone(), item, manifest).await;
    assert!(!asked.contains(&path_of(&manifest)), "{asked:?}");

    let server = FileServer::start(blobs, Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let source = url_source(&[&server.url()]);
    let output = folder.path().join("layout");
    match build::pull(source.as_ref(), item, None, &output, false).await {
        Err(PullError::Fetch {
            digest,
            source: FetchBlobError::TooLarge { .. },
        }) => assert_eq!(digest, manifest),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.asked().len(), 1, "{:?}", server.asked());
}

#[tokio::test]
async fn configurations_that_claim_three_gigabytes_are_neither_reserved_nor_asked_for() {
    for field in ["config", "aosItemConfig"] {
        let mut layout = TestLayout::new();
        let hostile = image(1, 1000).edit_manifest(move |manifest| {
            manifest[field]["size"] = THREE_GB.into();
        });
        let item = layout.add("web", &hostile);
        let manifest = &layout.blobs()[&path_of(&item)];
        let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
        let config: Digest = manifest[field]["digest"].as_str().unwrap().parse().unwrap();
        let asked = try_all(layout.blobs(), item, config).await;
        assert!(!asked.contains(&path_of(&config)), "{field}: {asked:?}");
    }
}

#[tokio::test]
async fn what_is_there_as_a_large_blob_is_not_read_as_a_document() {
    const LIMIT: usize = 64 << 10;
    let mut layout = TestLayout::new();
    // A manifest by its content, and far too large for one.
    let mut bytes = br#"{"schemaVersion": 2, "config": null, "layers": []}"#.to_vec();
    bytes.resize(LIMIT + 1, b' ');
    let large = muster_lab::oci::Layer::from_tar_bytes(
        "application/vnd.aos.image.component.full.v1+gzip",
        bytes,
    );
    let component: Digest = large.digest().as_str().parse().unwrap();
    let item = Image::new().layer(large).edit_config(|config| {
        // Components are not unpacked.
        config["rootfs"]["diff_ids"] = json!([]);
    });
    let item = layout.add("component", &item);
    let index = index(&component, 100);
    layout.layout.add_blob(&index).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    settings.documents.document_bytes = LIMIT;
    let (store, _) = open_with(settings).await;
    store.mirror(item, layout.source(), None).await.unwrap();
    assert!(store.inventory().blobs.contains_key(&component));
    let hostile = digest_of(&index);
    assert_too_large(
        store.install(hostile, layout.source(), None).await,
        component,
    );
    assert_too_large(
        store.mirror(hostile, layout.source(), None).await,
        component,
    );
}

#[tokio::test]
async fn a_blob_that_is_there_is_unpacked_whatever_its_descriptor_says() {
    let mut layout = TestLayout::new();
    let honest = layer(1, 300_000, Compression::Gzip);
    let one = layout.add("one", &Image::new().layer(honest.clone()));
    let mut lying = Vec::new();
    for (number, size) in [10, THREE_GB].into_iter().enumerate() {
        let layer = honest.clone().claim_size(size);
        lying.push(layout.add(&format!("lying-{number}"), &Image::new().layer(layer)));
    }
    let layer: Digest = honest.digest().as_str().parse().unwrap();
    for item in lying {
        let server = FileServer::start(layout.blobs(), Faults::default());
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open_with(settings(folder.path())).await;
        store.mirror(one, layout.source(), None).await.unwrap();
        let source = url_source(&[&server.url()]);
        let installed = store.install(item, source, None).await.unwrap();
        assert_eq!(layer_content(&installed.layers[0], 1), noise(1, 300_000));
        let asked = server.asked();
        let again = asked.iter().any(|(path, _)| *path == path_of(&layer));
        assert!(!again, "{asked:?}");
        assert_eq!(store.usage().reserved_bytes, 0);
    }
}

/// What BuildKit makes: an image, and beside it how that was built, as a manifest for a platform that nothing has.
#[tokio::test]
async fn statements_about_an_image_beside_it_are_left_where_they_are() {
    let mut layout = TestLayout::new();
    let web = layout.add("web", &image(1, 1000));
    let statement =
        muster_lab::oci::Layer::from_tar_bytes("application/vnd.in-toto+json", b"{}".to_vec());
    let statement = Image::new().platform("unknown", "unknown").layer(statement);
    let statement = layout.add("statement", &statement);
    let size = |digest: &Digest| layout.blobs()[&path_of(digest)].len();
    let text = json!({
        "schemaVersion": 2,
        "mediaType": media_type::INDEX,
        "manifests": [{
            "mediaType": media_type::MANIFEST, "digest": web.to_string(), "size": size(&web),
            "platform": {"os": "linux", "architecture": std::env::consts::ARCH},
        }, {
            "mediaType": media_type::MANIFEST, "digest": statement.to_string(), "size": size(&statement),
            "platform": {"os": "unknown", "architecture": "unknown"},
            "annotations": {
                "vnd.docker.reference.digest": web.to_string(),
                "vnd.docker.reference.type": "attestation-manifest",
            },
        }],
    });
    let index = Blob::new(media_type::INDEX, text.to_string().into_bytes());
    layout.layout.add_blob(&index).unwrap();
    let item = digest_of(&index);
    let server = FileServer::start(layout.blobs(), Faults::default());
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let source = || url_source(&[&server.url()]);
    let seen = store.inspect(item, source()).await.unwrap();
    let mirrored = store.mirror(item, source(), None).await.unwrap();
    assert_eq!(seen, mirrored);
    let manifests: Vec<_> = mirrored.iter().map(|image| image.manifest_digest).collect();
    assert_eq!(manifests, [web]);
    assert_eq!(store.mirrored(item).await.unwrap(), Some(mirrored));
    let installed = store.install(item, source(), None).await.unwrap();
    assert_eq!(installed.manifest_digest, web);
    let asked = server.asked();
    let in_vain = asked.iter().any(|(path, _)| *path == path_of(&statement));
    assert!(!in_vain, "{asked:?}");
    assert_eq!(build::validate(&layout.source(), item), []);
}
