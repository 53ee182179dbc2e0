//! Databases of earlier versions.

use std::path::Path;

use muster_orchestrate::{Entry, Format, Limits, RunOutcome, SCHEMA, Workflow};
use muster_store::rusqlite::Connection;
use muster_store::testing::check_upgrades;

const WORKFLOW: &str = r#"{"name":"old","machines":{"a":{"template":"t","count":2}},"steps":[{"name":"s","actions":[{"run":{"command":["make"]}}]}]}"#;
const ENTRY: &str = r#"{"ended":{"job":{"work":{"step":"s","slot":"a/1"}},"attempt":1,"result":{"failed":{"exit":{"action":0,"code":2}}}}}"#;
const OUTCOME: &str = r#"{"failed":{"job":{"provision":"a/0"},"why":"timedOut"}}"#;

fn get(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |row| row.get(0)).expect("the row")
}

#[test]
fn every_released_version_can_be_upgraded_and_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    check_upgrades(
        &SCHEMA,
        &fixtures,
        |db| {
            let run = "INSERT INTO orchestrate_run VALUES ('r-1', 'key', 'old', ?1, 5, 6, ?2)";
            db.execute(run, [WORKFLOW, OUTCOME])?;
            let entry = "INSERT INTO orchestrate_entry VALUES (1, 'r-1', 5, ?1)";
            db.execute(entry, [ENTRY]).map(drop)
        },
        |db, version| {
            let text = get(db, "SELECT workflow FROM orchestrate_run");
            let workflow = Workflow::read("w", Format::Json, text.as_bytes(), &Limits::default());
            assert_eq!(workflow.unwrap().slots().count(), 2, "version {version}");
            let entry: Entry =
                serde_json::from_str(&get(db, "SELECT entry FROM orchestrate_entry")).unwrap();
            assert!(matches!(entry, Entry::Ended { attempt: 1, .. }));
            let outcome: RunOutcome =
                serde_json::from_str(&get(db, "SELECT outcome FROM orchestrate_run")).unwrap();
            assert_eq!(outcome.exit_code(), 124);
        },
    );
}
