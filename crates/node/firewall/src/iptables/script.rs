//! The text of a change.
//!
//! ```text
//! FORWARD ─> MUSTER-FORWARD ─> FROM ── a bridge ──> LEAVE ── by source ──────> O-TAG: returns, or drops
//!                           ─> TO ──── a bridge ──> ARRIVE ── by destination ─> I-TAG: returns, or drops
//!                           ─> COUNTED ─ a bridge ─> DOWN ── by destination ──> D-TAG: GD-TAG drops or not, then counts
//!                                                ─> UP ──── by source ───────> U-TAG: GU-TAG drops or not, then counts
//!                           ─> PASS: what got here is accepted
//! INPUT ──> MUSTER-INPUT ─> DOWN; BRIDGES ── a bridge ──> NODE ── by source ──> N-TAG: accepts, or drops
//! OUTPUT ─> MUSTER-OUTPUT ─> UP; QUIET
//! POSTROUTING (nat) ─> MUSTER-POSTROUTING ── a subnet ──> MASQ
//! ```
//! Chains are found again by the comments of the jumps to them.

use std::fmt::Write as _;

use super::state::{HOOKS, is_ours};
use crate::model::{Change, Installed, Meter, owner};
use crate::names::{InstanceId, LinkName};
use crate::policy::{InstancePolicy, NetworkPolicy};
use crate::rules::{self, Peer, Rule, Verdict};
use crate::subnet::LOCAL_NETWORKS;

const ESTABLISHED: &str = "-m conntrack --ctstate RELATED,ESTABLISHED";
const INVALID: &str = "-m conntrack --ctstate INVALID -j DROP";

/// Where a meter's line goes: after the rules that leave local networks out, before the one that counts for the node.
const FIRST_METER: usize = LOCAL_NETWORKS.len() + 1;

/// A change that turns what is installed into what is wanted.
pub(super) fn changes(installed: &Installed, changes: &[Change]) -> String {
    let mut script = Script {
        filter: String::new(),
        state: installed.clone(),
    };
    if !installed.founded {
        script.found();
    }
    for (table, chain) in HOOKS {
        if table == "filter" && installed.missing_hooks.contains(&chain) {
            script.line(format_args!("-I {chain} 1 -j MUSTER-{chain}"));
        }
    }
    for change in changes {
        match change {
            Change::PutNetwork(network) => script.put_network(network),
            Change::RemoveNetwork(bridge) => script.remove_network(bridge),
            Change::PutInstance(policy) => script.put_instance(policy),
            Change::RemoveInstance(instance) => script.remove_instance(instance),
            Change::PutMeter(meter) => script.put_meter(meter),
            Change::RemoveMeter(instance) => script.remove_meter(instance),
        }
    }
    let mut text = String::new();
    if script.state.networks != installed.networks || !installed.missing_hooks.is_empty() {
        text += &translation(&script.state);
    }
    text + "*filter\n" + &script.filter + "COMMIT\n"
}

/// The whole of address translation, whatever there was.
fn translation(state: &Installed) -> String {
    let mut text = String::from("*nat\n:MUSTER-POSTROUTING - [0:0]\n:MUSTER-MASQ - [0:0]\n");
    if state.missing_hooks.contains(&"POSTROUTING") {
        text += "-I POSTROUTING 1 -j MUSTER-POSTROUTING\n";
    }
    for network in state
        .networks
        .values()
        .filter(|network| network.is_masqueraded())
    {
        text += &format!(
            "-A MUSTER-POSTROUTING -s {} -j MUSTER-MASQ\n",
            network.subnet()
        );
    }
    for bridge in state.networks.keys() {
        text += &format!("-A MUSTER-MASQ -o {bridge} -j RETURN\n");
    }
    for local in LOCAL_NETWORKS {
        text += &format!("-A MUSTER-MASQ -d {local} -j RETURN\n");
    }
    text + "-A MUSTER-MASQ -j MASQUERADE\nCOMMIT\n"
}

/// Takes everything away that `iptables-save` shows of Muster's.
pub(super) fn clear(saved: &str) -> Option<String> {
    let mut text = String::new();
    let mut deletions = String::new();
    let mut any = false;
    for line in saved.lines() {
        if line.starts_with('*') {
            text += line;
            text.push('\n');
        } else if let Some(chain) = line
            .strip_prefix(':')
            .and_then(|rest| rest.split(' ').next())
        {
            if is_ours(chain) {
                any = true;
                text += &format!("-F {chain}\n");
                deletions += &format!("-X {chain}\n");
            }
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let hooked = HOOKS
                .iter()
                .any(|(_, chain)| rule == format!("{chain} -j MUSTER-{chain}"));
            if hooked {
                text += &format!("-D {rule}\n");
            }
        } else if line == "COMMIT" {
            text += &deletions;
            deletions.clear();
            text += "COMMIT\n";
        }
    }
    any.then_some(text)
}

