//! What is used now, put together from what was measured.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_control_api::v1;

use super::super::facts::instance_name;

/// By what instances are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Cpu,
    Ram,
    Name,
}

/// What a node uses, of what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeLoad {
    pub(super) id: String,
    pub(super) cpu: u64,
    pub(super) max_cpu: u64,
    pub(super) ram: u64,
    pub(super) max_ram: u64,
    pub(super) download: u64,
    pub(super) upload: u64,
}

/// What an instance uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceLoad {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) state: String,
    pub(super) cpu: u64,
    pub(super) ram: u64,
    pub(super) download: u64,
    pub(super) upload: u64,
}

/// All of it, and how it is looked at.
#[derive(Debug, Default)]
pub(super) struct Load {
    nodes: BTreeMap<String, NodeLoad>,
    instances: BTreeMap<String, Vec<InstanceLoad>>,
    pub(super) order: Order,
    /// The first instance that is shown.
    pub(super) first: usize,
}

impl Load {
    /// Takes a measurement: of each of its nodes it has everything.
    pub(super) fn take(&mut self, snapshot: v1::UsageSnapshot) {
        for gone in &snapshot.nodes_gone {
            self.nodes.remove(gone);
            self.instances.remove(gone);
        }
        for node in snapshot.nodes {
            let usage = node.usage.unwrap_or_default();
            self.instances.remove(&node.node_id);
            let load = NodeLoad {
                id: node.node_id.clone(),
                cpu: usage.cpu,
                max_cpu: node.max_dmips,
                ram: usage.ram,
                max_ram: node.total_ram,
                download: usage.download,
                upload: usage.upload,
            };
            self.nodes.insert(node.node_id, load);
        }
        for instance in snapshot.instances {
            let usage = instance.usage.unwrap_or_default();
            let load = InstanceLoad {
                name: instance_name(&instance.instance.unwrap_or_default()),
                node: instance.node_id.clone(),
                state: instance.state,
                cpu: usage.cpu,
                ram: usage.ram,
                download: usage.download,
                upload: usage.upload,
            };
            let of_node = self.instances.entry(instance.node_id).or_default();
            of_node.push(load);
        }
    }

    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeLoad> {
        self.nodes.values()
    }

    /// In the wanted order.
    pub(super) fn instances(&self) -> Vec<&InstanceLoad> {
        let mut all: Vec<&InstanceLoad> = self.instances.values().flatten().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        match self.order {
            Order::Cpu => all.sort_by_key(|it| Reverse(it.cpu)),
            Order::Ram => all.sort_by_key(|it| Reverse(it.ram)),
            Order::Name => {}
        }
        all
    }

    pub(super) fn sort_by(&mut self, order: Order) {
        self.order = order;
        self.first = 0;
    }

    /// Up or down, as far as there is something.
    pub(super) fn scroll(&mut self, lines: isize) {
        let count: usize = self.instances.values().map(Vec::len).sum();
        let first = self.first.saturating_add_signed(lines);
        self.first = first.min(count.saturating_sub(1));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use muster_api::common::v2::InstanceIdent;

    use super::*;

    pub(in super::super) fn snapshot(
        node: &str,
        instances: &[(&str, u64, u64)],
    ) -> v1::UsageSnapshot {
        let usage = |cpu, ram| v1::Usage {
            cpu,
            ram,
            ..v1::Usage::default()
        };
        let instance = |&(item, cpu, ram): &(&str, u64, u64)| v1::InstanceUsage {
            instance: Some(InstanceIdent {
                item_id: item.into(),
                subject_id: "local".into(),
                ..InstanceIdent::default()
            }),
            node_id: node.into(),
            state: "active".into(),
            usage: Some(usage(cpu, ram)),
        };
        v1::UsageSnapshot {
            nodes: vec![v1::NodeUsage {
                node_id: node.into(),
                max_dmips: 1000,
                total_ram: 8 << 30,
                usage: Some(usage(500, 2 << 30)),
            }],
            instances: instances.iter().map(instance).collect(),
            nodes_gone: Vec::new(),
        }
    }

    #[test]
    fn a_measurement_of_a_node_replaces_the_one_before() {
        let mut load = Load::default();
        load.take(snapshot("a", &[("web", 10, 2), ("old", 9, 9)]));
        load.take(snapshot("b", &[("worker", 20, 1)]));
        load.take(snapshot("a", &[("web", 30, 2)]));
        let names = |load: &Load| -> Vec<String> {
            load.instances().iter().map(|it| it.name.clone()).collect()
        };
        assert_eq!(names(&load), ["web/local/0", "worker/local/0"]);
        load.sort_by(Order::Name);
        load.scroll(5);
        assert_eq!(load.first, 1);
        load.scroll(-5);
        assert_eq!(load.first, 0);
        load.take(v1::UsageSnapshot {
            nodes_gone: vec!["b".into()],
            ..v1::UsageSnapshot::default()
        });
        assert_eq!((names(&load).len(), load.nodes().len()), (1, 1));
    }
}
