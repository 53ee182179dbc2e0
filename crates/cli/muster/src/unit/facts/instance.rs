//! An instance: where it is, and how.

use jiff::Timestamp;
use muster_api::common::v2 as common;
use muster_control_api::v1;
use serde::Serialize;

use super::{
    Described, ErrorFacts, Listed, UsageFacts, age, clock, error_words, given, instance_name,
    or_dash, time,
};
use crate::text::{shown, size};

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceFacts {
    /// `item/subject/number`
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) item: String,
    pub(crate) subject: String,
    pub(crate) instance: u64,
    /// `service` or `component`.
    pub(crate) r#type: &'static str,
    pub(crate) version: String,
    pub(crate) node: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) runtime_type: Option<String>,
    pub(crate) state: String,
    pub(crate) error: Option<ErrorFacts>,
    pub(crate) priority: u64,
    pub(crate) address: Option<String>,
    pub(crate) network: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) usage: Option<UsageFacts>,
}

impl From<v1::Instance> for InstanceFacts {
    fn from(instance: v1::Instance) -> Self {
        let ident = instance.ident.unwrap_or_default();
        Self {
            name: instance_name(&ident),
            id: instance.instance_id,
            r#type: match ident.r#type() {
                common::ItemType::Service => "service",
                common::ItemType::Component => "component",
            },
            item: ident.item_id,
            subject: ident.subject_id,
            instance: ident.instance,
            version: instance.version,
            node: given(instance.node_id),
            runtime: given(instance.runtime_id),
            runtime_type: given(instance.runtime_type),
            state: instance.state,
            error: instance.error.map(ErrorFacts::from),
            priority: instance.priority,
            address: given(instance.address),
            network: given(instance.network_id),
            since: instance.since.and_then(time),
            usage: instance.usage.map(UsageFacts::from),
        }
    }
}

impl InstanceFacts {
    /// As calls want it.
    pub(crate) fn ident(&self) -> common::InstanceIdent {
        let r#type = match self.r#type {
            "component" => common::ItemType::Component,
            _ => common::ItemType::Service,
        };
        common::InstanceIdent {
            item_id: self.item.clone(),
            subject_id: self.subject.clone(),
            instance: self.instance,
            r#type: r#type.into(),
            preinstalled: false,
        }
    }
}

impl Listed for InstanceFacts {
    const KIND: &'static str = "instance";
    const COLUMNS: &'static [&'static str] =
        &["INSTANCE", "VERSION", "NODE", "STATE", "AGE", "ERROR"];
    const FURTHER: &'static [&'static str] = &[
        "RUNTIME", "ADDRESS", "NETWORK", "PRIORITY", "CPU", "RAM", "ID",
    ];

    fn key(&self) -> String {
        self.name.clone()
    }

    fn row(&self, now: Timestamp) -> Vec<String> {
        vec![
            shown(&self.name),
            shown(&self.version),
            or_dash(self.node.as_deref()),
            shown(&self.state),
            age(self.since.as_deref(), now),
            error_words(self.error.as_ref()),
        ]
    }

    fn further(&self) -> Vec<String> {
        let usage = self.usage.as_ref();
        vec![
            or_dash(self.runtime_type.as_deref()),
            or_dash(self.address.as_deref()),
            or_dash(self.network.as_deref()),
            self.priority.to_string(),
            usage.map_or_else(|| "-".to_owned(), |it| it.cpu.to_string()),
            usage.map_or_else(|| "-".to_owned(), |it| size(it.ram)),
            shown(&self.id),
        ]
    }
}

impl Described for InstanceFacts {
    fn facts(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let since = match &self.since {
            None => String::new(),
            since => format!(
                ", for {} (since {})",
                age(since.as_deref(), now),
                clock(since.as_deref())
            ),
        };
        let mut facts = vec![
            ("Instance", shown(&self.name)),
            ("Id", shown(&self.id)),
            ("Type", self.r#type.to_owned()),
            ("Version", shown(&self.version)),
            ("State", format!("{}{since}", shown(&self.state))),
            ("Error", error_words(self.error.as_ref())),
            (
                "Node",
                self.node
                    .as_deref()
                    .map_or_else(|| "none".to_owned(), shown),
            ),
            (
                "Runtime",
                shown(self.runtime_type.as_deref().unwrap_or_default()),
            ),
            ("Priority", self.priority.to_string()),
            (
                "Network",
                shown(self.network.as_deref().unwrap_or_default()),
            ),
            (
                "Address",
                shown(self.address.as_deref().unwrap_or_default()),
            ),
        ];
        facts.extend(UsageFacts::facts(self.usage.as_ref()));
        facts
    }
}
