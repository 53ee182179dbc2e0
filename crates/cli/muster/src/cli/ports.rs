//! Which port leads where, as it is written on a command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A port of this machine, and where it leads as seen from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Where this machine listens; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// The host, as the other machine knows it.
    pub(crate) host: String,
    pub(crate) port: u16,
}

const HOW: &str =
    "write it as [ADDRESS:]PORT:HOST:PORT, or as PORT; an IPv6 address stands in [brackets]";

/// `[ADDRESS:]PORT:HOST:PORT`, or `PORT` for the same port of the machine itself.
pub(crate) fn ports(text: &str) -> Result<Ports, String> {
    let parts = parts(text).ok_or(HOW)?;
    let number = |text: &str| {
        text.parse::<u16>()
            .map_err(|_| format!("{text} is no port"))
    };
    let to = |text: &str| match number(text)? {
        0 => Err("nobody listens at port 0".to_owned()),
        port => Ok(port),
    };
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (address, listen, host, port) = match parts.as_slice() {
        [port] => (here, number(port)?, here.to_string(), to(port)?),
        [listen, host, port] => (here, number(listen)?, (*host).to_owned(), to(port)?),
        [address, listen, host, port] => {
            let parsed = address
                .parse()
                .map_err(|_| format!("{address} is no address"));
            (parsed?, number(listen)?, (*host).to_owned(), to(port)?)
        }
        _ => return Err(HOW.to_owned()),
    };
    if host.is_empty() {
        return Err(HOW.to_owned());
    }
    Ok(Ports {
        listen: SocketAddr::new(address, listen),
        host,
        port,
    })
}

/// What stands between colons; what stands in brackets is one part. At most four.
fn parts(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']')?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        parts.push(part);
        if after.is_empty() {
            return Some(parts);
        }
        rest = after.strip_prefix(':').filter(|_| parts.len() < 4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_for_ssh() {
        for (text, listen, host, port) in [
            ("8080:db:5432", "127.0.0.1:8080", "db", 5432),
            ("0:localhost:80", "127.0.0.1:0", "localhost", 80),
            ("0.0.0.0:81:10.0.0.7:80", "0.0.0.0:81", "10.0.0.7", 80),
            ("[::1]:81:[fe80::1]:80", "[::1]:81", "fe80::1", 80),
            ("8080", "127.0.0.1:8080", "127.0.0.1", 8080),
        ] {
            let read = ports(text).unwrap();
            assert_eq!(read.listen, listen.parse().unwrap(), "{text}");
            assert_eq!((read.host.as_str(), read.port), (host, port), "{text}");
        }
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for text in [
            "",
            ":",
            "0",
            "x",
            "8080:db",
            "8080::80",
            "8080:db:0",
            "8080:db:65536",
            "-1:db:80",
            "name:1:db:80",
            "1:2:3:4:5",
            "[::1:80:db:80",
            "[::1]x:80:db:80",
            "8080:db:80:",
        ] {
            assert!(ports(text).is_err(), "{text:?}");
        }
    }
}
