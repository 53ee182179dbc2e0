//! Where an engine listens.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Where Docker listens unless it was told otherwise.
const USUAL: &str = "/var/run/docker.sock";
/// The port that Docker's documentation names for connections without encryption.
const PLAIN_PORT: u16 = 2375;

/// Where an engine listens: `unix:///var/run/docker.sock`, or `tcp://host:port` without encryption.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A port, without encryption or authentication: whoever reaches it is root over there.
    Tcp {
        /// The name or address, an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Default for Endpoint {
    fn default() -> Self {
        Self::Unix(PathBuf::from(USUAL))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

/// A text that says not where an engine listens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of a Docker engine: {why}")]
pub struct InvalidEndpoint {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        parse(text).map_err(|why| InvalidEndpoint {
            text: text.to_owned(),
            why,
        })
    }
}

fn parse(text: &str) -> Result<Endpoint, &'static str> {
    if let Some(path) = text.strip_prefix("unix://") {
        let path = PathBuf::from(path);
        return match path.is_absolute() {
            true => Ok(Endpoint::Unix(path)),
            false => Err("the path of the socket is not absolute"),
        };
    }
    let Some(rest) = text.strip_prefix("tcp://") else {
        return Err(
            "write unix:///path/of/the.sock or tcp://host:port; ssh and TLS are not supported",
        );
    };
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a bracket is not closed")?;
            (host, port.strip_prefix(':'))
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
    if host.is_empty() || !host.bytes().all(letter) {
        return Err("the host is not a name or an address");
    }
    let port = match port {
        Some(port) => port
            .parse()
            .map_err(|_| "the port is no number below 65536")?,
        None => PLAIN_PORT,
    };
    Ok(Endpoint::Tcp {
        host: host.to_owned(),
        port,
    })
}

impl Endpoint {
    /// Whether what is said does not leave this machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => match host.parse::<IpAddr>() {
                Ok(address) => address.is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            },
        }
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Unix(path) => Connection::Unix(UnixStream::connect(path).await?),
            Self::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Connection::Tcp(stream)
            }
        })
    }

    /// What stands in the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
        }
    }
}

/// A connection to an engine.
#[derive(Debug)]
pub(crate) enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_this_machine_is_private() {
        let private = |text: &str| text.parse::<Endpoint>().unwrap().is_private();
        for own in [
            "unix:///run/a.sock",
            "tcp://127.0.0.1:2375",
            "tcp://[::1]:2375",
            "tcp://localhost",
        ] {
            assert!(private(own), "{own}");
        }
        for other in [
            "tcp://10.0.0.1",
            "tcp://localhost.example",
            "tcp://[fe80::1%lo]",
        ] {
            assert!(!private(other), "{other}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "unix:///run/a b.sock",
            "tcp://engine.example:2375",
            "tcp://10.0.0.1:1",
            "tcp://[fe80::1%eth0]:80",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
        let short: Endpoint = "tcp://engine".parse().unwrap();
        assert_eq!(short.to_string(), "tcp://engine:2375");
        assert_eq!(
            Endpoint::default().to_string(),
            "unix:///var/run/docker.sock"
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "unix://relative",
            "https://engine",
            "ssh://engine",
            "tcp://",
            "tcp://:1",
            "tcp://a:b",
            "tcp://a:65536",
            "tcp://[::1",
            "tcp://a/b",
            "tcp://a\r\nHost: b:1",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
