//! The configuration of the cloud link. Without an address there is no cloud.

use std::time::Duration as Time;

use http::Uri;
use muster_cloud::DiscoveryHost;
use muster_config::{Duration, Problems};
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
    pub discovery_url: Uri,
    /// Whether a certificate may name another host for that.
    pub discovery_host: DiscoveryHost,
    /// Which system this is, where no identity manager says so.
    pub system_id: String,
    /// What is kept while it is away, in bytes.
    pub kept_bytes: u64,
    /// Changes of the unit status are gathered for so long.
    pub unit_status_period: Time,
    /// So long is waited for the answer to a message.
    pub response_timeout: Time,
    /// How often measurements are sent.
    pub monitoring_period: Time,
    /// How often alerts are sent.
    pub alerts_period: Time,
}

/// What is kept, where nothing else is said.
const KEPT: u64 = 32 << 20;

/// The keys of the file, put together; `None` inside without an address.
pub(super) fn cloud(
    raw: &super::RawConfig,
    problems: &mut Problems<'_>,
) -> Option<Option<CloudConfig>> {
    if raw.service_discovery_url.is_empty() {
        return Some(None);
    }
    let or =
        |given: Option<Duration>, seconds| given.map_or(Time::from_secs(seconds), Duration::get);
    let configured = address("serviceDiscoveryUrl", &raw.service_discovery_url, problems);
    let instead = match raw.override_service_discovery_url.as_str() {
        "" => Some(None),
        text => address("overrideServiceDiscoveryUrl", text, problems).map(Some),
    };
    let system_id = match raw.system_id.as_str() {
        "" => super::host_name(),
        given => given.to_owned(),
    };
    let (configured, instead) = (configured?, instead?);
    let discovery_url = muster_cloud::discovery_url(&configured, instead.as_ref());
    let discovery_host = match instead {
        Some(_) => DiscoveryHost::Configuration,
        None => DiscoveryHost::Certificate,
    };
    Some(Some(CloudConfig {
        discovery_url,
        discovery_host,
        system_id,
        kept_bytes: raw.cloud_buffer_size.map_or(KEPT, |it| it.bytes()),
        unit_status_period: or(raw.unit_status_send_timeout, 10),
        response_timeout: or(raw.cloud_response_wait_timeout, 10),
        monitoring_period: or(raw.monitoring.send_period, 60),
        alerts_period: or(raw.alerts.send_period, 10),
    }))
}

fn address(key: &str, text: &str, problems: &mut Problems<'_>) -> Option<Uri> {
    let parsed: Option<Uri> = text.parse().ok();
    let usable = parsed
        .filter(|uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")));
    if usable.is_none() {
        problems.report(key, "must be an http or https address");
    }
    usable
}
