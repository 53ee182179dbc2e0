//! The server asked by a real client, `dig`, over a real network.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_dns::{
    Clients, Hosts, Limits, Name, NameServer as _, NetworkSettings, Resolver, ServeNamesError,
    UnitNames, UnitServer, UnitSettings,
};
use muster_lab::net::{Host, Net};
use tokio::sync::watch;

const TURN: Duration = Duration::from_millis(20);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn hosts(pairs: &[(&str, &str)]) -> Hosts {
    let pair = |(host, address): &(&str, &str)| (name(host), address.parse::<IpAddr>().unwrap());
    pairs.iter().map(pair).collect()
}

/// Clients of the network are those below 10.77.0.4.
fn settings(node: &Host, upstreams: &[SocketAddr]) -> NetworkSettings {
    NetworkSettings {
        listen: (node.ip(), 53).into(),
        clients: Clients::new(Ipv4Addr::new(10, 77, 0, 0).into(), 30),
        zones: vec![name("cameras")],
        controllers: Vec::new(),
        upstreams: upstreams.to_vec(),
    }
}

fn limits() -> Limits {
    Limits {
        upstream: Duration::from_millis(400),
        controller: Duration::from_millis(400),
        questions: 4,
        ..Limits::default()
    }
}

/// Serves on a host for as long as `test` runs.
fn serving<F: Future<Output = ()>>(node: &Host, test: impl FnOnce(Resolver) -> F + Send) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (resolver, task) = Resolver::new(limits());
            tokio::select! {
                () = task.run() => panic!("the server ended"),
                () = test(resolver) => {}
            }
        });
    };
    node.run(run).unwrap();
}

