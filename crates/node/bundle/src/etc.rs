//! Files below `/etc` that depend on the instance's network. Pure.

use muster_runtime::{HostEntry, InstanceSpec};

/// Files in the instance's folder that it sees at the same name below `/etc`, with their contents.
#[must_use]
pub fn files(instance: &InstanceSpec) -> [(&'static str, String); 3] {
    [
        ("hosts", hosts(instance)),
        ("resolv.conf", resolv(instance)),
        ("hostname", format!("{}\n", hostname(instance))),
    ]
}

/// The name that the instance sees as its host's: the network's for it, the item's, or its id.
#[must_use]
pub fn hostname(instance: &InstanceSpec) -> String {
    let network = instance
        .network
        .as_ref()
        .map(|network| network.hostname.clone());
    let named = network.filter(|name| !name.is_empty());
    let named = named.or_else(|| instance.item_config.hostname.clone());
    named.unwrap_or_else(|| instance.info.instance.instance_id().to_string())
}

fn hosts(instance: &InstanceSpec) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n".to_owned();
    let own = hostname(instance);
    match &instance.network {
        Some(network) => text.push_str(&format!("{} {own}\n", network.address)),
        None => text.push_str(&format!("127.0.1.1 {own}\n")),
    }
    let resources = instance
        .resources
        .iter()
        .flat_map(|resource| &resource.hosts);
    let network = instance.network.iter().flat_map(|network| &network.hosts);
    for HostEntry { ip, hostname } in network.chain(resources) {
        text.push_str(&format!("{ip} {}\n", one_word(hostname)));
    }
    text
}

fn resolv(instance: &InstanceSpec) -> String {
    let servers = instance
        .network
        .iter()
        .flat_map(|network| &network.name_servers);
    servers
        .map(|server| format!("nameserver {server}\n"))
        .collect()
}

/// A name cannot start a line of its own.
fn one_word(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && !c.is_control())
        .collect()
}
