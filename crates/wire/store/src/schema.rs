//! Schemas as numbered migrations.

use rusqlite::Connection;
use sha2::{Digest, Sha256};

/// The tables of one component, as the list of steps that lead to them.
///
/// Several schemas can live in one database (a daemon's own and the [spool's](crate::spool::SCHEMA));
/// by custom a table's name begins with the schema's.
#[derive(Debug)]
pub struct Schema {
    name: &'static str,
    migrations: &'static [Migration],
}

impl Schema {
    /// A schema. Migrations are numbered 1, 2, 3 and so on, which a constant proves when it compiles.
    ///
    /// # Panics
    /// When the numbers have a gap, or the name is empty.
    #[must_use]
    pub const fn new(name: &'static str, migrations: &'static [Migration]) -> Self {
        assert!(!name.is_empty(), "a schema has a name");
        let mut expected = 1;
        let mut index = 0;
        while index < migrations.len() {
            assert!(
                migrations[index].number == expected,
                "migrations are numbered 1, 2, 3 ..."
            );
            expected += 1;
            index += 1;
        }
        Self { name, migrations }
    }

    /// Its name in the record of migrations.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The steps, from the first.
    #[must_use]
    pub const fn migrations(&self) -> &'static [Migration] {
        self.migrations
    }

    /// The number of the newest migration.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.migrations
            .last()
            .map_or(0, |migration| migration.number)
    }
}

/// One step from a version of a schema to the next.
#[derive(Debug)]
pub struct Migration {
    /// The version that it leads to.
    pub number: u32,
    /// What it does, in a word or two; shown in messages.
    pub name: &'static str,
    /// How.
    pub step: Step,
}

/// What a migration runs, in one transaction together with its record.
#[derive(Debug)]
pub enum Step {
    /// Statements. Foreign keys are checked at the end of the migration, not while it runs, so that a
    /// table can be rebuilt.
    Sql(&'static str),
    /// A move of data that SQL cannot express.
    Code {
        /// Stands for the code in the record; changed never, like the code itself once released.
        id: &'static str,
        /// The code. It leaves the transaction open.
        run: fn(&Connection) -> rusqlite::Result<()>,
    },
}

impl Migration {
    /// What the record keeps, so that a later edit is noticed.
    pub(crate) fn digest(&self) -> String {
        let (kind, text) = match self.step {
            Step::Sql(text) => ("sql", text),
            Step::Code { id, .. } => ("code", id),
        };
        let mut digest = Sha256::new();
        digest.update(kind);
        digest.update([0]);
        digest.update(text);
        hex::encode(digest.finalize())
    }

    pub(crate) fn run(&self, db: &Connection) -> rusqlite::Result<()> {
        match self.step {
            Step::Sql(text) => db.execute_batch(text),
            Step::Code { run, .. } => run(db),
        }
    }
}
