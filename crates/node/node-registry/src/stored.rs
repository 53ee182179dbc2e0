//! The nodes in the database.

use std::time::{Duration, SystemTime};

use muster_api::domain::{ConvertError, NodeId, NodeInfo};
use muster_api::iamanager::v6 as wire;
use muster_store::rusqlite::{Connection as Database, params};
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message as _;

use crate::fault;
use crate::record::{Connection, NodeRecord};
use crate::table::Batch;

/// The tables of the registry, for the store that it is opened with.
pub static SCHEMA: Schema = Schema::new(
    "node_registry",
    &[Migration {
        number: 1,
        name: "nodes",
        // `info` is the node's last description as an encoded `NodeInfo`; `since` is when the
        // connection state last changed, in seconds of Unix time.
        step: Step::Sql(
            "CREATE TABLE node_registry_nodes (
                 id TEXT PRIMARY KEY,
                 info BLOB NOT NULL,
                 connected INTEGER NOT NULL CHECK (connected IN (0, 1)),
                 since INTEGER NOT NULL
             ) STRICT, WITHOUT ROWID",
        ),
    }],
);

/// Why the stored nodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadNodesError {
    /// The database does not give them.
    #[error("cannot read the stored nodes")]
    Store(#[source] StoreError),
    /// What is stored of a node is no encoded description.
    #[error("the stored description of node {node:?} cannot be decoded")]
    Decode {
        /// The node.
        node: String,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// What is stored of a node is no valid description.
    #[error("the stored description of node {node:?} is invalid")]
    Invalid {
        /// The node.
        node: String,
        /// What is wrong.
        source: ConvertError,
    },
}

/// Reads every node but `local`, which describes itself. Streams do not outlive the process, so
/// whoever was connected when it ended is not any more, `now`.
pub(crate) async fn load(
    store: &Store,
    local: &NodeId,
    now: SystemTime,
) -> Result<Vec<(NodeInfo, SystemTime)>, LoadNodesError> {
    let (local, now) = (local.to_string(), to_unix(now));
    let rows: Vec<(String, Vec<u8>, i64)> = store
        .write(move |db| {
            db.execute("DELETE FROM node_registry_nodes WHERE id = ?1", [&local])?;
            db.execute(
                "UPDATE node_registry_nodes SET connected = 0, since = ?1 WHERE connected = 1",
                [now],
            )?;
            db.prepare("SELECT id, info, since FROM node_registry_nodes")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .await
        .map_err(LoadNodesError::Store)?;
    rows.into_iter()
        .map(|(node, info, since)| {
            let info = wire::NodeInfo::decode(info.as_slice());
            let info = info.map_err(|source| LoadNodesError::Decode {
                node: node.clone(),
                source,
            })?;
            let info = NodeInfo::try_from(info)
                .map_err(|source| LoadNodesError::Invalid { node, source })?;
            Ok((info, from_unix(since)))
        })
        .collect()
}

/// Stores a batch; all of it or nothing.
pub(crate) async fn save(store: Store, batch: Batch, now: SystemTime) -> Result<(), StoreError> {
    muster_fault::hit(fault::BEFORE_WRITE);
    if !(batch.store.is_empty() && batch.forget.is_empty()) {
        store.write(move |db| write(db, &batch, now)).await?;
    }
    muster_fault::hit(fault::WRITTEN);
    Ok(())
}

fn write(db: &Database, batch: &Batch, now: SystemTime) -> muster_store::rusqlite::Result<()> {
    let mut remove = db.prepare("DELETE FROM node_registry_nodes WHERE id = ?1")?;
    for id in &batch.forget {
        remove.execute([id.as_str()])?;
    }
    let mut keep = db.prepare(
        "INSERT INTO node_registry_nodes (id, info, connected, since) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (id) DO UPDATE SET info = ?2, since = CASE connected WHEN ?3 THEN since ELSE ?4 END,
             connected = ?3",
    )?;
    for NodeRecord { info, connection } in &batch.store {
        let (connected, since) = match connection {
            Connection::Connected => (true, now),
            Connection::Disconnected { since } => (false, *since),
        };
        let encoded = wire::NodeInfo::from(NodeInfo::clone(info)).encode_to_vec();
        keep.execute(params![
            info.node_id.as_str(),
            encoded,
            connected,
            to_unix(since)
        ])?;
    }
    Ok(())
}

/// Whole seconds; a clock that is set before 1970 counts as 1970.
fn to_unix(time: SystemTime) -> i64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn from_unix(seconds: i64) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    SystemTime::UNIX_EPOCH
        .checked_add(seconds)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
