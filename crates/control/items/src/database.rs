//! Which item is which index.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::Digest;
use muster_desired::{Document, Item, ItemEntry};
use muster_store::rusqlite::Connection;
use muster_store::{Migration, Schema, Step, Store, StoreError};

/// What the keeper of items keeps in the daemon's database, beside [`muster_image::SCHEMA`].
pub static SCHEMA: Schema = Schema::new(
    "items",
    &[Migration {
        number: 1,
        name: "items and their indexes",
        // An item is written as an entry of a document: a source is a part of what it is.
        step: Step::Sql(
            "CREATE TABLE items_known (item TEXT PRIMARY KEY, digest TEXT NOT NULL) STRICT",
        ),
    }],
);

/// All items. A row that makes no sense is left out: the item is then looked up again.
pub(crate) async fn load(db: &Store) -> Result<BTreeMap<Item, Digest>, StoreError> {
    let rows: Vec<(String, String)> = db
        .read(|db: &Connection| {
            let mut query = db.prepare("SELECT item, digest FROM items_known")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .await?;
    let known = rows.iter();
    Ok(known
        .filter_map(|(item, digest)| Some((read(item)?, digest.parse().ok()?)))
        .collect())
}

pub(crate) async fn save(db: &Store, item: &Item, digest: Digest) -> Result<(), StoreError> {
    let row = (write(item), digest.to_string());
    let sql = "INSERT OR REPLACE INTO items_known (item, digest) VALUES (?1, ?2)";
    db.write(move |db: &Connection| db.execute(sql, row).map(drop))
        .await
}

pub(crate) async fn forget(db: &Store, items: &BTreeSet<Item>) -> Result<(), StoreError> {
    let rows: Vec<String> = items.iter().map(write).collect();
    let sql = "DELETE FROM items_known WHERE item = ?1";
    let forget = move |db: &Connection| {
        rows.iter()
            .try_for_each(|row| db.execute(sql, [row]).map(drop))
    };
    db.write(forget).await
}

fn write(item: &Item) -> String {
    serde_json::to_string(&ItemEntry::from(item))
        .expect("an entry of texts and lists can be written")
}

fn read(text: &str) -> Option<Item> {
    let entry: ItemEntry = serde_json::from_str(text).ok()?;
    let document = Document {
        items: vec![entry],
        ..Document::default()
    };
    let desired = document.check().ok()?;
    desired.items().values().next().cloned()
}
