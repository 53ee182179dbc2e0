//! The configuration of parts: launching, networks, items, and what the cloud link is told.

use std::net::IpAddr;

use muster_balance::{IdRange, Limits};
use muster_config::{ByteSize, Duration, Problems};
use muster_network_plan::{Block, Settings, SubnetPool};
use serde::Deserialize;

/// How instances are brought to nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawLauncher {
    /// So long is waited for nodes that are expected before instances are placed: 30 s.
    pub nodes_connection_timeout: Option<Duration>,
    /// A node that is away for so long is lost, and what it ran is placed elsewhere: 10 min.
    pub node_loss_timeout: Option<Duration>,
    /// So long is waited for instances to become active: 10 min.
    pub activation_timeout: Option<Duration>,
    /// After so long, users, addresses and data of an instance that is not wanted any more go: 30 d.
    pub instance_ttl: Option<Duration>,
    /// So many items are downloaded at a time: 3.
    pub parallel_downloads: Option<u64>,
    /// So many earlier desired statuses are kept to go back to: 10.
    pub history: Option<u64>,
    /// What users of instances are numbered from and to: 5000 to 10000. Each instance of the Unit has its own.
    pub user_ids: Option<RawIds>,
    /// What groups of items are numbered from and to: 5000 to 10000.
    pub group_ids: Option<RawIds>,
    /// So many instances may be wanted: 100,000.
    pub max_instances: Option<u64>,
}

/// Numbers of accounts; both ends belong to them.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct RawIds {
    /// The lowest.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

/// What may be handed out to instances.
pub(super) fn handed_out(raw: &RawLauncher, problems: &mut Problems<'_>) -> Option<Limits> {
    let mut range = |key: &str, given: Option<RawIds>, default| {
        let Some(given) = given else {
            return Some(default);
        };
        let range = IdRange::new(given.first, given.last);
        range.map_err(|error| problems.report(key, error)).ok()
    };
    let defaults = Limits::default();
    let uids = range("launcher.userIds", raw.user_ids, defaults.uids);
    let gids = range("launcher.groupIds", raw.group_ids, defaults.gids);
    Some(Limits {
        uids: uids?,
        gids: gids?,
        instances: raw.max_instances.unwrap_or(defaults.instances),
    })
}

/// How instances are connected.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNetworks {
    /// `on`: every service has a network; `off`: none has one.
    pub mode: String,
    /// What subnets are cut from, as `172.17.0.0/16`; the usual ones without any.
    pub pools: Vec<String>,
    /// How long the prefix of a network is: 16.
    pub prefix_length: Option<u8>,
    /// Whom nodes ask for names of instances, besides the server at `dnsIp`.
    pub dns_servers: Vec<String>,
    /// Whom the server at `dnsIp` asks for names that are not the Unit's. Without any it refuses them, and nodes ask their own
    /// servers.
    pub dns_forwarders: Vec<String>,
    /// Whom the server at `dnsIp` answers, as `10.0.0.0/8`: every address that is not of the Internet, unless others are given.
    pub dns_clients: Vec<String>,
}

/// Items on the Main Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawImageManager {
    /// How long a removed item can come back without a download: 30 d.
    pub update_item_ttl: Option<Duration>,
    /// How often is looked for items that can go: 24 h.
    pub remove_outdated_period: Option<Duration>,
    /// The most that items may take.
    pub max_size: Option<ByteSize>,
}

/// Joining what the identity manager and nodes say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNodeInfoProvider {
    /// A provisioned node that has not connected for so long is shown as failed: 1 min.
    pub sm_connection_timeout: Option<Duration>,
}

/// What networks are made of; `None` without networks.
pub(super) fn networks(
    raw: &RawNetworks,
    own_server: Option<IpAddr>,
    problems: &mut Problems<'_>,
) -> Option<Option<NetworksConfig>> {
    let mut servers: Vec<IpAddr> = own_server.into_iter().collect();
    for (index, server) in raw.dns_servers.iter().enumerate() {
        match server.parse() {
            Ok(server) if servers.contains(&server) => {}
            Ok(server) => servers.push(server),
            Err(error) => {
                let error: std::net::AddrParseError = error;
                problems.report(&format!("networks.dnsServers[{index}]"), error);
            }
        }
    }
    let pool = pool(raw, problems);
    match raw.mode.as_str() {
        "off" => Some(None),
        "" | "on" => {
            let settings = Settings {
                pool: pool?,
                ..Settings::default()
            };
            Some(Some(NetworksConfig {
                settings,
                dns_servers: servers,
            }))
        }
        _ => {
            problems.report("networks.mode", "must be on or off");
            None
        }
    }
}

fn pool(raw: &RawNetworks, problems: &mut Problems<'_>) -> Option<SubnetPool> {
    if raw.pools.is_empty() && raw.prefix_length.is_none() {
        return Some(SubnetPool::default());
    }
    let mut blocks = Vec::new();
    for (index, text) in raw.pools.iter().enumerate() {
        match text.parse::<Block>() {
            Ok(block) => blocks.push(block),
            Err(error) => problems.report(&format!("networks.pools[{index}]"), error),
        }
    }
    match SubnetPool::new(blocks, raw.prefix_length.unwrap_or(16)) {
        Ok(pool) => Some(pool),
        Err(error) => {
            problems.report("networks.pools", error);
            None
        }
    }
}

/// How instances are connected.
#[derive(Debug, Clone)]
pub struct NetworksConfig {
    /// How addresses are given out.
    pub settings: Settings,
    /// Whom nodes ask for names of instances on other nodes.
    pub dns_servers: Vec<IpAddr>,
}
