//! Where requests are sent when it is not AWS itself.

use std::net::IpAddr;

use http::Uri;

/// An endpoint that is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// It is no URL.
    #[error("{0:?} is no URL such as https://ec2.example.org")]
    NoUrl(String),
    /// Requests carry the keys of machines.
    #[error(
        "{0} has no TLS, and requests carry the keys of machines: use https, but for this machine itself"
    )]
    Plain(String),
}

/// Checks an endpoint.
pub(crate) fn check(text: &str) -> Result<String, InvalidEndpoint> {
    let no_url = || InvalidEndpoint::NoUrl(muster_config::printable(text, 200));
    let uri: Uri = text.parse().map_err(|_| no_url())?;
    let host = uri
        .host()
        .filter(|host| !host.is_empty())
        .ok_or_else(no_url)?;
    let whole = uri.query().is_none() && !text.contains('@');
    if !whole {
        return Err(no_url());
    }
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let near = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(uri.to_string()),
        Some("http") if near => Ok(uri.to_string()),
        Some("http") => Err(InvalidEndpoint::Plain(uri.to_string())),
        _ => Err(no_url()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_be_asked_without_tls() {
        for fine in [
            "https://ec2.example.org",
            "http://127.0.0.1:5000",
            "http://[::1]:5000/",
            "http://localhost:4566",
        ] {
            assert!(check(fine).is_ok(), "{fine}");
        }
        assert!(matches!(
            check("http://10.0.0.1"),
            Err(InvalidEndpoint::Plain(_))
        ));
        for wrong in [
            "",
            "ec2",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x/?a=b",
        ] {
            assert!(
                matches!(check(wrong), Err(InvalidEndpoint::NoUrl(_))),
                "{wrong}"
            );
        }
    }
}
