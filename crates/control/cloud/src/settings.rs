//! What can be set.

use std::time::Duration;

use http::Uri;
use muster_tls::ClientTls;

/// What can be set. Plain values: the daemon's configuration maps to them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where a Unit asks for its cloud.
    pub discovery: Uri,
    /// Whose word counts for the host of that.
    pub discovery_host: DiscoveryHost,
    /// What is kept while the cloud is away, in bytes.
    pub kept_bytes: u64,
    /// The longest message in either direction, in bytes.
    pub largest_message: usize,
    /// Messages that wait for an acknowledgement at a time.
    pub in_flight: usize,
    /// A message that is not acknowledged within this is sent again.
    pub response_timeout: Duration,
    /// How long the answer to a request may take, time without a cloud included.
    pub request_timeout: Duration,
    /// How long writing a message, and each step of connecting, may take.
    pub io_timeout: Duration,
    /// A cloud that has said nothing for so long is pinged.
    pub ping_after: Duration,
    /// Pauses between attempts to connect: the first, doubled up to the last.
    pub pauses: (Duration, Duration),
    /// Changes of the status are sent together, at most so often.
    pub status_period: Duration,
    /// Alerts are sent together, at most so often.
    pub alerts_period: Duration,
    /// Monitoring is sent together, at most so often.
    pub monitoring_period: Duration,
    /// Monitoring is on disk at most so long after it was told.
    pub monitoring_kept_after: Duration,
}

impl Settings {
    /// The defaults.
    pub fn new(discovery: Uri) -> Self {
        Self {
            discovery,
            discovery_host: DiscoveryHost::Certificate,
            kept_bytes: 32 << 20,
            largest_message: 8 << 20,
            in_flight: 8,
            response_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            io_timeout: Duration::from_secs(30),
            ping_after: Duration::from_secs(30),
            pauses: (Duration::from_secs(1), Duration::from_secs(600)),
            status_period: Duration::from_secs(10),
            alerts_period: Duration::from_secs(10),
            monitoring_period: Duration::from_secs(60),
            monitoring_kept_after: Duration::from_secs(5),
        }
    }
}

/// Who names the host that a Unit asks for its cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryHost {
    /// The certificate that is shown to the cloud; where it names none, [`Settings::discovery`].
    Certificate,
    /// [`Settings::discovery`], whatever the certificate says.
    Configuration,
}

/// Who speaks to the cloud, and how. Not known before the identity manager has said so.
#[derive(Debug, Clone)]
pub struct Access {
    /// Which Unit this is.
    pub system_id: String,
    /// The Main Node's codename; what the link itself has to say is said in its name.
    pub node: String,
    /// A client without protection only speaks to `http` and `ws` addresses, one with protection only to others.
    pub tls: ClientTls,
}

/// Where a Unit asks for its cloud: the host of `host_from`, if there is one, and the path that is configured.
pub fn discovery_url(configured: &Uri, host_from: Option<&Uri>) -> Uri {
    let Some(other) = host_from else {
        return configured.clone();
    };
    let mut parts = configured.clone().into_parts();
    if other.authority().is_some() {
        parts.scheme = other.scheme().cloned().or(parts.scheme);
        parts.authority = other.authority().cloned();
    }
    Uri::from_parts(parts).unwrap_or_else(|_| configured.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_always_the_configured_one() {
        let configured = Uri::from_static("https://cloud.example:9000/sd/v7/");
        assert_eq!(discovery_url(&configured, None), configured);
        let other = Uri::from_static("http://127.0.0.1:8000/elsewhere");
        let url = discovery_url(&configured, Some(&other));
        assert_eq!(url, "http://127.0.0.1:8000/sd/v7/");
    }
}
