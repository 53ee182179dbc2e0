//! Whom the node itself asks for names.

use std::net::{IpAddr, SocketAddr};

/// As many as the C library asks.
const MAX_SERVERS: usize = 3;

/// The servers of a `resolv.conf`. Loopback addresses are kept: they are those of the node's own resolver, which this process
/// can ask as any other can.
pub fn upstreams(resolv_conf: &str) -> Vec<SocketAddr> {
    let lines = resolv_conf.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next())?
    });
    // A scope such as `%eth0` has no place in an address here; such a server is left out.
    let addresses = lines.filter_map(|word| word.parse::<IpAddr>().ok());
    addresses
        .map(|address| SocketAddr::new(address, 53))
        .take(MAX_SERVERS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_in_order() {
        let text = "# written by hand\nsearch lan\nnameserver 192.0.2.1\n nameserver fd00::1 # second\n\
                    nameserver fe80::1%eth0\nnameserver nonsense\nnameserver\nnameserver 127.0.0.53\nnameserver 9.9.9.9\n";
        let found: Vec<String> = upstreams(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[fd00::1]:53", "127.0.0.53:53"]);
    }
}
