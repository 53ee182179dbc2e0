//! Permissions that are still to be taken back, on disk: whoever had them is gone, and so may this daemon be soon.

use std::collections::BTreeSet;

use muster_api::common::v2 as common;
use muster_api::domain::InstanceIdent;
use muster_store::{Migration, Schema, Step, Store, StoreError};
use prost::Message as _;
use tokio::sync::{Mutex, Notify};

/// Whose permissions are to be taken back.
pub(crate) static SCHEMA: Schema = Schema::new(
    "permissions-owed",
    &[Migration {
        number: 1,
        name: "permissions to take back",
        step: Step::Sql("CREATE TABLE permissions_owed (ident BLOB PRIMARY KEY) STRICT;"),
    }],
);

/// The list. What it says is on disk when it answers.
#[derive(Debug)]
pub(super) struct Owed {
    store: Store,
    /// As on disk; not read yet, at first.
    known: Mutex<Option<BTreeSet<InstanceIdent>>>,
    /// Who is getting permissions anew: nothing is taken back from those, and it is held while something is, so that they keep them.
    pub(super) turn: Mutex<BTreeSet<InstanceIdent>>,
    /// There is more to take back.
    pub(super) news: Notify,
}

fn encode(instance: &InstanceIdent) -> Vec<u8> {
    common::InstanceIdent::from(instance.clone()).encode_to_vec()
}

/// What makes no sense is nobody's permission.
fn decode(record: &[u8]) -> Option<InstanceIdent> {
    let wire = common::InstanceIdent::decode(record).ok()?;
    InstanceIdent::try_from(wire).ok()
}

impl Owed {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            known: Mutex::new(None),
            turn: Mutex::new(BTreeSet::new()),
            news: Notify::new(),
        }
    }

    /// All of them, in order.
    pub(super) async fn all(&self) -> Result<BTreeSet<InstanceIdent>, StoreError> {
        let mut known = self.known.lock().await;
        self.read(&mut known).await.cloned()
    }

    async fn read<'a>(
        &self,
        known: &'a mut Option<BTreeSet<InstanceIdent>>,
    ) -> Result<&'a mut BTreeSet<InstanceIdent>, StoreError> {
        let read = match known.take() {
            Some(read) => read,
            None => {
                let rows = self.store.read(|db| {
                    let mut rows = db.prepare("SELECT ident FROM permissions_owed")?;
                    let rows = rows.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
                    rows.collect::<Result<Vec<_>, _>>()
                });
                rows.await?.iter().filter_map(|row| decode(row)).collect()
            }
        };
        Ok(known.insert(read))
    }

    /// This one's are to be taken back.
    pub(super) async fn add(&self, instance: &InstanceIdent) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        if self.read(&mut known).await?.contains(instance) {
            return Ok(());
        }
        let record = encode(instance);
        let write = self.store.write(move |db| {
            db.execute(
                "INSERT OR REPLACE INTO permissions_owed VALUES (?1)",
                [&record],
            )
        });
        write.await?;
        self.read(&mut known).await?.insert(instance.clone());
        self.news.notify_one();
        Ok(())
    }

    /// This one's are taken back, or it has them again.
    pub(super) async fn remove(&self, instance: &InstanceIdent) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        if !self.read(&mut known).await?.contains(instance) {
            return Ok(());
        }
        let record = encode(instance);
        let write = self.store.write(move |db| {
            db.execute("DELETE FROM permissions_owed WHERE ident = ?1", [&record])
        });
        write.await?;
        self.read(&mut known).await?.remove(instance);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use muster_api::domain::ItemType;
    use muster_store::testing::check_upgrades;
    use muster_store::{OnDamage, StoreConfig};

    use super::*;

    #[test]
    fn every_released_version_can_be_upgraded() {
        let fixtures =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/permissions");
        check_upgrades(
            &SCHEMA,
            &fixtures,
            |db| {
                let sql = "INSERT INTO permissions_owed VALUES (x'0a01')";
                db.execute(sql, []).map(drop)
            },
            |db, version| {
                let sql = "SELECT ident FROM permissions_owed";
                let found: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).expect("the row");
                assert_eq!(found, [0x0a, 1], "version {version}");
            },
        );
    }

    #[tokio::test]
    async fn what_is_owed_is_owed_by_the_next_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let instance = |number| InstanceIdent {
            item_id: "item".parse().unwrap(),
            subject_id: "subject".parse().unwrap(),
            instance: number,
            item_type: ItemType::Service,
            preinstalled: false,
        };
        let owed = Owed::new(store.clone());
        for number in [1, 2, 2] {
            owed.add(&instance(number)).await.unwrap();
        }
        owed.remove(&instance(1)).await.unwrap();
        owed.remove(&instance(7)).await.unwrap();
        let other = Owed::new(store.clone());
        assert_eq!(other.all().await.unwrap(), BTreeSet::from([instance(2)]));
        assert_eq!(owed.all().await.unwrap(), other.all().await.unwrap());
        // What nobody can read is nobody's.
        let damage = store.write(|db| db.execute("UPDATE permissions_owed SET ident = x'ff'", []));
        damage.await.unwrap();
        assert!(Owed::new(store).all().await.unwrap().is_empty());
    }
}
