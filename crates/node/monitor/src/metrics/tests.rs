//! The text, read back by the rules of OpenMetrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{
    InstanceIdent, ItemId, ItemType, MonitoringData, NodeMonitoring, PartitionName, RuntimeId,
    SubjectId, Timestamp,
};
use proptest::prelude::*;
use tokio::sync::watch;

use crate::handle::{Counts, MonitorHandle, Published};
use crate::snapshot::{CpuUse, InstanceUse, PartitionUse, ResourceUse, Snapshot};
use crate::traffic::TrafficUsage;

type Labels = BTreeMap<String, String>;

/// Family names with their types, and samples.
#[derive(Debug, Default)]
struct Parsed {
    types: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Parsed {
    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted = |found: &Labels| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| found.get(*key).is_some_and(|text| text == value))
        };
        let mut samples = self.samples.iter();
        let found = samples.find(|((sample, labels), _)| sample == name && wanted(labels));
        found.map(|(_, value)| *value)
    }
}

/// Strict: every sample belongs to the family that was declared last, no family is declared and no sample given twice, and the
/// end mark is at the end.
fn parse(text: &str) -> Parsed {
    let body = text.strip_suffix("# EOF\n").expect("an end mark");
    let mut parsed = Parsed::default();
    let mut family = String::new();
    for line in body.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            let (name, kind) = words.split_once(' ').unwrap();
            let before = parsed.types.insert(name.to_owned(), kind.to_owned());
            assert_eq!(before, None, "{line}");
            family = name.to_owned();
        } else if line.starts_with("# HELP ") || line.starts_with("# UNIT ") {
            assert!(line.contains(' '), "{line}");
        } else {
            let (name, labels, value) = sample(line);
            let base = name.strip_suffix("_total").unwrap_or(&name);
            // The description comes before or after the type, but always before the samples.
            assert_eq!(base, family, "{line}");
            assert!(
                parsed.samples.insert((name, labels), value).is_none(),
                "{line}"
            );
        }
    }
    parsed
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a name");
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (key, after) = rest.split_once("=\"").expect("a label");
            let (value, after) = quoted(after);
            assert!(labels.insert(key.to_owned(), value).is_none(), "{line}");
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}').expect("an end of the labels");
                    break;
                }
            }
        }
    }
    let value = rest
        .strip_prefix(' ')
        .expect("a blank")
        .parse()
        .expect("a number");
    (name.to_owned(), labels, value)
}

/// What is before the closing quote, and what is after.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, other)) => value.push(other),
                None => break,
            },
            other => value.push(other),
        }
    }
    panic!("no closing quote: {text}");
}

fn timestamp() -> Timestamp {
    Timestamp::try_from(SystemTime::UNIX_EPOCH).unwrap()
}

fn text_of(node: ResourceUse, instances: Vec<InstanceUse>) -> String {
    let empty = MonitoringData {
        timestamp: timestamp(),
        ram: 0,
        cpu: 0,
        partitions: Vec::new(),
        download: 0,
        upload: 0,
    };
    let snapshot = Snapshot {
        timestamp: timestamp(),
        node,
        instances,
    };
    let published = Published {
        snapshot: Arc::new(snapshot),
        average: Arc::new(NodeMonitoring {
            node: empty,
            instances: Vec::new(),
        }),
        counts: Counts {
            polls: 12,
            unread: 3,
        },
    };
    let (_sender, receiver) = watch::channel(Some(published));
    MonitorHandle::new(Arc::default(), receiver).encode()
}

fn instance(item: &str, number: u64, data: ResourceUse) -> InstanceUse {
    InstanceUse {
        ident: InstanceIdent {
            item_id: ItemId::new(item).unwrap(),
            subject_id: SubjectId::new("subject").unwrap(),
            instance: number,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        runtime_id: RuntimeId::new("runc").ok(),
        data,
    }
}

#[test]
fn everything_measured_is_read_back() {
    let partition = |used, size| PartitionUse {
        name: PartitionName::new("state").unwrap(),
        used,
        size,
    };
    let data = ResourceUse {
        cpu: Some(CpuUse {
            dmips: 1234,
            percent: 12.5,
        }),
        ram: Some(1 << 40),
        pids: Some(7),
        partitions: vec![partition(Some(99), None)],
        traffic: Some(TrafficUsage {
            download: 5,
            upload: 6,
        }),
    };
    let bare = ResourceUse {
        ram: Some(1),
        ..ResourceUse::default()
    };
    let parsed = parse(&text_of(
        data.clone(),
        vec![instance("a", 0, data), instance("a", 1, bare)],
    ));
    assert_eq!(parsed.get("muster_node_cpu_dmips", &[]), Some(1234.0));
    assert_eq!(parsed.get("muster_node_cpu_percent", &[]), Some(12.5));
    assert_eq!(
        parsed.get("muster_node_memory_used_bytes", &[]),
        Some(1_099_511_627_776.0)
    );
    assert_eq!(parsed.get("muster_node_pids", &[]), None);
    let state = [("partition", "state")];
    assert_eq!(
        parsed.get("muster_node_partition_used_bytes", &state),
        Some(99.0)
    );
    assert_eq!(parsed.get("muster_node_partition_size_bytes", &state), None);
    let first = [("item", "a"), ("instance", "0"), ("runtime", "runc")];
    assert_eq!(parsed.get("muster_instance_pids", &first), Some(7.0));
    assert_eq!(
        parsed.get("muster_instance_network_received_bytes", &first),
        Some(5.0)
    );
    assert_eq!(
        parsed.get("muster_instance_network_sent_bytes", &first),
        Some(6.0)
    );
    let second = [("item", "a"), ("instance", "1")];
    assert_eq!(
        parsed.get("muster_instance_memory_used_bytes", &second),
        Some(1.0)
    );
    assert_eq!(
        parsed.get("muster_instance_cpu_dmips", &second),
        None,
        "absent is left out"
    );
    assert_eq!(parsed.get("muster_monitor_polls_total", &[]), Some(12.0));
    assert_eq!(parsed.get("muster_monitor_unread_total", &[]), Some(3.0));
    assert_eq!(parsed.types["muster_instance_pids"], "gauge");
    assert_eq!(parsed.types["muster_monitor_polls"], "counter");
}

#[test]
fn before_the_first_poll_there_is_nothing() {
    let (_sender, receiver) = watch::channel(None);
    let handle = MonitorHandle::new(Arc::default(), receiver);
    assert_eq!(handle.encode(), "# EOF\n");
    assert_eq!((handle.average(), handle.latest()), (None, None));
}

proptest! {
    /// Names come from outside: none of them breaks the text.
    #[test]
    fn any_name_is_read_back(item in "[^/:\\x00-\\x1f\\x7f-\\x9f]{1,20}", number in any::<u64>()) {
        prop_assume!(ItemId::new(&item).is_ok());
        let data = ResourceUse { pids: Some(1), ..ResourceUse::default() };
        let parsed = parse(&text_of(ResourceUse::default(), vec![instance(&item, number, data)]));
        let labels = [("item", item.as_str()), ("instance", &number.to_string())];
        prop_assert_eq!(parsed.get("muster_instance_pids", &labels), Some(1.0));
    }
}
