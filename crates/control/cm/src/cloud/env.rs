//! Environment variables of the cloud: kept, because it says them once, and some end by themselves.

use muster_cloud::message::Timestamp;
use muster_cloud::message::incoming::OverrideEnvVars;
use muster_store::rusqlite::OptionalExtension as _;
use muster_store::{Migration, Schema, Step, Store, StoreError};

/// What this daemon keeps of the cloud's words.
pub(crate) static SCHEMA: Schema = Schema::new(
    "cm_cloud",
    &[Migration {
        number: 1,
        name: "words",
        step: Step::Sql(
            "CREATE TABLE cm_cloud (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
        ),
    }],
);

const ENV: &str = "env";

/// Keeps the newest; it takes the place of what was said before.
pub(super) async fn save(store: &Store, env: &OverrideEnvVars) -> Result<(), StoreError> {
    let text = serde_json::to_string(env).expect("variables have text keys");
    let sql = "INSERT OR REPLACE INTO cm_cloud VALUES (?1, ?2)";
    store
        .write(move |db| db.execute(sql, (ENV, text)).map(drop))
        .await
}

/// What was said last; nothing if that cannot be read any more.
pub(super) async fn load(store: &Store) -> Result<OverrideEnvVars, StoreError> {
    let sql = "SELECT value FROM cm_cloud WHERE name = ?1";
    let text: Option<String> = store
        .read(move |db| db.query_row(sql, [ENV], |row| row.get(0)).optional())
        .await?;
    let read = text.and_then(|it| serde_json::from_str(&it).ok());
    Ok(read.unwrap_or_default())
}

/// When the first variable ends that has not ended `before`.
pub(super) fn next_end(env: &OverrideEnvVars, before: Timestamp) -> Option<Timestamp> {
    let variables = env.items.iter().flat_map(|it| &it.variables);
    variables
        .filter_map(|it| it.ttl)
        .filter(|it| *it > before)
        .min()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_cloud::message::incoming::{EnvVar, EnvVars};
    use muster_store::testing::check_upgrades;
    use muster_store::{OnDamage, StoreConfig};

    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(number).expect("a time")
    }

    fn sample() -> OverrideEnvVars {
        let variable = |name: &str, ttl| EnvVar {
            name: name.to_owned(),
            value: "v".to_owned().into(),
            ttl,
        };
        let entry = EnvVars {
            item: None,
            subject: None,
            instance: Some(1),
            variables: vec![variable("A", None), variable("B", Some(second(20)))],
        };
        OverrideEnvVars { items: vec![entry] }
    }

    #[tokio::test]
    async fn the_last_variables_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = StoreConfig::new(folder.path().join("cm.db"), "test", OnDamage::Refuse);
        let store = muster_store::Store::open(&config.schema(&SCHEMA)).expect("a database");
        let store = store.store;
        assert_eq!(
            load(&store).await.expect("read"),
            OverrideEnvVars::default()
        );
        save(&store, &OverrideEnvVars::default())
            .await
            .expect("kept");
        save(&store, &sample()).await.expect("kept");
        assert_eq!(load(&store).await.expect("read"), sample());
    }

    #[test]
    fn the_next_end_is_the_first_that_is_to_come() {
        assert_eq!(next_end(&sample(), second(10)), Some(second(20)));
        assert_eq!(next_end(&sample(), second(20)), None);
    }

    #[test]
    fn old_databases_are_upgraded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cloud");
        check_upgrades(
            &SCHEMA,
            &folder,
            |db| {
                let text = serde_json::to_string(&sample()).expect("JSON");
                let sql = "INSERT INTO cm_cloud VALUES (?1, ?2)";
                db.execute(sql, (ENV, text)).map(drop)
            },
            |db, _| {
                let sql = "SELECT value FROM cm_cloud WHERE name = ?1";
                let text: String = db.query_row(sql, [ENV], |row| row.get(0)).expect("a row");
                let read: OverrideEnvVars = serde_json::from_str(&text).expect("JSON");
                assert_eq!(read, sample());
            },
        );
    }
}
