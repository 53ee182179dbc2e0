//! Nodes for tests.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use muster_api::domain::{NodeId, NodeInfo, NodeState, NodeType, OsInfo};

use crate::table::At;

pub(crate) fn id(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(crate) fn node(id: &str, state: NodeState) -> NodeInfo {
    NodeInfo {
        node_id: self::id(id),
        node_type: NodeType::new("board").unwrap(),
        title: String::new(),
        max_dmips: 1000,
        total_ram: 1 << 30,
        physical_ram: None,
        os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
        cpus: Vec::new(),
        partitions: Vec::new(),
        attrs: BTreeMap::new(),
        state,
        error: None,
    }
}

pub(crate) fn at(millis: u64) -> At {
    let now = Duration::from_millis(millis);
    At {
        now,
        wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + now,
    }
}
