//! What an instance needs of its network, and what plugins are told about it. Pure.

use std::net::IpAddr;
use std::path::PathBuf;

use muster_api::domain::{FirewallRule, InstanceIdent, InstanceInfo, NetworkParameters};
use muster_cni::{Attachment, InvalidAttachment, InvalidList, NetworkList, PluginConfig};
use muster_item::ExposedPort;
use muster_launcher::seams::InstalledImage;
use muster_runtime::{HostEntry, NetworkAttachment};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::names;
use crate::node_network::{NodeNetwork, contains};
use crate::records::Record;
use crate::settings::SameSubnet;

/// The link's name inside of an instance.
const INTERFACE: &str = "eth0";
/// The program's name of Muster's own plugin.
pub(crate) const FIREWALL: &str = "muster-firewall";
/// The plugin for speeds counts in bits and cannot do with less than a byte a second; below this a link is of no use.
const LEAST_SPEED: u64 = 8_000;
/// What may pass at once when a link was idle: the share of a second, and the least and most that make sense.
const BURST_SHARE: u64 = 20;
const LEAST_BURST: u64 = 64 * 1024 * 8;
const MOST_BURST: u64 = 1024 * 1024 * 1024 * 8;

/// What an instance needs of its network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wish {
    ident: InstanceIdent,
    parameters: NetworkParameters,
    hostname: Option<String>,
    exposed: Vec<ExposedPort>,
    /// Bits a second that it may send.
    upload: Option<u64>,
    /// Bits a second that it may receive.
    download: Option<u64>,
}

/// How an instance is put into its network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// What is written down before anything is made.
    pub(crate) record: Record,
    pub(crate) list: NetworkList,
    pub(crate) attachment: Attachment,
    pub(crate) answer: NetworkAttachment,
}

