//! The configuration as it stands in a file: AosCore's keys, and Muster's beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_config::Duration;
use muster_keys::RawModuleConfig;
use serde::Deserialize;

/// The whole file. What a key means is told in the [crate's documentation](crate#configuration).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawConfig {
    /// Where the public port listens.
    #[serde(alias = "iamPublicServerUrl")]
    pub public_server_url: String,
    /// Where the protected port listens.
    #[serde(alias = "iamProtectedServerUrl")]
    pub protected_server_url: String,
    /// On a Secondary Node: the Main Node's public port.
    pub main_iam_public_server_url: String,
    /// On a Secondary Node: the Main Node's protected port.
    pub main_iam_protected_server_url: String,
    /// What makes the Main Node's server the right one: `spiffe`, `dns` or `anyOfCa`.
    pub main_iam_server_name: String,
    /// The authorities whose certificates are trusted, in PEM.
    pub ca_cert: PathBuf,
    /// Revocation lists of these authorities.
    pub cert_revocation_lists: Vec<PathBuf>,
    /// The certificate type that this daemon serves and connects with.
    pub cert_storage: String,
    /// Where the daemon keeps its state.
    pub working_dir: PathBuf,
    /// The socket for root on this node.
    pub local_socket: PathBuf,
    /// What may go without TLS until the node is provisioned: listening on `public`, on `protected`,
    /// and the `join` of the Main Node.
    pub insecure_until_provisioned: Vec<String>,
    /// Identities for certificates without a SPIFFE id.
    pub identity_mapping: Vec<RawMapping>,
    /// The node.
    pub node_info: RawNodeInfo,
    /// Which device this is.
    pub identifier: RawIdentifier,
    /// Keys and certificates.
    pub cert_modules: Vec<RawModuleConfig>,
    /// Runs when provisioning starts.
    pub start_provisioning_cmd_args: Vec<String>,
    /// Runs when the keys for disk encryption are there.
    pub disk_encryption_cmd_args: Vec<String>,
    /// Runs before provisioning is finished.
    pub finish_provisioning_cmd_args: Vec<String>,
    /// Runs before what provisioning gave is taken away.
    pub deprovision_cmd_args: Vec<String>,
    /// How long one of these commands may take.
    pub hook_timeout: Duration,
    /// Whether instances can register permissions here.
    pub enable_permissions_handler: bool,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            public_server_url: ":8090".to_owned(),
            protected_server_url: ":8089".to_owned(),
            main_iam_public_server_url: String::new(),
            main_iam_protected_server_url: String::new(),
            main_iam_server_name: "spiffe".to_owned(),
            ca_cert: PathBuf::new(),
            cert_revocation_lists: Vec::new(),
            cert_storage: "iam".to_owned(),
            working_dir: PathBuf::from("/var/lib/muster/iam"),
            local_socket: PathBuf::from("/run/muster/iam.sock"),
            insecure_until_provisioned: Vec::new(),
            identity_mapping: Vec::new(),
            node_info: RawNodeInfo::default(),
            identifier: RawIdentifier::default(),
            cert_modules: Vec::new(),
            start_provisioning_cmd_args: Vec::new(),
            disk_encryption_cmd_args: Vec::new(),
            finish_provisioning_cmd_args: Vec::new(),
            deprovision_cmd_args: Vec::new(),
            // Peers wait five minutes for a step of provisioning.
            hook_timeout: Duration::new(std::time::Duration::from_mins(4)).unwrap_or_default(),
            enable_permissions_handler: true,
        }
    }
}

/// One rule for peers of a foreign PKI: all patterns given must match, `*` stands for any characters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawMapping {
    /// Pattern for the issuer's common name.
    pub issuer_cn: Option<String>,
    /// Pattern for the subject's common name.
    pub subject_cn: Option<String>,
    /// Pattern for the subject's organization.
    pub subject_o: Option<String>,
    /// Pattern for a DNS name.
    pub dns: Option<String>,
    /// The role such a peer has.
    pub role: String,
    /// The system it is of.
    pub system: Option<String>,
    /// Or the name in the certificate that says so: `issuerCn`, `subjectCn`, `subjectO`, `dns`.
    pub system_from: Option<String>,
    /// The node it is on.
    pub node: Option<String>,
    /// Or the name in the certificate that says so.
    pub node_from: Option<String>,
}

/// What the configuration says about the node.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNodeInfo {
    /// The file with the node's id.
    pub node_id_path: PathBuf,
    /// The file with the node's state; in the working folder unless given.
    pub provisioning_state_path: PathBuf,
    /// Name for people.
    pub node_name: String,
    /// What the node is meant for.
    pub node_type: String,
    /// Processing power; 0 is measured.
    pub max_dmips: u64,
    /// Properties.
    pub attrs: BTreeMap<String, String>,
    /// Partitions to tell about.
    pub partitions: Vec<RawPartition>,
}

impl Default for RawNodeInfo {
    fn default() -> Self {
        Self {
            node_id_path: PathBuf::from("/etc/machine-id"),
            provisioning_state_path: PathBuf::new(),
            node_name: String::new(),
            node_type: "node".to_owned(),
            max_dmips: 0,
            attrs: BTreeMap::new(),
            partitions: Vec::new(),
        }
    }
}

/// A partition of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawPartition {
    /// Its name.
    pub name: String,
    /// What it may be used for.
    pub types: Vec<String>,
    /// Where it is mounted.
    pub path: PathBuf,
}

/// Which device this is: a plugin and what it needs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawIdentifier {
    /// `file` or `vis`.
    pub plugin: String,
    /// What the plugin needs; it knows its own keys.
    pub params: serde_json::Value,
}
