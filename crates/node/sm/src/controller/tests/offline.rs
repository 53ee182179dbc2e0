//! Time that a node is on its own, from the stream to the instance.

use std::collections::BTreeSet;

use muster_api::domain::{ArchInfo, Digest, InstanceIdent, InstanceState, OsInfo, RuntimeInfo};
use muster_item::{ImageConfig, ItemConfig};
use muster_launcher::seams::{InstalledImage, SeamError};
use muster_runtime::{
    AdoptError, Adopted, EVENT_QUEUE, ImagePaths, InstanceSpec, RunEvent, RunId, RunPlace,
    RuntimeError,
};

use super::*;

/// Runs everything, as far as anybody can see.
#[derive(Debug, Default)]
struct Anything {
    /// Open, as that of a real runtime.
    events: std::sync::Mutex<Option<mpsc::Sender<RunEvent>>>,
}

impl Runtime for Anything {
    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            runtime_id: "nowhere".parse().unwrap(),
            runtime_type: "anything".parse().unwrap(),
            max_dmips: None,
            allowed_dmips: None,
            total_ram: None,
            allowed_ram: None,
            max_instances: 1,
            os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
            arch_info: ArchInfo::new("amd64", "").unwrap(),
        }
    }

    fn adopt(
        &self,
        _: Vec<InstanceIdent>,
        _: Duration,
    ) -> BoxFuture<'_, Result<Vec<Adopted>, AdoptError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn prepare(&self, _: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn start(&self, _: Arc<InstanceSpec>, _: RunId) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn stop(&self, _: InstanceIdent, _: Duration) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async { Ok(()) })
    }

    fn place(&self, _: &InstanceIdent, _: RunId) -> Option<RunPlace> {
        None
    }

    fn events(&self) -> mpsc::Receiver<RunEvent> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        *self.events.lock().unwrap() = Some(sender);
        events
    }
}

/// Images of items that may be on their own for a moment.
#[derive(Debug)]
struct Limited;

impl Images for Limited {
    fn install(&self, _: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        let item_config = ItemConfig {
            offline_ttl: Some(Duration::from_millis(300)),
            ..ItemConfig::default()
        };
        Box::pin(async {
            Ok(InstalledImage {
                paths: ImagePaths { layers: Vec::new() },
                image_config: ImageConfig::default(),
                item_config,
            })
        })
    }

    fn installed(&self, _: Digest) -> BoxFuture<'_, Option<InstalledImage>> {
        Box::pin(async { None })
    }

    fn keep(&self, _: BTreeSet<Digest>) {}
}

/// Waits until the one instance is like this.
async fn wait_until(launcher: &Launcher, wanted: InstanceState) {
    let look = async {
        loop {
            let all = launcher.snapshot().await.expect("the launcher lives");
            if all.iter().any(|it| it.state == wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let seen = tokio::time::timeout(TIME, look).await;
    assert!(seen.is_ok(), "it never was {wanted:?}");
}

fn cloud(state: wire::ConnectionEnum) -> In {
    In::ConnectionStatus(wire::ConnectionStatus {
        cloud_status: state.into(),
    })
}

#[tokio::test]
async fn under_a_controller_without_a_cloud_the_stream_is_what_counts() {
    let mut rig = rig_with(vec![Arc::new(Anything::default())], Arc::new(Limited)).await;
    let node = rig.nodes.recv().await.expect("a node");
    node.command(cloud(wire::ConnectionEnum::Disconnected))
        .await;
    node.command(update(&["one"])).await;
    wait_until(&rig.launcher, InstanceState::Active).await;
    let address = rig.server.address();
    drop(node);
    rig.server.shutdown().await;
    wait_until(&rig.launcher, InstanceState::Inactive).await;
    // A controller that has nothing to say is there all the same.
    rig.server = serve(address, rig.nodes_in.clone()).await;
    let _node = rig.nodes.recv().await.expect("it comes again");
    wait_until(&rig.launcher, InstanceState::Active).await;
    rig.link.stop().await;
}

#[tokio::test]
async fn under_a_controller_with_a_cloud_the_cloud_is_what_counts() {
    let mut rig = rig_with(vec![Arc::new(Anything::default())], Arc::new(Limited)).await;
    let node = rig.nodes.recv().await.expect("a node");
    node.command(cloud(wire::ConnectionEnum::Connected)).await;
    node.command(update(&["one"])).await;
    wait_until(&rig.launcher, InstanceState::Active).await;
    node.command(cloud(wire::ConnectionEnum::Disconnected))
        .await;
    wait_until(&rig.launcher, InstanceState::Inactive).await;
    node.command(cloud(wire::ConnectionEnum::Connected)).await;
    wait_until(&rig.launcher, InstanceState::Active).await;
    rig.link.stop().await;
    rig.server.shutdown().await;
}
