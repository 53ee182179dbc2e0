//! The parts of a node beside its instances: networks, measurements, alerts, logs, resources.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_alert::{AlertSettings, JournalSettings};
use muster_config::{ByteSize, Duration, Problems};
use muster_logs::LogSettings;
use muster_monitor::MonitorSettings;
use muster_network::{LinkName, SameSubnet};
use muster_telemetry::MetricsAddress;
use serde::Deserialize;

/// The networks of instances.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawNetwork {
    /// `on`, `off`, or `auto`: on where plugins and a packet filter are found. `host`: instances use the machine's own network,
    /// whichever the Unit has for them; every runtime must say `hostNetwork`.
    pub mode: String,
    /// Folders of CNI plugins, instead of the usual ones.
    pub plugin_dirs: Vec<PathBuf>,
    /// The link that networks with a VLAN go out by.
    pub uplink: String,
    /// Links that belong to one network as a whole, by the network's id.
    pub untagged_uplinks: BTreeMap<String, String>,
    /// Whether instances of one network reach each other without a rule: `allow` or `deny`.
    pub same_subnet: String,
    /// After this time a plugin hangs and is killed.
    pub plugin_timeout: Option<Duration>,
}

/// Measurements.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawMonitoring {
    /// Between two measurements: 35 s.
    pub poll_period: Option<Duration>,
    /// What averages are over: 35 s.
    pub average_window: Option<Duration>,
}

/// Which entries of the journal are alerts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawJournalAlerts {
    /// Regular expressions; entries whose text matches one are no alerts.
    pub filter: Vec<String>,
    /// Entries of this syslog priority or a lower number are alerts: 3.
    pub system_alert_priority: Option<u8>,
    /// The same for Muster's own services and for what is said about units: 4.
    pub service_alert_priority: Option<u8>,
}

/// Answers to requests for logs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawLogging {
    /// Text of one part, before it is compressed: 256 KiB.
    pub max_part_size: Option<ByteSize>,
    /// Parts of one answer: 80.
    pub max_part_count: Option<u64>,
}

/// Whether a node has networks for instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkMode {
    /// Where what they need is found.
    Auto,
    /// It does, or the daemon does not start.
    On,
    /// It does not.
    Off,
    /// Instances use the machine's own.
    Host,
}

/// The networks of instances.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// Whether there are any.
    pub mode: NetworkMode,
    /// Folders of CNI plugins, if not the usual ones.
    pub plugin_dirs: Vec<PathBuf>,
    /// The link that networks with a VLAN go out by.
    pub uplink: Option<LinkName>,
    /// Links that belong to one network as a whole.
    pub untagged_uplinks: BTreeMap<muster_api::domain::NetworkId, LinkName>,
    /// Whether instances of one network reach each other without a rule.
    pub same_subnet: SameSubnet,
    /// After this time a plugin hangs and is killed.
    pub plugin_timeout: Option<std::time::Duration>,
}

/// Everything beside instances.
#[derive(Debug, Clone)]
pub struct PartsConfig {
    /// Networks.
    pub network: NetworkConfig,
    /// Measurements.
    pub monitor: MonitorSettings,
    /// How alerts are kept.
    pub alerts: AlertSettings,
    /// Which entries of the journal are alerts.
    pub journal: JournalSettings,
    /// Answers to requests for logs.
    pub logs: LogSettings,
    /// What the node has to give out.
    pub resources: PathBuf,
    /// Where measurements are served as OpenMetrics.
    pub metrics: Option<MetricsAddress>,
}

/// The raw parts of the whole configuration that end up here.
#[derive(Debug)]
pub(super) struct RawParts {
    pub(super) network: RawNetwork,
    pub(super) monitoring: RawMonitoring,
    pub(super) journal_alerts: RawJournalAlerts,
    pub(super) logging: RawLogging,
    pub(super) alerts_max_size: Option<ByteSize>,
    pub(super) alerts_max_count: Option<u64>,
    pub(super) journal_dirs: Vec<PathBuf>,
    pub(super) resources_file: PathBuf,
    pub(super) metrics_server_url: String,
}

