//! A node, with everything that a scheduler would look at.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_control_api::v1;
use serde::Serialize;

use super::{Described, ErrorFacts, Listed, UsageFacts, error_words, given, share};
use crate::text::{shown, size};

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeFacts {
    pub(crate) id: String,
    pub(crate) r#type: String,
    pub(crate) title: String,
    pub(crate) state: String,
    pub(crate) connected: bool,
    pub(crate) main: bool,
    pub(crate) os: Option<String>,
    pub(crate) os_version: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) max_dmips: u64,
    pub(crate) total_ram: u64,
    pub(crate) runtimes: Vec<RuntimeFacts>,
    pub(crate) resources: Vec<ResourceFacts>,
    pub(crate) labels: Vec<String>,
    pub(crate) priority: u64,
    pub(crate) instances: u64,
    pub(crate) usage: Option<UsageFacts>,
    pub(crate) error: Option<ErrorFacts>,
    pub(crate) config_version: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuntimeFacts {
    id: String,
    r#type: String,
    allowed_dmips: u64,
    allowed_ram: u64,
    max_instances: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceFacts {
    name: String,
    /// 0 for any number.
    shared_count: u64,
}

impl From<v1::Node> for NodeFacts {
    fn from(node: v1::Node) -> Self {
        let (os, os_version) = match node.os_info {
            Some(info) => (given(info.os), given(info.version)),
            None => (None, None),
        };
        Self {
            id: node.node_id,
            r#type: node.node_type,
            title: node.title,
            state: node.state,
            connected: node.connected,
            main: node.is_main,
            os,
            os_version,
            architecture: given(node.architecture),
            max_dmips: node.max_dmips,
            total_ram: node.total_ram,
            runtimes: (node.runtimes.into_iter())
                .map(|it| RuntimeFacts {
                    id: it.runtime_id,
                    r#type: it.r#type,
                    allowed_dmips: it.allowed_dmips,
                    allowed_ram: it.allowed_ram,
                    max_instances: it.max_instances,
                })
                .collect(),
            resources: (node.resources.into_iter())
                .map(|it| ResourceFacts {
                    name: it.name,
                    shared_count: it.shared_count,
                })
                .collect(),
            labels: node.labels,
            priority: node.priority,
            instances: node.instances,
            usage: node.usage.map(UsageFacts::from),
            error: node.error.map(ErrorFacts::from),
            config_version: given(node.config_version),
            attributes: node.attributes,
        }
    }
}

impl NodeFacts {
    fn link(&self) -> String {
        match self.connected {
            true => "connected".to_owned(),
            false => "disconnected".to_owned(),
        }
    }

    fn runtimes(&self) -> String {
        let types: Vec<&str> = self.runtimes.iter().map(|it| it.r#type.as_str()).collect();
        shown(&types.join(","))
    }

    fn system(&self) -> String {
        let parts = [&self.os, &self.os_version, &self.architecture];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        shown(&parts.join(" "))
    }
}

impl Listed for NodeFacts {
    const KIND: &'static str = "node";
    const COLUMNS: &'static [&'static str] =
        &["NODE", "STATE", "LINK", "TYPE", "INSTANCES", "CPU", "RAM"];
    const FURTHER: &'static [&'static str] = &[
        "SYSTEM", "RUNTIMES", "LABELS", "PRIORITY", "CONFIG", "TITLE", "ERROR",
    ];

    fn key(&self) -> String {
        self.id.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let usage = self.usage.as_ref();
        vec![
            shown(&self.id),
            shown(&self.state),
            self.link(),
            shown(&self.r#type),
            self.instances.to_string(),
            share(usage.map(|it| it.cpu), self.max_dmips),
            share(usage.map(|it| it.ram), self.total_ram),
        ]
    }

    fn further(&self) -> Vec<String> {
        vec![
            self.system(),
            self.runtimes(),
            shown(&self.labels.join(",")),
            self.priority.to_string(),
            shown(self.config_version.as_deref().unwrap_or("-")),
            shown(&self.title),
            error_words(self.error.as_ref()),
        ]
    }
}

impl Described for NodeFacts {
    fn facts(&self, _: Timestamp) -> Vec<(&'static str, String)> {
        let role = match self.main {
            true => "Main Node",
            false => "Secondary Node",
        };
        let mut facts = vec![
            ("Node", shown(&self.id)),
            ("Title", shown(&self.title)),
            ("Role", role.to_owned()),
            ("Type", shown(&self.r#type)),
            ("State", format!("{}, {}", shown(&self.state), self.link())),
            ("Error", error_words(self.error.as_ref())),
            ("System", self.system()),
            ("CPU", format!("{} DMIPS", self.max_dmips)),
            ("RAM", size(self.total_ram)),
            ("Priority", self.priority.to_string()),
            ("Labels", shown(&self.labels.join(", "))),
            (
                "Configuration",
                shown(self.config_version.as_deref().unwrap_or("none")),
            ),
        ];
        for runtime in &self.runtimes {
            // Nothing is set aside for it where nothing is said.
            let cpu = match runtime.allowed_dmips {
                0 => "the node's CPU".to_owned(),
                dmips => format!("{dmips} DMIPS"),
            };
            let ram = match runtime.allowed_ram {
                0 => "the node's RAM".to_owned(),
                bytes => size(bytes),
            };
            let text = format!(
                "{} ({}), {cpu}, {ram}, at most {} instances",
                runtime.r#type, runtime.id, runtime.max_instances
            );
            facts.push(("Runtime", shown(&text)));
        }
        for resource in &self.resources {
            let text = match resource.shared_count {
                0 => format!("{}, for any number", resource.name),
                count => format!("{}, for {count} at a time", resource.name),
            };
            facts.push(("Resource", shown(&text)));
        }
        for (name, value) in &self.attributes {
            facts.push(("Attribute", shown(&format!("{name}={value}"))));
        }
        facts.extend(UsageFacts::facts(self.usage.as_ref()));
        facts
    }
}
