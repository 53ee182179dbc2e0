//! What can go wrong.

use std::net::IpAddr;

use muster_api::domain::InstanceIdent;
use muster_firewall::{FirewallError, InstanceId};
use muster_store::StoreError;

use crate::traffic::BOOT_ID;

/// Why the accounts could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenTrafficError {
    /// The database failed.
    #[error("cannot read the traffic accounts of this node")]
    Load(#[source] StoreError),
    /// It cannot be told whether counters are still the same.
    #[error("cannot read {BOOT_ID}")]
    BootId(#[source] std::io::Error),
    /// The node's own meter could not be made.
    #[error("cannot count the node's traffic")]
    Firewall(#[source] FirewallError),
}

/// Why an instance's traffic is not counted as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// Instances have IPv4 addresses.
    #[error("the traffic of {instance} cannot be counted: its address {address} is not IPv4")]
    NotIpv4 {
        /// Whose traffic.
        instance: InstanceIdent,
        /// The address.
        address: IpAddr,
    },
    /// The packet filter failed.
    #[error("the meter of {instance} cannot be changed")]
    Firewall {
        /// Whose meter.
        instance: InstanceId,
        /// What failed.
        #[source]
        source: FirewallError,
    },
    /// The database failed.
    #[error("the traffic account of {instance} cannot be saved")]
    Save {
        /// Whose account.
        instance: InstanceId,
        /// What failed.
        #[source]
        source: StoreError,
    },
    /// The process is about to end.
    #[error("traffic is no longer counted: the node's manager is ending")]
    Ended,
}
