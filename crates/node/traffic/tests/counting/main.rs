//! Real traffic, counted and stopped, with every backend.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../../firewall/tests/rig/mod.rs"]
mod rig;

mod killed;
mod limits;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use muster_api::domain::{InstanceIdent, ItemType};
use muster_firewall::{Change, Firewall, Iptables, Nft};
use muster_lab::net::Host;
use muster_store::{OnDamage, Store, StoreConfig};
use muster_telemetry::CancellationToken;
use muster_traffic::{Clock, SCHEMA, Settings, Traffic};

use self::rig::Rig;

const BACKENDS: [&str; 3] = ["nft", "iptables-nft", "iptables-legacy"];
/// What a datagram has beside its content.
const HEADERS: u64 = 28;

fn firewall(backend: &str, lock: &Path) -> Firewall {
    let firewall = match backend {
        "nft" => Firewall::with(Nft::new()),
        other => Firewall::with(Iptables::named(other)),
    };
    firewall.lock_file(lock)
}

fn ident(index: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: "item".parse().unwrap(),
        subject_id: "subject".parse().unwrap(),
        instance: index,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

/// A clock that tests set, in seconds since 1970.
#[derive(Clone)]
struct TestClock(Arc<AtomicI64>);

impl TestClock {
    fn new(seconds: i64) -> Self {
        Self(Arc::new(AtomicI64::new(seconds)))
    }

    fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    fn settings(&self) -> Settings {
        let seconds = Arc::clone(&self.0);
        let now = move || {
            UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed).unsigned_abs())
        };
        Settings {
            // Turns come when a test asks for them.
            poll: Duration::from_secs(600),
            save: Duration::from_secs(600),
            clock: Clock::new(now),
        }
    }
}

/// Runs a test on the node, with the store of `folder` and the rules of two networks.
fn on_node<F: Future<Output = ()>>(
    rig: &Rig,
    backend: &str,
    folder: &Path,
    test: impl FnOnce(Store, Firewall) -> F + Send,
) {
    let run = || {
        let firewall = firewall(backend, &folder.join("lock"));
        let rules =
            ["a", "b", "c"].map(|name| Change::PutInstance(rig::policy(name).same_subnet(true)));
        let networks = ["br1", "br2"].map(|bridge| Change::PutNetwork(rig::network(bridge)));
        firewall
            .apply(&[&networks[..], &rules[..]].concat())
            .unwrap();
        let config =
            StoreConfig::new(folder.join("sm.db"), "test", OnDamage::Refuse).schema(&SCHEMA);
        let store = Store::open(&config).unwrap().store;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test(store.clone(), firewall));
        drop(runtime);
        store.close().wait().unwrap();
    };
    rig.host("node").run(run).unwrap();
}

async fn started(
    store: &Store,
    firewall: &Firewall,
    settings: Settings,
) -> (Traffic, impl AsyncFnOnce()) {
    let (traffic, task) = Traffic::open(store.clone(), firewall.clone(), settings)
        .await
        .unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(task.run(stop.clone()));
    (traffic, async move || {
        stop.cancel();
        task.await.unwrap().unwrap();
    })
}

/// Sends datagrams, and nothing else: answers how many bytes that is on the IP layer.
fn flood(from: &Host, to: Ipv4Addr, count: u64) -> u64 {
    const CONTENT: usize = 1300;
    let send = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        for _ in 0..count {
            // A full queue or nobody listening: the node has carried it all the same, or it was not sent.
            while socket.send_to(&[7; CONTENT], (to, 9)).is_err() {}
        }
    };
    from.run(send).unwrap();
    count * (CONTENT as u64 + HEADERS)
}

/// Sends bytes over a connection and reads as many back.
fn converse(from: &Host, to: &Host, at: Ipv4Addr, port: u16, bytes: usize) {
    let listener = to
        .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap())
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut content = vec![0; bytes];
            stream.read_exact(&mut content).unwrap();
            stream.write_all(&content).unwrap();
        });
        let ask = || {
            let mut stream =
                TcpStream::connect_timeout(&(at, port).into(), Duration::from_secs(5)).unwrap();
            stream.write_all(&vec![9; bytes]).unwrap();
            let mut content = Vec::new();
            stream.read_to_end(&mut content).unwrap();
            assert_eq!(content.len(), bytes);
        };
        from.run(ask).unwrap();
    });
}

fn close_to(counted: u64, sent: u64, percent: u64) -> bool {
    counted >= sent && counted <= sent + sent * percent / 100
}
