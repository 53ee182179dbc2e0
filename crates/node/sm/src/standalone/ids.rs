//! User ids of instances, which stay the same while the file around them changes.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::InstanceIdent;
use muster_store::{Migration, Schema, Step, Store, StoreError};

/// The first user id of instances; each has its own.
pub(super) const FIRST: u32 = 5000;
/// As many as a controller gives out.
const COUNT: u32 = 5000;

/// Who has which id, and what registries last said.
pub(super) static SCHEMA: Schema = Schema::new(
    "standalone",
    &[
        Migration {
            number: 1,
            name: "ids of instances",
            step: Step::Sql(
                "CREATE TABLE standalone_ids (ident TEXT PRIMARY KEY, id INTEGER NOT NULL UNIQUE) STRICT;",
            ),
        },
        Migration {
            number: 2,
            name: "images of registries",
            step: Step::Sql(
                "CREATE TABLE standalone_images (reference TEXT PRIMARY KEY, digest TEXT NOT NULL) STRICT;",
            ),
        },
    ],
);

/// There are more instances than ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} instances are wanted, and there are ids for {COUNT}: want fewer")]
pub struct TooManyInstances {
    /// How many.
    pub wanted: usize,
}

pub(super) type Ids = BTreeMap<String, u32>;

/// Who has which id from now on. Pure. Whoever has one keeps it; others get, in order, one that nobody ever had, and only then one
/// of those who are not wanted any more: they may still be on their way out.
pub(super) fn assign(known: &Ids, wanted: &[InstanceIdent]) -> Result<Ids, TooManyInstances> {
    let too_many = TooManyInstances {
        wanted: wanted.len(),
    };
    let mut ids = known.clone();
    let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let is_wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let taken: BTreeSet<u32> = known.values().copied().collect();
    let mut free = (FIRST..FIRST + COUNT).filter(|id| !taken.contains(id));
    let mut left = known
        .iter()
        .filter(|(name, _)| !is_wanted.contains(name.as_str()));
    for name in &names {
        if ids.contains_key(name) {
            continue;
        }
        let id = match (free.next(), left.next()) {
            (Some(id), _) => id,
            (None, Some((gone, id))) => {
                ids.remove(gone);
                *id
            }
            (None, None) => return Err(too_many),
        };
        ids.insert(name.clone(), id);
    }
    Ok(ids)
}

pub(super) async fn load(store: &Store) -> Result<Ids, StoreError> {
    let read = store.read(|db| {
        let mut rows = db.prepare("SELECT ident, id FROM standalone_ids")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    });
    read.await
}

/// Returns when they are on disk: from then on somebody may run under them.
pub(super) async fn save(store: &Store, ids: Ids) -> Result<(), StoreError> {
    let write = store.write(move |db| {
        db.execute("DELETE FROM standalone_ids", [])?;
        let insert = "INSERT INTO standalone_ids VALUES (?1, ?2)";
        ids.iter()
            .try_for_each(|(name, id)| db.execute(insert, (name, id)).map(drop))
    });
    write.await
}

#[cfg(test)]
mod tests {
    use muster_api::domain::ItemType;
    use muster_store::testing::check_upgrades;
    use muster_store::{OnDamage, StoreConfig};

    use super::*;

    fn instance(item: &str, instance: u64) -> InstanceIdent {
        InstanceIdent {
            item_id: item.parse().unwrap(),
            subject_id: "subject".parse().unwrap(),
            instance,
            item_type: ItemType::Service,
            preinstalled: false,
        }
    }

    fn of(ids: &Ids, item: &str) -> u32 {
        ids[&instance(item, 0).to_string()]
    }

    #[test]
    fn every_released_version_can_be_upgraded() {
        let fixtures =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/standalone");
        check_upgrades(
            &SCHEMA,
            &fixtures,
            |db| {
                let sql = "INSERT INTO standalone_ids VALUES ('item:subject:0', 5007)";
                db.execute(sql, [])?;
                let sql = "INSERT INTO standalone_images VALUES ('host/web:1', 'sha256:00')";
                db.execute(sql, []).map(drop)
            },
            |db, version| {
                let sql = "SELECT id FROM standalone_ids WHERE ident = 'item:subject:0'";
                let id: u32 = db.query_row(sql, [], |row| row.get(0)).expect("the row");
                assert_eq!(id, 5007, "version {version}");
                let sql = "SELECT count(*) FROM standalone_images
                           WHERE reference = 'host/web:1' AND digest = 'sha256:00'";
                let images: u32 = db.query_row(sql, [], |row| row.get(0)).expect("a count");
                assert_eq!(images, u32::from(version >= 2), "version {version}");
            },
        );
    }

    #[tokio::test]
    async fn an_instance_keeps_its_id_whatever_comes_before_it_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("node.db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let known = load(&store).await.unwrap();
        // As an earlier version gave them: in order.
        let first = assign(&known, &[instance("b", 0), instance("d", 0)]).unwrap();
        assert_eq!((of(&first, "b"), of(&first, "d")), (FIRST, FIRST + 1));
        save(&store, first).await.unwrap();
        let known = load(&store).await.unwrap();
        let wanted = [
            instance("a", 0),
            instance("b", 0),
            instance("c", 0),
            instance("d", 0),
        ];
        let second = assign(&known, &wanted).unwrap();
        assert_eq!((of(&second, "b"), of(&second, "d")), (FIRST, FIRST + 1));
        assert_eq!((of(&second, "a"), of(&second, "c")), (FIRST + 2, FIRST + 3));
        // Who is gone may still be on the way out, and gets the same when it comes back.
        let third = assign(&second, &[instance("e", 0)]).unwrap();
        assert_eq!(of(&third, "e"), FIRST + 4);
        assert_eq!(of(&assign(&third, &wanted).unwrap(), "d"), FIRST + 1);
    }

    #[test]
    fn ids_are_used_again_before_there_are_none() {
        let many = |item: &str| -> Vec<InstanceIdent> {
            (0..u64::from(COUNT))
                .map(|number| instance(item, number))
                .collect()
        };
        let all = assign(&Ids::new(), &many("a")).unwrap();
        let other = assign(&all, &many("b")).unwrap();
        let ids: BTreeSet<u32> = other.values().copied().collect();
        assert_eq!((other.len(), ids.len()), (5000, 5000));
        assert!(
            many("b")
                .iter()
                .all(|it| other.contains_key(&it.to_string()))
        );
        let mut more = many("b");
        more.push(instance("c", 0));
        assert_eq!(
            assign(&other, &more),
            Err(TooManyInstances { wanted: 5001 })
        );
    }
}
