//! The configuration: from layers of files, environment and flags to a structure that cannot be invalid.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::PathBuf;

use muster_api::domain::{CertType, NodeType, RuntimeType};
use muster_config::{ByteSize, Duration, Problems, Validate};
use muster_launcher::Limits;
use muster_layer::{Privilege, Special};
use muster_runtime_container::WRITABLE_ROOT;
use muster_tls::{ExpectedServer, Role, ServerName};
use muster_unit_runner::InitSystem;
use serde::Deserialize;

pub mod parts;

use crate::runtimes::NATIVE;

use self::parts::{
    NetworkMode, PartsConfig, RawJournalAlerts, RawLogging, RawMonitoring, RawNetwork, RawParts,
};

/// The configuration as it stands in a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawConfig {
    /// The controller, `host:port`.
    pub cm_server_url: String,
    /// The identity manager's public port, `host:port`.
    pub iam_public_server_url: String,
    /// The identity manager's protected port, `host:port`.
    pub iam_protected_server_url: String,
    /// What makes the controller, and a server of blobs, the right one: `spiffe` (role cm), `dns` or `anyOfCa`. An AosCore
    /// system, whose certificates name neither hosts nor roles, needs the last.
    pub cm_server_name: String,
    /// What makes the identity manager the right one, in the same words; `spiffe` asks for role iam.
    pub iam_server_name: String,
    /// The authorities whose certificates are trusted, in PEM.
    pub ca_cert: PathBuf,
    /// Revocation lists of these authorities.
    pub cert_revocation_lists: Vec<PathBuf>,
    /// The certificate type that this daemon connects with.
    pub cert_storage: String,
    /// Why everything goes without TLS and identity manager. Only for tests and trials.
    pub insecure: String,
    /// Where the daemon keeps its state.
    pub working_dir: PathBuf,
    /// Where what a reboot may empty is kept.
    pub runtime_dir: PathBuf,
    /// Storage of instances is below.
    pub storage_dir: PathBuf,
    /// State files of instances are below.
    pub state_dir: PathBuf,
    /// The most that images may take.
    pub images_max_size: Option<ByteSize>,
    /// How long a removed image can come back without a download.
    pub update_item_ttl: Duration,
    /// Between two looks for removed images whose time is over; 0 leaves that to the next change of instances.
    pub remove_outdated_period: Duration,
    /// Between two complete checks of the images; 0 switches them off.
    pub image_check_period: Duration,
    /// Set-user-id and set-group-id programs of images: `strip`, `keep` or `refuse`.
    pub image_set_id: String,
    /// Device nodes of images: `refuse`, `skip` or `make`.
    pub image_devices: String,
    /// The init system: `auto`, `core` or `systemd`. Another one than before gets instances when none is left or after a reboot.
    pub init_system: String,
    /// Core's socket, unless it is the usual one.
    pub core_socket: PathBuf,
    /// The folder of `muster-container` and `muster-native-exec`; the daemon's own where absent.
    pub program_dir: PathBuf,
    /// Without an identity manager: the file with the node's id.
    pub node_id_path: PathBuf,
    /// Without an identity manager: what the node is for.
    pub node_type: String,
    /// Processing power of the node, if it is not to be measured.
    pub max_dmips: Option<u64>,
    /// What runs instances. Without any: every OCI runtime that is found, and `native`.
    pub runtimes: Vec<RawRuntime>,
    /// Bounds of the launcher.
    pub launcher: RawLauncher,
    /// The networks of instances.
    pub network: RawNetwork,
    /// Measurements.
    pub monitoring: RawMonitoring,
    /// Which entries of the journal are alerts.
    pub journal_alerts: RawJournalAlerts,
    /// Answers to requests for logs.
    pub logging: RawLogging,
    /// How much of alerts is kept while the controller is away.
    pub alerts_max_size: Option<ByteSize>,
    /// How many alerts are kept while the controller is away.
    pub alerts_max_count: Option<u64>,
    /// Folders of journal files, instead of the usual ones.
    pub journal_dirs: Vec<PathBuf>,
    /// What the node has to give out to instances; the file may be missing.
    pub resources_file: PathBuf,
    /// Where measurements are served as OpenMetrics: an address with port, or the path of a socket.
    pub metrics_server_url: String,
}

