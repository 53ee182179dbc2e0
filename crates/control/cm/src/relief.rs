//! What follows from a node's quota alert: how far its use must come down. Pure.

use muster_api::domain::{Alert, AlertKind, AlertStatus, NodeId, Percent, QuotaParameter};
use muster_balance::{Capacity, Relief};
use muster_unit_config::UnitConfig;

use crate::nodes::table::NodeRecord;

/// The relief that an alert calls for; `None` if it calls for none, or nobody has said how much is enough.
pub(crate) fn relief(
    node: &NodeId,
    alert: &Alert,
    record: &NodeRecord,
    config: Option<&UnitConfig>,
) -> Option<Relief> {
    let AlertKind::SystemQuota {
        parameter, status, ..
    } = &alert.kind
    else {
        return None;
    };
    if *status == AlertStatus::Fall {
        return None;
    }
    let rules = config?
        .for_node(node, &record.node_type())
        .config
        .alert_rules;
    let capacity = record.capacity();
    let enough = |percent: Percent, whole: Option<u64>| Some(share(percent, whole?));
    let target = match parameter {
        QuotaParameter::Cpu => Capacity {
            cpu: enough(rules.cpu?.min_threshold(), capacity.cpu),
            ram: None,
        },
        QuotaParameter::Ram => Capacity {
            cpu: None,
            ram: enough(rules.ram?.min_threshold(), capacity.ram),
        },
        // Moving instances does not empty disks, and traffic is the instances' own.
        QuotaParameter::Download | QuotaParameter::Upload | QuotaParameter::Partition(_) => {
            return None;
        }
    };
    (target != Capacity::default()).then(|| Relief {
        node: node.clone(),
        target,
    })
}

/// A part of an amount, to a hundredth of a percent.
fn share(percent: Percent, whole: u64) -> u64 {
    muster_balance::Ratio::from(percent).of(whole)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use muster_api::domain::{ArchInfo, OsInfo, RuntimeInfo, SmInfo};
    use muster_config::Limits;

    use super::*;

    fn alert(parameter: QuotaParameter, status: AlertStatus) -> Alert {
        Alert {
            timestamp: SystemTime::UNIX_EPOCH.try_into().expect("a time"),
            kind: AlertKind::SystemQuota {
                parameter,
                value: 1,
                status,
            },
        }
    }

    fn record() -> NodeRecord {
        let runtime = RuntimeInfo {
            runtime_id: "r".parse().expect("an id"),
            runtime_type: "runc".parse().expect("a type"),
            max_dmips: std::num::NonZeroU64::new(1000),
            allowed_dmips: None,
            total_ram: std::num::NonZeroU64::new(5000),
            allowed_ram: None,
            max_instances: 1,
            os_info: OsInfo::new("linux", "", Vec::new()).expect("a system"),
            arch_info: ArchInfo::new("amd64", "").expect("an architecture"),
        };
        NodeRecord {
            sm: Some(SmInfo {
                node_id: "n1".parse().expect("an id"),
                runtimes: vec![runtime],
                resources: Vec::new(),
            }),
            ..NodeRecord::default()
        }
    }

    #[test]
    fn use_comes_down_to_the_lower_threshold_of_the_rule() {
        let config = r#"{"version": "1.0.0", "formatVersion": "1", "nodes": [{"node": {"codename": "n1"},
            "alertRules": {"cpu": {"minTimeout": "PT1M", "minThreshold": 70, "maxThreshold": 80}}}]}"#;
        let config = UnitConfig::read(config.as_bytes(), &Limits::default()).expect("valid");
        let node: NodeId = "n1".parse().expect("an id");
        let asked = |parameter, status| {
            let alert = alert(parameter, status);
            relief(&node, &alert, &record(), Some(&config)).map(|it| it.target)
        };
        let target = Capacity {
            cpu: Some(700),
            ram: None,
        };
        assert_eq!(asked(QuotaParameter::Cpu, AlertStatus::Raise), Some(target));
        assert_eq!(
            asked(QuotaParameter::Cpu, AlertStatus::Continue),
            Some(target)
        );
        assert_eq!(asked(QuotaParameter::Cpu, AlertStatus::Fall), None);
        // There is no rule for memory, and moving does not help against traffic.
        assert_eq!(asked(QuotaParameter::Ram, AlertStatus::Raise), None);
        assert_eq!(asked(QuotaParameter::Upload, AlertStatus::Raise), None);
        let alert = alert(QuotaParameter::Cpu, AlertStatus::Raise);
        assert_eq!(relief(&node, &alert, &record(), None), None);
    }
}
