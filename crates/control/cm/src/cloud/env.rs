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

/// When the next variable ends.
pub(super) fn next_end(env: &OverrideEnvVars, now: Timestamp) -> Option<Timestamp> {
    let variables = env.items.iter().flat_map(|it| &it.variables);
    variables
        .filter_map(|it| it.ttl)
        .filter(|it| *it > now)
        .min()
}
