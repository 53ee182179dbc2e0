//! Images that the engine does not have.

use muster_lab::poll_until;
use muster_lifecycle::State;
use muster_provider::{FailureClass, MachineSpec, Owned, Provider as _};

use crate::rig::{Docker, IMAGE, PATIENCE, order, spec};

/// In the engine's own network nobody else listens.
const REGISTRY: &str = "127.0.0.1:5000";

#[tokio::test]
async fn a_missing_image_is_pulled_and_one_that_nobody_has_is_refused() {
    muster_lab::require_docker!(Tool("docker-registry"));
    let docker = Docker::start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("registry.yml");
    let storage = folder.path().join("storage");
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {REGISTRY}}}\n",
        storage.display()
    );
    std::fs::write(&config, text).unwrap();
    let registry = docker
        .in_network("docker-registry")
        .arg("serve")
        .arg(&config);
    let _registry = registry.start().unwrap();
    let name = format!("{REGISTRY}/team/machine:1");
    docker.cli(&["tag", IMAGE, &name]);
    // As soon as the registry answers.
    poll_until(PATIENCE, "a push", || {
        docker.try_cli(&["push", "--quiet", &name])
    });
    docker.cli(&["rmi", &name]);
    let provider = docker.provider();
    let image = |image: &str| MachineSpec {
        image: Some(image.to_owned()),
        ..spec()
    };
    let pulled = order(image(&name));
    let made = provider.provision(&pulled).await.unwrap();
    assert_eq!(made.state, State::Running);
    assert_eq!(made.details["image"], name);
    let exact = made.details["exact"].clone();
    // By its checksum too, which is what a lock file pins.
    let digest = docker.cli(&["inspect", "--format", "{{index .RepoDigests 0}}", &name]);
    assert_eq!(exact, digest);
    let digest = digest.split_once('@').unwrap().1.to_owned();
    let machine = Owned {
        resource: made.resource,
        mark: pulled.mark.clone(),
    };
    provider.destroy(&machine).await.unwrap();
    docker.cli(&["rmi", &name]);
    let pinned = order(MachineSpec {
        digest: Some(digest.clone()),
        ..image(&name)
    });
    let made = provider.provision(&pinned).await.unwrap();
    assert_eq!(made.details["image"], exact);
    assert_eq!(made.details["exact"], exact);

    let unknown = order(image(&format!("{REGISTRY}/team/none:1")));
    let error = provider.provision(&unknown).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{:?}", error.source);
}
