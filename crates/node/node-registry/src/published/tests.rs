use std::time::Duration;

use muster_api::domain::NodeState;
use proptest::prelude::*;
use tokio::time::timeout;

use super::*;
use crate::record::Connection;
use crate::samples::{id, node};

fn record(name: &str, version: u64) -> NodeRecord {
    let mut info = node(name, NodeState::Provisioned);
    info.max_dmips = version;
    NodeRecord {
        info: Arc::new(info),
        connection: Connection::Connected,
    }
}

fn changed(name: &str, version: u64) -> Publication {
    Publication::Changed(record(name, version))
}

fn rest(changes: &mut NodeChanges) -> Vec<(String, u64)> {
    std::iter::from_fn(|| changes.try_next())
        .map(|record| (record.info.node_id.to_string(), record.info.max_dmips))
        .collect()
}

#[test]
fn a_subscriber_gets_every_node_and_then_the_latest_of_those_that_changed() {
    let (publisher, published) = published([record("a", 1), record("b", 1)].into_iter());
    let mut changes = published.subscribe();
    let told = |changes: &[(&str, u64)]| -> Vec<(String, u64)> {
        changes
            .iter()
            .map(|(name, version)| ((*name).to_owned(), *version))
            .collect()
    };
    assert_eq!(rest(&mut changes), told(&[("a", 1), ("b", 1)]));
    for version in 2..100 {
        publisher.publish(vec![changed("b", version), changed("c", version)]);
    }
    publisher.publish(vec![Publication::Forgotten(id("a"))]);
    assert_eq!(rest(&mut changes), told(&[("b", 99), ("c", 99)]));
    assert_eq!(rest(&mut changes), []);
    assert_eq!(published.ids(), [id("b"), id("c")]);
    assert_eq!(published.get("b"), Some(record("b", 99)));
    assert_eq!(published.get("a"), None);
    assert_eq!(
        rest(&mut published.subscribe()),
        told(&[("b", 99), ("c", 99)])
    );
}

#[tokio::test]
async fn a_subscriber_wakes_for_changes_and_for_the_end() {
    let (publisher, published) = published([record("a", 1)].into_iter());
    let mut changes = published.subscribe();
    let soon = Duration::from_secs(20);
    assert_eq!(
        timeout(soon, changes.next()).await,
        Ok(Some(record("a", 1)))
    );
    let waiting = tokio::spawn(async move {
        let first = changes.next().await;
        (first, changes.next().await)
    });
    publisher.publish(vec![changed("a", 2)]);
    // What was told before the end still arrives.
    drop(publisher);
    let told = timeout(soon, waiting).await.unwrap().unwrap();
    assert_eq!(told, (Some(record("a", 2)), None));
}

proptest! {
    /// However often a reader looks, it sees a node's states in order and never misses the last.
    #[test]
    fn nobody_misses_the_final_state(
        steps in prop::collection::vec((0_usize..3, prop::option::of(0_usize..3)), 0..60),
    ) {
        let (publisher, published) = published(std::iter::empty());
        let mut readers: Vec<(NodeChanges, BTreeMap<String, u64>)> =
            (0..3).map(|_| (published.subscribe(), BTreeMap::new())).collect();
        let names = ["a", "b", "c"];
        let mut last = BTreeMap::new();
        let look = |reader: &mut (NodeChanges, BTreeMap<String, u64>)| {
            for (name, version) in rest(&mut reader.0) {
                let before = reader.1.insert(name, version);
                assert!(before < Some(version), "an old state after a newer one");
            }
        };
        for (version, (name, reader)) in (1..).zip(steps) {
            publisher.publish(vec![changed(names[name], version)]);
            last.insert(names[name].to_owned(), version);
            if let Some(reader) = reader {
                look(&mut readers[reader]);
            }
        }
        for mut reader in readers {
            look(&mut reader);
            prop_assert_eq!(&reader.1, &last);
        }
    }
}
