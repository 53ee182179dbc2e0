//! Opening: look, decide, act. The order of the acts is what a kill or a power cut cannot break.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::aside::Aside;
use crate::connection::{Durability, open_to_look, settle};
use crate::error::{Damage, OpenStoreError};
use crate::fault;
use crate::files::{Files, create_private, look, rename_new};
use crate::inspect::{Found, inspect};
use crate::migrate::{self, Migrated, Plan};
use crate::schema::Schema;
use crate::store::Store;

/// What to do with a damaged database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    /// Keep it under another name and start with an empty one. For state that can be had again, such
    /// as what a controller sends anew.
    StartEmpty,
    /// Leave it and do not start. For state that exists nowhere else.
    Refuse,
}

/// Where a database is and how to open it.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    path: PathBuf,
    writer: String,
    on_damage: OnDamage,
    schemas: Vec<&'static Schema>,
    durability: Durability,
}

impl StoreConfig {
    /// A database at `path`. `writer` is the program and its version, such as `muster-sm 0.1.0`; an
    /// older program that meets the database later names it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, writer: impl Into<String>, on_damage: OnDamage) -> Self {
        Self {
            path: path.into(),
            writer: writer.into(),
            on_damage,
            schemas: Vec::new(),
            durability: Durability::default(),
        }
    }

    /// Adds a schema. A database may hold schemas of several components.
    #[must_use]
    pub fn schema(mut self, schema: &'static Schema) -> Self {
        self.schemas.push(schema);
        self
    }

    /// Leaves something out that durability needs, to show that a test notices.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn weakened(mut self, weakness: crate::testing::Weakness) -> Self {
        match weakness {
            crate::testing::Weakness::NoFlush => self.durability.synchronous = "OFF",
            crate::testing::Weakness::NoFolderFlush => self.durability.sync_folder = false,
        }
        self
    }
}

/// An open store, and how it was found.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// How it was found. A daemon reports [`Outcome::SetAside`]: state is gone.
    pub outcome: Outcome,
}

/// How a database was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There was none, and there never had been.
    Created,
    /// There was one.
    Existing {
        /// What had to be brought to the program's version.
        migrated: Vec<Migrated>,
    },
    /// There was a damaged one. It is kept, and an empty one is in use.
    SetAside {
        /// The damaged database and its log, under their new names.
        paths: Vec<PathBuf>,
        /// What is wrong with it.
        reason: Damage,
    },
}

impl Store {
    /// Opens a database: takes it for this process, checks it, makes or migrates it, and starts the
    /// thread that owns it. Blocks on the disk, and for up to five seconds if an operator's tool has
    /// the database open.
    ///
    /// # Errors
    /// Each variant of [`OpenStoreError`] says what it leaves behind; most leave all as it was.
    pub fn open(config: &StoreConfig) -> Result<Opened, OpenStoreError> {
        let files = Files::resolve(&config.path, config.durability.sync_folder)?;
        let lock = files.lock()?;
        files.check()?;
        let (db, outcome) = open_database(config, &files)?;
        let path = files.main();
        let failed = |source| OpenStoreError::Sqlite {
            doing: "prepare",
            path,
            source,
        };
        let store = Self::start(db, files, lock).map_err(failed)?;
        Ok(Opened { store, outcome })
    }
}

fn open_database(
    config: &StoreConfig,
    files: &Files,
) -> Result<(Connection, Outcome), OpenStoreError> {
    if let Some(aside) = Aside::unfinished(files)? {
        let reason = Damage::Earlier {
            reason: aside.reason().to_owned(),
        };
        return start_empty(config, files, reason, |_| Ok(aside));
    }
    files.remove_leftovers()?;
    match inspect(files, &config.schemas)? {
        Found::Nothing => {
            create(config, files)?;
            Ok((open_new(config, files)?, Outcome::Created))
        }
        Found::Damaged(damage) => {
            start_empty(config, files, damage, |damage| Aside::begin(files, damage))
        }
        Found::Sound { db, plan } => {
            let db = accept(config, files, db, &plan)?;
            Ok((
                db,
                Outcome::Existing {
                    migrated: plan.summary,
                },
            ))
        }
    }
}

