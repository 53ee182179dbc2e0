//! The launcher's part of the node's database.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::domain::{
    ConvertError, EnvVar, InstanceFilter, InstanceIdent, InstanceInfo, fault_from_wire,
    fault_to_wire,
};
use muster_api::{common::v2 as common, servicemanager::v5 as wire};
use muster_runtime::{RunId, RunPolicy};
use muster_store::{Migration, Schema, Step, Store, StoreError};
use muster_telemetry::ErrorChain;
use prost::Message;
use rusqlite::Connection;

use crate::decide::{Change, Crashes, Known, Rejected, Row, Saved, Setback};
use crate::target::{EnvOverride, Target};

/// The tables of the launcher.
pub static SCHEMA: Schema = Schema::new(
    "launcher",
    &[Migration {
        number: 1,
        name: "instances",
        step: Step::Sql(
            "CREATE TABLE launcher_instances (ident TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT;
             CREATE TABLE launcher_settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;",
        ),
    }],
);

const OVERRIDES: &str = "overrides";
const NEXT_RUN: &str = "next-run";
const OFFLINE_SECONDS: &str = "offline-seconds";
const KNOWS_CLOUD: &str = "knows-cloud";

/// Why the last state could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The database failed.
    #[error("cannot read the instances of this node")]
    Store(#[source] StoreError),
    /// A record is not one.
    #[error("the record of {object} cannot be decoded")]
    Decode {
        /// Which record.
        object: String,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// A record says something that cannot be.
    #[error("the record of {object} is not valid")]
    Invalid {
        /// Which record.
        object: String,
        /// What is wrong.
        source: ConvertError,
    },
}

#[derive(Clone, PartialEq, Message)]
struct TargetRecord {
    #[prost(message, optional, tag = "1")]
    info: Option<wire::InstanceInfo>,
    #[prost(message, repeated, tag = "2")]
    env_override: Vec<wire::EnvVarInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct RowRecord {
    #[prost(message, optional, tag = "1")]
    ident: Option<common::InstanceIdent>,
    #[prost(message, optional, tag = "2")]
    goal: Option<wire::InstanceInfo>,
    #[prost(message, optional, tag = "3")]
    good: Option<TargetRecord>,
    #[prost(message, optional, tag = "4")]
    rejected: Option<TargetRecord>,
    #[prost(message, optional, tag = "5")]
    rejected_for: Option<common::ErrorInfo>,
    #[prost(message, optional, tag = "6")]
    running: Option<TargetRecord>,
    #[prost(uint64, tag = "7")]
    run: u64,
    #[prost(uint32, tag = "8")]
    ends: u32,
    #[prost(uint32, tag = "9")]
    given_up: u32,
    /// Milliseconds.
    #[prost(uint64, tag = "10")]
    given_up_for: u64,
    #[prost(message, optional, tag = "11")]
    given_up_because: Option<common::ErrorInfo>,
    #[prost(uint32, tag = "12")]
    ends_of_run: u32,
    /// Milliseconds.
    #[prost(uint64, optional, tag = "13")]
    offline_ttl: Option<u64>,
    #[prost(message, optional, tag = "14")]
    policy: Option<PolicyRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct PolicyRecord {
    /// Milliseconds.
    #[prost(uint64, tag = "1")]
    restart_interval: u64,
    #[prost(uint32, tag = "2")]
    start_burst: u32,
    /// Milliseconds.
    #[prost(uint64, tag = "3")]
    start_interval: u64,
}

impl From<RunPolicy> for PolicyRecord {
    fn from(policy: RunPolicy) -> Self {
        Self {
            restart_interval: millis(policy.restart_interval),
            start_burst: policy.start_burst,
            start_interval: millis(policy.start_interval),
        }
    }
}

impl From<PolicyRecord> for RunPolicy {
    fn from(record: PolicyRecord) -> Self {
        Self {
            restart_interval: Duration::from_millis(record.restart_interval),
            start_burst: record.start_burst,
            start_interval: Duration::from_millis(record.start_interval),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct OverrideRecord {
    #[prost(message, optional, tag = "1")]
    filter: Option<common::InstanceFilter>,
    #[prost(message, optional, tag = "2")]
    variable: Option<wire::EnvVarInfo>,
    /// Seconds since 1970; 0 for never.
    #[prost(uint64, tag = "3")]
    expires: u64,
}

#[derive(Clone, PartialEq, Message)]
struct OverridesRecord {
    #[prost(message, repeated, tag = "1")]
    overrides: Vec<OverrideRecord>,
}

impl From<&Target> for TargetRecord {
    fn from(target: &Target) -> Self {
        Self {
            info: Some(target.info.clone().into()),
            env_override: target
                .env_override
                .iter()
                .cloned()
                .map(Into::into)
                .collect(),
        }
    }
}

impl TryFrom<TargetRecord> for Target {
    type Error = ConvertError;

    fn try_from(record: TargetRecord) -> Result<Self, ConvertError> {
        let env_override: Result<Vec<EnvVar>, ConvertError> = record
            .env_override
            .into_iter()
            .map(EnvVar::try_from)
            .collect();
        Ok(Self {
            info: InstanceInfo::try_from(record.info.unwrap_or_default())?,
            env_override: env_override?,
        })
    }
}

fn encode_row(ident: &InstanceIdent, row: &Row) -> Vec<u8> {
    let (running, run) = match &row.running {
        Some((target, run)) => (Some(TargetRecord::from(&**target)), run.0),
        None => (None, 0),
    };
    let rejected = row.rejected.as_ref();
    let (wait, because) = row.setback.given_up.clone().unzip();
    let record = RowRecord {
        ident: Some(ident.clone().into()),
        goal: row.goal.as_deref().cloned().map(Into::into),
        good: row.good.as_deref().map(TargetRecord::from),
        rejected: rejected.map(|it| TargetRecord::from(&*it.target)),
        rejected_for: rejected.map(|it| fault_to_wire(Some(it.fault.clone()))),
        running,
        run,
        ends: row.setback.crashes.ends,
        given_up: row.setback.crashes.given_up,
        given_up_for: wait.map_or(0, millis),
        given_up_because: because.map(|it| fault_to_wire(Some(it))),
        ends_of_run: row.known.ends,
        offline_ttl: row.known.offline_ttl.map(millis),
        policy: row.known.policy.map(PolicyRecord::from),
    };
    record.encode_to_vec()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn decode_row(record: RowRecord) -> Result<(InstanceIdent, Row), ConvertError> {
    let target = |record: Option<TargetRecord>| -> Result<Option<Arc<Target>>, ConvertError> {
        record
            .map(Target::try_from)
            .transpose()
            .map(|target| target.map(Arc::new))
    };
    let goal = record.goal.map(InstanceInfo::try_from).transpose()?;
    let rejected = target(record.rejected)?.zip(fault_from_wire(record.rejected_for));
    let row = Row {
        goal: goal.map(Arc::new),
        good: target(record.good)?,
        rejected: rejected.map(|(target, fault)| Rejected { target, fault }),
        running: target(record.running)?.map(|target| (target, RunId(record.run))),
        known: Known {
            ends: record.ends_of_run,
            offline_ttl: record.offline_ttl.map(Duration::from_millis),
            policy: record.policy.map(RunPolicy::from),
        },
        setback: Setback {
            crashes: Crashes {
                ends: record.ends,
                given_up: record.given_up,
            },
            given_up: fault_from_wire(record.given_up_because)
                .map(|because| (Duration::from_millis(record.given_up_for), because)),
        },
    };
    Ok((
        InstanceIdent::try_from(record.ident.unwrap_or_default())?,
        row,
    ))
}

fn encode_overrides(overrides: &[EnvOverride]) -> Vec<u8> {
    let seconds = |at: SystemTime| {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs().max(1)
    };
    let record = |it: &EnvOverride| OverrideRecord {
        filter: Some(it.filter.clone().into()),
        variable: Some(it.variable.clone().into()),
        expires: it.expires.map_or(0, seconds),
    };
    OverridesRecord {
        overrides: overrides.iter().map(record).collect(),
    }
    .encode_to_vec()
}

fn decode_overrides(bytes: &[u8]) -> Result<Vec<EnvOverride>, LoadError> {
    let object = || OVERRIDES.to_owned();
    let records = OverridesRecord::decode(bytes).map_err(|source| LoadError::Decode {
        object: object(),
        source,
    })?;
    let one = |record: OverrideRecord| -> Result<EnvOverride, ConvertError> {
        Ok(EnvOverride {
            filter: InstanceFilter::try_from(record.filter.unwrap_or_default())?,
            variable: EnvVar::try_from(record.variable.unwrap_or_default())?,
            expires: (record.expires > 0)
                .then(|| UNIX_EPOCH.checked_add(Duration::from_secs(record.expires)))
                .flatten(),
        })
    };
    let all: Result<Vec<_>, ConvertError> = records.overrides.into_iter().map(one).collect();
    all.map_err(|source| LoadError::Invalid {
        object: object(),
        source,
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Unique for an instance, and readable.
fn key(ident: &InstanceIdent) -> String {
    let kind = i32::from(ident.item_type);
    let origin = if ident.preinstalled {
        ":preinstalled"
    } else {
        ""
    };
    format!("{ident}:{kind}{origin}")
}

/// Writes a step down; returns when it is on disk.
pub(crate) async fn save(store: &Store, changes: Vec<Change>) -> Result<(), StoreError> {
    store.write(move |db| apply(db, &changes)).await
}

fn apply(db: &Connection, changes: &[Change]) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            Change::Put(ident, row) => db.execute(
                "INSERT OR REPLACE INTO launcher_instances VALUES (?1, ?2)",
                (key(ident), encode_row(ident, row)),
            )?,
            Change::Remove(ident) => db.execute(
                "DELETE FROM launcher_instances WHERE ident = ?1",
                [key(ident)],
            )?,
            Change::Overrides(overrides) => set(db, OVERRIDES, &encode_overrides(overrides))?,
            Change::NextRun(run) => set(db, NEXT_RUN, &run.0.to_le_bytes())?,
            Change::KnowsCloud => set(db, KNOWS_CLOUD, &1u64.to_le_bytes())?,
            Change::Offline(time) => set(db, OFFLINE_SECONDS, &time.as_secs().to_le_bytes())?,
        };
    }
    Ok(())
}

fn set(db: &Connection, name: &str, value: &[u8]) -> rusqlite::Result<usize> {
    db.execute(
        "INSERT OR REPLACE INTO launcher_settings VALUES (?1, ?2)",
        (name, value),
    )
}

fn read_row(object: &str, bytes: &[u8]) -> Result<(InstanceIdent, Row), LoadError> {
    let object = || object.to_owned();
    let record = RowRecord::decode(bytes).map_err(|source| LoadError::Decode {
        object: object(),
        source,
    })?;
    decode_row(record).map_err(|source| LoadError::Invalid {
        object: object(),
        source,
    })
}

/// Reads everything back. What makes no sense is left out, and told.
pub(crate) async fn load(store: &Store) -> Result<Saved, LoadError> {
    let read = store.read(|db| {
        let mut rows = db.prepare("SELECT ident, record FROM launcher_instances ORDER BY ident")?;
        let rows: Vec<(String, Vec<u8>)> = rows
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut settings = db.prepare("SELECT name, value FROM launcher_settings")?;
        let settings: Vec<(String, Vec<u8>)> = settings
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        Ok((rows, settings))
    });
    let (rows, settings) = read.await.map_err(LoadError::Store)?;
    let mut saved = Saved::default();
    let mut broken = Vec::new();
    for (object, bytes) in rows {
        match read_row(&object, &bytes) {
            Ok(row) => saved.rows.push(row),
            Err(error) => {
                // One of many must not keep the others down. What runs of it belongs to nobody now, and its runtime ends it.
                tracing::error!(error = %ErrorChain(&error), "an instance is forgotten until the controller wants it again");
                broken.push(object);
            }
        }
    }
    if !broken.is_empty() {
        let forget = store.write(move |db| {
            let forget = |key| db.execute("DELETE FROM launcher_instances WHERE ident = ?1", [key]);
            broken.iter().try_for_each(|key| forget(key).map(drop))
        });
        forget.await.map_err(LoadError::Store)?;
    }
    for (name, value) in settings {
        match name.as_str() {
            OVERRIDES => {
                saved.overrides = decode_overrides(&value).unwrap_or_else(|error| {
                    tracing::error!(error = %ErrorChain(&error), "variables that were set for a while are forgotten");
                    Vec::new()
                });
            }
            OFFLINE_SECONDS => saved.offline = Duration::from_secs(number(&value)),
            KNOWS_CLOUD => saved.knows_cloud = number(&value) != 0,
            NEXT_RUN => saved.next_run = RunId(number(&value)),
            // Of a newer version that went back to this one.
            _ => {}
        }
    }
    Ok(saved)
}

#[cfg(test)]
mod tests;
