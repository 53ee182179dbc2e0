//! A desired status from a file, for Units without a cloud.
//!
//! The file is looked at when the daemon starts and when it is told to read its configuration again. What stands in it is
//! applied when it is not what stood in it the last time: a wish that an operator made meanwhile is not undone by a restart.

use std::io;
use std::path::{Path, PathBuf};

use muster_config::{ConfigError, Format, Limits};
use muster_desired::{Accepted, ApplyError, DesiredStatus, Origin, Updates};
use muster_store::rusqlite::OptionalExtension as _;
use muster_store::{Migration, Schema, Step, Store, StoreError};
use muster_telemetry::{ErrorChain, Reloads};
use sha2::{Digest as _, Sha256};

use crate::fault::FILE_APPLIED;

/// The longest file that is read.
const LONGEST: u64 = 16 << 20;

/// What was applied last.
pub(crate) static SCHEMA: Schema = Schema::new(
    "cm-desired-file",
    &[Migration {
        number: 1,
        name: "the file that was applied",
        step: Step::Sql(
            "CREATE TABLE cm_desired_file (only INTEGER PRIMARY KEY CHECK (only = 1), checksum BLOB NOT NULL) STRICT",
        ),
    }],
);

/// Why the file was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is too long.
    #[error("{} has {length} bytes, and {LONGEST} are the most", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How long it is.
        length: u64,
    },
    /// It is no desired status. What is wrong says in which file and line.
    #[error("the desired status cannot be understood")]
    Invalid(#[source] ConfigError),
    /// Nobody takes it.
    #[error("the desired status is not taken")]
    Apply(#[source] ApplyError),
    /// It is not known what was applied last, or cannot be kept.
    #[error("cannot keep which file was applied")]
    Keep(#[source] StoreError),
}

/// Applies the file now and at every request to reload. What is wrong with it is logged; the last good one stays.
pub(crate) async fn follow(path: PathBuf, store: Store, updates: Updates, mut reloads: Reloads) {
    loop {
        match apply(&path, &store, &updates).await {
            Ok(Some(Accepted::New(update))) => {
                tracing::info!(file = %path.display(), %update, "a new desired status was taken from the file");
            }
            Ok(Some(Accepted::Unchanged(_)) | None) => {}
            Err(error) => {
                tracing::error!(error = %ErrorChain(&error), "the file with the desired status is not applied");
            }
        }
        reloads.next().await;
    }
}

/// `None` if it is the one that was applied last.
async fn apply(
    path: &Path,
    store: &Store,
    updates: &Updates,
) -> Result<Option<Accepted>, ApplyFileError> {
    let content = read(path.to_owned()).await?;
    let checksum = Sha256::digest(&content).to_vec();
    let last = store.read(|db| {
        let sql = "SELECT checksum FROM cm_desired_file";
        db.query_row(sql, [], |row| row.get::<_, Vec<u8>>(0))
            .optional()
    });
    if last.await.map_err(ApplyFileError::Keep)?.as_ref() == Some(&checksum) {
        return Ok(None);
    }
    let name = path.display().to_string();
    let format = match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("json") => Format::Json,
        _ => Format::Yaml,
    };
    let desired = DesiredStatus::read(&name, format, &content, Limits::default());
    let desired = desired.map_err(ApplyFileError::Invalid)?;
    let accepted = updates.apply(desired, Origin::Operator, name).await;
    let accepted = accepted.map_err(ApplyFileError::Apply)?;
    muster_fault::hit(FILE_APPLIED);
    let kept = store.write(move |db| {
        let sql = "INSERT OR REPLACE INTO cm_desired_file VALUES (1, ?1)";
        db.execute(sql, [checksum])
    });
    kept.await.map_err(ApplyFileError::Keep)?;
    Ok(Some(accepted))
}

async fn read(path: PathBuf) -> Result<Vec<u8>, ApplyFileError> {
    let file = path.clone();
    let work = move || {
        let length = std::fs::metadata(&file)?.len();
        match length > LONGEST {
            true => Ok(Err(length)),
            false => std::fs::read(&file).map(Ok),
        }
    };
    let read = tokio::task::spawn_blocking(work).await;
    let read = read.unwrap_or_else(|broken| Err(io::Error::other(broken)));
    match read {
        Ok(Ok(content)) => Ok(content),
        Ok(Err(length)) => Err(ApplyFileError::TooLong { path, length }),
        Err(source) => Err(ApplyFileError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use muster_store::testing::check_upgrades;

    use super::*;

    #[test]
    fn every_released_version_can_be_upgraded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        check_upgrades(
            &SCHEMA,
            &folder.join("tests/fixtures/cm-desired-file"),
            |db| {
                let sql = "INSERT INTO cm_desired_file VALUES (1, x'07')";
                db.execute(sql, []).map(drop)
            },
            |db, version| {
                let sql = "SELECT checksum FROM cm_desired_file";
                let found: Vec<u8> = db.query_row(sql, [], |row| row.get(0)).expect("the row");
                assert_eq!(found, [7], "version {version}");
            },
        );
    }
}
