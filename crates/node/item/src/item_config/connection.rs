//! Which instances an item may call.

use muster_api::domain::{ItemId, PortRange, TransportProtocol};

use crate::read::{At, ReadDocumentError};

/// Instances of an item that may be called: `item/8080`, `item/8000-8010/udp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedConnection {
    /// Of which item.
    pub item: ItemId,
    /// At which ports.
    pub ports: PortRange,
    /// TCP unless it says otherwise.
    pub protocol: TransportProtocol,
}

impl AllowedConnection {
    /// The connection is the key; what stands at it says nothing.
    pub(super) fn read(key: &str, at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let refuse = |error: &dyn std::fmt::Display| {
            at.invalid(format_args!(
                "stands at a key that is not item/port[/protocol] ({error})"
            ))
        };
        let mut parts = key.splitn(3, '/');
        let (item, ports) = (parts.next().unwrap_or_default(), parts.next());
        Ok(Self {
            item: item.parse().map_err(|error| refuse(&error))?,
            ports: ports
                .ok_or_else(|| refuse(&"no port"))?
                .parse()
                .map_err(|error| refuse(&error))?,
            protocol: parts
                .next()
                .unwrap_or_default()
                .parse()
                .map_err(|error| refuse(&error))?,
        })
    }
}