/// One runtime.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawRuntime {
    /// `runc`, `crun`, `youki` or `native`.
    #[serde(rename = "type")]
    pub runtime_type: String,
    /// The OCI runtime's program, if it is not found by its type.
    pub program: Option<PathBuf>,
    /// How many instances it runs.
    pub max_instances: Option<u64>,
    /// What of the node's processing power is set aside for this runtime's instances; nothing: they share the node's.
    pub allowed_dmips: Option<u64>,
    /// The same for the node's memory.
    pub allowed_ram: Option<ByteSize>,
    /// Capabilities that items may have when they ask.
    pub granted_capabilities: Vec<String>,
    /// The first of 65,536 ids for user namespaces.
    pub first_mapped_id: Option<u32>,
    /// Folders of the host that every instance sees, read-only.
    pub host_binds: Vec<PathBuf>,
    /// What an instance with a writable root may write to it where its item says nothing; 64 MiB if absent.
    pub writable_root_size: Option<ByteSize>,
    /// `native` only: instances for which no network is made are in the host's instead of an empty one.
    pub host_network: bool,
    /// `native` only: rather fail than run with a part of the sandbox missing.
    pub strict: bool,
}

/// Bounds of the launcher; what is absent is the default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawLauncher {
    /// Starts at a time.
    pub parallel_starts: Option<u64>,
    /// Stops at a time.
    pub parallel_stops: Option<u64>,
    /// Downloads at a time.
    pub parallel_downloads: Option<u64>,
    /// A version that runs for so long is good.
    pub health_period: Option<Duration>,
    /// An instance that is up for so long is forgiven its earlier ends.
    pub forgive_after: Option<Duration>,
    /// Between asking an instance to end and ending it.
    pub stop_timeout: Option<Duration>,
}

const DAY: u64 = 24 * 60 * 60;

impl Default for RawConfig {
    fn default() -> Self {
        let time =
            |seconds| Duration::new(std::time::Duration::from_secs(seconds)).unwrap_or_default();
        Self {
            cm_server_url: String::new(),
            iam_public_server_url: String::new(),
            iam_protected_server_url: String::new(),
            cm_server_name: "spiffe".to_owned(),
            iam_server_name: "spiffe".to_owned(),
            ca_cert: PathBuf::new(),
            cert_revocation_lists: Vec::new(),
            cert_storage: "sm".to_owned(),
            insecure: String::new(),
            working_dir: PathBuf::from("/var/lib/muster/sm"),
            runtime_dir: PathBuf::from("/run/muster/sm"),
            storage_dir: PathBuf::from("/var/lib/muster/storages"),
            state_dir: PathBuf::from("/var/lib/muster/states"),
            images_max_size: None,
            update_item_ttl: time(30 * DAY),
            remove_outdated_period: time(DAY),
            image_check_period: time(7 * DAY),
            image_set_id: "strip".to_owned(),
            image_devices: "refuse".to_owned(),
            init_system: "auto".to_owned(),
            core_socket: PathBuf::new(),
            program_dir: PathBuf::new(),
            node_id_path: PathBuf::from("/etc/machine-id"),
            node_type: "node".to_owned(),
            max_dmips: None,
            runtimes: Vec::new(),
            launcher: RawLauncher::default(),
            network: RawNetwork::default(),
            monitoring: RawMonitoring::default(),
            journal_alerts: RawJournalAlerts::default(),
            logging: RawLogging::default(),
            alerts_max_size: None,
            alerts_max_count: None,
            journal_dirs: Vec::new(),
            resources_file: PathBuf::from("/etc/muster/resources.json"),
            metrics_server_url: String::new(),
        }
    }
}

/// Whom to trust, and how to get an own certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a program has one of it, and it is the usual variant that is large"
)]
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
    /// Its protected port, for permissions.
    pub protected: String,
    /// The trusted authorities.
    pub ca_cert: PathBuf,
    /// Their revocation lists.
    pub crls: Vec<PathBuf>,
    /// The certificate type of this daemon.
    pub cert_type: CertType,
    /// What makes the identity manager the right one.
    pub iam_name: ServerName,
    /// What makes the controller, and a server of blobs, the right one.
    pub cm_name: ServerName,
}

/// One runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// `native`, or an OCI runtime.
    pub runtime_type: RuntimeType,
    /// The OCI runtime's program.
    pub program: Option<PathBuf>,
    /// How many instances it runs.
    pub max_instances: u64,
    /// What is set aside for its instances.
    pub allowed_dmips: Option<NonZeroU64>,
    /// What is set aside for its instances.
    pub allowed_ram: Option<NonZeroU64>,
    /// Capabilities that items may have when they ask.
    pub granted_capabilities: BTreeSet<String>,
    /// The first of 65,536 ids for user namespaces.
    pub first_mapped_id: Option<u32>,
    /// Folders of the host that every instance sees.
    pub host_binds: Vec<PathBuf>,
    /// Bytes that an instance with a writable root may write to it.
    pub writable_root: u64,
    /// Instances for which no network is made are in the host's.
    pub host_network: bool,
    /// Rather fail than run with a part of the sandbox missing.
    pub strict: bool,
}

