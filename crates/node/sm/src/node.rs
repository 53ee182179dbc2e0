//! Who this node is, remembered from the last time that the identity manager said so.
//!
//! Instances are started again after a reboot whether or not the identity manager is up by then. What they need of the node
//! (its id, from which the ids of its runtimes follow, its power and its platform) changes rarely, so the last answer holds until
//! there is a new one.

use muster_api::domain::NodeInfo;
use muster_api::iamanager::v6 as wire;
use muster_store::rusqlite::OptionalExtension as _;
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message as _;

/// What is remembered of the node.
pub(crate) static SCHEMA: Schema = Schema::new(
    "node",
    &[Migration {
        number: 1,
        name: "who this node is",
        step: Step::Sql(
            "CREATE TABLE node_info (only INTEGER PRIMARY KEY CHECK (only = 1), record BLOB NOT NULL) STRICT;",
        ),
    }],
);

/// What was last said. A record that makes no sense is none: the identity manager is asked then.
pub(crate) async fn recall(store: &Store) -> Result<Option<NodeInfo>, StoreError> {
    let record = store.read(|db| {
        db.query_row("SELECT record FROM node_info", [], |row| {
            row.get::<_, Vec<u8>>(0)
        })
        .optional()
    });
    let Some(record) = record.await? else {
        return Ok(None);
    };
    let node = wire::NodeInfo::decode(&*record)
        .ok()
        .and_then(|wire| NodeInfo::try_from(wire).ok());
    if node.is_none() {
        tracing::warn!("what is remembered of this node makes no sense and is not used");
    }
    Ok(node)
}

/// Keeps an answer for the next start.
pub(crate) async fn remember(store: &Store, node: NodeInfo) -> Result<(), StoreError> {
    let record = wire::NodeInfo::from(node).encode_to_vec();
    let write = store.write(move |db| {
        db.execute("INSERT OR REPLACE INTO node_info VALUES (1, ?1)", [&record])?;
        Ok(())
    });
    write.await
}

/// Whether the runtimes of both are the same. Its state, partitions and properties change nothing about them.
pub(crate) fn runs_the_same(one: &NodeInfo, other: &NodeInfo) -> bool {
    let of = |node: &NodeInfo| {
        (
            node.node_id.clone(),
            node.os_info.clone(),
            node.cpus.clone(),
            node.max_dmips,
            node.total_ram,
        )
    };
    of(one) == of(other)
}

#[cfg(test)]
pub(crate) mod tests {
    use muster_api::domain::{NodeState, NodeType};
    use muster_nodeinfo::{NodeFacts, Options};
    use muster_store::testing::check_upgrades;
    use muster_store::{OnDamage, StoreConfig};

    use super::*;

    #[test]
    fn every_released_version_can_be_upgraded() {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/node");
        check_upgrades(
            &SCHEMA,
            &fixtures,
            |db| {
                let sql = "INSERT INTO node_info VALUES (1, x'0a01')";
                db.execute(sql, []).map(drop)
            },
            |db, version| {
                let sql = "SELECT record FROM node_info";
                let found: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).expect("the row");
                assert_eq!(found, [0x0a, 1], "version {version}");
            },
        );
    }

    pub(crate) fn this() -> NodeInfo {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id");
        std::fs::write(&id, "node-7").unwrap();
        let mut options = Options::new(NodeType::new("test").unwrap());
        options.node_id_path = id;
        options.max_dmips = std::num::NonZeroU64::new(1000);
        let facts = NodeFacts::gather(&options).unwrap();
        facts.node_info(NodeState::Provisioned, None)
    }

    #[tokio::test]
    async fn an_answer_is_there_at_the_next_start_and_a_broken_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        assert_eq!(recall(&store).await.unwrap(), None);
        remember(&store, this()).await.unwrap();
        let mut renamed = this();
        renamed.title = "another".into();
        remember(&store, renamed.clone()).await.unwrap();
        assert_eq!(recall(&store).await.unwrap(), Some(renamed));
        let broken = store.write(|db| db.execute("UPDATE node_info SET record = x'ffff'", []));
        broken.await.unwrap();
        assert_eq!(recall(&store).await.unwrap(), None);
    }

    #[test]
    fn a_node_is_another_one_when_its_runtimes_would_be() {
        let (one, mut other) = (this(), this());
        other.state = NodeState::Paused;
        other.attrs.insert("a".into(), "b".into());
        assert!(runs_the_same(&one, &other));
        other.total_ram += 1;
        assert!(!runs_the_same(&one, &other));
    }
}
