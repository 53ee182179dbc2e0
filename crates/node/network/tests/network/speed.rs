//! Limits of speed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use muster_lab::net::Net;
use muster_lab::require;
use serde_json::json;

use crate::rig::{Instance, Node, member, two_networks};
use crate::wire::PATIENCE;

const LIMIT: f64 = 10_000_000.0;
const BYTES: usize = 5_000_000;

/// Bits a second that arrive when as much as possible is sent.
fn throughput(from: &Instance, to: &Instance) -> f64 {
    let (address, listener) = to.run(|| {
        let listener = TcpListener::bind((to.address, 0)).unwrap();
        (listener.local_addr().unwrap(), listener)
    });
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut buffer, mut received) = (vec![0; 64 * 1024], 0);
            let started = Instant::now();
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => received += count,
                }
            }
            assert_eq!(received, BYTES);
            f64::from(u32::try_from(received).unwrap()) * 8.0 / started.elapsed().as_secs_f64()
        });
        from.run(|| {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
            stream.write_all(&vec![1; BYTES]).unwrap();
        });
        receiver.join().unwrap()
    })
}

/// Never too fast; and not too slow either, but on a busy machine that may need another attempt.
fn holds(what: &str, from: &Instance, to: &Instance) {
    let reached = (0..3).any(|_| {
        let measured = throughput(from, to);
        eprintln!("{what}: {:.2} Mbit/s", measured / 1e6);
        assert!(measured <= LIMIT * 1.1, "{what}: {measured} bits a second");
        measured >= LIMIT * 0.9
    });
    assert!(reached, "{what} does not get near its limit");
}

#[test]
fn upload_and_download_keep_within_ten_percent_of_their_limits() {
    require!(Root, NetNs, File("/usr/lib/cni/bandwidth"));
    let net = Net::new(&["node"]).unwrap();
    let mut node = Node::new(net.host("node"), &[]);
    node.start();
    node.update(two_networks()).unwrap();
    let mut slow = member("slow", "front", 2);
    slow["upload"] = json!(10_000_000);
    slow["download"] = json!(10_000_000);
    let (slow, fast) = (node.attach(&slow), node.attach(&member("fast", "front", 3)));
    for (what, from, to) in [("upload", &slow, &fast), ("download", &fast, &slow)] {
        holds(what, from, to);
    }
    let other = node.attach(&member("other", "front", 4));
    let free = throughput(&fast, &other);
    assert!(
        free > LIMIT * 3.0,
        "an instance without limits has {free} bits a second"
    );
}