impl RuntimeConfig {
    /// A runtime of this type with the defaults for everything else.
    pub fn of_type(runtime_type: RuntimeType) -> Self {
        Self {
            runtime_type,
            program: None,
            max_instances: MANY_INSTANCES,
            allowed_dmips: None,
            allowed_ram: None,
            granted_capabilities: BTreeSet::new(),
            first_mapped_id: None,
            host_binds: Vec::new(),
            writable_root: WRITABLE_ROOT,
            host_network: false,
            strict: false,
        }
    }
}

/// How many instances a runtime announces unless it is told otherwise.
const MANY_INSTANCES: u64 = 10_000;

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The controller.
    pub controller: String,
    /// Whom to trust.
    pub trust: Trust,
    /// Where state is kept.
    pub working_dir: PathBuf,
    /// Where what a reboot may empty is kept.
    pub runtime_dir: PathBuf,
    /// Storage of instances.
    pub storage_dir: PathBuf,
    /// State files of instances.
    pub state_dir: PathBuf,
    /// The most that images may take, in bytes.
    pub images_max_bytes: Option<u64>,
    /// How long removed images are kept.
    pub image_ttl: std::time::Duration,
    /// Between two looks for removed images whose time is over.
    pub image_collect_period: Option<std::time::Duration>,
    /// Between two complete checks of the images.
    pub image_check_period: Option<std::time::Duration>,
    /// Set-user-id and set-group-id programs of images.
    pub image_set_id: Privilege,
    /// Device nodes of images.
    pub image_devices: Special,
    /// The init system.
    pub init_system: InitSystem,
    /// The folder of the programs that run in units.
    pub program_dir: Option<PathBuf>,
    /// What to tell about the node without an identity manager.
    pub node: muster_nodeinfo::Options,
    /// Runtimes; those that are found if there are none.
    pub runtimes: Vec<RuntimeConfig>,
    /// Bounds of the launcher.
    pub limits: Limits,
    /// Everything beside instances.
    pub parts: PartsConfig,
}

fn given(path: PathBuf) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then_some(path)
}

fn server_name(
    problems: &mut Problems<'_>,
    key: &str,
    word: &str,
    role: Role,
) -> Option<ServerName> {
    match word {
        "spiffe" => Some(ServerName::Spiffe(ExpectedServer::role(role))),
        "dns" => Some(ServerName::Dns),
        "anyOfCa" => Some(ServerName::AnyOfCa),
        _ => {
            problems.report(key, "must be spiffe, dns or anyOfCa");
            None
        }
    }
}

impl RawConfig {
    fn trust(&self, problems: &mut Problems<'_>) -> Option<Trust> {
        if !self.insecure.trim().is_empty() {
            return Some(Trust::Insecure(self.insecure.clone()));
        }
        let cert_type = match self.cert_storage.parse() {
            Ok(cert_type) => Some(cert_type),
            Err(error) => {
                problems.report("certStorage", error);
                None
            }
        };
        let mut required = |key, text: &str| {
            if text.is_empty() {
                problems.report(key, "must be given, unless insecure says why not");
            }
            !text.is_empty()
        };
        let complete = [
            required("iamPublicServerUrl", &self.iam_public_server_url),
            required("iamProtectedServerUrl", &self.iam_protected_server_url),
            required("caCert", &self.ca_cert.to_string_lossy()),
        ];
        let iam_name = server_name(problems, "iamServerName", &self.iam_server_name, Role::Iam);
        let cm_name = server_name(problems, "cmServerName", &self.cm_server_name, Role::Cm);
        let (cert_type, iam_name, cm_name) = (cert_type?, iam_name?, cm_name?);
        complete.iter().all(|it| *it).then(|| {
            Trust::Iam(IamConfig {
                public: self.iam_public_server_url.clone(),
                protected: self.iam_protected_server_url.clone(),
                ca_cert: self.ca_cert.clone(),
                crls: self.cert_revocation_lists.clone(),
                cert_type,
                iam_name,
                cm_name,
            })
        })
    }

