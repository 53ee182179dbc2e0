//! The latest snapshot as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::handle::{MonitorHandle, Published};
use crate::snapshot::{InstanceUse, ResourceUse, Snapshot};

/// What is measured, for a registry of metrics (`Registry::register_collector`). Before the first poll there is nothing.
#[derive(Debug, Clone)]
pub struct UseMetrics {
    handle: MonitorHandle,
}

impl UseMetrics {
    /// Of this monitor.
    #[must_use]
    pub fn new(handle: MonitorHandle) -> Self {
        Self { handle }
    }

    /// All of it as a text of its own.
    pub(crate) fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        text::encode(&mut text, &registry).expect("a text takes what is written");
        text
    }
}

impl Collector for UseMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(published) = self.handle.published() else {
            return Ok(());
        };
        encode(&published, &mut encoder)
    }
}

/// Labels of one sample.
type Labels<'a> = Vec<(&'static str, &'a str)>;
/// One figure of a node or an instance; absent is left out.
type Figure = (&'static str, &'static str, fn(&ResourceUse) -> Option<f64>);

const FIGURES: [Figure; 6] = [
    ("cpu_dmips", "Processing power in use, in DMIPS", |data| {
        data.cpu.map(|cpu| cpu.dmips as f64)
    }),
    (
        "cpu_percent",
        "Processing power in use, in percent of the node's",
        |data| data.cpu.map(|cpu| cpu.percent),
    ),
    ("memory_used_bytes", "Memory in use", |data| {
        data.ram.map(|bytes| bytes as f64)
    }),
    ("pids", "Processes and threads", |data| {
        data.pids.map(|count| count as f64)
    }),
    (
        "network_received_bytes",
        "Bytes received in the current period",
        |data| data.traffic.map(|traffic| traffic.download as f64),
    ),
    (
        "network_sent_bytes",
        "Bytes sent in the current period",
        |data| data.traffic.map(|traffic| traffic.upload as f64),
    ),
];

fn encode(published: &Published, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Snapshot {
        node, instances, ..
    } = &*published.snapshot;
    let ids: Vec<[String; 2]> = instances.iter().map(ids).collect();
    let node = [(Vec::new(), node)];
    let instances: Vec<(Labels<'_>, &ResourceUse)> = instances
        .iter()
        .zip(&ids)
        .map(|(instance, ids)| (labels(instance, ids), &instance.data))
        .collect();
    for (scope, targets) in [
        ("muster_node_", &node[..]),
        ("muster_instance_", &instances),
    ] {
        for (name, help, value) in FIGURES {
            // The kernel's count of all processes is nobody's concern here.
            if scope == "muster_node_" && name == "pids" {
                continue;
            }
            let samples = targets
                .iter()
                .filter_map(|(labels, data)| Some((labels.clone(), value(data)?)));
            family(encoder, &format!("{scope}{name}"), help, samples)?;
        }
        let used = partitions(targets, |partition| partition.used);
        family(
            encoder,
            &format!("{scope}partition_used_bytes"),
            "Use of partitions",
            used,
        )?;
        let sizes = partitions(targets, |partition| partition.size);
        family(
            encoder,
            &format!("{scope}partition_size_bytes"),
            "What may be used of partitions",
            sizes,
        )?;
    }
    let counts = [
        (
            "muster_monitor_polls",
            "Polls of all counters",
            published.counts.polls,
        ),
        (
            "muster_monitor_unread",
            "Values that could not be read",
            published.counts.unread,
        ),
    ];
    for (name, help, count) in counts {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(count).encode(metric)?;
    }
    Ok(())
}

/// What is text only once it is written.
fn ids(instance: &InstanceUse) -> [String; 2] {
    let ident = &instance.ident;
    [ident.instance_id().to_string(), ident.instance.to_string()]
}

fn labels<'a>(instance: &'a InstanceUse, [id, number]: &'a [String; 2]) -> Labels<'a> {
    let ident = &instance.ident;
    let mut labels = vec![
        ("id", id.as_str()),
        ("item", ident.item_id.as_str()),
        ("subject", ident.subject_id.as_str()),
        ("instance", number.as_str()),
    ];
    let runtime = instance.runtime_id.as_ref();
    labels.extend(runtime.map(|runtime| ("runtime", runtime.as_str())));
    labels
}

fn partitions<'a>(
    targets: &'a [(Labels<'a>, &'a ResourceUse)],
    value: fn(&crate::PartitionUse) -> Option<u64>,
) -> impl Iterator<Item = (Labels<'a>, f64)> {
    targets.iter().flat_map(move |(labels, data)| {
        data.partitions.iter().filter_map(move |partition| {
            let mut labels = labels.clone();
            labels.push(("partition", partition.name.as_str()));
            Some((labels, value(partition)? as f64))
        })
    })
}

fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (Labels<'a>, f64)>,
) -> fmt::Result {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        let gauge = ConstGauge::new(value);
        if labels.is_empty() {
            gauge.encode(metric)?;
            // A metric without labels has one sample.
            return Ok(());
        }
        gauge.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
