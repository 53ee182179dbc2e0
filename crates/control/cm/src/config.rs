//! The configuration: from layers of files, environment and flags to a structure that cannot be invalid.

pub mod cloud;
mod names;
pub mod parts;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration as Time;

use muster_api::domain::CertType;
use muster_config::{ByteSize, Duration, Problems, Validate};
use muster_dns::UnitSettings;
use muster_rpc::ListenAddress;
use serde::Deserialize;

use self::cloud::{CloudConfig, RawAlerts, RawMonitoring};
use self::parts::{NetworksConfig, RawImageManager, RawLauncher, RawNetworks, RawNodeInfoProvider};

/// The configuration as it stands in a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawConfig {
    /// Where Service Managers are listened for; `:8093` is port 8093 of every address.
    pub cm_server_url: String,
    /// Where nodes ask for names of instances on other nodes: an address of this machine, port 53. Without it, the address of
    /// `cmServerUrl`, if that is one and not the loopback; `off` for no such server. Nodes are told the address with each
    /// instance, so another one restarts instances.
    pub dns_ip: String,
    /// Where nodes fetch blobs.
    pub file_server_url: String,
    /// How nodes name the server of blobs, `host` or `host:port`, where that is not the address it listens on.
    pub file_server_address: String,
    /// The identity manager's public port, `host:port`.
    pub iam_public_server_url: String,
    /// The identity manager's protected port, `host:port`.
    pub iam_protected_server_url: String,
    /// The authorities whose certificates are trusted, in PEM.
    pub ca_cert: PathBuf,
    /// Revocation lists of these authorities, for connections and for signatures of items. OCSP is not spoken.
    pub cert_revocation_lists: Vec<PathBuf>,
    /// The certificate type that this daemon serves with.
    pub cert_storage: String,
    /// Why everything goes without TLS and identity manager. Only for tests and trials.
    pub insecure: String,
    /// Why blobs go over HTTP without protection although everything else is protected: for Service Managers of others that
    /// do not speak HTTPS. Their content is still checked by its digest.
    pub insecure_file_server: String,
    /// Where the daemon keeps its state.
    pub working_dir: PathBuf,
    /// Storage of instances is below.
    pub storage_dir: PathBuf,
    /// State files of instances are below.
    pub state_dir: PathBuf,
    /// Where the Unit's configuration is kept.
    pub unit_config_file: PathBuf,
    /// What the Unit shall run, without a cloud: read at the start and on SIGHUP, applied when it has changed.
    pub desired_status_file: PathBuf,
    /// Where operators' tools are listened for.
    pub control_socket: PathBuf,
    /// Where operators of other machines are listened for, with mutual TLS; nowhere if empty.
    pub control_server_url: String,
    /// How instances are brought to nodes.
    pub launcher: RawLauncher,
    /// How instances are connected.
    pub networks: RawNetworks,
    /// Items on the Main Node.
    pub image_manager: RawImageManager,
    /// Joining what the identity manager and nodes say.
    pub node_info_provider: RawNodeInfoProvider,
    /// Where the cloud says which server is responsible; without it there is no cloud. A certificate that names its cloud has
    /// the last word about the host.
    pub service_discovery_url: String,
    /// The host to ask instead, whatever the certificate says; the path stays.
    pub override_service_discovery_url: String,
    /// Which system this is, where no identity manager says so.
    pub system_id: String,
    /// What is kept for the cloud while it is away, at most: 32 MiB.
    pub cloud_buffer_size: Option<ByteSize>,
    /// Changes of the unit status are gathered for so long before the cloud is told: 10 s.
    pub unit_status_send_timeout: Option<Duration>,
    /// So long is waited for the cloud's answer to a message: 10 s.
    pub cloud_response_wait_timeout: Option<Duration>,
    /// Measurements for the cloud.
    pub monitoring: RawMonitoring,
    /// Alerts for the cloud.
    pub alerts: RawAlerts,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            cm_server_url: ":8093".to_owned(),
            dns_ip: String::new(),
            file_server_url: ":8094".to_owned(),
            file_server_address: String::new(),
            iam_public_server_url: String::new(),
            iam_protected_server_url: String::new(),
            ca_cert: PathBuf::new(),
            cert_revocation_lists: Vec::new(),
            cert_storage: "cm".to_owned(),
            insecure: String::new(),
            insecure_file_server: String::new(),
            working_dir: PathBuf::from("/var/lib/muster/cm"),
            storage_dir: PathBuf::from("/var/lib/muster/storages"),
            state_dir: PathBuf::from("/var/lib/muster/states"),
            unit_config_file: PathBuf::new(),
            desired_status_file: PathBuf::new(),
            control_socket: PathBuf::from("/run/muster/cm.sock"),
            control_server_url: String::new(),
            launcher: RawLauncher::default(),
            networks: RawNetworks::default(),
            image_manager: RawImageManager::default(),
            node_info_provider: RawNodeInfoProvider::default(),
            service_discovery_url: String::new(),
            override_service_discovery_url: String::new(),
            system_id: String::new(),
            cloud_buffer_size: None,
            unit_status_send_timeout: None,
            cloud_response_wait_timeout: None,
            monitoring: RawMonitoring::default(),
            alerts: RawAlerts::default(),
        }
    }
}

