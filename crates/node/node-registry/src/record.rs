//! A node as the Main Node knows it, and how that shows on the wire.

use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{AosCode, AosError, NodeInfo, Timestamp};
use muster_api::iamanager::v6 as wire;

/// Every error text of a node that is not connected begins with this.
pub const NOT_CONNECTED: &str = "not connected";

/// Whether a node can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It has a stream, or is the Main Node itself.
    Connected,
    /// It has none.
    Disconnected {
        /// Since when, by the Main Node's clock.
        since: SystemTime,
    },
}

/// A node as the Main Node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// What the node said of itself last.
    pub info: Arc<NodeInfo>,
    /// Whether it can be reached.
    pub connection: Connection,
}

impl NodeRecord {
    /// The record as the wire has it.
    ///
    /// `NodeInfo` has no field for the connection. The state is left as it is: a member that cannot be
    /// reached is still a member, and peers that know no connection state would take any other word
    /// for a change of membership. The `error` of a node that is not connected is a timeout whose text
    /// begins with [`NOT_CONNECTED`], followed by what the node itself had reported.
    pub fn to_wire(&self) -> wire::NodeInfo {
        let mut info = wire::NodeInfo::from(NodeInfo::clone(&self.info));
        if let Connection::Disconnected { since } = self.connection {
            let mut message = match Timestamp::try_from(since) {
                Ok(since) => format!("{NOT_CONNECTED} since {since}"),
                Err(_) => NOT_CONNECTED.to_owned(),
            };
            if let Some(own) = &self.info.error {
                message = format!("{message}; last error: {own}");
            }
            info.error = Some(AosError::new(AosCode::Timeout, message).into());
        }
        info
    }
}

/// Whether a node that a registry described on the wire can be reached.
pub fn is_connected(info: &wire::NodeInfo) -> bool {
    !info.error.as_ref().is_some_and(|error| {
        error.aos_code == AosCode::Timeout.number() && error.message.starts_with(NOT_CONNECTED)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_api::domain::NodeState;

    use super::*;
    use crate::samples::node;

    #[test]
    fn a_node_that_is_away_keeps_its_state_and_says_so_in_its_error() {
        let mut info = node("a", NodeState::Paused);
        info.error = Some(AosError::new(AosCode::NoMemory, "disk full"));
        let mut record = NodeRecord {
            info: Arc::new(info),
            connection: Connection::Connected,
        };
        let here = record.to_wire();
        assert!(is_connected(&here));
        assert_eq!(here.error.unwrap().message, "disk full");
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        record.connection = Connection::Disconnected { since };
        let away = record.to_wire();
        assert!(!is_connected(&away));
        assert_eq!(away.state, "paused");
        let error = away.error.unwrap();
        assert_eq!(error.aos_code, 7);
        assert_eq!(
            error.message,
            "not connected since 2023-11-14T22:13:20Z; last error: no memory: disk full"
        );
    }
}