/// Why an instance cannot be in the network that the controller says.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It has another subnet than the node's network.
    #[error("its subnet {given} is not the network's {network}")]
    Subnet {
        /// The instance's.
        given: String,
        /// The network's.
        network: String,
    },
    /// The address belongs elsewhere.
    #[error("its address {address} is not one that an instance can have in {subnet}")]
    Address {
        /// The instance's.
        address: IpAddr,
        /// The network's.
        subnet: String,
    },
    /// The plugins' configuration cannot be made.
    #[error("no configuration for its plugins can be made")]
    List(#[source] InvalidList),
    /// The plugins' environment cannot be made.
    #[error("its plugins cannot be told about it")]
    Attachment(#[source] InvalidAttachment),
}

impl Wish {
    /// `None` if the instance has no network.
    pub(crate) fn of(info: &InstanceInfo, image: &InstalledImage) -> Option<Self> {
        let parameters = info.network.clone()?;
        let quotas = &image.item_config.quotas;
        let limited = !image.item_config.skip_resource_limits;
        Some(Self {
            ident: info.instance.clone(),
            parameters,
            hostname: image.item_config.hostname.clone(),
            exposed: image.image_config.exposed_ports.clone(),
            upload: quotas.upload_speed.filter(|_| limited),
            download: quotas.download_speed.filter(|_| limited),
        })
    }

    pub(crate) fn instance_id(&self) -> Uuid {
        self.ident.instance_id()
    }

    pub(crate) fn parameters(&self) -> &NetworkParameters {
        &self.parameters
    }

    pub(crate) fn ident(&self) -> &InstanceIdent {
        &self.ident
    }

    /// Decides everything about the instance's place in the network.
    pub(crate) fn plan(
        &self,
        network: &NodeNetwork,
        same_subnet: SameSubnet,
        namespace: PathBuf,
    ) -> Result<Plan, PlanError> {
        let (id, address) = (self.instance_id(), self.parameters.ip);
        self.check(network)?;
        let list = self.list(network, same_subnet).map_err(PlanError::List)?;
        let attachment = attachment(id, namespace.clone()).map_err(PlanError::Attachment)?;
        let hostname = self.hostname.clone().unwrap_or_else(|| id.to_string());
        let names = names::of_instance(&self.ident, self.hostname.as_deref(), &network.id);
        let record = Record {
            instance: id,
            name: self.ident.to_string(),
            network: network.id.clone(),
            address,
            names,
            name_servers: self.parameters.dns_servers.clone(),
            conflist: Value::to_string(&list.to_value()),
            made: false,
        };
        let answer = NetworkAttachment {
            namespace,
            address,
            hosts: vec![HostEntry {
                ip: address,
                hostname: hostname.clone(),
            }],
            hostname,
            // The node's server asks the controller's, and says for which network; an instance could not.
            name_servers: vec![network.address],
        };
        Ok(Plan {
            record,
            list,
            attachment,
            answer,
        })
    }

    fn check(&self, network: &NodeNetwork) -> Result<(), PlanError> {
        let (given, own) = (self.parameters.subnet, network.subnet);
        let same = given.prefix_length() == own.prefix_length() && contains(own, given.address());
        if !same {
            return Err(PlanError::Subnet {
                given: given.to_string(),
                network: own.to_string(),
            });
        }
        let address = self.parameters.ip;
        if !contains(own, address) || address == network.address || address == own.address() {
            return Err(PlanError::Address {
                address,
                subnet: own.to_string(),
            });
        }
        Ok(())
    }

    /// The plugins: loopback, the port of the bridge with its address, speeds, rules.
    fn list(
        &self,
        network: &NodeNetwork,
        same_subnet: SameSubnet,
    ) -> Result<NetworkList, InvalidList> {
        let bridge = network.bridge();
        let (address, length) = (self.parameters.ip, network.subnet.prefix_length());
        let everywhere = if address.is_ipv4() {
            "0.0.0.0/0"
        } else {
            "::/0"
        };
        let addresses = json!({
            "type": "static",
            "addresses": [{"address": format!("{address}/{length}"), "gateway": network.address}],
            "routes": [{"dst": everywhere}],
        });
        let mut plugins = vec![
            PluginConfig::new("loopback")?,
            // The bridge and its address are the node's business; addresses are translated by the node's rules.
            PluginConfig::new("bridge")?
                .with("bridge", bridge.as_str())
                .with("isGateway", false)
                .with("ipMasq", false)
                .with("ipam", addresses),
        ];
        if self.upload.is_some() || self.download.is_some() {
            let mut speeds = PluginConfig::new("bandwidth")?;
            for (direction, speed) in [("egress", self.upload), ("ingress", self.download)] {
                if let Some(speed) = speed {
                    let speed = speed.max(LEAST_SPEED);
                    let burst = (speed / BURST_SHARE).clamp(LEAST_BURST, MOST_BURST);
                    speeds = speeds
                        .with(&format!("{direction}Rate"), speed)
                        .with(&format!("{direction}Burst"), burst);
                }
            }
            plugins.push(speeds);
        }
        let exposed: Vec<String> = (self.exposed.iter())
            .map(|it| format!("{}/{}", it.ports, it.protocol))
            .collect();
        let allowed: Vec<Value> = self.parameters.rules.iter().map(allowed).collect();
        plugins.push(
            PluginConfig::new(FIREWALL)?
                .with("bridge", bridge.as_str())
                .with("subnet", network.subnet.to_string())
                .with("gateway", network.address.to_string())
                .with("sameSubnet", same_subnet == SameSubnet::Allow)
                .with("exposedPorts", exposed)
                .with("allowedConnections", allowed),
        );
        NetworkList::new(bridge.as_str(), plugins)
    }
}

fn allowed(rule: &FirewallRule) -> Value {
    json!({
        "dstIp": rule.dst_ip,
        "dstPort": rule.dst_port.to_string(),
        "proto": rule.proto.to_string(),
        "srcIp": rule.src_ip.map(|it| it.to_string()).unwrap_or_default(),
    })
}

/// An instance as plugins know it, by its id alone.
pub(crate) fn attachment(
    instance: Uuid,
    namespace: PathBuf,
) -> Result<Attachment, InvalidAttachment> {
    Attachment::new(&instance.to_string(), namespace, INTERFACE)
}

#[cfg(test)]
mod tests;
