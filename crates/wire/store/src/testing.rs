//! For tests: the check that every released version of a schema can still be upgraded, and ways to
//! leave out what durability needs.

use std::env;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use crate::migrate::Migrated;
use crate::schema::Schema;
use crate::store::Store;
use crate::{OnDamage, Outcome, StoreConfig};

/// Set to `write`, makes [`check_upgrades`] write the fixture of the newest version if it is missing.
pub const WRITE_VARIABLE: &str = "MUSTER_FIXTURES";

/// Something that durability needs, left out so that a test can show that it notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// Commits are not flushed.
    NoFlush,
    /// Changes of names are not flushed.
    NoFolderFlush,
}

/// Upgrades a fixture of every version and compares the result with a fresh database.
///
/// `folder` holds one dump per version, `v1.sql`, `v2.sql` and so on, written once by the program of
/// that version and never changed. `sample` puts rows into a fresh database of the newest version;
/// it is used to write a fixture. `check` gets every upgraded database with the version that it came
/// from, and asserts that those rows are still there.
///
/// # Panics
/// When a fixture is missing, an upgrade fails, a schema differs, or `check` does.
pub fn check_upgrades(
    schema: &'static Schema,
    folder: &Path,
    sample: impl Fn(&Connection) -> rusqlite::Result<()> + Send + Copy + 'static,
    check: impl Fn(&Connection, u32) + Send + Copy + 'static,
) {
    let newest = schema.version();
    let newest_path = folder.join(format!("v{newest}.sql"));
    if !newest_path.exists() && env::var_os(WRITE_VARIABLE).is_some_and(|value| value == "write") {
        let dump = with_fresh(schema, move |db| {
            sample(db)?;
            dump(db)
        });
        fs::write(&newest_path, dump).expect("the new fixture can be written");
    }
    let fresh = with_fresh(schema, describe);
    for version in 1..=newest {
        let path = folder.join(format!("v{version}.sql"));
        let dump = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!(
                "{} ({error}): every version needs a fixture, written by the program of that \
                 version; for the newest, run this test once with {WRITE_VARIABLE}=write",
                path.display()
            )
        });
        let upgraded = upgrade(schema, version, &dump, check);
        assert_eq!(
            upgraded, fresh,
            "upgraded from version {version}, against a fresh database"
        );
    }
}

/// Opens a database made from a dump, and describes the schema that it then has.
fn upgrade(
    schema: &'static Schema,
    version: u32,
    dump: &str,
    check: impl Fn(&Connection, u32) + Send + 'static,
) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("fixture.db");
    let db = Connection::open(&path).expect("an empty database");
    db.execute_batch(dump)
        .unwrap_or_else(|error| panic!("fixture {version}: {error}"));
    drop(db);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
    let config = StoreConfig::new(path, "upgrade check", OnDamage::Refuse).schema(schema);
    let opened = Store::open(&config)
        .unwrap_or_else(|error| panic!("version {version} cannot be upgraded: {error:?}"));
    let newest = schema.version();
    let migrated = match version {
        _ if version == newest => Vec::new(),
        from => vec![Migrated {
            schema: schema.name(),
            from,
            to: newest,
        }],
    };
    assert_eq!(
        opened.outcome,
        Outcome::Existing { migrated },
        "fixture {version}"
    );
    let look = opened.store.read(move |db| {
        check(db, version);
        let finding: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        assert_eq!(finding, "ok", "fixture {version}");
        describe(db)
    });
    look.wait()
        .unwrap_or_else(|error| panic!("fixture {version}: {error}"))
}

fn with_fresh<T: Send + 'static>(
    schema: &'static Schema,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> T {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("fresh.db");
    let config = StoreConfig::new(path, "upgrade check", OnDamage::Refuse).schema(schema);
    let opened = Store::open(&config).expect("a fresh database");
    opened
        .store
        .write(work)
        .wait()
        .expect("work on a fresh database")
}

/// Everything that has a definition, without what formatting changes.
fn describe(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name",
    )?;
    let describe = |row: &rusqlite::Row<'_>| {
        let [kind, name, table, sql]: [String; 4] =
            [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(format!("{kind} {name} on {table}: {sql}"))
    };
    statement.query_map([], describe)?.collect()
}

/// A database as SQL that makes it again.
fn dump(db: &Connection) -> rusqlite::Result<String> {
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("a string takes everything");
    for pragma in ["application_id", "user_version"] {
        let value: i64 = db.pragma_query_value(None, pragma, |row| row.get(0))?;
        line(&format!("PRAGMA {pragma}={value};"));
    }
    line("BEGIN;");
    let strings = |sql: &str| -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement = db.prepare(sql)?;
        statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let tables = "SELECT name, sql FROM sqlite_schema
                  WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
    for (table, sql) in strings(tables)? {
        line(&format!("{sql};"));
        dump_rows(db, &table, &mut line)?;
    }
    let counters = "SELECT name, '' FROM sqlite_schema WHERE name = 'sqlite_sequence'";
    for (table, _) in strings(counters)? {
        line("DELETE FROM sqlite_sequence;");
        dump_rows(db, &table, &mut line)?;
    }
    let others = "SELECT name, sql FROM sqlite_schema
                  WHERE type <> 'table' AND sql IS NOT NULL ORDER BY rowid";
    for (_, sql) in strings(others)? {
        line(&format!("{sql};"));
    }
    line("COMMIT;");
    Ok(text)
}

fn dump_rows(db: &Connection, table: &str, line: &mut impl FnMut(&str)) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement
        .query_map([table], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let quoted: Vec<_> = names
        .iter()
        .map(|name| format!("quote(\"{name}\")"))
        .collect();
    let sql = format!("SELECT {} FROM \"{table}\"", quoted.join(" || ', ' || "));
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values: String = row.get(0)?;
        let columns: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        line(&format!(
            "INSERT INTO \"{table}\" ({}) VALUES ({values});",
            columns.join(", ")
        ));
    }
    Ok(())
}