    fn init_system(&self, problems: &mut Problems<'_>) -> Option<InitSystem> {
        let socket = given(self.core_socket.clone());
        match self.init_system.as_str() {
            "auto" => Some(socket.map_or(InitSystem::Detect, |it| InitSystem::Core(Some(it)))),
            "core" => Some(InitSystem::Core(socket)),
            "systemd" => Some(InitSystem::Systemd),
            _ => {
                problems.report("initSystem", "must be auto, core or systemd");
                None
            }
        }
    }

    fn image_policy(&self, problems: &mut Problems<'_>) -> Option<(Privilege, Special)> {
        let set_id = match self.image_set_id.as_str() {
            "strip" => Some(Privilege::Strip),
            "keep" => Some(Privilege::Keep),
            "refuse" => Some(Privilege::Refuse),
            _ => {
                problems.report("imageSetId", "must be strip, keep or refuse");
                None
            }
        };
        let devices = match self.image_devices.as_str() {
            "refuse" => Some(Special::Refuse),
            "skip" => Some(Special::Skip),
            "make" => Some(Special::Make),
            _ => {
                problems.report("imageDevices", "must be refuse, skip or make");
                None
            }
        };
        set_id.zip(devices)
    }

    fn limits(&self) -> Limits {
        let defaults = Limits::default();
        let raw = &self.launcher;
        let count = |given: Option<u64>, default| {
            given.map_or(default, |it| {
                usize::try_from(it).unwrap_or(usize::MAX).max(1)
            })
        };
        Limits {
            starts: count(raw.parallel_starts, defaults.starts),
            stops: count(raw.parallel_stops, defaults.stops),
            fetches: count(raw.parallel_downloads, defaults.fetches),
            health_period: raw
                .health_period
                .map_or(defaults.health_period, |it| it.get()),
            forgive_after: raw
                .forgive_after
                .map_or(defaults.forgive_after, |it| it.get()),
            stop_grace: raw.stop_timeout.map_or(defaults.stop_grace, |it| it.get()),
            ..defaults
        }
    }
}

/// A runtime is known by its type and the node's id, also to the controller: of two of one type nobody could say which is meant.
fn one_of_each_type(runtimes: &[RawRuntime], problems: &mut Problems<'_>) {
    let mut places = BTreeMap::new();
    for (index, raw) in runtimes.iter().enumerate() {
        if raw.runtime_type.is_empty() {
            // That is a problem of its own.
            continue;
        }
        if let Some(first) = places.insert(raw.runtime_type.as_str(), index) {
            problems.report(
                &format!("runtimes[{index}].type"),
                format!("is the type of runtimes[{first}] already: a node has one runtime of each"),
            );
        }
    }
}

impl RawRuntime {
    fn validate(self, path: &str, problems: &mut Problems<'_>) -> Option<RuntimeConfig> {
        let runtime_type = match RuntimeType::new(&self.runtime_type) {
            Ok(runtime_type) => runtime_type,
            Err(error) => {
                problems.report(&format!("{path}.type"), error);
                return None;
            }
        };
        let only_native = [("hostNetwork", self.host_network), ("strict", self.strict)];
        for (key, given) in only_native {
            if given && runtime_type.as_str() != NATIVE {
                // An instance would run without the network that it was promised, or with less of a sandbox than was asked for.
                problems.report(
                    &format!("{path}.{key}"),
                    "is for runtimes of type native only",
                );
            }
        }
        Some(RuntimeConfig {
            runtime_type,
            program: self.program,
            max_instances: self.max_instances.unwrap_or(MANY_INSTANCES),
            allowed_dmips: self.allowed_dmips.and_then(NonZeroU64::new),
            allowed_ram: self.allowed_ram.and_then(|it| NonZeroU64::new(it.bytes())),
            granted_capabilities: self.granted_capabilities.into_iter().collect(),
            first_mapped_id: self.first_mapped_id,
            host_binds: self.host_binds,
            writable_root: self
                .writable_root_size
                .map_or(WRITABLE_ROOT, |size| size.bytes().max(1)),
            host_network: self.host_network,
            strict: self.strict,
        })
    }
}

