//! Where metrics are served.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

/// An address for metrics: `127.0.0.1:9100`, `[::1]:9100` or `unix:/run/muster/sm.metrics`.
///
/// Metrics are served without authentication, so only loopback addresses and unix sockets are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum MetricsAddress {
    /// A loopback address and port.
    Loopback(SocketAddr),
    /// The path of a unix stream socket.
    Unix(PathBuf),
}

/// Why a text is not a [`MetricsAddress`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMetricsAddressError {
    /// It is no address at all.
    #[error("expected an address such as 127.0.0.1:9100 or unix:/run/muster/sm.metrics")]
    Unknown,
    /// The address can be reached from other machines.
    #[error("{0} is not a loopback address, and metrics have no authentication")]
    NotLoopback(SocketAddr),
    /// The path of the unix socket does not begin at the root.
    #[error("the path of a unix socket must be absolute")]
    RelativePath,
}

impl FromStr for MetricsAddress {
    type Err = ParseMetricsAddressError;

    fn from_str(text: &str) -> Result<Self, ParseMetricsAddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err(ParseMetricsAddressError::RelativePath)
            };
        }
        let address: SocketAddr = text
            .parse()
            .map_err(|_| ParseMetricsAddressError::Unknown)?;
        if !address.ip().is_loopback() {
            return Err(ParseMetricsAddressError::NotLoopback(address));
        }
        Ok(Self::Loopback(address))
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = ParseMetricsAddressError;

    fn try_from(text: String) -> Result<Self, ParseMetricsAddressError> {
        text.parse()
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_unix_sockets_are_addresses_for_metrics() {
        use ParseMetricsAddressError::{NotLoopback, RelativePath, Unknown};
        for text in [
            "127.0.0.1:9100",
            "[::1]:9100",
            "127.8.9.10:0",
            "unix:/run/x",
        ] {
            let address: MetricsAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for (text, error) in [
            ("", Unknown),
            ("9100", Unknown),
            ("localhost:9100", Unknown),
            ("0.0.0.0:9100", NotLoopback("0.0.0.0:9100".parse().unwrap())),
            ("[::]:9100", NotLoopback("[::]:9100".parse().unwrap())),
            (
                "192.0.2.1:9100",
                NotLoopback("192.0.2.1:9100".parse().unwrap()),
            ),
            ("unix:x", RelativePath),
            ("unix:", RelativePath),
        ] {
            assert_eq!(text.parse::<MetricsAddress>(), Err(error), "{text}");
        }
    }
}