/// The filter's text so far, and the state that it leads to.
struct Script {
    filter: String,
    state: Installed,
}

impl Script {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.filter.write_fmt(line);
        self.filter.push('\n');
    }

    fn found(&mut self) {
        let locals = |field: &str| -> Vec<String> {
            let one = |local| format!("{field} {local} -j RETURN");
            LOCAL_NETWORKS.iter().map(one).collect()
        };
        let counted = |field| {
            let mut rules = locals(field);
            rules.push("-m comment --comment system".to_owned());
            rules
        };
        let rules = |rules: &[&str]| -> Vec<String> {
            rules.iter().map(|rule| (*rule).to_owned()).collect()
        };
        let chains = [
            ("FROM", Vec::new()),
            ("TO", Vec::new()),
            ("COUNTED", Vec::new()),
            ("PASS", Vec::new()),
            ("BRIDGES", Vec::new()),
            ("NAMES", Vec::new()),
            ("QUIET", Vec::new()),
            ("LEAVE", rules(&["-j DROP"])),
            ("ARRIVE", rules(&["-j DROP"])),
            ("NODE", rules(&["-j DROP"])),
            ("DOWN", counted("-s")),
            ("UP", counted("-d")),
            (
                "FORWARD",
                rules(&[
                    "-j MUSTER-FROM",
                    "-j MUSTER-TO",
                    "-j MUSTER-COUNTED",
                    "-j MUSTER-PASS",
                ]),
            ),
            ("INPUT", rules(&["-j MUSTER-DOWN", "-j MUSTER-BRIDGES"])),
            ("OUTPUT", rules(&["-j MUSTER-QUIET", "-j MUSTER-UP"])),
        ];
        for (name, _) in &chains {
            self.line(format_args!(":MUSTER-{name} - [0:0]"));
        }
        for (name, rules) in &chains {
            for rule in rules {
                self.line(format_args!("-A MUSTER-{name} {rule}"));
            }
        }
    }

    fn put_network(&mut self, network: &NetworkPolicy) {
        if self.state.networks.get(network.bridge()) == Some(network) {
            return;
        }
        self.remove_network(network.bridge());
        self.network_lines("-A", network);
        self.state
            .networks
            .insert(network.bridge().clone(), network.clone());
    }

    fn remove_network(&mut self, bridge: &LinkName) {
        if let Some(network) = self.state.networks.remove(bridge) {
            self.network_lines("-D", &network);
        }
    }

    fn network_lines(&mut self, verb: &str, network: &NetworkPolicy) {
        let (bridge, node) = (network.bridge(), network.node());
        let record = network.record();
        self.line(format_args!(
            "{verb} MUSTER-FROM -i {bridge} -m comment --comment \"{record}\" -j MUSTER-LEAVE"
        ));
        self.line(format_args!(
            "{verb} MUSTER-TO -o {bridge} -j MUSTER-ARRIVE"
        ));
        self.line(format_args!(
            "{verb} MUSTER-COUNTED -o {bridge} -j MUSTER-DOWN"
        ));
        self.line(format_args!(
            "{verb} MUSTER-COUNTED -i {bridge} -j MUSTER-UP"
        ));
        self.line(format_args!("{verb} MUSTER-PASS -i {bridge} -j ACCEPT"));
        self.line(format_args!("{verb} MUSTER-PASS -o {bridge} -j ACCEPT"));
        self.line(format_args!(
            "{verb} MUSTER-BRIDGES -i {bridge} -j MUSTER-NODE"
        ));
        for protocol in ["udp", "tcp"] {
            self.line(format_args!(
                "{verb} MUSTER-NAMES -d {node}/32 -i {bridge} -p {protocol} -m {protocol} --dport 53 -j ACCEPT"
            ));
        }
        self.line(format_args!(
            "{verb} MUSTER-QUIET -o {bridge} -p icmp -m icmp --icmp-type 5 -j DROP"
        ));
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
        for (letter, peer, permit, rules, first) in [
            ('O', "-d", "RETURN", &rules.outgoing, None),
            ('I', "-s", "RETURN", &rules.incoming, None),
            ('N', "-d", "ACCEPT", &rules.to_node, Some("-j MUSTER-NAMES")),
        ] {
            self.line(format_args!(":MUSTER-{letter}-{tag} - [0:0]"));
            // Here rather than before the instance is looked up: one that has no rules has no connections.
            self.line(format_args!(
                "-A MUSTER-{letter}-{tag} {ESTABLISHED} -j {permit}"
            ));
            self.line(format_args!("-A MUSTER-{letter}-{tag} {INVALID}"));
            if let Some(rule) = first {
                self.line(format_args!("-A MUSTER-{letter}-{tag} {rule}"));
            }
            for rule in rules {
                for rule in render(rule, peer, permit) {
                    self.line(format_args!("-A MUSTER-{letter}-{tag} {rule}"));
                }
            }
        }
        if self
            .state
            .instances
            .insert(instance.clone(), address)
            .is_none()
        {
            for (chain, letter, field) in INSTANCE_JUMPS {
                self.line(format_args!(
                    "-I MUSTER-{chain} 1 {field} {address}/32 -m comment --comment {instance} -g MUSTER-{letter}-{tag}"
                ));
            }
        }
    }

    fn remove_instance(&mut self, instance: &InstanceId) {
        let Some(address) = self.state.instances.remove(instance) else {
            return;
        };
        let tag = instance.tag();
        for (chain, letter, field) in INSTANCE_JUMPS {
            self.line(format_args!(
                "-D MUSTER-{chain} {field} {address}/32 -m comment --comment {instance} -g MUSTER-{letter}-{tag}"
            ));
        }
        for (_, letter, _) in INSTANCE_JUMPS {
            self.line(format_args!("-F MUSTER-{letter}-{tag}"));
            self.line(format_args!("-X MUSTER-{letter}-{tag}"));
        }
    }

    fn put_meter(&mut self, meter: &Meter) {
        let (instance, address) = (&meter.instance, meter.address);
        let tag = instance.tag();
        let other = owner(&self.state.meters, address).filter(|owner| owner != instance);
        if let Some(other) = other {
            self.remove_meter(&other);
        }
        let before = self.state.meters.insert(instance.clone(), address);
        for (chain, letter, field, blocked) in [
            ("DOWN", 'D', "-d", meter.download_blocked),
            ("UP", 'U', "-s", meter.upload_blocked),
        ] {
            // The gate may be written anew at any time; the counting rule would begin at nought again.
            self.line(format_args!(":MUSTER-G{letter}-{tag} - [0:0]"));
            if blocked {
                self.line(format_args!("-A MUSTER-G{letter}-{tag} -j DROP"));
            }
            if before.is_none() {
                self.line(format_args!(":MUSTER-{letter}-{tag} - [0:0]"));
                self.line(format_args!(
                    "-A MUSTER-{letter}-{tag} -j MUSTER-G{letter}-{tag}"
                ));
                self.line(format_args!(
                    "-A MUSTER-{letter}-{tag} -m comment --comment counted"
                ));
            }
            if let Some(before) = before.filter(|before| *before != address) {
                self.line(format_args!(
                    "-D MUSTER-{chain} {field} {before}/32 -m comment --comment {instance} -j MUSTER-{letter}-{tag}"
                ));
            }
            if before != Some(address) {
                self.line(format_args!(
                    "-I MUSTER-{chain} {FIRST_METER} {field} {address}/32 -m comment --comment {instance} -j MUSTER-{letter}-{tag}"
                ));
            }
        }
    }

    fn remove_meter(&mut self, instance: &InstanceId) {
        let Some(address) = self.state.meters.remove(instance) else {
            return;
        };
        let tag = instance.tag();
        for (chain, letter, field) in [("DOWN", 'D', "-d"), ("UP", 'U', "-s")] {
            self.line(format_args!(
                "-D MUSTER-{chain} {field} {address}/32 -m comment --comment {instance} -j MUSTER-{letter}-{tag}"
            ));
            for kind in [format!("{letter}"), format!("G{letter}")] {
                self.line(format_args!("-F MUSTER-{kind}-{tag}"));
                self.line(format_args!("-X MUSTER-{kind}-{tag}"));
            }
        }
    }
}

const INSTANCE_JUMPS: [(&str, char, &str); 3] = [
    ("LEAVE", 'O', "-s"),
    ("ARRIVE", 'I', "-d"),
    ("NODE", 'N', "-s"),
];

/// `peer` is the option for the other end, `permit` what lets the packet go on.
fn render(rule: &Rule, peer: &str, permit: &str) -> Vec<String> {
    let peers = match rule.peer {
        Peer::Any => vec![String::new()],
        Peer::Within(subnet) => vec![format!("{peer} {subnet} ")],
        Peer::Local => LOCAL_NETWORKS
            .iter()
            .map(|local| format!("{peer} {local} "))
            .collect(),
    };
    let transport = rule
        .transport
        .map_or_else(String::new, |(protocol, ports)| {
            let (first, last) = (ports.first(), ports.last());
            format!("-p {protocol} -m {protocol} --dport {first}:{last} ")
        });
    let verdict = match rule.verdict {
        Verdict::Permit => permit,
        Verdict::Refuse => "DROP",
    };
    let one = |peer: String| format!("{peer}{transport}-j {verdict}");
    peers.into_iter().map(one).collect()
}
