//! A machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_machine_api::v1;
use serde::Serialize;

use super::{age, joined, some, text};
use crate::console::{Answer, Table};
use crate::text::shown;
use crate::unit::facts::Listed;

/// A machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::machine) struct MachineFacts {
    pub(in crate::machine) id: String,
    name: Option<String>,
    pub(in crate::machine) state: String,
    provider: String,
    template: String,
    image: Option<String>,
    address: Option<String>,
    cpus: Option<u32>,
    #[serde(rename = "memoryMB")]
    memory_mb: Option<u64>,
    #[serde(rename = "diskMB")]
    disk_mb: Option<u64>,
    ordered: Option<String>,
    since: Option<String>,
    resource: Option<String>,
    spot: bool,
    sessions: u32,
    commands: u32,
    busy_until: Option<String>,
    task: Option<String>,
    pool: Option<String>,
    claimed: Option<String>,
    unit: Option<String>,
    reason: Option<String>,
    failure: Option<String>,
    key: Option<String>,
    access: Vec<String>,
    verbs: Vec<String>,
    labels: BTreeMap<String, String>,
    details: BTreeMap<String, String>,
}

impl From<v1::Machine> for MachineFacts {
    fn from(machine: v1::Machine) -> Self {
        Self {
            name: machine.labels.get("name").cloned(),
            id: machine.id,
            state: machine.state,
            provider: machine.provider,
            template: machine.template,
            image: some(machine.image),
            address: some(machine.address),
            cpus: machine.cpus,
            memory_mb: machine.memory_mb,
            disk_mb: machine.disk_mb,
            ordered: text(machine.ordered.as_ref()),
            since: text(machine.since.as_ref()),
            resource: some(machine.resource),
            spot: machine.spot,
            sessions: machine.sessions,
            commands: machine.commands,
            busy_until: text(machine.busy_until.as_ref()),
            task: some(machine.task),
            pool: some(machine.pool),
            claimed: some(machine.claimed),
            unit: some(machine.unit),
            reason: some(machine.reason),
            failure: some(machine.failure),
            key: some(machine.key),
            access: machine.access,
            verbs: machine.verbs,
            labels: machine.labels,
            details: machine.details,
        }
    }
}

impl MachineFacts {
    fn work(&self) -> String {
        match (self.sessions, self.commands) {
            (0, 0) if self.unit.is_some() => "node".to_owned(),
            (0, 0) => String::new(),
            (sessions, 0) => format!("{sessions} sessions"),
            (0, commands) => format!("{commands} commands"),
            (sessions, commands) => format!("{sessions} sessions, {commands} commands"),
        }
    }
}

impl Listed for MachineFacts {
    const KIND: &'static str = "machine";
    const COLUMNS: &'static [&'static str] = &[
        "MACHINE", "NAME", "STATE", "PROVIDER", "TEMPLATE", "ADDRESS", "AGE", "WORK",
    ];
    const FURTHER: &'static [&'static str] = &["IMAGE", "RESOURCE", "POOL", "LABELS"];

    fn key(&self) -> String {
        self.id.clone()
    }

    fn row(&self, now: Timestamp) -> Vec<String> {
        vec![
            self.id.clone(),
            shown(self.name.as_deref().unwrap_or("-")),
            match (self.state.as_str(), &self.unit) {
                // Somebody has to see to it: `muster machine leave`.
                ("terminated", Some(_)) => "terminated, not left".to_owned(),
                (state, _) => state.to_owned(),
            },
            self.provider.clone(),
            self.template.clone(),
            self.address.clone().unwrap_or_else(|| "-".to_owned()),
            age(self.ordered.as_deref(), now),
            match &self.task {
                Some(task) => task.clone(),
                None => self.work(),
            },
        ]
    }

    fn further(&self) -> Vec<String> {
        let or_dash = |it: &Option<String>| it.as_deref().map_or_else(|| "-".to_owned(), shown);
        vec![
            or_dash(&self.image),
            or_dash(&self.resource),
            or_dash(&self.pool),
            joined(&self.labels),
        ]
    }
}

impl Answer for MachineFacts {
    fn table(&self) -> Table {
        let or_empty = |it: &Option<String>| it.as_deref().map_or_else(String::new, shown);
        let number =
            |it: Option<u64>, unit: &str| it.map_or_else(String::new, |it| format!("{it}{unit}"));
        let mut facts = vec![
            ("Machine", self.id.clone()),
            ("Name", or_empty(&self.name)),
            ("State", self.state.clone()),
            ("Since", or_empty(&self.since)),
            ("Ordered", or_empty(&self.ordered)),
            ("Provider", self.provider.clone()),
            ("Template", self.template.clone()),
            ("Image", or_empty(&self.image)),
            ("Address", or_empty(&self.address)),
            ("Processors", number(self.cpus.map(u64::from), "")),
            ("Memory", number(self.memory_mb, " MiB")),
            ("Disk", number(self.disk_mb, " MiB")),
            ("Resource", or_empty(&self.resource)),
            ("Spot", (if self.spot { "yes" } else { "" }).to_owned()),
            ("Work", self.work()),
            ("Busy until", or_empty(&self.busy_until)),
            ("Under way", or_empty(&self.task)),
            ("Pool", or_empty(&self.pool)),
            ("Claimed by", or_empty(&self.claimed)),
            ("Node of", or_empty(&self.unit)),
            ("Gone because", or_empty(&self.reason)),
            ("Provider said", or_empty(&self.failure)),
            ("Key", or_empty(&self.key)),
            ("Usable by", self.access.join(" ")),
            ("Can", self.verbs.join(" ")),
            ("Labels", joined(&self.labels)),
        ];
        for (name, value) in &self.details {
            facts.push(("Detail", format!("{} = {}", shown(name), shown(value))));
        }
        Table::facts(facts)
    }
}
