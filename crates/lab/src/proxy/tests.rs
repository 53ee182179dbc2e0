use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use super::*;
use crate::poll_until;

const TIME: Duration = Duration::from_secs(30);

/// A server that gives every connection to the test, and a proxy in front of it.
struct Rig {
    server: TcpListener,
    proxy: TcpProxy,
}

impl Rig {
    fn new() -> Self {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = TcpProxy::new(server.local_addr().unwrap()).unwrap();
        Self { server, proxy }
    }

    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.proxy.addr()).unwrap();
        client.set_read_timeout(Some(TIME)).unwrap();
        client
    }

    fn pair(&self) -> (TcpStream, TcpStream) {
        let client = self.client();
        let (server, _) = self.server.accept().unwrap();
        server.set_read_timeout(Some(TIME)).unwrap();
        (client, server)
    }
}

fn exchange(from: &mut TcpStream, to: &mut TcpStream, text: &[u8]) {
    from.write_all(text).unwrap();
    let mut received = vec![0; text.len()];
    to.read_exact(&mut received).unwrap();
    assert_eq!(received, text);
}

fn assert_closed(peer: &mut TcpStream) {
    assert_eq!(
        peer.read(&mut [0; 16]).unwrap(),
        0,
        "the end of the stream was expected"
    );
}

fn assert_reset(peer: &mut TcpStream) {
    let error = peer.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

fn assert_silent(peer: &mut TcpStream) {
    peer.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let error = peer.read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    peer.set_read_timeout(Some(TIME)).unwrap();
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"question");
    exchange(&mut server, &mut client, b"answer!");
    poll_until(TIME, "all is counted", || {
        let stats = rig.proxy.stats();
        (stats.accepted, stats.open, stats.to_server, stats.to_client) == (1, 1, 8, 7)
    });

    // A half-closed connection still carries the answer.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_closed(&mut server);
    exchange(&mut server, &mut client, b"late");
    drop(server);
    assert_closed(&mut client);
    poll_until(TIME, "connection closed", || rig.proxy.stats().open == 0);
}

#[test]
fn large_streams_arrive_unchanged() {
    let rig = Rig::new();
    rig.proxy.delay(Duration::from_millis(5));
    let (client, server) = rig.pair();
    let data: Vec<u8> = (0..5_000_000_u32)
        .map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1])
        .collect();
    std::thread::scope(|scope| {
        for (from, to) in [(&client, &server), (&server, &client)] {
            scope.spawn(|| {
                (&mut &*from).write_all(&data).unwrap();
                from.shutdown(std::net::Shutdown::Write).unwrap();
            });
            scope.spawn(|| {
                let mut received = Vec::new();
                (&mut &*to).read_to_end(&mut received).unwrap();
                assert!(received == data);
            });
        }
    });
}

#[test]
fn cut_shows_both_peers_the_end_and_lets_new_connections_through() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"x");
    rig.proxy.cut();
    assert_closed(&mut client);
    assert_closed(&mut server);
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"again");
}

#[test]
fn cut_shows_the_end_even_to_peers_that_are_sending() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    rig.proxy.delay(TIME);
    client.write_all(&[7; 100_000]).unwrap();
    server.write_all(&[7; 100_000]).unwrap();
    rig.proxy.cut();
    assert_closed(&mut client);
    assert_closed(&mut server);
}

#[test]
fn reset_shows_both_peers_an_error_at_once() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"x");
    rig.proxy.reset();
    assert_reset(&mut client);
    assert_reset(&mut server);
}

#[test]
fn reset_reaches_peers_that_do_not_read() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    client
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while client.write(&[0; 65_536]).is_ok() {}
    rig.proxy.reset();
    poll_until(TIME, "both ends closed", || rig.proxy.stats().open == 0);
    assert_reset(&mut client);
    let mut buffer = vec![0; 1 << 20];
    let error = loop {
        if let Err(error) = server.read(&mut buffer) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn peer_that_resets_resets_the_other() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"x");
    rustix::net::sockopt::set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
    drop(server);
    assert_reset(&mut client);
}

#[test]
fn trap_cuts_at_the_exact_byte_and_only_once() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"before");
    rig.proxy.cut_after(Direction::ToServer, 1000);
    client.write_all(&[7; 5000]).unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 1000);
    assert_closed(&mut client);

    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, &[8; 5000]);
    rig.proxy.cut_after(Direction::ToClient, 3);
    server.write_all(b"abcdef").unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"abc");
}