/// Runs `dig` on a host while the server goes on.
async fn dig(host: &Host, arguments: &str) -> String {
    let mut command = host.command("dig");
    command
        .args(["+tries=1", "+time=3", "@10.77.0.1"])
        .args(arguments.split(' '));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

async fn short(host: &Host, question: &str) -> Vec<String> {
    let text = dig(host, &format!("+short {question}")).await;
    text.lines()
        .filter(|line| !line.starts_with(';'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn instances_find_each_other_by_name() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    let net = Net::new(&["node", "client"]).unwrap();
    let (node, client) = (net.host("node"), net.host("client"));
    serving(node, async |resolver| {
        resolver
            .put_network("n1", settings(node, &[]))
            .await
            .unwrap();
        let first = hosts(&[
            ("web.cameras", "172.17.0.2"),
            ("web.cameras", "fd00::2"),
            ("web", "172.17.0.2"),
        ]);
        resolver.set_hosts("n1", first).await.unwrap();
        for transport in ["+notcp", "+tcp"] {
            assert_eq!(
                short(client, &format!("{transport} web.cameras A")).await,
                ["172.17.0.2"]
            );
            assert_eq!(
                short(client, &format!("{transport} WEB.CAMERAS AAAA")).await,
                ["fd00::2"]
            );
            assert_eq!(
                short(client, &format!("{transport} web")).await,
                ["172.17.0.2"]
            );
            assert_eq!(
                short(client, &format!("{transport} -x 172.17.0.2")).await,
                ["web.cameras."]
            );
        }
        let answer = dig(client, "web.cameras").await;
        assert!(answer.contains("web.cameras.\t\t5\tIN\tA"), "{answer}");
        assert!(dig(client, "nobody.cameras").await.contains("NXDOMAIN"));
        assert!(
            dig(client, "example.org").await.contains("NXDOMAIN"),
            "nobody else can be asked"
        );
        assert!(dig(client, "web.cameras MX").await.contains("NOERROR"));
        assert!(
            dig(client, "+opcode=update web.cameras")
                .await
                .contains("NOTIMP")
        );

        // Names change without a restart, and settings keep them.
        resolver
            .set_hosts("n1", hosts(&[("web.cameras", "172.17.0.9")]))
            .await
            .unwrap();
        assert_eq!(short(client, "web.cameras A").await, ["172.17.0.9"]);
        assert!(dig(client, "web").await.contains("NXDOMAIN"));
        let mut other = settings(node, &[]);
        other.zones.push(name("sensors"));
        resolver.put_network("n1", other).await.unwrap();
        assert_eq!(short(client, "web.cameras A").await, ["172.17.0.9"]);

        // Many addresses come in whole by TCP, which a client turns to by itself.
        let many: Hosts = (0..200)
            .map(|host| (name("many"), [172, 17, 1, host].into()))
            .collect();
        resolver.set_hosts("n1", many).await.unwrap();
        assert_eq!(short(client, "many").await.len(), 200);
        let cut = short(client, "+ignore +notcp many").await.len();
        assert!((30..100).contains(&cut), "{cut} addresses in one datagram");

        resolver.remove_network("n1").await.unwrap();
        resolver.remove_network("n1").await.unwrap();
        assert!(
            short(client, "many").await.is_empty(),
            "nobody serves any more"
        );
        let refused = resolver.set_hosts("n1", Hosts::new()).await.unwrap_err();
        assert!(matches!(refused, ServeNamesError::NoSuchNetwork { .. }));
    });
}

#[test]
fn strangers_are_not_answered_and_addresses_may_come_later() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    // The fourth has an address outside of the clients.
    let net = Net::new(&["node", "client", "other", "stranger"]).unwrap();
    let (node, client, stranger) = (net.host("node"), net.host("client"), net.host("stranger"));
    serving(node, async |resolver| {
        let served = settings(node, &[]);
        resolver.put_network("n1", served.clone()).await.unwrap();
        resolver
            .set_hosts("n1", hosts(&[("web", "172.17.0.2")]))
            .await
            .unwrap();
        assert_eq!(short(client, "web").await, ["172.17.0.2"]);
        for transport in ["+notcp", "+tcp"] {
            let answer = dig(stranger, &format!("+time=1 {transport} web")).await;
            assert!(
                !answer.contains("172.17.0.2") && !answer.contains("status"),
                "{answer}"
            );
        }
        // The bridge may be made after its server.
        let early = NetworkSettings {
            listen: "172.31.0.1:53".parse().unwrap(),
            ..served.clone()
        };
        resolver.put_network("n2", early).await.unwrap();
        // Two networks cannot have one address; the first goes on.
        let taken = resolver
            .put_network("n3", served.clone())
            .await
            .unwrap_err();
        assert!(matches!(taken, ServeNamesError::Listen { .. }), "{taken}");
        let looping = settings(node, &[served.listen]);
        let looping = resolver.put_network("n3", looping).await.unwrap_err();
        assert!(matches!(looping, ServeNamesError::Loop { .. }), "{looping}");
        assert_eq!(short(client, "web").await, ["172.17.0.2"]);
    });
}

/// How a server of the outside behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Proper,
    /// Writes the question in small letters.
    Flattens,
    /// Says nothing.
    Silent,
    /// Answers under other ids and for other names before it answers.
    Forges,
    /// Says by UDP that it is too much, and all by TCP.
    Truncates,
}

/// A server of the outside that has the address 192.0.2.7 for everything.
struct Upstream {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

fn reply(question: &[u8], manner: Manner, by_tcp: bool) -> Vec<u8> {
    // The head and the question; the rest is the extension.
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let mut answer = question[..end].to_vec();
    answer[2] = 0x80;
    answer[6..12].fill(0);
    if manner == Manner::Flattens {
        answer[12..end].make_ascii_lowercase();
    }
    if manner == Manner::Truncates && !by_tcp {
        answer[2] |= 2;
        return answer;
    }
    answer[7] = 1;
    answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7]);
    answer
}

