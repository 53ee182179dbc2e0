//! What an operator decides about the networks of a node.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use muster_api::domain::NetworkId;

/// Where distributions and people put CNI plugins.
pub const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// The kernel's limit for the name of a link, without the final zero byte.
pub(crate) const MAX_LINK_NAME: usize = 15;

/// What an operator decides about the networks of a node.
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// Where Muster's own plugin `muster-firewall` is; looked through first.
    pub program_folder: PathBuf,
    /// Where the other plugins are, in order.
    pub plugin_folders: Vec<PathBuf>,
    /// Namespaces and results of plugins: what a reboot may empty.
    pub run_folder: PathBuf,
    /// The link that networks with a VLAN go out by.
    pub uplink: Option<LinkName>,
    /// Links that belong to one network as a whole, without tags.
    pub untagged_uplinks: BTreeMap<NetworkId, LinkName>,
    /// Whether instances of one network reach each other without a rule.
    pub same_subnet: SameSubnet,
    /// After this time a plugin hangs and is killed.
    pub plugin_timeout: Duration,
    /// Between two looks whether links and rules are still there: others may clear the packet filter.
    pub look_period: Duration,
    /// Whom the networks' name servers ask for names outside, after those that the controller names: as a rule the node's own,
    /// by `muster_dns::upstreams`.
    pub upstream_name_servers: Vec<SocketAddr>,
}

impl NetworkSettings {
    /// The usual settings: plugins in [`PLUGIN_FOLDERS`], no way out by VLAN.
    pub fn new(program_folder: impl Into<PathBuf>, run_folder: impl Into<PathBuf>) -> Self {
        Self {
            program_folder: program_folder.into(),
            plugin_folders: PLUGIN_FOLDERS.map(PathBuf::from).to_vec(),
            run_folder: run_folder.into(),
            uplink: None,
            untagged_uplinks: BTreeMap::new(),
            same_subnet: SameSubnet::default(),
            plugin_timeout: Duration::from_secs(30),
            look_period: Duration::from_secs(60),
            upstream_name_servers: Vec::new(),
        }
    }
}

/// Whether instances of one network reach each other without a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SameSubnet {
    /// They do, as in AosCore.
    #[default]
    Allow,
    /// Only through exposed ports and allowed connections.
    Deny,
}

impl FromStr for SameSubnet {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        match text {
            "allow" => Ok(Self::Allow),
            "deny" => Ok(Self::Deny),
            _ => Err(InvalidSetting {
                what: "same-subnet policy",
                value: text.chars().take(40).collect(),
                expected: "allow or deny",
            }),
        }
    }
}

/// The name of a network link of this node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(String);

impl LinkName {
    /// Takes what the kernel takes: 1 to 15 bytes, no `/`, no space, neither `.` nor `..`.
    pub fn new(name: &str) -> Result<Self, InvalidSetting> {
        let shape = (1..=MAX_LINK_NAME).contains(&name.len()) && name != "." && name != "..";
        let bytes = name
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        if shape && bytes {
            return Ok(Self(name.to_owned()));
        }
        Err(InvalidSetting {
            what: "link name",
            value: name.chars().take(40).collect(),
            expected: "1 to 15 printable ASCII characters without / and :",
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LinkName {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        Self::new(text)
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A setting that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not {expected}")]
pub struct InvalidSetting {
    what: &'static str,
    value: String,
    expected: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_refuses_are_refused_here() {
        for good in ["eth0", "a", "enp0s31f6", "fifteen-letters"] {
            assert_eq!(LinkName::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a:1",
            "sixteen-letters-",
            "ü",
            "a\n",
        ] {
            let error = LinkName::new(bad).unwrap_err().to_string();
            assert!(error.starts_with("link name "), "{error}");
        }
    }

    #[test]
    fn a_policy_is_a_word() {
        assert_eq!("deny".parse(), Ok(SameSubnet::Deny));
        assert_eq!("allow".parse(), Ok(SameSubnet::default()));
        let error = "perhaps".parse::<SameSubnet>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "same-subnet policy \"perhaps\" is not allow or deny"
        );
    }
}