impl Validate for RawConfig {
    type Valid = Config;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Config> {
        if self.cm_server_url.is_empty() {
            problems.report("cmServerUrl", "must be given, as host:port");
        }
        let trust = self.trust(problems);
        let init_system = self.init_system(problems);
        let image_policy = self.image_policy(problems);
        let limits = self.limits();
        let node_type = match NodeType::new(&self.node_type) {
            Ok(node_type) => Some(node_type),
            Err(error) => {
                problems.report("nodeType", error);
                None
            }
        };
        one_of_each_type(&self.runtimes, problems);
        let runtimes: Vec<Option<RuntimeConfig>> = self
            .runtimes
            .into_iter()
            .enumerate()
            .map(|(index, raw)| raw.validate(&format!("runtimes[{index}]"), problems))
            .collect();
        let parts = RawParts {
            network: self.network,
            monitoring: self.monitoring,
            journal_alerts: self.journal_alerts,
            logging: self.logging,
            alerts_max_size: self.alerts_max_size,
            alerts_max_count: self.alerts_max_count,
            journal_dirs: self.journal_dirs,
            resources_file: self.resources_file,
            metrics_server_url: self.metrics_server_url,
        };
        let parts = parts.validate(problems)?;
        let runtimes = runtimes.into_iter().collect::<Option<Vec<_>>>()?;
        let shares = |it: &RuntimeConfig| it.host_network;
        let all_share = !runtimes.is_empty() && runtimes.iter().all(shares);
        if parts.network.mode == NetworkMode::Host && !all_share {
            // An instance would run without the network that it was promised.
            problems.report(
                "network.mode",
                "needs runtimes that are named under `runtimes` with `hostNetwork`",
            );
            return None;
        }
        let mut node = muster_nodeinfo::Options::new(node_type?);
        node.node_id_path = self.node_id_path;
        node.max_dmips = self.max_dmips.and_then(NonZeroU64::new);
        node.dmips_cache = Some(self.working_dir.join("dmips.json"));
        let period = |it: Duration| (!it.get().is_zero()).then(|| it.get());
        let (image_set_id, image_devices) = image_policy?;
        Some(Config {
            controller: self.cm_server_url,
            trust: trust?,
            working_dir: self.working_dir,
            runtime_dir: self.runtime_dir,
            storage_dir: self.storage_dir,
            state_dir: self.state_dir,
            images_max_bytes: self.images_max_size.map(|it| it.bytes()),
            image_ttl: self.update_item_ttl.get(),
            image_collect_period: period(self.remove_outdated_period),
            image_check_period: period(self.image_check_period),
            image_set_id,
            image_devices,
            init_system: init_system?,
            program_dir: given(self.program_dir),
            node,
            runtimes,
            limits,
            parts,
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_config::{Format, Load};

    use super::*;

    fn load(text: &str) -> Result<Config, muster_config::ConfigError> {
        let load = Load::<RawConfig>::new("muster-sm").document("sm.json", Format::Json, text);
        load.load()?.validate()
    }

    #[test]
    fn a_complete_configuration_is_taken() {
        let config = load(
            r#"{"cmServerUrl": "main:8093", "iamPublicServerUrl": "localhost:8090",
                "iamProtectedServerUrl": "localhost:8089", "caCert": "/etc/muster/ca.pem",
                "runtimes": [{"type": "runc", "maxInstances": 7}, {"type": "native", "strict": true, "hostNetwork": true}],
                "launcher": {"parallelStarts": 2, "parallelStops": 4, "stopTimeout": "3s", "forgiveAfter": "1h"}, "imagesMaxSize": "2GiB"}"#,
        )
        .unwrap();
        assert_eq!(config.runtimes.len(), 2);
        assert_eq!(config.runtimes[0].max_instances, 7);
        assert!(config.runtimes[1].strict && config.runtimes[1].host_network);
        assert!(!config.runtimes[0].host_network);
        assert_eq!((config.limits.starts, config.limits.stops), (2, 4));
        assert_eq!(config.limits.forgive_after.as_secs(), 3600);
        assert_eq!(config.limits.stop_grace.as_secs(), 3);
        assert_eq!(config.images_max_bytes, Some(2 << 30));
        assert!(matches!(config.trust, Trust::Iam(_)));
    }

    #[test]
    fn what_privileges_of_images_become_can_be_chosen() {
        let chosen = |keys: &str| {
            load(&format!(
                r#"{{"cmServerUrl": "main:8093", "insecure": "a test"{keys}}}"#
            ))
        };
        let config = chosen("").unwrap();
        assert_eq!(
            (config.image_set_id, config.image_devices),
            (Privilege::Strip, Special::Refuse)
        );
        let config = chosen(r#", "imageSetId": "keep", "imageDevices": "skip""#).unwrap();
        assert_eq!(
            (config.image_set_id, config.image_devices),
            (Privilege::Keep, Special::Skip)
        );
        let error = chosen(r#", "imageSetId": "yes", "imageDevices": "no""#).unwrap_err();
        let text = format!("{}", muster_telemetry::ErrorChain(&error));
        assert!(
            text.contains("imageSetId") && text.contains("imageDevices"),
            "{text}"
        );
    }

    #[test]
    fn two_runtimes_of_one_type_are_refused_and_both_are_named() {
        let with = |runtimes: &str| {
            load(&format!(
                r#"{{"cmServerUrl": "main:8093", "insecure": "a trial", "runtimes": {runtimes}}}"#
            ))
        };
        let two = r#"[{"type": "runc"}, {"type": "native"}, {"type": "runc", "maxInstances": 7}]"#;
        let error = with(two).unwrap_err();
        let text = muster_telemetry::ErrorChain(&error).to_string();
        for named in ["runtimes[0]", "runtimes[2].type", "runc"] {
            assert!(text.contains(named), "{named} in {text}");
        }
        assert!(with(r#"[{"type": "runc"}, {"type": "crun"}]"#).is_ok());
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let error = load(r#"{"initSystem": "upstart", "runtimes": [{}]}"#).unwrap_err();
        let text = format!("{}", muster_telemetry::ErrorChain(&error));
        for key in [
            "cmServerUrl",
            "iamPublicServerUrl",
            "iamProtectedServerUrl",
            "caCert",
            "initSystem",
            "runtimes[0].type",
        ] {
            assert!(text.contains(key), "{key} in {text}");
        }
    }

    #[test]
    fn who_is_the_right_server_is_said_for_each() {
        let with = |names: &str| {
            load(&format!(
                r#"{{"cmServerUrl": "main:8093", "iamPublicServerUrl": "localhost:8090",
                    "iamProtectedServerUrl": "localhost:8089", "caCert": "/etc/muster/ca.pem" {names}}}"#
            ))
        };
        let names = |config: Config| match config.trust {
            Trust::Iam(iam) => (iam.cm_name, iam.iam_name),
            Trust::Insecure(why) => panic!("{why}"),
        };
        let role = |role| ServerName::Spiffe(ExpectedServer::role(role));
        let usual = names(with("").unwrap());
        assert_eq!(usual, (role(Role::Cm), role(Role::Iam)));
        let said = with(r#", "cmServerName": "anyOfCa", "iamServerName": "dns""#).unwrap();
        assert_eq!(names(said), (ServerName::AnyOfCa, ServerName::Dns));
        for key in ["cmServerName", "iamServerName"] {
            let error = with(&format!(r#", "{key}": "anyone""#)).unwrap_err();
            let text = muster_telemetry::ErrorChain(&error).to_string();
            assert!(text.contains(key) && text.contains("anyOfCa"), "{text}");
        }
    }

    #[test]
    fn instances_on_the_machines_network_need_runtimes_that_share_it() {
        let with = |runtimes: &str| {
            load(&format!(
                r#"{{"cmServerUrl": "main:8093", "insecure": "a trial", "network": {{"mode": "host"}}, "runtimes": {runtimes}}}"#
            ))
        };
        let config = with(r#"[{"type": "native", "hostNetwork": true}]"#).unwrap();
        assert_eq!(config.parts.network.mode, NetworkMode::Host);
        // No container ever is in it.
        for key in ["hostNetwork", "strict"] {
            let runtimes = format!(
                r#"[{{"type": "native", "hostNetwork": true}}, {{"type": "runc", "{key}": true}}]"#
            );
            let error = with(&runtimes).unwrap_err();
            let text = muster_telemetry::ErrorChain(&error).to_string();
            for named in [
                &*format!("runtimes[1].{key}"),
                "for runtimes of type native only",
            ] {
                assert!(text.contains(named), "{text}");
            }
            assert!(!text.contains("runtimes[0]"), "{text}");
        }
        for wrong in ["[]", r#"[{"type": "native"}]"#] {
            let error = with(wrong).unwrap_err().to_string();
            assert!(error.contains("network.mode"), "{error}");
        }
    }

    #[test]
    fn without_tls_a_reason_is_needed() {
        let config = load(r#"{"cmServerUrl": "main:8093", "insecure": "a trial"}"#).unwrap();
        assert_eq!(config.trust, Trust::Insecure("a trial".into()));
        assert!(load(r#"{"cmServerUrl": "main:8093", "insecure": "  "}"#).is_err());
    }
}
