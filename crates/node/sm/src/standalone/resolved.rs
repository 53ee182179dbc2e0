//! What names of images in registries have led to, for a start while the registry is away.

use std::collections::BTreeMap;

use muster_api::domain::Digest;
use muster_store::{Store, StoreError};

/// Digests by name.
pub(super) type Resolved = BTreeMap<String, Digest>;

pub(super) async fn load(store: &Store) -> Result<Resolved, StoreError> {
    let read = store.read(|db| {
        let mut rows = db.prepare("SELECT reference, digest FROM standalone_images")?;
        let rows = rows.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    let rows = read.await?;
    let known = rows.into_iter();
    // What cannot be read is asked for again.
    Ok(known
        .filter_map(|(reference, digest)| Some((reference, digest.parse().ok()?)))
        .collect())
}

/// Keeps these, and none before.
pub(super) async fn save(store: &Store, resolved: Resolved) -> Result<(), StoreError> {
    let write = store.write(move |db| {
        db.execute("DELETE FROM standalone_images", [])?;
        let insert = "INSERT INTO standalone_images VALUES (?1, ?2)";
        resolved.iter().try_for_each(|(reference, digest)| {
            db.execute(insert, (reference, digest.to_string()))
                .map(drop)
        })
    });
    write.await
}
