//! Listen addresses as configurations write them.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on. `:8093` means port 8093 on every IPv4 address; otherwise it is an IP
/// address with a port, IPv6 in brackets. Host names are refused: what they resolve to may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

/// A listen address cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the listen address {text:?} is neither :port nor IP:port")]
pub struct ListenAddressError {
    /// What was given.
    pub text: String,
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ListenAddressError {
            text: text.to_owned(),
        };
        match text.strip_prefix(':') {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                let port = port.parse::<u16>().map_err(|_| refused())?;
                Ok(Self(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
            }
            Some(_) => Err(refused()),
            None => text.parse().map(Self).map_err(|_| refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_field() {
        let cases = [
            (":8093", Some("0.0.0.0:8093")),
            (":0", Some("0.0.0.0:0")),
            ("127.0.0.1:8090", Some("127.0.0.1:8090")),
            ("[::]:8093", Some("[::]:8093")),
            ("", None),
            (":", None),
            (":+80", None),
            (":65536", None),
            ("8093", None),
            ("localhost:8093", None),
            ("::1:8093", None),
            (" :8093", None),
        ];
        for (text, expected) in cases {
            let parsed = text
                .parse::<ListenAddress>()
                .ok()
                .map(|address| address.0.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text:?}");
        }
    }
}
