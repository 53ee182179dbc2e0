//! Bringing a database to the program's version: a pure plan, then one transaction per step.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::error::{Damage, OpenStoreError};
use crate::fault;
use crate::schema::{Migration, Schema};

/// "Mstr": tells a Muster database from any other.
pub(crate) const APPLICATION_ID: i32 = 0x4d73_7472;

/// Never migrated itself: an older program must always be able to say who wrote a database.
const RECORD_TABLE: &str = "CREATE TABLE muster_migrations (
    schema TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    writer TEXT NOT NULL,
    PRIMARY KEY (schema, number)
) STRICT, WITHOUT ROWID;";

/// A migration as the database remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) schema: String,
    pub(crate) number: u32,
    pub(crate) digest: String,
    pub(crate) writer: String,
}

/// A schema that a program found in an older version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The schema.
    pub schema: &'static str,
    /// The version before; 0 when the database did not have the schema.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

/// The steps that are missing, in the order in which they run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<(&'static Schema, &'static Migration)>,
    pub(crate) summary: Vec<Migrated>,
}

/// Why there is no plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Future {
        schema: String,
        found: u32,
        known: u32,
        writer: String,
    },
    Edited {
        schema: String,
        number: u32,
        name: String,
    },
    Incomplete,
}

/// Compares what was applied with what the program has. Records are sorted by schema and number.
pub(crate) fn plan(records: &[Record], schemas: &[&'static Schema]) -> Result<Plan, Refusal> {
    for record in records {
        let schema = schemas.iter().find(|schema| schema.name() == record.schema);
        let known = schema.map_or(0, |schema| schema.version());
        if record.number > known {
            let newest = records.iter().filter(|other| other.schema == record.schema);
            let newest = newest.max_by_key(|other| other.number).unwrap_or(record);
            return Err(Refusal::Future {
                schema: record.schema.clone(),
                found: newest.number,
                known,
                writer: newest.writer.clone(),
            });
        }
    }
    let mut plan = Plan::default();
    for &schema in schemas {
        let applied: Vec<_> = records
            .iter()
            .filter(|r| r.schema == schema.name())
            .collect();
        for (record, migration) in applied.iter().zip(schema.migrations()) {
            if record.number != migration.number {
                return Err(Refusal::Incomplete);
            }
            if record.digest != migration.digest() {
                return Err(Refusal::Edited {
                    schema: record.schema.clone(),
                    number: record.number,
                    name: migration.name.to_owned(),
                });
            }
        }
        let missing = &schema.migrations()[applied.len()..];
        if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
            let summary = Migrated {
                schema: schema.name(),
                from: first.number - 1,
                to: last.number,
            };
            plan.summary.push(summary);
            plan.steps
                .extend(missing.iter().map(|migration| (schema, migration)));
        }
    }
    Ok(plan)
}

/// Makes an empty file a Muster database without any schema.
pub(crate) fn prepare_empty(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "BEGIN; {RECORD_TABLE} PRAGMA application_id={APPLICATION_ID}; COMMIT"
    ))
}

/// Whether Muster ever prepared the database.
pub(crate) fn has_record_table(db: &Connection) -> rusqlite::Result<bool> {
    let found = db
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'muster_migrations'",
            [],
            |_| Ok(()),
        )
        .optional()?;
    Ok(found.is_some())
}

/// What was applied, or what is wrong with the record of it.
pub(crate) fn read_records(db: &Connection) -> rusqlite::Result<Result<Vec<Record>, Damage>> {
    if !has_record_table(db)? {
        return Ok(Err(Damage::Records));
    }
    let mut statement = db.prepare(
        "SELECT schema, number, digest, writer FROM muster_migrations ORDER BY schema, number",
    )?;
    let records = statement
        .query_map([], |row| {
            Ok(Record {
                schema: row.get(0)?,
                number: row.get(1)?,
                digest: row.get(2)?,
                writer: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    // The header counts what the table lists: two places that only damage makes differ.
    let counted: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let whole = usize::try_from(counted).is_ok_and(|counted| counted == records.len());
    Ok(if whole {
        Ok(records)
    } else {
        Err(Damage::Records)
    })
}

/// Runs the plan. Each step and its record are one transaction.
pub(crate) fn run(
    db: &mut Connection,
    path: &Path,
    plan: &Plan,
    writer: &str,
) -> Result<(), OpenStoreError> {
    for &(schema, migration) in &plan.steps {
        let failed = |source| OpenStoreError::Migration {
            path: path.to_owned(),
            schema: schema.name(),
            number: migration.number,
            name: migration.name,
            source,
        };
        if let Some(table) = run_one(db, schema, migration, writer).map_err(failed)? {
            return Err(OpenStoreError::DanglingRows {
                path: path.to_owned(),
                schema: schema.name(),
                number: migration.number,
                name: migration.name,
                table,
            });
        }
        muster_fault::hit(fault::MIGRATION_COMMITTED);
        tracing::info!(
            database = %path.display(),
            schema = schema.name(),
            number = migration.number,
            name = migration.name,
            "Migration applied."
        );
    }
    Ok(())
}

/// Some table: it has rows that refer to nothing, and the step was rolled back.
fn run_one(
    db: &mut Connection,
    schema: &Schema,
    migration: &Migration,
    writer: &str,
) -> rusqlite::Result<Option<String>> {
    // Without effect inside a transaction, and needed to rebuild a table that others refer to.
    db.pragma_update(None, "foreign_keys", false)?;
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migration.run(&transaction)?;
    muster_fault::hit(fault::MIGRATION_APPLIED);
    let dangling = transaction
        .query_row(
            "SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()?;
    if dangling.is_some() {
        return Ok(dangling);
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    transaction.execute(
        "INSERT INTO muster_migrations (schema, number, name, digest, applied_at, writer)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            schema.name(),
            migration.number,
            migration.name,
            migration.digest(),
            i64::try_from(now).unwrap_or(i64::MAX),
            writer
        ],
    )?;
    let count: i64 =
        transaction.query_row("SELECT count(*) FROM muster_migrations", [], |row| {
            row.get(0)
        })?;
    transaction.pragma_update(None, "user_version", count)?;
    muster_fault::hit(fault::MIGRATION_RECORDED);
    transaction.commit()?;
    Ok(None)
}

#[cfg(test)]
mod tests;
