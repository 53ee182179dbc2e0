//! The CNI plugin: the last of a chain, which gives an instance its rules.
//!
//! It speaks CNI 1.0.0 (and 0.4.0, whose configuration and result it reads alike). What it is told beside CNI's own fields:
//!
//! | field | meaning |
//! |---|---|
//! | `instanceId` | whose rules; CNI's container id when not given |
//! | `bridge` | the network's bridge, which must exist; required |
//! | `subnet` | the network's addresses; required |
//! | `gateway` | the node's address in it; that of the previous result when not given |
//! | `masquerade` | whether traffic to the outside gets the node's address; yes when not given |
//! | `sameSubnet` | whether it talks freely within its subnet; no when not given |
//! | `exposedPorts` | `["8080", "53/udp", "8000-8010/tcp"]` |
//! | `allowedConnections` | `[{"dstIp": "172.18.0.3", "dstPort": "5432", "proto": "tcp", "srcIp": ""}]` |
//! | `backend` | `nft` or `iptables`; what works here when not given |
//!
//! ADD puts the network's and the instance's rules, and passes the previous result on. CHECK fails unless the instance has its
//! rules under the address of the previous result. DEL removes the instance's rules; it needs no previous result, and is content when nothing is
//! there. The network's rules stay for the other instances; whoever manages networks removes them.

use std::net::{IpAddr, Ipv4Addr};

use muster_api::domain::{FirewallRule, PortRange, TransportProtocol};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::firewall::Firewall;
use crate::iptables::Iptables;
use crate::model::Change;
use crate::names::{InstanceId, LinkName};
use crate::nft::Nft;
use crate::policy::{InstancePolicy, NetworkPolicy};
use crate::subnet::Ipv4Subnet;

mod failure;

pub use failure::{Failure, FailureCode};

const VERSIONS: [&str; 2] = ["0.4.0", "1.0.0"];
/// For answers to a caller whose own version is not known.
const NEWEST: &str = "1.0.0";
/// Ten thousand rules fit.
pub const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// What the caller put into environment and standard input.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `CNI_COMMAND`.
    pub command: Option<String>,
    /// `CNI_CONTAINERID`.
    pub container_id: Option<String>,
    /// Standard input, at most [`MAX_CONFIG_BYTES`].
    pub config: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    cni_version: String,
    instance_id: Option<String>,
    bridge: Option<String>,
    subnet: Option<String>,
    gateway: Option<Ipv4Addr>,
    masquerade: Option<bool>,
    #[serde(default)]
    same_subnet: bool,
    #[serde(default)]
    exposed_ports: Vec<String>,
    #[serde(default)]
    allowed_connections: Vec<Connection>,
    backend: Option<String>,
    prev_result: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    dst_ip: IpAddr,
    dst_port: String,
    #[serde(default)]
    proto: String,
    #[serde(default)]
    src_ip: String,
}

/// Does what is asked; answers what goes to standard output. A failure goes there too, and makes the exit code 1.
pub fn run(request: &Request) -> Result<Option<Value>, Failure> {
    let command = request.command.as_deref().unwrap_or_default();
    if command == "VERSION" {
        return Ok(Some(
            json!({"cniVersion": NEWEST, "supportedVersions": VERSIONS}),
        ));
    }
    let config: Config = serde_json::from_slice(&request.config).map_err(|error| {
        Failure::new(
            NEWEST,
            FailureCode::Decode,
            "the configuration cannot be read",
            &error,
        )
    })?;
    if !VERSIONS.contains(&&*config.cni_version) {
        let offered = format!("{:?} is none of {VERSIONS:?}", config.cni_version);
        return Err(Failure::plain(NEWEST, FailureCode::Version, offered));
    }
    let call = Call {
        request,
        config: &config,
    };
    match command {
        "ADD" => call.add(),
        "CHECK" => call.check(),
        "DEL" => call.del(),
        other => {
            let message = format!("CNI_COMMAND is {other:?}, not ADD, CHECK, DEL or VERSION");
            Err(call.failure(FailureCode::Environment, message))
        }
    }
}

struct Call<'a> {
    request: &'a Request,
    config: &'a Config,
}

