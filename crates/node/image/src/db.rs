//! What the store remembers: its schema and statements.

use std::collections::BTreeSet;

use muster_api::domain::Digest;
use muster_store::rusqlite::{self, Connection, Row};
use muster_store::{Migration, Schema, Step};

use crate::inventory::{GcPlan, Inventory, ItemRecord, LayerRecord};

/// What an image store keeps in the daemon's database.
pub static SCHEMA: Schema = Schema::new(
    "image",
    &[Migration {
        number: 1,
        name: "blobs, layers, items",
        step: Step::Sql(
            "CREATE TABLE image_blobs (digest TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
             CREATE TABLE image_layers (
                 digest TEXT PRIMARY KEY, diff_id TEXT NOT NULL, bytes INTEGER NOT NULL, seal BLOB NOT NULL
             ) STRICT;
             CREATE TABLE image_items (
                 digest TEXT PRIMARY KEY, manifest TEXT NOT NULL, complete INTEGER NOT NULL, removed_at INTEGER
             ) STRICT;
             CREATE TABLE image_uses (
                 item TEXT NOT NULL REFERENCES image_items ON DELETE CASCADE,
                 kind TEXT NOT NULL CHECK (kind IN ('blob', 'layer')),
                 digest TEXT NOT NULL,
                 PRIMARY KEY (item, kind, digest)
             ) STRICT, WITHOUT ROWID;",
        ),
    }],
);

/// Reads everything. A row that makes no sense is left out: what it speaks of is then not there, and is fetched again.
pub(crate) fn load(db: &Connection) -> rusqlite::Result<Inventory> {
    let mut inventory = Inventory::default();
    each(db, "SELECT digest, bytes FROM image_blobs", |row| {
        if let Some(digest) = digest(row, 0)? {
            inventory.blobs.insert(digest, bytes(row, 1)?);
        }
        Ok(())
    })?;
    let layers = "SELECT digest, diff_id, bytes, seal FROM image_layers";
    each(db, layers, |row| {
        let seal = <[u8; 32]>::try_from(row.get::<_, Vec<u8>>(3)?);
        if let (Some(digest), Some(diff_id), Ok(seal)) = (digest(row, 0)?, digest(row, 1)?, seal) {
            let bytes = bytes(row, 2)?;
            let layer = LayerRecord {
                diff_id,
                bytes,
                seal,
            };
            inventory.layers.insert(digest, layer);
        }
        Ok(())
    })?;
    let items = "SELECT digest, manifest, complete, removed_at FROM image_items";
    each(db, items, |row| {
        if let (Some(digest), Some(manifest)) = (digest(row, 0)?, digest(row, 1)?) {
            let item = ItemRecord {
                manifest,
                is_complete: row.get(2)?,
                removed_at: row.get(3)?,
                blobs: BTreeSet::new(),
                layers: BTreeSet::new(),
            };
            inventory.items.insert(digest, item);
        }
        Ok(())
    })?;
    each(db, "SELECT item, kind, digest FROM image_uses", |row| {
        if let (Some(item), Some(used)) = (digest(row, 0)?, digest(row, 2)?)
            && let Some(item) = inventory.items.get_mut(&item)
        {
            match row.get::<_, String>(1)?.as_str() {
                "layer" => item.layers.insert(used),
                _ => item.blobs.insert(used),
            };
        }
        Ok(())
    })?;
    Ok(inventory)
}

fn each(
    db: &Connection,
    query: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = db.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Digest>> {
    Ok(row
        .get_ref(column)?
        .as_str()
        .ok()
        .and_then(|text| text.parse().ok()))
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// SQLite's integers are signed; no disk holds more than they can say.
fn stored(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(crate) fn put_blob(db: &Connection, digest: &Digest, bytes: u64) -> rusqlite::Result<()> {
    db.execute(
        "INSERT OR REPLACE INTO image_blobs VALUES (?1, ?2)",
        (digest.to_string(), stored(bytes)),
    )
    .map(drop)
}

pub(crate) fn put_layer(
    db: &Connection,
    digest: &Digest,
    layer: &LayerRecord,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT OR REPLACE INTO image_layers VALUES (?1, ?2, ?3, ?4)",
        (
            digest.to_string(),
            layer.diff_id.to_string(),
            stored(layer.bytes),
            layer.seal.as_slice(),
        ),
    )
    .map(drop)
}

pub(crate) fn put_item(
    db: &Connection,
    digest: &Digest,
    item: &ItemRecord,
) -> rusqlite::Result<()> {
    let name = digest.to_string();
    db.execute(
        "INSERT INTO image_items VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (digest) DO UPDATE SET manifest = ?2, complete = ?3, removed_at = ?4",
        (
            &name,
            item.manifest.to_string(),
            item.is_complete,
            item.removed_at.map(stored),
        ),
    )?;
    db.execute("DELETE FROM image_uses WHERE item = ?1", [&name])?;
    let mut use_of = db.prepare("INSERT INTO image_uses VALUES (?1, ?2, ?3)")?;
    let blobs = item.blobs.iter().map(|digest| ("blob", digest));
    let layers = item.layers.iter().map(|digest| ("layer", digest));
    for (kind, used) in blobs.chain(layers) {
        use_of.execute((&name, kind, used.to_string()))?;
    }
    Ok(())
}

pub(crate) fn set_removed(
    db: &Connection,
    digest: &Digest,
    removed_at: Option<u64>,
) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE image_items SET removed_at = ?2 WHERE digest = ?1",
        (digest.to_string(), removed_at.map(stored)),
    )
    .map(drop)
}

/// Forgets what goes.
pub(crate) fn forget(db: &Connection, plan: &GcPlan) -> rusqlite::Result<()> {
    for digest in &plan.items {
        let name = digest.to_string();
        db.execute("DELETE FROM image_uses WHERE item = ?1", [&name])?;
        db.execute("DELETE FROM image_items WHERE digest = ?1", [&name])?;
    }
    for digest in &plan.blobs {
        forget_blob(db, digest)?;
    }
    for digest in &plan.layers {
        forget_layer(db, digest)?;
    }
    Ok(())
}

pub(crate) fn forget_blob(db: &Connection, digest: &Digest) -> rusqlite::Result<()> {
    let name = digest.to_string();
    db.execute("DELETE FROM image_blobs WHERE digest = ?1", [name])
        .map(drop)
}

pub(crate) fn forget_layer(db: &Connection, digest: &Digest) -> rusqlite::Result<()> {
    let name = digest.to_string();
    db.execute("DELETE FROM image_layers WHERE digest = ?1", [name])
        .map(drop)
}

#[cfg(test)]
mod tests;
