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

#[cfg(test)]
mod tests {
    use muster_store::{OnDamage, StoreConfig};

    use super::super::ids::SCHEMA;
    use super::*;

    #[tokio::test]
    async fn what_registries_said_last_is_kept_and_nothing_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("node.db"), "test", OnDamage::Refuse);
        let open = || Store::open(&config.clone().schema(&SCHEMA)).unwrap().store;
        let said = |names: &[(&str, u8)]| -> Resolved {
            let names = names.iter();
            names
                .map(|(name, byte)| ((*name).to_owned(), Digest::from_sha256([*byte; 32])))
                .collect()
        };
        let store = open();
        assert_eq!(load(&store).await.unwrap(), Resolved::new());
        let first = said(&[("host/web:1", 1), ("host/db:2", 2)]);
        save(&store, first.clone()).await.unwrap();
        drop(store);
        let store = open();
        assert_eq!(load(&store).await.unwrap(), first, "it outlives a restart");
        let second = said(&[("host/web:1", 3)]);
        save(&store, second.clone()).await.unwrap();
        assert_eq!(load(&store).await.unwrap(), second);
    }

    #[tokio::test]
    async fn a_digest_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("node.db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let web = Digest::from_sha256([1; 32]);
        save(&store, Resolved::from([("host/web:1".to_owned(), web)]))
            .await
            .unwrap();
        let damage = store.write(|db| {
            let sql = "INSERT INTO standalone_images VALUES ('host/db:2', 'no digest')";
            db.execute(sql, []).map(drop)
        });
        damage.await.unwrap();
        let known = load(&store).await.unwrap();
        assert_eq!(known, Resolved::from([("host/web:1".to_owned(), web)]));
    }
}
