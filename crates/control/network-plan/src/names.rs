//! Who is known by which name, in which network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use muster_api::domain::{InstanceIdent, ItemId, NetworkId};

use crate::outcome::{HostTable, Note};
use crate::rules::Attached;

/// To whom a name belongs.
#[derive(Debug, PartialEq, Eq)]
enum Claim<'r> {
    Instance(&'r InstanceIdent),
    /// Instances of an item share its host name.
    Item(&'r ItemId),
}

/// The names of one network, while they are given out.
#[derive(Debug)]
pub(crate) struct Names<'r> {
    network: NetworkId,
    claims: BTreeMap<String, Claim<'r>>,
    hosts: HostTable,
    notes: Vec<Note>,
}

/// A name that can be asked for: labels of letters, digits, `-` and `_`, none longer than 63, 253 in all.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The names that an instance has because of who it is: the same by which its own node knows it.
fn names_of(instance: &InstanceIdent, network: &NetworkId) -> Vec<String> {
    let item = format!("{}.{}", instance.subject_id, instance.item_id);
    let mut short = vec![
        format!("{}.{item}", instance.instance),
        instance.instance_id().to_string(),
    ];
    if instance.instance == 0 {
        short.push(item);
    }
    let mut names: Vec<String> = short.iter().map(|it| within(it, network)).collect();
    names.extend(short);
    names
}

/// A name within the network's own.
fn within(name: &str, network: &NetworkId) -> String {
    format!("{name}.{network}")
}

impl<'r> Names<'r> {
    pub(crate) fn new(network: NetworkId) -> Self {
        Self {
            network,
            claims: BTreeMap::new(),
            hosts: HostTable::new(),
            notes: Vec::new(),
        }
    }

    fn give(&mut self, name: &str, claim: Claim<'r>, address: Ipv4Addr) -> bool {
        let name = name.to_ascii_lowercase();
        let holder = self
            .claims
            .entry(name.clone())
            .or_insert_with(|| match &claim {
                Claim::Instance(instance) => Claim::Instance(instance),
                Claim::Item(item) => Claim::Item(item),
            });
        let is_own = *holder == claim;
        if is_own {
            self.hosts.entry(name).or_default().insert(address);
        }
        is_own
    }

    /// The names of members, then their host names, then those of others that members may call. Each list by ident.
    pub(crate) fn fill(&mut self, members: &[Attached<'r>], callees: &[Attached<'r>]) {
        for member in members {
            let instance = &member.endpoint.instance;
            for name in names_of(instance, &self.network) {
                if !is_host_name(&name) {
                    let instance = instance.clone();
                    self.notes.push(Note::NoName { name, instance });
                } else if !self.give(&name, Claim::Instance(instance), member.address) {
                    self.note_taken(name, instance);
                }
            }
        }
        for member in members {
            let instance = &member.endpoint.instance;
            let Some(name) = &member.endpoint.hostname else {
                continue;
            };
            if !is_host_name(name) {
                let (name, instance) = (name.clone(), instance.clone());
                self.notes.push(Note::NoName { name, instance });
            } else {
                if !self.give(name, Claim::Item(&instance.item_id), member.address) {
                    self.note_taken(name.clone(), instance);
                }
                let whole = within(name, &self.network);
                self.give_host_name(&whole, instance, member.address);
            }
        }
        // Names from outside only fill gaps, and whoever has them is told about them in its own network.
        for callee in callees {
            let instance = &callee.endpoint.instance;
            let own_network = callee.endpoint.network.network_id();
            for name in names_of(instance, &own_network) {
                if is_host_name(&name) {
                    self.give(&name, Claim::Instance(instance), callee.address);
                }
            }
        }
        for callee in callees {
            let instance = &callee.endpoint.instance;
            if let Some(name) = &callee.endpoint.hostname {
                let own_network = callee.endpoint.network.network_id();
                self.give_host_name(name, instance, callee.address);
                self.give_host_name(&within(name, &own_network), instance, callee.address);
            }
        }
    }

    /// Where it is one, and nobody else has it.
    fn give_host_name(&mut self, name: &str, instance: &'r InstanceIdent, address: Ipv4Addr) {
        if is_host_name(name) {
            self.give(name, Claim::Item(&instance.item_id), address);
        }
    }

    fn note_taken(&mut self, name: String, instance: &InstanceIdent) {
        self.notes.push(Note::NameTaken {
            network: self.network.clone(),
            name,
            instance: instance.clone(),
        });
    }

    pub(crate) fn finish(self) -> (NetworkId, HostTable, Vec<Note>) {
        (self.network, self.hosts, self.notes)
    }
}