/// Whom to trust, and how to get an own certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of the identity manager.
    Iam(IamConfig),
    /// Nobody checks anything, for this reason.
    Insecure(String),
}

/// Where the identity manager is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IamConfig {
    /// Its public port.
    pub public: String,
    /// Its protected port, to pause and resume nodes.
    pub protected: String,
    /// The trusted authorities.
    pub ca_cert: PathBuf,
    /// Their revocation lists.
    pub crls: Vec<PathBuf>,
    /// The certificate type of this daemon.
    pub cert_type: CertType,
}

/// Where blobs are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileServing {
    /// Where it listens.
    pub listen: SocketAddr,
    /// How nodes name it; port 0 is the one that is listened on.
    pub advertised: (String, u16),
    /// Why it goes without TLS.
    pub insecure: Option<String>,
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where Service Managers are listened for.
    pub listen: ListenAddress,
    /// Where blobs are served.
    pub files: FileServing,
    /// Whom to trust.
    pub trust: Trust,
    /// Where state is kept.
    pub working_dir: PathBuf,
    /// Storage of instances.
    pub storage_dir: PathBuf,
    /// State files of instances.
    pub state_dir: PathBuf,
    /// The Unit's configuration.
    pub unit_config_file: PathBuf,
    /// What the Unit shall run.
    pub desired_file: Option<PathBuf>,
    /// For operators of this machine.
    pub control_socket: PathBuf,
    /// For operators of other machines.
    pub control_listen: Option<ListenAddress>,
    /// Bounds of updates.
    pub updates: muster_desired::Limits,
    /// After so long, what an instance had is given to others.
    pub instance_ttl: Time,
    /// What may be handed out to instances.
    pub handed_out: muster_balance::Limits,
    /// How instances are connected, if they are.
    pub networks: Option<NetworksConfig>,
    /// Where names of instances are served, if they are.
    pub names: Option<UnitSettings>,
    /// How long removed items are kept.
    pub item_ttl: Time,
    /// How often is looked for items that can go.
    pub item_check_period: Time,
    /// The most that items may take, in bytes.
    pub items_max_bytes: Option<u64>,
    /// A node that is expected and not connected for so long is shown as failed.
    pub sm_connection_timeout: Time,
    /// The cloud, if there is one.
    pub cloud: Option<CloudConfig>,
}

fn given(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn listen(key: &str, text: &str, problems: &mut Problems<'_>) -> Option<ListenAddress> {
    match text.parse() {
        Ok(address) => Some(address),
        Err(error) => {
            let error: muster_rpc::ListenAddressError = error;
            problems.report(key, error);
            None
        }
    }
}

fn reason(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn count(given: Option<u64>, default: usize) -> usize {
    given.map_or(default, |it| usize::try_from(it).unwrap_or(usize::MAX))
}

/// `host`, `host:port`, and IPv6 in brackets or bare.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_string(), address.port()));
    }
    if text.parse::<IpAddr>().is_ok() {
        return Some((text.to_owned(), 0));
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let port = port.parse().ok()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_name)).then(|| (host.to_owned(), port))
}

/// What nodes call this machine when nothing else is said.
fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

