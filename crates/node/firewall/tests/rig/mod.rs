//! A node with two bridges, instances on them, and a host outside, each in a network namespace.
//!
//! | host | links |
//! |---|---|
//! | `node` | `eth0` 203.0.113.2, `br1` 172.20.0.1/24, `br2` 172.21.0.1/24 |
//! | `outside` | `eth0` 203.0.113.1, with routes to both subnets by way of the node |
//! | `a`, `b`, `e`, `stranger` | `veth` in `br1`, 172.20.0.2, .3, .4, .9 |
//! | `c` | `veth` in `br2`, 172.21.0.2 |

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_firewall::{Firewall, InstanceId, InstancePolicy, LinkName, NetworkPolicy};
use muster_lab::net::{Host, Net};

pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
pub(crate) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
pub(crate) const INSTANCES: [(&str, &str, Ipv4Addr); 5] = [
    ("a", "br1", Ipv4Addr::new(172, 20, 0, 2)),
    ("b", "br1", Ipv4Addr::new(172, 20, 0, 3)),
    ("e", "br1", Ipv4Addr::new(172, 20, 0, 4)),
    ("stranger", "br1", Ipv4Addr::new(172, 20, 0, 9)),
    ("c", "br2", Ipv4Addr::new(172, 21, 0, 2)),
];

/// How long a packet may take that does arrive, on a busy machine.
const PATIENCE: Duration = Duration::from_millis(1500);
const TURN: Duration = Duration::from_millis(20);

pub(crate) struct Rig {
    net: Net,
    _lock: tempfile::TempDir,
    lock: std::path::PathBuf,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let names = ["node", "outside", "a", "b", "e", "stranger", "c"];
        let net = Net::new(&names).expect("a network");
        let lock_dir = tempfile::tempdir().expect("a folder");
        let rig = Self {
            lock: lock_dir.path().join("lock"),
            _lock: lock_dir,
            net,
        };
        rig.connect();
        rig
    }

    fn connect(&self) {
        let mut node = format!(
            "address flush dev eth0\naddress add {NODE}/24 dev eth0\n\
             link add br1 type bridge forward_delay 0\naddress add 172.20.0.1/24 dev br1\nlink set br1 up\n\
             link add br2 type bridge forward_delay 0\naddress add 172.21.0.1/24 dev br2\nlink set br2 up\n"
        );
        for (name, bridge, _) in INSTANCES {
            self.ip(name, "link delete eth0\n");
            let namespace = self.host(name).namespace();
            node += &format!(
                "link add v{name} type veth peer name eth0 netns /proc/{}/fd/{}\nlink set v{name} master {bridge} up\n",
                std::process::id(),
                namespace.as_raw_fd()
            );
        }
        self.ip("node", &node);
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        self.host("node")
            .run(forward)
            .expect("the node")
            .expect("forwarding");
        self.ip(
            "outside",
            &format!(
                "address flush dev eth0\naddress add {OUTSIDE}/24 dev eth0\n\
                 route add 172.20.0.0/24 via {NODE}\nroute add 172.21.0.0/24 via {NODE}\n"
            ),
        );
        for (name, bridge, address) in INSTANCES {
            let gateway = if bridge == "br1" {
                "172.20.0.1"
            } else {
                "172.21.0.1"
            };
            self.ip(
                name,
                &format!("address add {address}/24 dev eth0\nlink set eth0 up\nroute add default via {gateway}\n"),
            );
        }
    }

    pub(crate) fn host(&self, name: &str) -> &Host {
        self.net.host(name)
    }

    /// Runs `ip -batch` on a host.
    pub(crate) fn ip(&self, host: &str, commands: &str) {
        self.tool(host, &["ip", "-batch", "-"], commands);
    }

    /// Runs a program on a host, and answers its output.
    pub(crate) fn tool(&self, host: &str, words: &[&str], input: &str) -> String {
        let mut child = self
            .host(host)
            .command(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a tool");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(input.as_bytes())
            .expect("its input");
        let output = child.wait_with_output().expect("its end");
        assert!(
            output.status.success(),
            "{words:?} on {host}: {}",
            output.status
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Calls the firewall on the node.
    pub(crate) fn on_node<T: Send>(
        &self,
        firewall: &Firewall,
        work: impl FnOnce(&Firewall) -> T + Send,
    ) -> T {
        let firewall = firewall.clone().lock_file(&self.lock);
        self.host("node")
            .run(move || work(&firewall))
            .expect("the node")
    }
}

pub(crate) fn network(bridge: &str) -> NetworkPolicy {
    let third = if bridge == "br1" { 20 } else { 21 };
    let subnet = format!("172.{third}.0.0/24").parse().expect("a subnet");
    let node = Ipv4Addr::new(172, third, 0, 1);
    NetworkPolicy::new(LinkName::new(bridge).expect("a name"), subnet, node).expect("a network")
}

pub(crate) fn address(name: &str) -> Ipv4Addr {
    let found = INSTANCES.iter().find(|(known, _, _)| *known == name);
    found.expect("an instance").2
}

/// The strictest policy of one of [`INSTANCES`].
pub(crate) fn policy(name: &str) -> InstancePolicy {
    let bridge = if address(name).octets()[1] == 20 {
        "br1"
    } else {
        "br2"
    };
    let id = InstanceId::new(name).expect("an id");
    InstancePolicy::new(id, &network(bridge), IpAddr::V4(address(name))).expect("a policy")
}

/// Servers on a host that tell everyone who they are taken for.
pub(crate) struct Servers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    /// On every address of the host, by TCP and UDP.
    pub(crate) fn start(host: &Host, ports: &[u16]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for port in ports.iter().copied() {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            let (tcp, udp) = host
                .run(|| {
                    (
                        TcpListener::bind(any).expect("a port"),
                        UdpSocket::bind(any).expect("a port"),
                    )
                })
                .expect("the host");
            tcp.set_nonblocking(true).expect("a setting");
            udp.set_read_timeout(Some(TURN)).expect("a setting");
            let stopped = Arc::clone(&stop);
            threads.push(thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    match tcp.accept() {
                        Ok((mut stream, peer)) => {
                            drop(stream.write_all(peer.ip().to_string().as_bytes()))
                        }
                        Err(_) => thread::sleep(TURN),
                    }
                }
            }));
            let stopped = Arc::clone(&stop);
            threads.push(thread::spawn(move || {
                let mut packet = [0; 16];
                while !stopped.load(Ordering::Relaxed) {
                    if let Ok((_, peer)) = udp.recv_from(&mut packet) {
                        let _ = udp.send_to(peer.ip().to_string().as_bytes(), peer);
                    }
                }
            }));
        }
        Self { stop, threads }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Asks a server by TCP; answers whom it took the asker for.
pub(crate) fn tcp(from: &Host, to: Ipv4Addr, port: u16) -> Option<String> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&(to, port).into(), PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    };
    from.run(ask).expect("the host")
}

/// Asks a server by UDP; answers whom it took the asker for.
pub(crate) fn udp(from: &Host, to: Ipv4Addr, port: u16) -> Option<String> {
    let ask = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((to, port)).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        socket.send(b"who am I?").ok()?;
        let mut packet = [0; 64];
        let length = socket.recv(&mut packet).ok()?;
        String::from_utf8(packet[..length].to_vec()).ok()
    };
    from.run(ask).expect("the host")
}
