//! The tables: runs and their journals.

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use muster_config::Format;
use muster_lifecycle::Moment;
use muster_store::rusqlite::{self, Connection, OptionalExtension as _, Row};
use muster_store::{Migration, Schema, Step, Store, StoreError};

use crate::engine::Engine;
use crate::entry::{RunEvent, RunOutcome};
use crate::error::{BadRecord, StartRunsError};
use crate::run::{RunId, RunSummary};
use crate::workflow::{Limits, Workflow};

/// The tables of this crate, for [`StoreConfig::schema`](muster_store::StoreConfig::schema).
pub static SCHEMA: Schema = Schema::new(
    "orchestrate",
    &[Migration {
        number: 1,
        name: "runs and their journals",
        step: Step::Sql(
            "CREATE TABLE orchestrate_run (
                 id TEXT PRIMARY KEY,
                 key TEXT UNIQUE,
                 name TEXT NOT NULL,
                 workflow TEXT NOT NULL,
                 accepted INTEGER NOT NULL,
                 over_at INTEGER,
                 outcome TEXT
             ) STRICT;
             CREATE TABLE orchestrate_entry (
                 number INTEGER PRIMARY KEY AUTOINCREMENT,
                 run TEXT NOT NULL REFERENCES orchestrate_run (id) ON DELETE CASCADE,
                 at INTEGER NOT NULL,
                 entry TEXT NOT NULL
             ) STRICT;
             CREATE INDEX orchestrate_entry_run ON orchestrate_entry (run);",
        ),
    }],
);

fn row_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists can be written")
}

/// Tells workflows apart that were ordered with the same key, by mistake and not by malice.
pub(crate) fn digest(workflow: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    workflow.hash(&mut hasher);
    hasher.finish()
}

/// What a turn changes, as rows.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) accepted: Vec<NewRun>,
    pub(crate) entries: Vec<RunEvent>,
    pub(crate) over: Vec<(RunId, Moment, RunOutcome)>,
    pub(crate) removed: Vec<RunId>,
}

/// A run that was accepted.
#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) id: RunId,
    pub(crate) key: Option<String>,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) at: Moment,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.accepted.is_empty() && self.entries.is_empty() && self.removed.is_empty()
    }

    fn apply(&self, db: &Connection) -> rusqlite::Result<()> {
        // First of all: the key of a run that is removed may be another's at once.
        for run in &self.removed {
            db.execute(
                "DELETE FROM orchestrate_entry WHERE run = ?1",
                [run.as_str()],
            )?;
            db.execute("DELETE FROM orchestrate_run WHERE id = ?1", [run.as_str()])?;
        }
        for run in &self.accepted {
            db.execute(
                "INSERT INTO orchestrate_run VALUES (?1, ?2, ?3, ?4, ?5, NULL, NULL)",
                (
                    run.id.as_str(),
                    run.key.as_deref(),
                    run.workflow.name(),
                    run.workflow.to_json(),
                    row_number(run.at.as_millis()),
                ),
            )?;
        }
        let mut put = db.prepare("INSERT INTO orchestrate_entry VALUES (?1, ?2, ?3, ?4)")?;
        for event in &self.entries {
            put.execute((
                row_number(event.number),
                event.run.as_str(),
                row_number(event.at.as_millis()),
                json(&event.what),
            ))?;
        }
        for (run, at, outcome) in &self.over {
            db.execute(
                "UPDATE orchestrate_run SET over_at = ?2, outcome = ?3 WHERE id = ?1",
                (run.as_str(), row_number(at.as_millis()), json(outcome)),
            )?;
        }
        Ok(())
    }
}

pub(crate) async fn save(store: &Store, changes: &Arc<Changes>) -> Result<(), StoreError> {
    let changes = Arc::clone(changes);
    store.write(move |db| changes.apply(db)).await
}

/// A row of `orchestrate_run`.
struct RunRow {
    id: String,
    key: Option<String>,
    name: String,
    workflow: String,
    accepted: i64,
    over: Option<(i64, String)>,
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let over: (Option<i64>, Option<String>) = (row.get(5)?, row.get(6)?);
    Ok(RunRow {
        id: row.get(0)?,
        key: row.get(1)?,
        name: row.get(2)?,
        workflow: row.get(3)?,
        accepted: row.get(4)?,
        over: over.0.zip(over.1),
    })
}

/// A row of `orchestrate_entry`: number, run, time and text.
type EntryRow = (i64, String, i64, String);

fn moment(millis: i64) -> Moment {
    Moment::from_millis(u64::try_from(millis).unwrap_or_default())
}

impl RunRow {
    fn bad(&self, source: BadRecord) -> StartRunsError {
        let run = self.id.clone();
        StartRunsError::Record { run, source }
    }

    fn summary(&self) -> Result<RunSummary, StartRunsError> {
        let id = self.id.parse();
        let id: RunId = id.map_err(|error| self.bad(BadRecord::Id(error)))?;
        let over = match &self.over {
            Some((at, outcome)) => {
                let outcome = serde_json::from_str(outcome);
                let outcome = outcome.map_err(|error| self.bad(BadRecord::Text(error)))?;
                Some((moment(*at), outcome))
            }
            None => None,
        };
        Ok(RunSummary {
            id,
            name: self.name.clone(),
            accepted: moment(self.accepted),
            over,
        })
    }

