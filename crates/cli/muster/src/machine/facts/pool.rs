//! Pools, and what nobody knows.

use jiff::Timestamp;
use muster_machine_api::v1;
use serde::Serialize;

use crate::text::shown;
use crate::unit::facts::Listed;

/// Something that bears our mark and is known to nobody.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::machine) struct OrphanFacts {
    provider: String,
    resource: String,
    machine: String,
    state: String,
    reason: String,
}

impl From<v1::Orphan> for OrphanFacts {
    fn from(orphan: v1::Orphan) -> Self {
        Self {
            provider: orphan.provider,
            resource: orphan.resource,
            machine: orphan.machine,
            state: orphan.state,
            reason: orphan.reason,
        }
    }
}

impl Listed for OrphanFacts {
    const KIND: &'static str = "orphan";
    const COLUMNS: &'static [&'static str] =
        &["RESOURCE", "PROVIDER", "MACHINE", "STATE", "REASON"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.resource.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            shown(&self.resource),
            self.provider.clone(),
            self.machine.clone(),
            self.state.clone(),
            self.reason.clone(),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A pool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::machine) struct PoolFacts {
    name: String,
    template: String,
    provider: String,
    min_idle: u32,
    max: Option<u32>,
    ready: u32,
    claimed: u32,
    coming: u32,
    stopped: u32,
    /// They run and do not answer.
    silent: u32,
}

impl From<v1::Pool> for PoolFacts {
    fn from(pool: v1::Pool) -> Self {
        Self {
            name: pool.name,
            template: pool.template,
            provider: pool.provider,
            min_idle: pool.min_idle,
            max: pool.max,
            ready: pool.ready,
            claimed: pool.claimed,
            coming: pool.coming,
            stopped: pool.stopped,
            silent: pool.silent,
        }
    }
}

impl Listed for PoolFacts {
    const KIND: &'static str = "pool";
    const COLUMNS: &'static [&'static str] = &[
        "POOL", "TEMPLATE", "PROVIDER", "READY", "CLAIMED", "COMING", "STOPPED", "SILENT", "MAX",
    ];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            shown(&self.name),
            self.template.clone(),
            self.provider.clone(),
            format!("{} of {}", self.ready, self.min_idle),
            self.claimed.to_string(),
            self.coming.to_string(),
            self.stopped.to_string(),
            self.silent.to_string(),
            self.max.map_or_else(|| "-".to_owned(), |it| it.to_string()),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}