impl RawNetwork {
    fn validate(self, problems: &mut Problems<'_>) -> Option<NetworkConfig> {
        let mode = match self.mode.as_str() {
            "" | "auto" => Some(NetworkMode::Auto),
            "on" => Some(NetworkMode::On),
            "off" => Some(NetworkMode::Off),
            "host" => Some(NetworkMode::Host),
            _ => {
                problems.report("mode", "must be auto, on, off or host");
                None
            }
        };
        let mut parsed = |key: &str, text: &str| match LinkName::new(text) {
            Ok(link) => Some(link),
            Err(error) => {
                problems.report(key, error);
                None
            }
        };
        let uplink = match self.uplink.as_str() {
            "" => Some(None),
            link => parsed("uplink", link).map(Some),
        };
        let mut untagged_uplinks = Some(BTreeMap::new());
        for (network, link) in &self.untagged_uplinks {
            let link = parsed(&format!("untaggedUplinks.{network}"), link);
            match (network.parse(), link, &mut untagged_uplinks) {
                (Ok(network), Some(link), Some(all)) => {
                    all.insert(network, link);
                }
                _ => untagged_uplinks = None,
            }
        }
        let same_subnet = match self.same_subnet.as_str() {
            "" => Some(SameSubnet::default()),
            text => match text.parse() {
                Ok(policy) => Some(policy),
                Err(error) => {
                    problems.report("sameSubnet", error);
                    None
                }
            },
        };
        if untagged_uplinks.is_none() {
            problems.report("untaggedUplinks", "each is a network's id with a link");
        }
        Some(NetworkConfig {
            mode: mode?,
            plugin_dirs: self.plugin_dirs,
            uplink: uplink?,
            untagged_uplinks: untagged_uplinks?,
            same_subnet: same_subnet?,
            plugin_timeout: self.plugin_timeout.map(Duration::get),
        })
    }
}

impl RawParts {
    pub(super) fn validate(self, problems: &mut Problems<'_>) -> Option<PartsConfig> {
        let network = problems.within("network", |problems| self.network.validate(problems));
        let usual = MonitorSettings::default();
        let period = self.monitoring.poll_period.map(Duration::get);
        let window = self.monitoring.average_window.map(Duration::get);
        let period = period.unwrap_or_else(|| usual.poll_period());
        let monitor = MonitorSettings::new(period, window.unwrap_or(period));
        let monitor = match monitor {
            Ok(settings) => Some(settings),
            Err(error) => {
                problems.report("monitoring.pollPeriod", error);
                None
            }
        };
        let mut alerts = AlertSettings::default();
        if let Some(size) = self.alerts_max_size {
            alerts.keep.bytes = size.bytes();
        }
        if let Some(count) = self.alerts_max_count {
            alerts.keep.entries = count;
        }
        let mut journal = JournalSettings::default();
        let mut logs = LogSettings::default();
        if !self.journal_dirs.is_empty() {
            journal.dirs.clone_from(&self.journal_dirs);
            logs.dirs = self.journal_dirs;
        }
        let raw = self.journal_alerts;
        for (key, priority) in [
            ("systemAlertPriority", raw.system_alert_priority),
            ("serviceAlertPriority", raw.service_alert_priority),
        ] {
            if priority.is_some_and(|it| it > 7) {
                problems.report(&format!("journalAlerts.{key}"), "must be from 0 to 7");
            }
        }
        journal.system_priority = raw.system_alert_priority.unwrap_or(journal.system_priority);
        journal.service_priority = raw
            .service_alert_priority
            .unwrap_or(journal.service_priority);
        journal.filters = raw.filter;
        let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX).max(1);
        if let Some(size) = self.logging.max_part_size {
            logs.part_bytes = number(size.bytes());
        }
        if let Some(count) = self.logging.max_part_count {
            logs.part_count = number(count);
        }
        let metrics = match self.metrics_server_url.as_str() {
            "" => Some(None),
            address => match address.parse() {
                Ok(address) => Some(Some(address)),
                Err(error) => {
                    problems.report("metricsServerUrl", error);
                    None
                }
            },
        };
        Some(PartsConfig {
            network: network?,
            monitor: monitor?,
            alerts,
            journal,
            logs,
            resources: self.resources_file,
            metrics: metrics?,
        })
    }
}
