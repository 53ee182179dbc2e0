//! The configuration of the cloud link. Without an address there is no cloud.

use std::time::Duration as Time;

use muster_config::Duration;
use serde::Deserialize;

/// Measurements for the cloud.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawMonitoring {
    /// How often they are sent: 1 min.
    pub send_period: Option<Duration>,
}

/// Alerts for the cloud.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawAlerts {
    /// How often they are sent: 10 s.
    pub send_period: Option<Duration>,
}

/// How a cloud is spoken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    /// Where it says which server is responsible.
    pub discovery_url: String,
    /// Changes of the unit status are gathered for so long.
    pub unit_status_period: Time,
    /// So long is waited for the answer to a message.
    pub response_timeout: Time,
    /// How often measurements are sent.
    pub monitoring_period: Time,
    /// How often alerts are sent.
    pub alerts_period: Time,
}

/// The keys of the file, put together; `None` without an address.
pub(super) fn cloud(raw: &super::RawConfig) -> Option<CloudConfig> {
    let or =
        |given: Option<Duration>, seconds| given.map_or(Time::from_secs(seconds), Duration::get);
    (!raw.service_discovery_url.is_empty()).then(|| CloudConfig {
        discovery_url: raw.service_discovery_url.clone(),
        unit_status_period: or(raw.unit_status_send_timeout, 10),
        response_timeout: or(raw.cloud_response_wait_timeout, 10),
        monitoring_period: or(raw.monitoring.send_period, 60),
        alerts_period: or(raw.alerts.send_period, 10),
    })
}
