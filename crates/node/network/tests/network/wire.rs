//! Servers and clients inside of instances.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::rig::Instance;

/// For what is let through, on a machine that may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// For what is not: nothing comes later that did not come by then.
pub(crate) const SILENCE: Duration = Duration::from_millis(1200);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// Answers every connection and every packet with the address that it came from, until the process ends.
pub(crate) fn serve(instance: &Instance, ports: &[u16]) {
    let address = instance.address;
    instance.run(|| ports.iter().for_each(|port| serve_on(address, *port)));
}

pub(crate) fn serve_on(address: Ipv4Addr, port: u16) {
    let listener = TcpListener::bind((address, port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Ok(peer) = stream.peer_addr() else {
                continue;
            };
            // The client may have gone.
            let _ = stream.write_all(peer.ip().to_string().as_bytes());
        }
    });
    let socket = UdpSocket::bind((address, port)).unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 64];
        while let Ok((_, peer)) = socket.recv_from(&mut packet) {
            // The client may have gone.
            let _ = socket.send_to(peer.ip().to_string().as_bytes(), peer);
        }
    });
}

/// Whom the server saw, or `None` when it cannot be reached within that time.
pub(crate) fn reach(
    from: &Instance,
    to: (Ipv4Addr, u16),
    protocol: Protocol,
    within: Duration,
) -> Option<IpAddr> {
    from.run(|| match protocol {
        Protocol::Tcp => by_tcp(to.into(), within),
        Protocol::Udp => by_udp(to.into(), within),
    })
}

fn by_tcp(to: SocketAddr, within: Duration) -> Option<IpAddr> {
    let mut stream = TcpStream::connect_timeout(&to, within).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Some(answer.parse().unwrap())
}

/// A packet may be lost, so several are sent.
fn by_udp(to: SocketAddr, within: Duration) -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    // An error may come from an earlier packet; then none of these was let through either.
    let end = Instant::now() + within;
    let mut answer = [0; 64];
    while Instant::now() < end {
        let _ = socket.send_to(b"?", to);
        if let Ok(length) = socket.recv(&mut answer) {
            return Some(
                std::str::from_utf8(&answer[..length])
                    .unwrap()
                    .parse()
                    .unwrap(),
            );
        }
    }
    None
}

/// Asks a name server for the addresses of a name; `None` when there is no such name.
pub(crate) fn look_up(from: &Instance, server: Ipv4Addr, name: &str) -> Option<Vec<Ipv4Addr>> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    let answer = from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let end = Instant::now() + PATIENCE;
        let mut answer = vec![0; 1500];
        loop {
            assert!(Instant::now() < end, "no answer for {name}");
            socket.send_to(&query, (server, 53)).unwrap();
            match socket.recv(&mut answer) {
                Ok(length) => {
                    answer.truncate(length);
                    return answer;
                }
                Err(error)
                    if [
                        ErrorKind::WouldBlock,
                        ErrorKind::TimedOut,
                        ErrorKind::ConnectionRefused,
                    ]
                    .contains(&error.kind()) => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
    });
    if answer[3] & 0xf == 3 {
        return None;
    }
    assert_eq!(answer[3] & 0xf, 0, "{name}: {answer:?}");
    let count = usize::from(answer[7]);
    // Records of one address each, at the end of the packet, if nothing is added to the answer.
    let added = usize::from(answer[11]) * 11;
    let end = answer.len() - added;
    let addresses = (0..count).map(|at| {
        let last: [u8; 4] = answer[end - at * 16 - 4..end - at * 16].try_into().unwrap();
        Ipv4Addr::from(last)
    });
    Some(addresses.collect())
}