impl Upstream {
    fn start(host: &Host, port: u16, manner: Manner) -> Self {
        let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let (udp, tcp) = host
            .run(|| (UdpSocket::bind(at).unwrap(), TcpListener::bind(at).unwrap()))
            .unwrap();
        udp.set_read_timeout(Some(TURN)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let by_udp = {
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            thread::spawn(move || {
                let mut packet = [0; 2048];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, client)) = udp.recv_from(&mut packet) else {
                        continue;
                    };
                    asked.fetch_add(1, Ordering::Relaxed);
                    let answer = reply(&packet[..length], manner, false);
                    if manner == Manner::Forges {
                        for id in 0..200u16 {
                            let mut forged = answer.clone();
                            forged[..2].copy_from_slice(&id.to_be_bytes());
                            forged[13] ^= 1;
                            *forged.last_mut().unwrap() = 66;
                            let _ = udp.send_to(&forged, client);
                        }
                    }
                    if manner != Manner::Silent {
                        let _ = udp.send_to(&answer, client);
                    }
                }
            })
        };
        let by_tcp = {
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match tcp.accept() {
                        Ok((stream, _)) if manner != Manner::Silent => {
                            asked.fetch_add(1, Ordering::Relaxed);
                            let _ = answer_by_tcp(stream, manner);
                        }
                        _ => thread::sleep(TURN),
                    }
                }
            })
        };
        Self {
            stop,
            asked,
            threads: vec![by_udp, by_tcp],
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn answer_by_tcp(mut stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut packet = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut packet)?;
    let answer = reply(&packet, manner, true);
    stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes())?;
    stream.write_all(&answer)
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn other_questions_are_passed_on() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    let net = Net::new(&["node", "client", "upstream"]).unwrap();
    let (node, client, far) = (net.host("node"), net.host("client"), net.host("upstream"));
    let servers = [
        Manner::Proper,
        Manner::Flattens,
        Manner::Silent,
        Manner::Forges,
        Manner::Truncates,
    ]
    .map(|manner| (manner, Upstream::start(far, 5300 + manner as u16, manner)));
    let at = |manner: Manner| SocketAddr::from((far.ip(), 5300 + manner as u16));
    serving(node, async |resolver| {
        for (manner, server) in &servers {
            let upstreams = match manner {
                // The next is asked, within the client's patience.
                Manner::Silent => vec![at(Manner::Silent), at(Manner::Proper)],
                other => vec![at(*other)],
            };
            resolver
                .put_network("n1", settings(node, &upstreams))
                .await
                .unwrap();
            for transport in ["+notcp", "+tcp"] {
                let answers = short(client, &format!("{transport} Example.org A")).await;
                if *manner == Manner::Truncates && transport == "+notcp" {
                    // The client turns to TCP by itself, and gets it that way.
                    assert!(
                        dig(client, "+ignore +notcp example.org")
                            .await
                            .contains(" tc ")
                    );
                }
                assert_eq!(
                    answers,
                    ["192.0.2.7"],
                    "by {transport}, number {}",
                    *manner as u16
                );
            }
            assert!(server.asked() > 0);
            // Names of the network go nowhere.
            let before = server.asked();
            for question in ["nobody.cameras", "nobody", "-x 10.77.0.2"] {
                assert!(
                    dig(client, question).await.contains("NXDOMAIN"),
                    "{question}"
                );
            }
            assert_eq!(server.asked(), before);
        }
        // Nobody answers.
        let silent = [at(Manner::Silent)];
        resolver
            .put_network("n1", settings(node, &silent))
            .await
            .unwrap();
        assert!(dig(client, "example.org").await.contains("SERVFAIL"));
        // More questions under way than are allowed: the rest is told so at once, and known names are still answered.
        resolver
            .set_hosts("n1", hosts(&[("web", "172.17.0.2")]))
            .await
            .unwrap();
        let questions = futures_util::future::join_all((0..12).map(|number| {
            let question = format!("q{number}.example.org");
            async move { dig(client, &question).await.contains("SERVFAIL") }
        }));
        let (refused, known) = tokio::join!(questions, short(client, "web"));
        assert!(refused.into_iter().all(|refused| refused));
        assert_eq!(known, ["172.17.0.2"]);
    });
}

