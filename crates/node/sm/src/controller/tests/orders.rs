//! Networks that take their time.

use tokio::sync::Semaphore;

use super::*;

/// Networks that are made when the test says so, and say when they begin.
#[derive(Debug)]
struct Slow {
    begun: mpsc::Sender<Vec<String>>,
    done: Arc<Semaphore>,
}

impl Networks for Slow {
    fn update(&self, networks: wire::UpdateNetworks) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let ids = networks.networks.into_iter().map(|it| it.network_id);
            self.begun.send(ids.collect()).await.unwrap();
            self.done.acquire().await.unwrap().forget();
        })
    }
}

fn networks(id: &str) -> In {
    let network = wire::UpdateNetworkParameters {
        network_id: id.into(),
        ..wire::UpdateNetworkParameters::default()
    };
    In::UpdateNetworks(wire::UpdateNetworks {
        networks: vec![network],
    })
}

#[tokio::test]
async fn networks_that_hang_hold_up_the_newest_set_and_no_answer() {
    let (begun, mut begins) = mpsc::channel(4);
    let done = Arc::new(Semaphore::new(0));
    let slow = Slow {
        begun,
        done: done.clone(),
    };
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, task) = rig_of(folder, Vec::new(), Arc::new(NoImages), Arc::new(slow)).await;
    tokio::spawn(task);
    let mut node = rig.nodes.recv().await.expect("a node");
    assert!(matches!(node.next().await, Out::SmInfo(_)));
    assert!(all_statuses(&mut node).await.is_empty());

    node.command(networks("first")).await;
    assert_eq!(begins.recv().await.unwrap(), ["first"]);
    for number in 0..20 {
        node.command(networks(&format!("net{number}"))).await;
        node.command(update(&[&format!("item{number}")])).await;
    }
    // Everything else is answered, and nothing is said of a set whose networks are not there.
    let config = wire::CheckNodeConfig {
        node_config: "{}".into(),
        version: "2.0.0".into(),
    };
    node.command(In::CheckNodeConfig(config)).await;
    node.command(In::GetAverageMonitoring(wire::GetAverageMonitoring {}))
        .await;
    assert!(matches!(node.next().await, Out::NodeConfigStatus(it) if it.version == "2.0.0"));
    assert!(matches!(node.next().await, Out::AverageMonitoring(_)));

    // Of all that came meanwhile the last counts, networks first.
    done.add_permits(1);
    assert_eq!(begins.recv().await.unwrap(), ["net19"]);
    done.add_permits(1);
    loop {
        match node.next().await {
            Out::UpdateInstancesStatus(changed) => {
                for status in changed.instances {
                    assert_eq!(status.instance.unwrap_or_default().item_id, "item19");
                }
            }
            Out::NodeInstancesStatus(all) if all.instances.len() == 1 => break,
            _ => {}
        }
    }
    assert!(begins.try_recv().is_err());
    rig.link.stop().await;
    rig.server.shutdown().await;
}
