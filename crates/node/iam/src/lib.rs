//! The identity manager: who a node is, its keys and certificates, provisioning, permissions.

pub mod authorize;
mod caller;
pub mod config;
mod csr;
mod current_node;
mod daemon;
mod identity;
mod join;
mod local;
mod local_socket;
mod own_cert;
pub mod program;
pub mod provisioning;
mod reload;
mod servers;
mod services;

use muster_fault::Point;

/// Every moment at which a test can kill the daemon, by the part that changes something lasting.
pub fn fault_points() -> Vec<&'static [Point]> {
    vec![
        provisioning::actor::FAULT_POINTS,
        provisioning::state_file::FAULT_POINTS,
        muster_keys::FAULT_POINTS,
        muster_node_registry::FAULT_POINTS,
        muster_permissions::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ]
}
