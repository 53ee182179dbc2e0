//! A real registry with a password: pushed, pulled, installed from.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{TestLayout, image, layer_content, noise, open_with, settings};
use muster_image::{LayoutSource, Login, RegistryImage, RegistrySource, build};
use muster_lab::registry::{self, Registry};

fn source(registry: &Registry, name: &str, password: &str) -> RegistrySource {
    let image: RegistryImage = format!("{}/{name}", registry.address()).parse().unwrap();
    let login = Login {
        user: "op".to_owned(),
        password: password.to_owned(),
    };
    assert!(!format!("{login:?}").contains(password));
    RegistrySource::new(&image, Some(login), Vec::new(), false).unwrap()
}

#[tokio::test]
async fn an_image_goes_through_a_registry_with_its_item_configuration() {
    muster_lab::require!(Tool("docker-registry"), Tool("htpasswd"));
    let registry = Registry::start_for(registry::Login::new("op", "secret")).unwrap();
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 200_000));
    let pushed = source(&registry, "team/web:1", "secret");
    pushed.push(&layout.source(), digest).await.unwrap();
    assert_eq!(pushed.resolve().await.unwrap(), digest);
    // A second push finds everything there.
    pushed.push(&layout.source(), digest).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let from = Arc::new(source(&registry, "team/web:1", "secret"));
    let installed = store
        .install(from.resolve().await.unwrap(), from, None)
        .await
        .unwrap();
    assert_eq!(installed.item_config.hostname.as_deref(), Some("host-1"));
    assert_eq!(layer_content(&installed.layers[2], 3), noise(3, 200_000));

    let output = folder.path().join("pulled.tar");
    build::pull(&pushed, digest, Some("web"), &output, true)
        .await
        .unwrap();
    let pulled = LayoutSource::open(&output).unwrap();
    assert_eq!(
        build::validate(&pulled, pulled.image(Some("web")).unwrap()),
        []
    );
}

#[tokio::test]
async fn an_index_is_pushed_with_all_of_its_images() {
    muster_lab::require!(Tool("docker-registry"), Tool("htpasswd"));
    let registry = Registry::start_for(registry::Login::new("op", "secret")).unwrap();
    let mut layout = TestLayout::new();
    layout.add("other", &image(1, 1000).platform("riscv64", "linux"));
    let this = layout.add("this", &image(5, 1000));
    let index = layout
        .layout
        .add_index_blob()
        .unwrap()
        .as_str()
        .parse()
        .unwrap();
    let target = source(&registry, "multi:1", "secret");
    target.push(&layout.source(), index).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(index, Arc::new(target), None).await.unwrap();
    assert_eq!(installed.manifest_digest, this);
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    muster_lab::require!(Tool("docker-registry"), Tool("htpasswd"));
    let registry = Registry::start_for(registry::Login::new("op", "secret")).unwrap();
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 1000));
    let wrong = source(&registry, "web:1", "guess");
    let error = wrong.push(&layout.source(), digest).await.unwrap_err();
    assert!(!format!("{error:?}").contains("guess"), "{error:?}");
}