    fn engine(&self, entries: &[EntryRow]) -> Result<Engine, StartRunsError> {
        // What was accepted under wider limits is carried on under narrower ones.
        let limits = Limits {
            document: usize::MAX,
            values: usize::MAX,
            machines: u32::MAX,
            steps: usize::MAX,
            actions: usize::MAX,
            jobs: usize::MAX,
        };
        let text = self.workflow.as_bytes();
        let workflow = Workflow::read("the workflow", Format::Json, text, &limits);
        let workflow = workflow.map_err(|source| StartRunsError::Workflow {
            run: self.id.clone(),
            source,
        })?;
        let mut engine = Engine::new(Arc::new(workflow), moment(self.accepted));
        for (_, _, at, text) in entries {
            let entry = serde_json::from_str(text);
            let entry = entry.map_err(|error| self.bad(BadRecord::Text(error)))?;
            engine.apply(moment(*at), &entry);
        }
        Ok(engine)
    }
}

/// What a manager finds when it starts.
pub(crate) struct Saved {
    /// Runs under way.
    pub(crate) active: Vec<(RunId, Engine)>,
    /// Runs that are over, and since when.
    pub(crate) over: Vec<(RunId, Moment)>,
    /// Keys of orders, with the digests of their workflows.
    pub(crate) keys: Vec<(String, RunId, u64)>,
    pub(crate) next_event: u64,
}

const RUNS: &str =
    "SELECT id, key, name, workflow, accepted, over_at, outcome FROM orchestrate_run";

pub(crate) async fn load(store: &Store) -> Result<Saved, StartRunsError> {
    let rows = store.read(|db| {
        let mut query = db.prepare(RUNS)?;
        let runs: Vec<RunRow> = query.query_map([], run_row)?.collect::<Result<_, _>>()?;
        let mut active = Vec::new();
        for run in runs.iter().filter(|run| run.over.is_none()) {
            active.push(entries_of(db, &run.id)?);
        }
        let last = "SELECT seq FROM sqlite_sequence WHERE name = 'orchestrate_entry'";
        let last: Option<i64> = db.query_row(last, [], |row| row.get(0)).optional()?;
        Ok((runs, active, last))
    });
    let (runs, active, last) = rows.await.map_err(StartRunsError::Store)?;
    let mut saved = Saved {
        active: Vec::new(),
        over: Vec::new(),
        keys: Vec::new(),
        next_event: last.map_or(1, |last| last.unsigned_abs().saturating_add(1)),
    };
    let mut journals = active.iter();
    for run in &runs {
        let summary = run.summary()?;
        if let Some(key) = &run.key {
            let digest = digest(&run.workflow);
            saved.keys.push((key.clone(), summary.id.clone(), digest));
        }
        match summary.over {
            Some((at, _)) => saved.over.push((summary.id, at)),
            None => {
                let journal = journals.next().map_or(&[][..], Vec::as_slice);
                saved.active.push((summary.id, run.engine(journal)?));
            }
        }
    }
    Ok(saved)
}

fn entries_of(db: &Connection, run: &str) -> rusqlite::Result<Vec<EntryRow>> {
    let sql = "SELECT number, run, at, entry FROM orchestrate_entry WHERE run = ?1 ORDER BY number";
    let mut query = db.prepare(sql)?;
    let rows = query.query_map([run], entry_row)?;
    rows.collect()
}

fn entry_row(row: &Row<'_>) -> rusqlite::Result<EntryRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// One run as its journal tells it; none if there is none.
pub(crate) async fn run(
    store: &Store,
    run: &RunId,
) -> Result<Option<(RunSummary, Engine)>, StartRunsError> {
    let id = run.to_string();
    let found = store.read(move |db| {
        let sql = format!("{RUNS} WHERE id = ?1");
        let row = db.query_row(&sql, [&id], run_row).optional()?;
        row.map(|row| Ok((row, entries_of(db, &id)?))).transpose()
    });
    match found.await.map_err(StartRunsError::Store)? {
        Some((row, entries)) => Ok(Some((row.summary()?, row.engine(&entries)?))),
        None => Ok(None),
    }
}

/// The newest runs, the newest first.
pub(crate) async fn list(store: &Store, most: u32) -> Result<Vec<RunSummary>, StartRunsError> {
    let rows = store.read(move |db| {
        let mut query = db.prepare(&format!("{RUNS} ORDER BY accepted DESC, id LIMIT ?1"))?;
        let rows = query.query_map([most], run_row)?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    });
    let rows = rows.await.map_err(StartRunsError::Store)?;
    rows.iter().map(RunRow::summary).collect()
}

/// Events with a number greater than this, the oldest first, at most so many; of one run, if one is named. One that cannot be
/// read was written by a newer version, and is left out.
pub(crate) async fn events_after(
    store: &Store,
    run: Option<&RunId>,
    number: u64,
    most: u32,
) -> Result<Vec<RunEvent>, StoreError> {
    let run = run.map(ToString::to_string);
    let rows: Vec<EntryRow> = store
        .read(move |db| {
            let sql = "SELECT number, run, at, entry FROM orchestrate_entry
                       WHERE number > ?1 AND (?2 IS NULL OR run = ?2) ORDER BY number LIMIT ?3";
            let mut query = db.prepare(sql)?;
            let rows = query.query_map((row_number(number), run, most), entry_row)?;
            rows.collect()
        })
        .await?;
    let events = rows.into_iter().filter_map(|(number, run, at, entry)| {
        Some(RunEvent {
            number: number.unsigned_abs(),
            at: moment(at),
            run: run.parse().ok()?,
            what: serde_json::from_str(&entry).ok()?,
        })
    });
    Ok(events.collect())
}