#[test]
fn hole_swallows_old_and_new_and_is_never_left_by_a_connection_that_was_in_it() {
    let rig = Rig::new();
    let (mut old, mut server) = rig.pair();
    exchange(&mut old, &mut server, b"x");
    rig.proxy.blackhole();
    old.write_all(b"lost").unwrap();
    server.write_all(b"lost").unwrap();
    assert_silent(&mut server);
    assert_silent(&mut old);
    let mut new = rig.client();
    new.write_all(b"lost").unwrap();
    assert_silent(&mut new);

    rig.proxy.forward();
    let (mut fresh, mut fresh_server) = rig.pair();
    exchange(&mut fresh, &mut fresh_server, b"y");
    old.write_all(b"lost too").unwrap();
    assert_silent(&mut server);
    drop(old);
    assert_silent(&mut server);
    drop(server);
    drop(new);
    poll_until(TIME, "only the fresh one is open", || {
        rig.proxy.stats().open == 1
    });
}

#[test]
fn refused_connections_are_reset_and_old_ones_go_on() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    rig.proxy.refuse();
    assert_reset(&mut rig.client());
    exchange(&mut client, &mut server, b"still here");
    assert_eq!(rig.proxy.stats().refused, 1);
    rig.proxy.forward();
    let (mut client, mut server) = rig.pair();
    exchange(&mut client, &mut server, b"welcome");
}

#[test]
fn unreachable_target_resets_the_client() {
    let rig = Rig::new();
    let Rig { server, proxy } = rig;
    drop(server);
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(TIME)).unwrap();
    assert_reset(&mut client);
    assert_eq!(proxy.stats().unreachable, 1);
}

#[test]
fn delay_is_added_each_way_without_lowering_the_throughput() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    rig.proxy.delay(Duration::from_millis(100));
    let start = Instant::now();
    exchange(&mut client, &mut server, b"ping");
    let one_way = start.elapsed();
    exchange(&mut server, &mut client, b"pong");
    let round_trip = start.elapsed();
    assert!(one_way >= Duration::from_millis(100), "{one_way:?}");
    assert!(round_trip >= Duration::from_millis(200), "{round_trip:?}");

    // Thirty chunks that each waited for the one before would take three seconds.
    let start = Instant::now();
    exchange(&mut client, &mut server, &[1; 30 * 16 * 1024]);
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}

#[test]
fn rate_is_kept_and_lifted() {
    let rig = Rig::new();
    let (mut client, mut server) = rig.pair();
    rig.proxy.rate(100_000);
    let start = Instant::now();
    exchange(&mut client, &mut server, &[1; 50_000]);
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(440), "{elapsed:?}");
    rig.proxy.unlimited();
    let start = Instant::now();
    exchange(&mut client, &mut server, &[1; 1_000_000]);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn many_connections_are_served_at_once_and_all_end_with_the_proxy() {
    let rig = Rig::new();
    let mut pairs: Vec<_> = (0..100).map(|_| rig.pair()).collect();
    for (index, (client, server)) in pairs.iter_mut().enumerate() {
        exchange(client, server, format!("client {index}").as_bytes());
    }
    let Rig {
        proxy,
        server: _server,
    } = rig;
    assert_eq!((proxy.stats().accepted, proxy.stats().open), (100, 100));
    let (address, shared) = (proxy.addr(), Arc::clone(&proxy.shared));
    drop(proxy);
    for (client, server) in &mut pairs {
        assert_reset(client);
        assert_reset(server);
    }
    assert_eq!(shared.stats().open, 0, "every thread has ended");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn host_of_a_net_forwards_from_its_own_network() {
    crate::require!(Root, NetNs);
    let net = crate::net::Net::new(&["client", "proxy", "server"]).unwrap();
    let server_ip = net.host("server").ip();
    let server = net
        .host("server")
        .run(|| TcpListener::bind((server_ip, 0)))
        .unwrap()
        .unwrap();
    let proxy = TcpProxy::on_host(net.host("proxy"), 7000, server.local_addr().unwrap()).unwrap();
    assert_eq!(proxy.addr(), (net.host("proxy").ip(), 7000).into());
    let mut client = net
        .host("client")
        .run(|| TcpStream::connect(proxy.addr()))
        .unwrap()
        .unwrap();
    let (mut accepted, from) = server.accept().unwrap();
    assert_eq!(from.ip(), net.host("proxy").ip());
    exchange(&mut client, &mut accepted, b"through");
}
