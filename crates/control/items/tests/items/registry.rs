//! Items of a real registry with a password.

use std::fs;

use muster_desired::{ImageSource, RegistryAccess, Trust};
use muster_lab::registry::{Login, Registry};

use crate::rig::{TestLayout, image, item, kept, open};

#[tokio::test]
async fn an_item_comes_from_a_registry_and_stays_without_it() {
    muster_lab::require!(Tool("docker-registry"), Tool("htpasswd"));
    let registry = Registry::start_for(Login::new("op", "secret")).unwrap();
    let mut layout = TestLayout::new();
    let digest = layout.add("1", &image(1, 200_000));
    registry.push(&layout.layout, "1", "team/web").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    let web = |index| {
        let access = RegistryAccess {
            login: Some(("op".to_owned(), password.clone())),
            ..RegistryAccess::default()
        };
        let reference = format!("{}/team/web:1", registry.address());
        item(
            "web",
            "1.0.0",
            ImageSource::Registry {
                reference,
                access,
                index,
            },
        )
    };
    let items = open(folder.path()).await;
    let trust = Trust::default();

    let error = items.download(&web(None), &trust, None).await.unwrap_err();
    assert!(error.fault().message.contains("password"), "{error:?}");
    fs::write(&password, "wrong\n").unwrap();
    items.download(&web(None), &trust, None).await.unwrap_err();
    fs::write(&password, "secret\nnot this\n").unwrap();
    assert_eq!(
        items.download(&web(None), &trust, None).await.unwrap(),
        digest
    );
    assert_eq!(kept(&items), layout.blobs());
    let web = [web(None), web(Some(digest))];
    drop(registry);
    assert_eq!(items.download(&web[0], &trust, None).await.unwrap(), digest);
    // A digest that is there needs no registry, whatever it is called.
    assert_eq!(items.download(&web[1], &trust, None).await.unwrap(), digest);
}
