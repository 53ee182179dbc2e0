//! The text of a transaction.
//!
//! ```text
//! forward ── from a bridge ──> leaving ── by source ──────> out_TAG: permitted, or dropped
//!         ── to a bridge ────> arriving ── by destination ─> in_TAG: permitted, or dropped
//! input ──── from a bridge ──> to_node ── by source ──────> node_TAG: accepted, or dropped
//! counting ─ to a bridge ────> downloaded ── by destination ─> down_TAG: counted, or dropped
//!          ─ from a bridge ──> uploaded ── by source ────────> up_TAG: counted, or dropped
//! ```
//! Instances are found by maps, so that a packet costs the same with one instance or with thousands. The comments in the maps
//! `leaving_from`, `sources` and `downloads` are how the state is read back.

use std::fmt::Write as _;

use crate::model::{Change, Installed, Meter, owner};
use crate::names::{InstanceId, LinkName};
use crate::policy::{InstancePolicy, NetworkPolicy};
use crate::rules::{self, Peer, Rule, Verdict};
use crate::subnet::LOCAL_NETWORKS;

/// The only table that is ever touched.
pub(super) const TABLE: &str = "inet muster";

/// Chains that are there from the first change on, with their rules.
const CHAINS: [(&str, &str, &[&str]); 10] = [
    (
        "forward",
        "type filter hook forward priority filter; policy accept;",
        &[
            "iifname vmap @leaving_from",
            "oifname @bridges jump arriving",
        ],
    ),
    (
        "input",
        "type filter hook input priority filter; policy accept;",
        &["iifname @bridges jump to_node"],
    ),
    (
        "output",
        "type filter hook output priority filter; policy accept;",
        // Two instances of one subnet are not to find a way past the node.
        &["oifname @bridges icmp type redirect drop"],
    ),
    (
        "postrouting",
        "type nat hook postrouting priority srcnat; policy accept;",
        &["ip saddr @masqueraded ip daddr != @local oifname != @bridges masquerade"],
    ),
    (
        // After the filters: what they drop was never carried.
        "counting",
        "type filter hook forward priority filter + 10; policy accept;",
        &[
            "oifname @bridges jump downloaded",
            "iifname @bridges jump uploaded",
        ],
    ),
    (
        "counting_in",
        "type filter hook input priority filter + 10; policy accept;",
        &[
            "ip saddr != @local counter name in_system",
            "ip6 saddr != @local6 counter name in_system",
        ],
    ),
    (
        "counting_out",
        "type filter hook output priority filter + 10; policy accept;",
        &[
            "ip daddr != @local counter name out_system",
            "ip6 daddr != @local6 counter name out_system",
        ],
    ),
    (
        "leaving",
        "",
        &[
            "meta nfproto != ipv4 drop",
            "ip saddr vmap @sources",
            "drop",
        ],
    ),
    (
        "arriving",
        "",
        &[
            "meta nfproto != ipv4 drop",
            "ip daddr vmap @destinations",
            "drop",
        ],
    ),
    (
        "to_node",
        "",
        &[
            "meta nfproto != ipv4 drop",
            "ip saddr vmap @node_sources",
            "drop",
        ],
    ),
];

const COUNTED: [(&str, &[&str]); 2] = [
    (
        "downloaded",
        &[
            "ip saddr @local return",
            "ip daddr vmap @downloads",
            "counter name in_system",
        ],
    ),
    (
        "uploaded",
        &[
            "ip daddr @local return",
            "ip saddr vmap @uploads",
            "counter name out_system",
        ],
    ),
];

const MAPS: [(&str, &str); 6] = [
    ("leaving_from", "ifname"),
    ("sources", "ipv4_addr"),
    ("destinations", "ipv4_addr"),
    ("node_sources", "ipv4_addr"),
    ("downloads", "ipv4_addr"),
    ("uploads", "ipv4_addr"),
];

/// The node's name server, at its address on the bridge that the question comes from.
const NAMES: &str = "iifname . ip daddr @resolvers meta l4proto { tcp, udp } th dport 53 accept";

const LOCAL6: &str = "::1, fc00::/7, fe80::/10, ff00::/8";

/// A transaction that turns what is installed into what is wanted.
pub(super) fn changes(installed: &Installed, changes: &[Change]) -> String {
    let mut script = Script {
        text: String::new(),
        state: installed.clone(),
    };
    if !installed.founded {
        script.found();
    }
    changes.iter().for_each(|change| script.make(change));
    script.text
}

/// The text so far, and the state that it leads to.
struct Script {
    text: String,
    state: Installed,
}

