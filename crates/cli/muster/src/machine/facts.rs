//! What a node manager tells, as programs get it with `--output json` and people as tables.
//!
//! The JSON is a promise: keys are never renamed or removed, every key of an object is always there, what is not known is
//! `null`, times are RFC 3339 in UTC.

mod event;
mod machine;
mod pool;
mod run;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_machine_api::{time, v1};
use serde::Serialize;

use crate::text::{length, shown};
use crate::unit::facts::Listed;

pub(super) use self::event::EventFacts;
pub(super) use self::machine::MachineFacts;
pub(super) use self::pool::{OrphanFacts, PoolFacts};
pub(super) use self::run::RunFacts;

pub(super) fn moment(at: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let millis = i64::try_from(time::millis(at?)).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

fn text(at: Option<&prost_types::Timestamp>) -> Option<String> {
    moment(at).map(|it| it.to_string())
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// How long ago.
fn age(at: Option<&str>, now: Timestamp) -> String {
    let Some(at) = at.and_then(|at| at.parse::<Timestamp>().ok()) else {
        return String::new();
    };
    let passed = now.duration_since(at);
    length(Duration::try_from(passed).unwrap_or_default())
}

fn joined(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    shown(&pairs.join(","))
}

/// A provider.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProviderFacts {
    id: String,
    verbs: Vec<String>,
    access: Vec<String>,
    spot: bool,
    one_machine: bool,
    /// Why its machines are no barrier.
    insecure: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable: Option<String>,
    endpoint: String,
    machines: u64,
    max_machines: Option<u64>,
    max_cpus: Option<u64>,
    #[serde(rename = "maxMemoryMB")]
    max_memory_mb: Option<u64>,
    /// Millionths of a unit of money an hour.
    price: Option<u64>,
}

impl From<v1::Provider> for ProviderFacts {
    fn from(provider: v1::Provider) -> Self {
        let quota = provider.quota.unwrap_or_default();
        Self {
            id: provider.id,
            verbs: provider.verbs,
            access: provider.access,
            spot: provider.spot,
            one_machine: provider.one_machine,
            insecure: some(provider.insecure),
            unusable: some(provider.unusable),
            endpoint: provider.endpoint,
            machines: provider.machines,
            max_machines: quota.machines,
            max_cpus: quota.cpus,
            max_memory_mb: quota.memory_mb,
            price: provider.price,
        }
    }
}

impl Listed for ProviderFacts {
    const KIND: &'static str = "provider";
    const COLUMNS: &'static [&'static str] = &[
        "PROVIDER",
        "MACHINES",
        "BARRIER",
        "SPOT",
        "USABLE BY",
        "VERBS",
    ];
    const FURTHER: &'static [&'static str] = &["AT", "REMARK"];

    fn key(&self) -> String {
        self.id.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let machines = match self.max_machines {
            Some(most) => format!("{} of {most}", self.machines),
            None => self.machines.to_string(),
        };
        let word = |yes: bool| (if yes { "yes" } else { "no" }).to_owned();
        let or_dash = |words: &[String]| match words.is_empty() {
            true => "-".to_owned(),
            false => words.join(" "),
        };
        if let Some(why) = &self.unusable {
            let mut row = vec!["-".to_owned(); Self::COLUMNS.len()];
            row[0].clone_from(&self.id);
            row[Self::COLUMNS.len() - 1] = format!("cannot be used: {}", shown(why));
            return row;
        }
        vec![
            self.id.clone(),
            machines,
            word(self.insecure.is_none()),
            word(self.spot),
            or_dash(&self.access),
            or_dash(&self.verbs),
        ]
    }

    fn further(&self) -> Vec<String> {
        let remark = self.insecure.clone().unwrap_or_default();
        vec![shown(&self.endpoint), remark]
    }
}

/// A template.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TemplateFacts {
    name: String,
    extends: Option<String>,
    origin: String,
    fields: BTreeMap<String, String>,
    overrides: Vec<String>,
    added: bool,
}

impl From<v1::Template> for TemplateFacts {
    fn from(template: v1::Template) -> Self {
        Self {
            name: template.name,
            extends: some(template.extends),
            origin: template.origin,
            fields: template.fields,
            overrides: template.overrides,
            added: template.added,
        }
    }
}

impl Listed for TemplateFacts {
    const KIND: &'static str = "template";
    const COLUMNS: &'static [&'static str] = &[
        "TEMPLATE",
        "IMAGE",
        "CPUS",
        "MEMORY MB",
        "EXTENDS",
        "OVERRIDES",
    ];
    const FURTHER: &'static [&'static str] = &["WRITTEN AT"];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let field = |name: &str| {
            self.fields
                .get(name)
                .map_or_else(|| "-".to_owned(), |it| shown(it))
        };
        vec![
            self.name.clone(),
            field("image"),
            field("cpus"),
            field("memoryMB"),
            self.extends.clone().unwrap_or_else(|| "-".to_owned()),
            self.overrides.join(" "),
        ]
    }

    fn further(&self) -> Vec<String> {
        let note = if self.added { "added: " } else { "" };
        vec![format!("{note}{}", shown(&self.origin))]
    }
}

/// A candidate of a plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateFacts {
    name: String,
    provider: String,
    machine: Option<String>,
    pub(super) chosen: bool,
    place: Option<u32>,
    why: Vec<String>,
}

impl From<v1::Candidate> for CandidateFacts {
    fn from(candidate: v1::Candidate) -> Self {
        Self {
            name: candidate.name,
            provider: candidate.provider,
            machine: some(candidate.machine),
            chosen: candidate.chosen,
            place: candidate.place,
            why: candidate.why,
        }
    }
}

impl CandidateFacts {
    /// A machine that was named. One that is gone does not fit.
    pub(super) fn named(machine: v1::Machine) -> Self {
        let fits = !matches!(machine.state.as_str(), "shutting-down" | "terminated");
        let state = match machine.state.as_str() {
            "stopped" | "hibernated" => format!("it is {}, and would be started", machine.state),
            state => format!("it is {state}"),
        };
        Self {
            name: format!("machine {}", machine.id),
            provider: machine.provider,
            machine: some(machine.id),
            chosen: fits,
            place: fits.then_some(1),
            why: vec!["it was named".to_owned(), state],
        }
    }
}

impl Listed for CandidateFacts {
    const KIND: &'static str = "candidate";
    const COLUMNS: &'static [&'static str] = &["PLACE", "CANDIDATE", "CHOSEN", "WHY"];
    const FURTHER: &'static [&'static str] = &["PROVIDER"];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            self.place
                .map_or_else(|| "-".to_owned(), |it| it.to_string()),
            self.name.clone(),
            (if self.chosen { "yes" } else { "no" }).to_owned(),
            shown(&self.why.join("; ")),
        ]
    }

    fn further(&self) -> Vec<String> {
        vec![self.provider.clone()]
    }
}

/// What is pinned.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LockFacts {
    template: String,
    provider: String,
    state: String,
    pins: BTreeMap<String, String>,
}

impl From<v1::LockEntry> for LockFacts {
    fn from(entry: v1::LockEntry) -> Self {
        Self {
            template: entry.template,
            provider: entry.provider,
            state: entry.state,
            pins: entry.pins,
        }
    }
}

impl Listed for LockFacts {
    const KIND: &'static str = "pin";
    const COLUMNS: &'static [&'static str] = &["TEMPLATE", "PROVIDER", "PINNED", "TO"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        format!("{}/{}", self.template, self.provider)
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            self.template.clone(),
            self.provider.clone(),
            self.state.clone(),
            joined(&self.pins),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}
