//! What rules do to real packets, with every backend.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../rig/mod.rs"]
mod rig;

mod changes;
mod matrix;
mod plugin;

use muster_firewall::{Firewall, Iptables, Nft};

/// Every backend, by name.
fn backends() -> [(&'static str, Firewall); 3] {
    [
        ("nft", Firewall::with(Nft::new())),
        (
            "iptables-nft",
            Firewall::with(Iptables::named("iptables-nft")),
        ),
        (
            "iptables-legacy",
            Firewall::with(Iptables::named("iptables-legacy")),
        ),
    ]
}