impl Call<'_> {
    fn add(&self) -> Result<Option<Value>, Failure> {
        let network = self.network()?;
        let policy = self.policy(&network)?;
        let changes = [Change::PutNetwork(network), Change::PutInstance(policy)];
        let firewall = self.firewall()?;
        firewall
            .apply(&changes)
            .map_err(|error| self.refused("give the instance its rules", &error))?;
        Ok(self.config.prev_result.clone())
    }

    fn check(&self) -> Result<Option<Value>, Failure> {
        let network = self.network()?;
        let policy = self.policy(&network)?;
        let installed = self
            .firewall()?
            .installed()
            .map_err(|error| self.refused("read the rules", &error))?;
        let (instance, address) = (policy.instance(), policy.address());
        let message = if !installed.networks().any(|found| *found == network) {
            format!(
                "the bridge {} has not the rules of this network",
                network.bridge()
            )
        } else if !installed
            .instances()
            .any(|found| found == (instance, address))
        {
            format!("{instance} has no rules for the address {address}")
        } else {
            return Ok(None);
        };
        Err(self.failure(FailureCode::NotInPlace, message))
    }

    fn del(&self) -> Result<Option<Value>, Failure> {
        let changes = [Change::RemoveInstance(self.instance()?)];
        self.firewall()?
            .apply(&changes)
            .map_err(|error| self.refused("remove the instance's rules", &error))?;
        Ok(None)
    }

    fn instance(&self) -> Result<InstanceId, Failure> {
        let given = self.config.instance_id.as_deref();
        let Some(id) = given.or(self.request.container_id.as_deref()) else {
            return Err(self.failure(FailureCode::Environment, "CNI_CONTAINERID is not set"));
        };
        let code = match given {
            Some(_) => FailureCode::Config,
            None => FailureCode::Environment,
        };
        InstanceId::new(id).map_err(|error| self.failure(code, error.to_string()))
    }

    fn network(&self) -> Result<NetworkPolicy, Failure> {
        let bridge = self.required("bridge", self.config.bridge.as_deref())?;
        let bridge = LinkName::new(bridge).map_err(|error| self.invalid("bridge", &error))?;
        let subnet = self.required("subnet", self.config.subnet.as_deref())?;
        let subnet: Ipv4Subnet = subnet
            .parse()
            .map_err(|error| self.invalid("subnet", &error))?;
        let node = self
            .config
            .gateway
            .or_else(|| self.previous_address("gateway", subnet))
            .ok_or_else(|| {
                let message = "gateway is neither given nor in the previous result";
                self.failure(FailureCode::Config, message)
            })?;
        let network = NetworkPolicy::new(bridge, subnet, node)
            .map_err(|error| self.invalid("gateway", &error))?;
        Ok(match self.config.masquerade {
            Some(false) => network.without_masquerade(),
            _ => network,
        })
    }

    fn policy(&self, network: &NetworkPolicy) -> Result<InstancePolicy, Failure> {
        let config = self.config;
        if config.prev_result.is_none() {
            let message =
                "there is no previous result: this plugin comes after one that gives an address";
            return Err(self.failure(FailureCode::Config, message));
        }
        let address = self
            .previous_address("address", network.subnet())
            .ok_or_else(|| {
                let message = format!("the previous result has no address of {}", network.subnet());
                self.failure(FailureCode::Config, message)
            })?;
        let exposed = config.exposed_ports.iter().map(|text| self.exposed(text));
        let exposed = exposed.collect::<Result<Vec<_>, Failure>>()?;
        let allowed = config.allowed_connections.iter().map(|it| self.allowed(it));
        let allowed = allowed.collect::<Result<Vec<_>, Failure>>()?;
        InstancePolicy::new(self.instance()?, network, IpAddr::V4(address))
            .and_then(|policy| policy.same_subnet(config.same_subnet).expose(exposed))
            .and_then(|policy| policy.allow(&allowed))
            .map_err(|error| self.invalid("the policy", &error))
    }

    fn exposed(&self, text: &str) -> Result<(TransportProtocol, PortRange), Failure> {
        let (ports, protocol) = text.split_once('/').unwrap_or((text, ""));
        let field = "exposedPorts";
        Ok((
            protocol
                .parse()
                .map_err(|error| self.invalid(field, &error))?,
            ports.parse().map_err(|error| self.invalid(field, &error))?,
        ))
    }

    fn allowed(&self, connection: &Connection) -> Result<FirewallRule, Failure> {
        let field = "allowedConnections";
        Ok(FirewallRule {
            dst_ip: connection.dst_ip,
            dst_port: connection
                .dst_port
                .parse()
                .map_err(|error| self.invalid(field, &error))?,
            proto: connection
                .proto
                .parse()
                .map_err(|error| self.invalid(field, &error))?,
            src_ip: match connection.src_ip.as_str() {
                "" => None,
                given => Some(given.parse().map_err(|error| self.invalid(field, &error))?),
            },
        })
    }

    /// The first of the previous result's addresses that is of the subnet; `field` says of what.
    fn previous_address(&self, field: &str, subnet: Ipv4Subnet) -> Option<Ipv4Addr> {
        let addresses = self.config.prev_result.as_ref()?.get("ips")?.as_array()?;
        addresses
            .iter()
            .filter_map(|ip| ip.get(field)?.as_str()?.split('/').next()?.parse().ok())
            .find(|address| subnet.contains(*address))
    }

    fn firewall(&self) -> Result<Firewall, Failure> {
        match self.config.backend.as_deref() {
            None => {
                Firewall::detect().map_err(|error| self.refused("find a packet filter", &error))
            }
            Some("nft") => Ok(Firewall::with(Nft::new())),
            Some("iptables") => Ok(Firewall::with(Iptables::named("iptables"))),
            Some(other) => {
                let message = format!("backend is {other:?}, not nft or iptables");
                Err(self.failure(FailureCode::Config, message))
            }
        }
    }

    fn required<'a>(&self, field: &str, value: Option<&'a str>) -> Result<&'a str, Failure> {
        value.ok_or_else(|| self.failure(FailureCode::Config, format!("{field} is not given")))
    }

    fn invalid(&self, field: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
        let message = format!("{field} is not valid");
        Failure::new(
            &self.config.cni_version,
            FailureCode::Config,
            message,
            error,
        )
    }

    fn refused(&self, what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
        let message = format!("cannot {what}");
        Failure::new(
            &self.config.cni_version,
            FailureCode::Filter,
            message,
            error,
        )
    }

    fn failure(&self, code: FailureCode, message: impl Into<String>) -> Failure {
        Failure::plain(&self.config.cni_version, code, message)
    }
}