impl Script {
    fn make(&mut self, change: &Change) {
        match change {
            Change::PutNetwork(network) => self.put_network(network),
            Change::RemoveNetwork(bridge) => self.remove_network(bridge),
            Change::PutInstance(policy) => self.put_instance(policy),
            Change::RemoveInstance(instance) => self.remove_instance(instance),
            Change::PutMeter(meter) => self.put_meter(meter),
            Change::RemoveMeter(instance) => self.remove_meter(instance),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    fn found(&mut self) {
        let local: Vec<String> = LOCAL_NETWORKS.iter().map(ToString::to_string).collect();
        self.line(format_args!("add table {TABLE}"));
        self.line(format_args!("add set {TABLE} bridges {{ type ifname; }}"));
        self.line(format_args!(
            "add set {TABLE} resolvers {{ type ifname . ipv4_addr; }}"
        ));
        self.line(format_args!(
            "add set {TABLE} masqueraded {{ type ipv4_addr; flags interval; }}"
        ));
        self.line(format_args!(
            "add set {TABLE} local {{ type ipv4_addr; flags interval; elements = {{ {} }}; }}",
            local.join(", ")
        ));
        self.line(format_args!(
            "add set {TABLE} local6 {{ type ipv6_addr; flags interval; elements = {{ {LOCAL6} }}; }}"
        ));
        for (name, key) in MAPS {
            self.line(format_args!(
                "add map {TABLE} {name} {{ type {key} : verdict; }}"
            ));
        }
        for name in ["in_system", "out_system"] {
            self.line(format_args!("add counter {TABLE} {name}"));
        }
        for (name, rules) in COUNTED {
            self.chain(name, "", rules);
        }
        // A chain must be there before another goes to it, and bases come first in the list.
        for (name, base, rules) in CHAINS.iter().rev() {
            self.chain(name, base, rules);
        }
    }

    fn chain(&mut self, name: &str, base: &str, rules: &[&str]) {
        self.line(format_args!("add chain {TABLE} {name} {{ {base} }}"));
        for rule in rules {
            self.line(format_args!("add rule {TABLE} {name} {rule}"));
        }
    }

    fn put_network(&mut self, network: &NetworkPolicy) {
        if self.state.networks.get(network.bridge()) == Some(network) {
            return;
        }
        self.remove_network(network.bridge());
        let (bridge, subnet, node) = (network.bridge(), network.subnet(), network.node());
        let record = network.record();
        self.line(format_args!(
            "add element {TABLE} bridges {{ \"{bridge}\" }}"
        ));
        self.line(format_args!(
            "add element {TABLE} leaving_from {{ \"{bridge}\" comment \"{record}\" : jump leaving }}"
        ));
        self.line(format_args!(
            "add element {TABLE} resolvers {{ \"{bridge}\" . {node} }}"
        ));
        if network.is_masqueraded() {
            self.line(format_args!(
                "add element {TABLE} masqueraded {{ {subnet} }}"
            ));
        }
        self.state.networks.insert(bridge.clone(), network.clone());
    }

    fn remove_network(&mut self, bridge: &LinkName) {
        let Some(network) = self.state.networks.remove(bridge) else {
            return;
        };
        let (subnet, node) = (network.subnet(), network.node());
        self.line(format_args!(
            "delete element {TABLE} bridges {{ \"{bridge}\" }}"
        ));
        self.line(format_args!(
            "delete element {TABLE} leaving_from {{ \"{bridge}\" }}"
        ));
        self.line(format_args!(
            "delete element {TABLE} resolvers {{ \"{bridge}\" . {node} }}"
        ));
        if network.is_masqueraded() {
            self.line(format_args!(
                "delete element {TABLE} masqueraded {{ {subnet} }}"
            ));
        }
    }

    fn put_instance(&mut self, policy: &InstancePolicy) {
        let (instance, address) = (&policy.instance, policy.address);
        let tag = instance.tag();
        let rules = rules::compile(policy);
        let other = owner(&self.state.instances, address).filter(|owner| owner != instance);
        if let Some(other) = other {
            self.remove_instance(&other);
        }
        if self
            .state
            .instances
            .get(instance)
            .is_some_and(|before| *before != address)
        {
            self.remove_instance(instance);
        }
        let is_new = !self.state.instances.contains_key(instance);
        let chains = [
            ("out", "daddr", "return", &rules.outgoing, None),
            ("in", "saddr", "return", &rules.incoming, None),
            ("node", "daddr", "accept", &rules.to_node, Some(NAMES)),
        ];
        for (prefix, peer, permit, rules, first) in chains {
            self.line(format_args!("add chain {TABLE} {prefix}_{tag}"));
            self.line(format_args!("flush chain {TABLE} {prefix}_{tag}"));
            // Here rather than before the instance is looked up: one that has no rules has no connections.
            self.line(format_args!(
                "add rule {TABLE} {prefix}_{tag} ct state established,related {permit}"
            ));
            self.line(format_args!(
                "add rule {TABLE} {prefix}_{tag} ct state invalid drop"
            ));
            if let Some(rule) = first {
                self.line(format_args!("add rule {TABLE} {prefix}_{tag} {rule}"));
            }
            for rule in rules {
                let rule = render(rule, peer, permit);
                self.line(format_args!("add rule {TABLE} {prefix}_{tag} {rule}"));
            }
        }
        if is_new {
            for (map, prefix) in INSTANCE_MAPS {
                self.line(format_args!(
                    "add element {TABLE} {map} {{ {address} comment \"{instance}\" : goto {prefix}_{tag} }}"
                ));
            }
        }
        self.state.instances.insert(instance.clone(), address);
    }

    fn remove_instance(&mut self, instance: &InstanceId) {
        let Some(address) = self.state.instances.remove(instance) else {
            return;
        };
        let tag = instance.tag();
        for (map, _) in INSTANCE_MAPS {
            self.line(format_args!("delete element {TABLE} {map} {{ {address} }}"));
        }
        for (_, prefix) in INSTANCE_MAPS {
            self.line(format_args!("flush chain {TABLE} {prefix}_{tag}"));
            self.line(format_args!("delete chain {TABLE} {prefix}_{tag}"));
        }
    }

    fn put_meter(&mut self, meter: &Meter) {
        let (instance, address) = (&meter.instance, meter.address);
        let tag = instance.tag();
        let other = owner(&self.state.meters, address).filter(|owner| owner != instance);
        if let Some(other) = other {
            self.remove_meter(&other);
        }
        let before = self.state.meters.get(instance).copied();
        for (map, prefix, counter, blocked) in [
            ("downloads", "down", "in", meter.download_blocked),
            ("uploads", "up", "out", meter.upload_blocked),
        ] {
            self.line(format_args!("add counter {TABLE} {counter}_{tag}"));
            self.line(format_args!("add chain {TABLE} {prefix}_{tag}"));
            self.line(format_args!("flush chain {TABLE} {prefix}_{tag}"));
            if blocked {
                self.line(format_args!("add rule {TABLE} {prefix}_{tag} drop"));
            }
            self.line(format_args!(
                "add rule {TABLE} {prefix}_{tag} counter name {counter}_{tag}"
            ));
            if let Some(before) = before.filter(|before| *before != address) {
                self.line(format_args!("delete element {TABLE} {map} {{ {before} }}"));
            }
            if before != Some(address) {
                self.line(format_args!(
                    "add element {TABLE} {map} {{ {address} comment \"{instance}\" : jump {prefix}_{tag} }}"
                ));
            }
        }
        self.state.meters.insert(instance.clone(), address);
    }

    fn remove_meter(&mut self, instance: &InstanceId) {
        let Some(address) = self.state.meters.remove(instance) else {
            return;
        };
        let tag = instance.tag();
        for (map, prefix, counter) in [("downloads", "down", "in"), ("uploads", "up", "out")] {
            self.line(format_args!("delete element {TABLE} {map} {{ {address} }}"));
            self.line(format_args!("flush chain {TABLE} {prefix}_{tag}"));
            self.line(format_args!("delete chain {TABLE} {prefix}_{tag}"));
            self.line(format_args!("delete counter {TABLE} {counter}_{tag}"));
        }
    }
}

const INSTANCE_MAPS: [(&str, &str); 3] = [
    ("sources", "out"),
    ("destinations", "in"),
    ("node_sources", "node"),
];

/// `peer` is the field of the other end, `permit` what lets the packet go on.
fn render(rule: &Rule, peer: &str, permit: &str) -> String {
    let mut text = match rule.peer {
        Peer::Any => String::new(),
        Peer::Within(subnet) => format!("ip {peer} {subnet} "),
        Peer::Local => format!("ip {peer} @local "),
    };
    if let Some((protocol, ports)) = rule.transport {
        text += &format!("{protocol} dport {ports} ");
    }
    text += match rule.verdict {
        Verdict::Permit => permit,
        Verdict::Refuse => "drop",
    };
    text
}

#[cfg(test)]
mod tests;
