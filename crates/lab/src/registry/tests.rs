use std::fs;
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::oci::{Compression, Image, LayerBuilder};
use crate::poll_until;

fn sample(folder: &Path) -> Layout {
    let layer = LayerBuilder::new().file("etc/motd", "hello", 0o644);
    let image = Image::new()
        .layer(layer.build(Compression::Gzip).unwrap())
        .item_config(json!({ "hostname": "guest" }));
    let mut layout = Layout::create(folder).unwrap();
    layout.add("v1", image.build()).unwrap();
    layout
}

#[test]
fn what_was_pushed_can_be_pulled() {
    crate::require!(Tool("docker-registry"));
    let folder = tempfile::tempdir().unwrap();
    let layout = sample(folder.path());
    let registry = Registry::start().unwrap();
    let digest = registry.push(&layout, "v1", "team/item").unwrap();
    // A second time there is nothing to upload.
    assert_eq!(registry.push(&layout, "v1", "team/item").unwrap(), digest);

    let manifest = registry.manifest("team/item", "v1").unwrap();
    assert_eq!(BlobDigest::of(&manifest), digest);
    assert_eq!(
        registry.manifest("team/item", digest.as_str()).unwrap(),
        manifest
    );
    let image = layout.image("v1").unwrap();
    let item = image.item_config.as_ref().unwrap();
    for blob in [&image.config, item, &image.layers[0]] {
        assert_eq!(
            registry.pull("team/item", &blob.descriptor.digest).unwrap(),
            blob.bytes
        );
    }
}

#[test]
fn another_client_reads_the_pushed_image() {
    crate::require!(Tool("docker-registry"), Tool("skopeo"));
    let folder = tempfile::tempdir().unwrap();
    let layout = sample(folder.path());
    let registry = Registry::start().unwrap();
    let digest = registry.push(&layout, "v1", "item").unwrap();
    let mut skopeo = Command::new("skopeo");
    let reference = format!("docker://{}/item:v1", registry.address());
    skopeo.args(["inspect", "--tls-verify=false", &reference]);
    let seen: Value = serde_json::from_str(&run_tool(&mut skopeo, "").unwrap()).unwrap();
    assert_eq!(seen["Digest"], digest.as_str());
}

#[test]
fn missing_and_damaged_content_is_an_error() {
    crate::require!(Tool("docker-registry"));
    let folder = tempfile::tempdir().unwrap();
    let layout = sample(folder.path());
    let registry = Registry::start().unwrap();
    let missing = registry.manifest("item", "v1").unwrap_err();
    assert!(
        matches!(missing, RegistryError::Refused { status: 404, .. }),
        "{missing}"
    );
    let absent = registry.push(&layout, "v2", "item").unwrap_err();
    assert!(matches!(absent, RegistryError::Layout(_)));

    // A blob under a false name is refused on its way in.
    let mut liar = Blob::new(media_type::LAYER, b"content".to_vec());
    liar.descriptor.digest = BlobDigest::of(b"other");
    let refused = registry.push_blob("item", &liar).unwrap_err();
    assert!(
        matches!(refused, RegistryError::Refused { status: 400, .. }),
        "{refused}"
    );

    // One that changed in the registry's storage is seen on its way out.
    registry.push(&layout, "v1", "item").unwrap();
    let config = &layout.image("v1").unwrap().config;
    let name = config.descriptor.digest.encoded();
    let blobs = registry.storage().join("docker/registry/v2/blobs/sha256");
    let stored = blobs.join(&name[..2]).join(name).join("data");
    fs::write(&stored, vec![b' '; config.bytes.len()]).unwrap();
    let damaged = registry
        .pull("item", &config.descriptor.digest)
        .unwrap_err();
    assert!(
        matches!(damaged, RegistryError::WrongDigest { .. }),
        "{damaged}"
    );
}

#[test]
fn a_registry_for_one_user_refuses_others() {
    crate::require!(Tool("docker-registry"), Tool("htpasswd"));
    let folder = tempfile::tempdir().unwrap();
    let layout = sample(folder.path());
    let login = Login::new("node", "secret-words");
    assert!(!format!("{login:?}").contains("secret"));
    let mut registry = Registry::start_for(login).unwrap();
    registry.push(&layout, "v1", "item").unwrap();
    registry.login = Some(Login::new("node", "guess"));
    let refused = registry.manifest("item", "v1").unwrap_err();
    assert!(
        matches!(refused, RegistryError::Refused { status: 401, .. }),
        "{refused}"
    );
}

#[test]
fn registries_share_nothing_and_end_with_their_handles() {
    crate::require!(Tool("docker-registry"));
    let registries: Vec<Registry> = (0..3).map(|_| Registry::start().unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    registries[0]
        .push(&sample(folder.path()), "v1", "item")
        .unwrap();
    assert!(registries[1].manifest("item", "v1").is_err());
    let left: Vec<_> = registries
        .iter()
        .map(|one| (one.address(), one.storage()))
        .collect();
    drop(registries);
    for (address, storage) in left {
        assert!(!storage.exists());
        poll_until(Duration::from_secs(5), "its port is closed", || {
            TcpStream::connect(address).is_err()
        });
    }
}