impl RawConfig {
    fn trust(&self, problems: &mut Problems<'_>) -> Option<Trust> {
        if let Some(reason) = reason(&self.insecure) {
            return Some(Trust::Insecure(reason));
        }
        let cert_type = match self.cert_storage.parse() {
            Ok(cert_type) => Some(cert_type),
            Err(error) => {
                problems.report("certStorage", error);
                None
            }
        };
        let needed = [
            ("iamPublicServerUrl", self.iam_public_server_url.is_empty()),
            (
                "iamProtectedServerUrl",
                self.iam_protected_server_url.is_empty(),
            ),
            ("caCert", self.ca_cert.as_os_str().is_empty()),
        ];
        let missing = needed.iter().filter(|(_, is_missing)| *is_missing);
        let mut complete = true;
        for (key, _) in missing {
            problems.report(key, "must be given, unless insecure says why not");
            complete = false;
        }
        let cert_type = cert_type?;
        complete.then(|| {
            Trust::Iam(IamConfig {
                public: self.iam_public_server_url.clone(),
                protected: self.iam_protected_server_url.clone(),
                ca_cert: self.ca_cert.clone(),
                crls: self.cert_revocation_lists.clone(),
                cert_type,
            })
        })
    }

    fn files(
        &self,
        listen_for_nodes: Option<ListenAddress>,
        problems: &mut Problems<'_>,
    ) -> Option<FileServing> {
        let address = listen("fileServerUrl", &self.file_server_url, problems);
        let advertised = if self.file_server_address.is_empty() {
            // An address that is listened on is one that nodes can reach.
            let listened = [address, listen_for_nodes].into_iter().flatten();
            let known = listened.map(|it| it.0.ip()).find(|it| !it.is_unspecified());
            Some((known.map_or_else(host_name, |it| it.to_string()), 0))
        } else {
            let parsed = host_and_port(&self.file_server_address);
            if parsed.is_none() {
                problems.report("fileServerAddress", "must be host or host:port");
            }
            parsed
        };
        Some(FileServing {
            listen: address?.0,
            advertised: advertised?,
            insecure: reason(&self.insecure_file_server),
        })
    }

    fn updates(&self) -> muster_desired::Limits {
        let defaults = muster_desired::Limits::default();
        let raw = &self.launcher;
        let or = |given: Option<Duration>, default| given.map_or(default, Duration::get);
        muster_desired::Limits {
            downloads: count(raw.parallel_downloads, defaults.downloads).max(1),
            nodes_patience: or(raw.nodes_connection_timeout, defaults.nodes_patience),
            node_loss: or(raw.node_loss_timeout, defaults.node_loss),
            activation_patience: or(raw.activation_timeout, defaults.activation_patience),
            history: count(raw.history, defaults.history),
            ..defaults
        }
    }
}

const DAY: u64 = 24 * 60 * 60;

impl Validate for RawConfig {
    type Valid = Config;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Config> {
        let listen_for_nodes = listen("cmServerUrl", &self.cm_server_url, problems);
        let files = self.files(listen_for_nodes, problems);
        let trust = self.trust(problems);
        let control_listen = match self.control_server_url.as_str() {
            "" => Some(None),
            text => listen("controlServerUrl", text, problems).map(Some),
        };
        if self.control_socket.as_os_str().is_empty() {
            problems.report("controlSocket", "must be given");
        }
        let names = names::names(&self.dns_ip, &self.networks, listen_for_nodes, problems);
        let own_server = names.as_ref().and_then(|it| it.as_ref());
        let own_server = own_server.map(|it| it.listen.ip());
        let networks = parts::networks(&self.networks, own_server, problems);
        let handed_out = parts::handed_out(&self.launcher, problems);
        let cloud = cloud::cloud(&self, problems);
        let or = |given: Option<Duration>, seconds| {
            given.map_or(Time::from_secs(seconds), Duration::get)
        };
        let unit_config_file = given(&self.unit_config_file)
            .unwrap_or_else(|| self.working_dir.join("unit_config.json"));
        Some(Config {
            listen: listen_for_nodes?,
            files: files?,
            trust: trust?,
            unit_config_file,
            desired_file: given(&self.desired_status_file),
            control_listen: control_listen?,
            updates: self.updates(),
            instance_ttl: or(self.launcher.instance_ttl, 30 * DAY),
            handed_out: handed_out?,
            names: names?.filter(|_| matches!(networks, Some(Some(_)))),
            networks: networks?,
            item_ttl: or(self.image_manager.update_item_ttl, 30 * DAY),
            item_check_period: or(self.image_manager.remove_outdated_period, DAY),
            items_max_bytes: self.image_manager.max_size.map(|it| it.bytes()),
            sm_connection_timeout: or(self.node_info_provider.sm_connection_timeout, 60),
            cloud: cloud?,
            working_dir: self.working_dir,
            storage_dir: self.storage_dir,
            state_dir: self.state_dir,
            control_socket: self.control_socket,
        })
    }
}
