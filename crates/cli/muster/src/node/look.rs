//! `list` and `show`.

use muster_api::domain::NodeId;
use muster_api::iamanager::v6 as wire;
use muster_iamclient::IamClient;
use serde::Serialize;

use super::NodeCommandError;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::text::{shown, size};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeFacts {
    id: String,
    r#type: String,
    title: String,
    state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    max_dmips: u64,
    total_ram: u64,
    physical_ram: u64,
    os: String,
    cpus: Vec<Cpu>,
    partitions: Vec<Partition>,
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cpu {
    model: String,
    cores: u64,
    threads: u64,
    architecture: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    name: String,
    path: String,
    types: Vec<String>,
    total_size: u64,
}

#[derive(Serialize)]
struct Attribute {
    name: String,
    value: String,
}

impl From<wire::NodeInfo> for NodeFacts {
    fn from(info: wire::NodeInfo) -> Self {
        let os = info
            .os_info
            .map(|os| [os.os, os.version].join(" ").trim().to_owned());
        Self {
            id: info.node_id,
            r#type: info.node_type,
            title: info.title,
            state: info.state,
            error: info.error.map(|error| error.message).unwrap_or_default(),
            max_dmips: info.max_dmips,
            total_ram: info.total_ram,
            physical_ram: info.physical_ram,
            os: os.unwrap_or_default(),
            cpus: info.cpus.into_iter().map(Cpu::from).collect(),
            partitions: info.partitions.into_iter().map(Partition::from).collect(),
            attributes: info
                .attrs
                .into_iter()
                .map(|attr| Attribute {
                    name: attr.name,
                    value: attr.value,
                })
                .collect(),
        }
    }
}

impl From<wire::CpuInfo> for Cpu {
    fn from(cpu: wire::CpuInfo) -> Self {
        Self {
            model: cpu.model_name,
            cores: cpu.num_cores,
            threads: cpu.num_threads,
            architecture: cpu
                .arch_info
                .map(|arch| arch.architecture)
                .unwrap_or_default(),
        }
    }
}

impl From<wire::PartitionInfo> for Partition {
    fn from(partition: wire::PartitionInfo) -> Self {
        Self {
            name: partition.name,
            path: partition.path,
            types: partition.types,
            total_size: partition.total_size,
        }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Nodes(Vec<NodeFacts>);

impl Answer for Nodes {
    fn table(&self) -> Table {
        let row = |node: &NodeFacts| {
            let threads: u64 = node.cpus.iter().map(|cpu| cpu.threads.max(cpu.cores)).sum();
            vec![
                shown(&node.id),
                shown(&node.state),
                shown(&node.r#type),
                threads.to_string(),
                size(node.total_ram),
                shown(&node.title),
            ]
        };
        Table::list(
            &["NODE", "STATE", "TYPE", "CPUS", "RAM", "TITLE"],
            self.0.iter().map(row).collect(),
        )
    }
}

impl Answer for NodeFacts {
    fn table(&self) -> Table {
        let mut facts = vec![
            ("Node", shown(&self.id)),
            ("Title", shown(&self.title)),
            ("Type", shown(&self.r#type)),
            ("State", shown(&self.state)),
            ("Error", shown(&self.error)),
            ("System", shown(&self.os)),
            ("RAM", size(self.total_ram)),
            (
                "Speed",
                if self.max_dmips == 0 {
                    String::new()
                } else {
                    format!("{} DMIPS", self.max_dmips)
                },
            ),
        ];
        for cpu in &self.cpus {
            let text = format!(
                "{}, {} cores, {} threads, {}",
                cpu.model, cpu.cores, cpu.threads, cpu.architecture
            );
            facts.push(("CPU", shown(&text)));
        }
        for partition in &self.partitions {
            let types = partition.types.join(",");
            let text = format!(
                "{} {} {} ({types})",
                partition.name,
                partition.path,
                size(partition.total_size)
            );
            facts.push(("Partition", shown(&text)));
        }
        for attribute in &self.attributes {
            facts.push((
                "Attribute",
                shown(&format!("{}={}", attribute.name, attribute.value)),
            ));
        }
        Table::facts(facts)
    }
}

pub(super) async fn list(iam: &IamClient, console: &mut Console) -> Result<(), CommandError> {
    let mut ids = iam.node_ids().await.map_err(NodeCommandError::Call)?;
    ids.sort();
    let mut nodes = Vec::new();
    for id in ids {
        let info = iam.node(&id).await.map_err(NodeCommandError::Call)?;
        nodes.push(NodeFacts::from(wire::NodeInfo::from(info)));
    }
    console.answer(&Nodes(nodes))?;
    Ok(())
}

pub(super) async fn show(
    iam: &IamClient,
    node: Option<&NodeId>,
    console: &mut Console,
) -> Result<(), CommandError> {
    let info = match node {
        Some(node) => iam.node(node).await,
        None => iam.current_node().await,
    };
    let info = info.map_err(NodeCommandError::Call)?;
    console.answer(&NodeFacts::from(wire::NodeInfo::from(info)))?;
    Ok(())
}