/// The controller's server, in a thread of its own until this is dropped.
struct Controller {
    names: watch::Sender<Arc<UnitNames>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Controller {
    fn start(host: &Host, names: UnitNames, upstreams: &[SocketAddr]) -> Self {
        let (names, watched) = watch::channel(Arc::new(names));
        let settings = UnitSettings {
            listen: (host.ip(), 53).into(),
            clients: vec![Clients::new(Ipv4Addr::new(10, 0, 0, 0).into(), 8)],
            upstreams: upstreams.to_vec(),
        };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let host = host.clone();
        let thread = thread::spawn(move || {
            let run = || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    let server = UnitServer::bind(settings, watched, limits()).unwrap();
                    ready.send(()).unwrap();
                    tokio::select! {
                        () = server.run() => panic!("the server ended"),
                        _ = stopped => {}
                    }
                });
            };
            host.run(run).unwrap();
        });
        is_ready.recv().unwrap();
        Self {
            names,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two networks that both have a `web`.
fn unit_names(web: &str) -> UnitNames {
    let mut names = UnitNames::new();
    let subnet = |third| Clients::new(Ipv4Addr::new(10, 77, third, 0).into(), 30);
    let cameras = hosts(&[("web", web), ("0.anna.web", web), ("web.cameras", web)]);
    names.insert("cameras", subnet(0), cameras);
    let doors = hosts(&[("web", "10.77.9.2"), ("web.doors", "10.77.9.2")]);
    names.insert("doors", subnet(9), doors);
    names
}

#[test]
fn names_of_other_nodes_are_known_to_the_controller_and_outlive_it() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    // The controller and the outside are no clients of the network.
    let net = Net::new(&["node", "client", "third", "controller", "outside"]).unwrap();
    let (node, client) = (net.host("node"), net.host("client"));
    let (main, outside) = (net.host("controller"), net.host("outside"));
    let upstream = Upstream::start(outside, 5300, Manner::Proper);
    let controller = Controller::start(main, unit_names("10.77.0.2"), &[]);
    serving(node, async |resolver| {
        let with_controller = NetworkSettings {
            controllers: vec![(main.ip(), 53).into()],
            ..settings(node, &[(outside.ip(), 5300).into()])
        };
        resolver.put_network("n1", with_controller).await.unwrap();
        let own = hosts(&[("own", "10.77.0.3")]);
        resolver.set_hosts("n1", own).await.unwrap();
        for transport in ["+notcp", "+tcp"] {
            for known in ["web", "Web.Cameras", "0.anna.web"] {
                let found = short(client, &format!("{transport} {known} A")).await;
                assert_eq!(found, ["10.77.0.2"], "{known} by {transport}");
            }
            let reverse = short(client, &format!("{transport} -x 10.77.0.2")).await;
            assert_eq!(reverse, ["web."]);
        }
        // A client that does not speak the extension is not answered in it.
        let plain = dig(client, "+noedns web A").await;
        assert!(
            plain.contains("10.77.0.2") && !plain.contains("OPT"),
            "{plain}"
        );
        for unknown in ["nobody", "nobody.cameras", "web.doors"] {
            assert!(dig(client, unknown).await.contains("NXDOMAIN"), "{unknown}");
        }
        assert_eq!(upstream.asked(), 0, "own names stay inside");
        // What the controller refuses is asked for outside.
        assert_eq!(short(client, "example.org A").await, ["192.0.2.7"]);

        // Names change without a restart.
        controller
            .names
            .send_replace(Arc::new(unit_names("10.77.0.1")));
        assert_eq!(short(client, "web A").await, ["10.77.0.1"]);

        // The controller goes: its last word counts, own names and the outside are answered at once.
        drop(controller);
        assert_eq!(short(client, "web A").await, ["10.77.0.1"]);
        assert_eq!(short(client, "own A").await, ["10.77.0.3"]);
        assert_eq!(short(client, "example.org A").await, ["192.0.2.7"]);
        let never_asked = dig(client, "other.cameras").await;
        assert!(never_asked.contains("SERVFAIL"), "{never_asked}");

        // It comes back, and has the last word again.
        let _again = Controller::start(main, unit_names("10.77.0.2"), &[]);
        let mut found = Vec::new();
        for _ in 0..100 {
            found = short(client, "web A").await;
            if found == ["10.77.0.2"] {
                break;
            }
            tokio::time::sleep(TURN * 5).await;
        }
        assert_eq!(found, ["10.77.0.2"]);
    });
}

