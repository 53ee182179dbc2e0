//! Nodes as they were last described, so that a daemon that starts knows those that are away.

use muster_api::domain::{NodeId, NodeInfo, SmInfo};
use muster_api::iamanager::v6 as iam;
use muster_api::servicemanager::v5 as sm;
use muster_store::rusqlite::params;
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message as _;

use super::table::NodeRecord;

/// The table of nodes.
pub(crate) static SCHEMA: Schema = Schema::new(
    "cm-nodes",
    &[Migration {
        number: 1,
        name: "nodes",
        step: Step::Sql(
            "CREATE TABLE cm_nodes (
                 node TEXT PRIMARY KEY,
                 iam BLOB,
                 sm BLOB,
                 paused INTEGER NOT NULL
             ) STRICT",
        ),
    }],
);

/// A row, before anything is made of it.
type Row = (String, Option<Vec<u8>>, Option<Vec<u8>>, bool);

/// What is kept. A description that makes no sense is none: its source gives it again.
pub(super) async fn load(store: &Store) -> Result<Vec<(NodeId, NodeRecord)>, StoreError> {
    let rows: Vec<Row> = store
        .read(|db| {
            let mut query = db.prepare("SELECT node, iam, sm, paused FROM cm_nodes")?;
            let rows = query.query_map([], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            rows.collect()
        })
        .await?;
    Ok(rows.into_iter().filter_map(record).collect())
}

fn record((node, info, manager, paused): Row) -> Option<(NodeId, NodeRecord)> {
    let info = info.and_then(|it| {
        let wire = iam::NodeInfo::decode(&*it).ok()?;
        NodeInfo::try_from(wire).ok()
    });
    let manager = manager.and_then(|it| {
        let wire = sm::SmInfo::decode(&*it).ok()?;
        SmInfo::try_from(wire).ok()
    });
    let record = NodeRecord {
        info,
        sm: manager,
        paused,
        ..NodeRecord::default()
    };
    Some((node.parse().ok()?, record))
}

/// Keeps a node as it is, or forgets it.
pub(super) async fn save(
    store: &Store,
    node: &NodeId,
    record: Option<&NodeRecord>,
) -> Result<(), StoreError> {
    let name = node.to_string();
    let row = record.map(|record| {
        let info = record.info.clone();
        let info = info.map(|it| iam::NodeInfo::from(it).encode_to_vec());
        let manager = record.sm.clone();
        let manager = manager.map(|it| sm::SmInfo::from(it).encode_to_vec());
        (info, manager, record.paused)
    });
    let write = store.write(move |db| match row {
        Some((info, manager, paused)) => db.execute(
            "INSERT OR REPLACE INTO cm_nodes VALUES (?1, ?2, ?3, ?4)",
            params![name, info, manager, paused],
        ),
        None => db.execute("DELETE FROM cm_nodes WHERE node = ?1", [name]),
    });
    write.await.map(drop)
}
