//! Looking at a database before it is used. Nothing is changed by it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use rusqlite::Connection;

use crate::connection::open_to_look;
use crate::error::{Damage, OpenStoreError};
use crate::files::{Files, look};
use crate::migrate::{self, APPLICATION_ID, Plan, Refusal};
use crate::schema::Schema;
use crate::wal::{self, WalState};

/// Up to this size a database is always checked in full: about 1 ms per MiB.
const ALWAYS_CHECK_UP_TO: u64 = 16 * 1024 * 1024;
const FINDING_LIMIT: usize = 300;

/// What stands at a database's path.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A sound database, and what it lacks.
    Sound { db: Connection, plan: Plan },
    /// Something that cannot be used.
    Damaged(Damage),
}

/// Looks at the files and, if they seem sound, into the database.
pub(crate) fn inspect(files: &Files, schemas: &[&'static Schema]) -> Result<Found, OpenStoreError> {
    let path = files.main();
    let failed = |source| OpenStoreError::File {
        doing: "examine",
        path: path.clone(),
        source,
    };
    let looked = inspect_files(files).map_err(failed)?;
    let full_check = match looked {
        Surface::Nothing => return Ok(Found::Nothing),
        Surface::Damaged(damage) => return Ok(Found::Damaged(damage)),
        Surface::Sound { full_check } => full_check,
    };
    let had_log = look(&files.log()).map_err(failed)?.is_some();
    let looked = inspect_content(&path, full_check, schemas);
    if !had_log && !matches!(looked, Ok(Found::Sound { .. })) {
        remove_empty(&files.log()).map_err(failed)?;
    }
    match looked {
        Ok(found) => Ok(found),
        Err(Stop::Refused(refused)) => Err(*refused),
        Err(Stop::Sqlite(error)) => match Damage::from_sqlite(&error) {
            Some(damage) => Ok(Found::Damaged(damage)),
            None => Err(OpenStoreError::Sqlite {
                doing: "examine",
                path,
                source: error,
            }),
        },
    }
}

enum Surface {
    Nothing,
    Sound { full_check: bool },
    Damaged(Damage),
}

fn inspect_files(files: &Files) -> io::Result<Surface> {
    let log_length = look(&files.log())?.map_or(0, |metadata| metadata.len());
    let Some(main) = look(&files.main())? else {
        let orphaned = log_length > 0;
        return Ok(if orphaned {
            Surface::Damaged(Damage::LogWithoutDatabase)
        } else {
            Surface::Nothing
        });
    };
    // SQLite takes an empty file for a new database and deletes the log beside it.
    if main.len() == 0 {
        return Ok(Surface::Damaged(Damage::Empty));
    }
    if log_length > 0 {
        // The log may hold a newer first page than the file, so the file alone says nothing.
        let log = BufReader::with_capacity(64 * 1024, File::open(files.log())?);
        if let WalState::Damaged { frame } = wal::examine(log)? {
            return Ok(Surface::Damaged(Damage::Log { frame }));
        }
        return Ok(Surface::Sound { full_check: true });
    }
    let mut header = [0; 100];
    let complete = match File::open(files.main())?.read_exact(&mut header) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    if !complete {
        return Ok(Surface::Damaged(Damage::NotADatabase));
    }
    if let Err(damage) = check_header(&header, main.len()) {
        return Ok(Surface::Damaged(damage));
    }
    // A store that was closed leaves no log. Then only damage of the medium is possible, which is
    // looked for where it costs nothing, and found in use elsewhere.
    let suspect = look(&files.suspect())?.is_some();
    Ok(Surface::Sound {
        full_check: suspect || main.len() <= ALWAYS_CHECK_UP_TO,
    })
}

/// SQLite makes a log when it reads. Of a database that is not going to be used, nothing stays.
fn remove_empty(log: &Path) -> io::Result<()> {
    match look(log)? {
        Some(metadata) if metadata.len() == 0 => fs::remove_file(log),
        _ => Ok(()),
    }
}

/// Checks the first 100 bytes of a database that has no log.
fn check_header(header: &[u8; 100], length: u64) -> Result<(), Damage> {
    let number = |at: usize| {
        u64::from(u32::from_be_bytes([
            header[at],
            header[at + 1],
            header[at + 2],
            header[at + 3],
        ]))
    };
    if &header[..16] != b"SQLite format 3\0" {
        return Err(Damage::NotADatabase);
    }
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    if page_size < 512 || !page_size.is_power_of_two() {
        return Err(Damage::NotADatabase);
    }
    let count_is_valid = number(24) == number(92);
    let expected = number(28) * page_size;
    if count_is_valid && length < expected {
        return Err(Damage::Truncated {
            expected,
            found: length,
        });
    }
    Ok(())
}

enum Stop {
    Refused(Box<OpenStoreError>),
    Sqlite(rusqlite::Error),
}

impl Stop {
    fn refuse(refused: OpenStoreError) -> Self {
        Self::Refused(Box::new(refused))
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn inspect_content(
    path: &Path,
    full_check: bool,
    schemas: &[&'static Schema],
) -> Result<Found, Stop> {
    let db = open_to_look(path)?;
    if full_check {
        let finding: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if finding != "ok" {
            let finding = finding.replace(char::is_control, " ");
            let finding = finding.chars().take(FINDING_LIMIT).collect();
            return Ok(Found::Damaged(Damage::Check { finding }));
        }
    }
    let application_id: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let own = application_id == APPLICATION_ID;
    if !own && migrate::has_record_table(&db)? {
        return Ok(Found::Damaged(Damage::Records));
    }
    if !own {
        let refused = OpenStoreError::Foreign {
            path: path.to_owned(),
            application_id,
        };
        return Err(Stop::refuse(refused));
    }
    let records = match migrate::read_records(&db) {
        Ok(Ok(records)) => records,
        Ok(Err(damage)) => return Ok(Found::Damaged(damage)),
        Err(error) if error.sqlite_error_code().is_none() => {
            // The table holds something that no Muster wrote.
            return Ok(Found::Damaged(Damage::Records));
        }
        Err(error) => return Err(Stop::Sqlite(error)),
    };
    let path = path.to_owned();
    match migrate::plan(&records, schemas) {
        Ok(plan) => Ok(Found::Sound { db, plan }),
        Err(Refusal::Incomplete) => Ok(Found::Damaged(Damage::Records)),
        Err(Refusal::Future {
            schema,
            found,
            known,
            writer,
        }) => Err(Stop::refuse(OpenStoreError::Future {
            path,
            schema,
            found,
            known,
            writer,
        })),
        Err(Refusal::Edited {
            schema,
            number,
            name,
        }) => Err(Stop::refuse(OpenStoreError::Edited {
            path,
            schema,
            number,
            name,
        })),
    }
}