/// Sets a damaged database aside, or goes on doing so, if the policy allows it.
fn start_empty(
    config: &StoreConfig,
    files: &Files,
    damage: Damage,
    aside: impl FnOnce(&Damage) -> Result<Aside, OpenStoreError>,
) -> Result<(Connection, Outcome), OpenStoreError> {
    if config.on_damage == OnDamage::Refuse {
        return Err(OpenStoreError::Damaged {
            path: files.main(),
            source: damage,
        });
    }
    let aside = aside(&damage)?;
    files.remove_leftovers()?;
    aside.carry_out(files)?;
    // An earlier run may have got as far as the new database.
    if look(&files.main())
        .map_err(|source| file_error("examine", &files.main(), source))?
        .is_none()
    {
        create(config, files)?;
    }
    muster_fault::hit(fault::ASIDE_REPLACED);
    let db = open_new(config, files)?;
    aside.finish(files)?;
    let paths = aside.paths(files);
    tracing::error!(
        database = %files.main().display(),
        kept_as = ?paths,
        reason = %damage,
        "A damaged database was set aside; its content is no longer in use."
    );
    Ok((
        db,
        Outcome::SetAside {
            paths,
            reason: damage,
        },
    ))
}

/// Makes a sound database ready for work, in the program's version.
fn accept(
    config: &StoreConfig,
    files: &Files,
    mut db: Connection,
    plan: &Plan,
) -> Result<Connection, OpenStoreError> {
    let path = files.main();
    let prepared = |source| sqlite("prepare", &path, source);
    settle(&db, config.durability).map_err(prepared)?;
    migrate::run(&mut db, &path, plan, &config.writer)?;
    db.pragma_update(None, "foreign_keys", true)
        .map_err(prepared)?;
    let suspect = files.suspect();
    files
        .remove_note(&suspect)
        .map_err(|source| file_error("remove", &suspect, source))?;
    Ok(db)
}

/// Opens the database that was just made, or made by an earlier run that was stopped.
fn open_new(config: &StoreConfig, files: &Files) -> Result<Connection, OpenStoreError> {
    match inspect(files, &config.schemas)? {
        Found::Sound { db, plan } => accept(config, files, db, &plan),
        Found::Damaged(damage) => Err(OpenStoreError::Damaged {
            path: files.main(),
            source: damage,
        }),
        Found::Nothing => {
            let gone = io::Error::from(io::ErrorKind::NotFound);
            Err(file_error("open", &files.main(), gone))
        }
    }
}

/// Makes a database under a temporary name, complete, and only then gives it its own.
fn create(config: &StoreConfig, files: &Files) -> Result<(), OpenStoreError> {
    let path = files.new_main();
    create_private(&path).map_err(|source| file_error("create", &path, source))?;
    muster_fault::hit(fault::NEW_FILE);
    let created = |source| sqlite("create", &path, source);
    let mut db = open_to_look(&path).map_err(created)?;
    settle(&db, config.durability).map_err(created)?;
    migrate::prepare_empty(&db).map_err(created)?;
    let plan = migrate::plan(&[], &config.schemas).unwrap_or_default();
    migrate::run(&mut db, &path, &plan, &config.writer)?;
    db.close().map_err(|(_, source)| created(source))?;
    File::open(&path)
        .and_then(|file| file.sync_all())
        .map_err(|source| file_error("flush", &path, source))?;
    muster_fault::hit(fault::NEW_COMPLETE);
    rename_new(&path, &files.main()).map_err(|source| file_error("name", &path, source))?;
    muster_fault::hit(fault::NEW_NAMED);
    files
        .sync_folder()
        .map_err(|source| file_error("name", &path, source))?;
    muster_fault::hit(fault::NEW_DURABLE);
    Ok(())
}

fn sqlite(doing: &'static str, path: &Path, source: rusqlite::Error) -> OpenStoreError {
    OpenStoreError::Sqlite {
        doing,
        path: path.to_owned(),
        source,
    }
}

fn file_error(doing: &'static str, path: &Path, source: io::Error) -> OpenStoreError {
    OpenStoreError::File {
        doing,
        path: path.to_owned(),
        source,
    }
}