#[test]
fn a_controller_that_says_nothing_delays_the_outside_once() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    let net = Net::new(&["node", "client", "third", "controller", "outside"]).unwrap();
    let (node, client) = (net.host("node"), net.host("client"));
    let (main, outside) = (net.host("controller"), net.host("outside"));
    let silent = Upstream::start(main, 53, Manner::Silent);
    let _upstream = Upstream::start(outside, 5300, Manner::Proper);
    serving(node, async |resolver| {
        let with_controller = NetworkSettings {
            controllers: vec![(main.ip(), 53).into()],
            ..settings(node, &[(outside.ip(), 5300).into()])
        };
        resolver.put_network("n1", with_controller).await.unwrap();
        for _ in 0..4 {
            assert_eq!(short(client, "example.org A").await, ["192.0.2.7"]);
        }
        // It is asked again after two seconds; four questions take less, unless the machine sleeps in between.
        assert!(silent.asked() <= 2, "{} times", silent.asked());
        // Nobody else may be asked for these, so it is asked each time.
        let before = silent.asked();
        assert!(dig(client, "nobody").await.contains("SERVFAIL"));
        assert_eq!(silent.asked(), before + 1);
    });
}

#[test]
fn a_controller_asks_others_for_the_rest_where_it_shall() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    let net = Net::new(&["controller", "node", "outside"]).unwrap();
    let (main, node, outside) = (
        net.host("controller"),
        net.host("node"),
        net.host("outside"),
    );
    let upstream = Upstream::start(outside, 5300, Manner::Proper);
    for (upstreams, expected) in [
        (vec![SocketAddr::from((outside.ip(), 5300))], "192.0.2.7"),
        (Vec::new(), "REFUSED"),
    ] {
        let _controller = Controller::start(main, unit_names("10.77.0.2"), &upstreams);
        let mut command = node.command("dig");
        command.args(["+tries=1", "+time=3", "@10.77.0.1", "example.org", "A"]);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(upstream.asked(), 1);
}

/// Garbage of every kind, by both ways; then a good question.
#[test]
fn garbage_does_not_stop_the_server() {
    muster_lab::require!(Root, NetNs, Tool("dig"));
    let net = Net::new(&["node", "client"]).unwrap();
    let (node, client) = (net.host("node"), net.host("client"));
    serving(node, async |resolver| {
        resolver
            .put_network("n1", settings(node, &[]))
            .await
            .unwrap();
        resolver
            .set_hosts("n1", hosts(&[("web", "172.17.0.2")]))
            .await
            .unwrap();
        let host = client.clone();
        let noise = move || {
            host.run(|| {
                let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
                for length in 0..600usize {
                    let packet: Vec<u8> = (0..length)
                        .map(|at| u8::try_from((at * 7 + length * 13) % 256).unwrap())
                        .collect();
                    let _ = udp.send_to(&packet, "10.77.0.1:53");
                }
                // A name that leads to itself.
                let looping = [1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1];
                let _ = udp.send_to(&looping, "10.77.0.1:53");
                // Connections that promise more than they send, or nothing at all, and stay: one place is left.
                let idle: Vec<TcpStream> = (0..63)
                    .map(|index| {
                        let mut stream = TcpStream::connect("10.77.0.1:53").unwrap();
                        let _ = stream.write_all(&[0xff, 0xff][..index % 3]);
                        stream
                    })
                    .collect();
                idle
            })
            .unwrap()
        };
        let idle = tokio::task::spawn_blocking(noise).await.unwrap();
        assert_eq!(short(client, "+notcp web").await, ["172.17.0.2"]);
        assert_eq!(short(client, "+tcp web").await, ["172.17.0.2"]);
        drop(idle);
    });
}
