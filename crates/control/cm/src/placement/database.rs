//! What plans have given out, on disk before it is acted upon.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::common::v2 as common;
use muster_api::domain::{InstanceIdent, NetworkId};
use muster_store::rusqlite::OptionalExtension as _;
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message as _;

use super::plan::Books;
use crate::names::{NetworkHosts, UnitHosts};

/// The table of what plans have given out.
pub(crate) static SCHEMA: Schema = Schema::new(
    "cm-placement",
    &[
        Migration {
            number: 1,
            name: "what plans have given out",
            step: Step::Sql(
                "CREATE TABLE cm_books (
                 only INTEGER PRIMARY KEY CHECK (only = 1),
                 ledger TEXT NOT NULL,
                 allocations TEXT NOT NULL
             ) STRICT;
             CREATE TABLE cm_retired (instance BLOB PRIMARY KEY, since INTEGER NOT NULL) STRICT",
            ),
        },
        Migration {
            number: 2,
            name: "names of instances",
            step: Step::Sql(
                "CREATE TABLE cm_names (network TEXT PRIMARY KEY, subnet TEXT NOT NULL, hosts TEXT NOT NULL) STRICT",
            ),
        },
    ],
);

/// Why what was given out is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadBooksError {
    /// The database fails.
    #[error("cannot read what plans have given out")]
    Store(#[source] StoreError),
    /// The text makes no sense: going on would give the same users and addresses to others.
    #[error("cannot understand what plans have given out ({what})")]
    Text {
        /// Which part.
        what: &'static str,
        /// Where it breaks.
        source: serde_json::Error,
    },
}

/// Nothing was given out before the first plan.
pub(super) async fn load(store: &Store) -> Result<Books, LoadBooksError> {
    let rows = store.read(|db| {
        let sql = "SELECT ledger, allocations FROM cm_books";
        let texts = db.query_row(sql, [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        let texts = texts.optional()?;
        let mut query = db.prepare("SELECT instance, since FROM cm_retired")?;
        let retired = query.query_map([], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?))
        })?;
        let retired: Vec<(Vec<u8>, i64)> = retired.collect::<Result<_, _>>()?;
        Ok((texts, retired))
    });
    let (texts, retired) = rows.await.map_err(LoadBooksError::Store)?;
    let mut books = Books::default();
    if let Some((ledger, allocations)) = texts {
        let broken = |what| move |source| LoadBooksError::Text { what, source };
        books.ledger = serde_json::from_str(&ledger).map_err(broken("users and groups"))?;
        books.allocations = serde_json::from_str(&allocations).map_err(broken("networks"))?;
    }
    let retired = retired.into_iter().filter_map(|(instance, since)| {
        let wire = common::InstanceIdent::decode(&*instance).ok()?;
        Some((
            InstanceIdent::try_from(wire).ok()?,
            u64::try_from(since).ok()?,
        ))
    });
    books.retired = retired.collect();
    Ok(books)
}

/// All of it at once.
pub(super) async fn save(store: &Store, books: &Books) -> Result<(), StoreError> {
    let ledger = serde_json::to_string(&books.ledger).expect("a ledger is text");
    let allocations = serde_json::to_string(&books.allocations).expect("allocations are text");
    let retired = encoded(&books.retired);
    let write = store.write(move |db| {
        let sql = "INSERT OR REPLACE INTO cm_books VALUES (1, ?1, ?2)";
        db.execute(sql, (&ledger, &allocations))?;
        db.execute("DELETE FROM cm_retired", [])?;
        let mut insert = db.prepare("INSERT INTO cm_retired VALUES (?1, ?2)")?;
        for row in &retired {
            insert.execute((&row.0, row.1))?;
        }
        Ok(())
    });
    write.await
}

/// The names of the last plan. What makes no sense is left out: the next plan says it again.
pub(super) async fn load_names(store: &Store) -> Result<UnitHosts, StoreError> {
    let rows = store.read(|db| {
        let mut query = db.prepare("SELECT network, subnet, hosts FROM cm_names")?;
        let rows = query.query_map([], |row| {
            let text = |at| row.get::<_, String>(at);
            Ok((text(0)?, text(1)?, text(2)?))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    let read = |(network, subnet, hosts): (String, String, String)| {
        let hosts = NetworkHosts {
            subnet: subnet.parse().ok()?,
            hosts: serde_json::from_str(&hosts).ok()?,
        };
        Some((NetworkId::new(&network).ok()?, hosts))
    };
    Ok(rows.await?.into_iter().filter_map(read).collect())
}

/// All of them at once; networks that have not changed cost no write.
pub(super) async fn save_names(store: &Store, networks: UnitHosts) -> Result<(), StoreError> {
    let write = store.write(move |db| {
        let sql = "INSERT INTO cm_names VALUES (?1, ?2, ?3) ON CONFLICT (network) DO UPDATE
                   SET subnet = excluded.subnet, hosts = excluded.hosts
                   WHERE subnet <> excluded.subnet OR hosts <> excluded.hosts";
        let mut put = db.prepare(sql)?;
        for (network, it) in &networks {
            let hosts = serde_json::to_string(&it.hosts).expect("names are text");
            put.execute((network.as_str(), it.subnet.to_string(), hosts))?;
        }
        let mut known = db.prepare("SELECT network FROM cm_names")?;
        let known: Vec<String> = known
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let now: BTreeSet<&str> = networks.keys().map(NetworkId::as_str).collect();
        for network in known.iter().filter(|it| !now.contains(it.as_str())) {
            db.execute("DELETE FROM cm_names WHERE network = ?1", [network])?;
        }
        Ok(())
    });
    write.await
}

fn encoded(retired: &BTreeMap<InstanceIdent, u64>) -> Vec<(Vec<u8>, i64)> {
    let row = |(instance, since): (&InstanceIdent, &u64)| {
        let wire = common::InstanceIdent::from(instance.clone());
        (
            wire.encode_to_vec(),
            i64::try_from(*since).unwrap_or(i64::MAX),
        )
    };
    retired.iter().map(row).collect()
}
