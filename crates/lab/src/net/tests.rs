use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::fs::MetadataExt as _;
use std::time::Instant;

use super::*;
use crate::poll_until;
use crate::program::Program;

const TIME: Duration = Duration::from_secs(30);
/// Long enough for an answer within one machine, even a busy one.
const SILENCE: Duration = Duration::from_millis(300);
const NAMES: [&str; 3] = ["main", "second", "third"];

/// A UDP socket on each host.
struct Sockets(Vec<UdpSocket>);

impl Sockets {
    fn bind(net: &Net) -> Self {
        let bind = |host: &Host| {
            let socket = host
                .run(|| UdpSocket::bind((host.ip(), 9000)))
                .unwrap()
                .unwrap();
            socket.set_read_timeout(Some(SILENCE)).unwrap();
            // What is lost shall be lost by the network, not for want of room at the receiver.
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20).unwrap();
            socket
        };
        Self(net.hosts().iter().map(bind).collect())
    }

    /// Whether each host is heard by each other: one datagram per pair, all sent before any is awaited.
    fn heard(&self) -> BTreeSet<(usize, usize)> {
        for from in &self.0 {
            for to in &self.0 {
                // A host that knows its link to be down may say so; silence counts either way.
                let _ = from.send_to(b"hello", to.local_addr().unwrap());
            }
        }
        let mut heard = BTreeSet::new();
        for (to, socket) in self.0.iter().enumerate() {
            while let Ok((_, sender)) = socket.recv_from(&mut [0; 16]) {
                let sent_by = |from: &UdpSocket| from.local_addr().unwrap() == sender;
                heard.insert((self.0.iter().position(sent_by).unwrap(), to));
            }
        }
        heard
    }
}

fn all_but(missing: &[(usize, usize)]) -> BTreeSet<(usize, usize)> {
    let all = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
    all.filter(|(a, b)| !missing.contains(&(*a, *b)) && !missing.contains(&(*b, *a)))
        .collect()
}

/// Network namespaces that some process is in or holds open.
fn namespaces_in_use() -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let dir = process.path();
        if let Ok(metadata) = std::fs::metadata(dir.join("ns/net")) {
            inodes.insert(metadata.st_ino());
        }
        for file in std::fs::read_dir(dir.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if std::fs::read_link(file.path())
                .is_ok_and(|link| link.to_string_lossy().starts_with("net:"))
                && let Ok(metadata) = std::fs::metadata(file.path())
            {
                inodes.insert(metadata.st_ino());
            }
        }
    }
    inodes
}

fn inodes(net: &Net) -> BTreeSet<u64> {
    let namespaces = net
        .hosts
        .iter()
        .map(|host| &host.namespace)
        .chain([&net.switch]);
    namespaces
        .map(|namespace| rustix::fs::fstat(namespace).unwrap().st_ino)
        .collect()
}

#[test]
fn hosts_hear_each_other_until_cut_or_parted_and_again_after() {
    crate::require!(Root, NetNs);
    let net = Net::new(&NAMES).unwrap();
    let sockets = Sockets::bind(&net);
    assert_eq!(sockets.heard(), all_but(&[]));

    net.partition("main", "second").unwrap();
    assert_eq!(sockets.heard(), all_but(&[(0, 1)]));
    net.partition("second", "third").unwrap();
    assert_eq!(sockets.heard(), all_but(&[(0, 1), (1, 2)]));
    net.heal("second", "main").unwrap();
    assert_eq!(sockets.heard(), all_but(&[(1, 2)]));
    net.heal("second", "third").unwrap();
    assert_eq!(sockets.heard(), all_but(&[]));

    net.link("third").cut().unwrap();
    assert_eq!(sockets.heard(), all_but(&[(0, 2), (1, 2)]));
    net.link("third").restore().unwrap();
    assert_eq!(sockets.heard(), all_but(&[]));
}

#[test]
fn connections_survive_a_short_cut() {
    crate::require!(Root, NetNs);
    let net = Net::new(&["main", "second"]).unwrap();
    let at = SocketAddr::from((net.host("main").ip(), 8093));
    let listener = net
        .host("main")
        .run(|| TcpListener::bind(at))
        .unwrap()
        .unwrap();
    let mut client = net
        .host("second")
        .run(|| TcpStream::connect(at))
        .unwrap()
        .unwrap();
    let (mut server, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), net.host("second").ip());
    server.set_read_timeout(Some(TIME)).unwrap();

    net.link("main").cut().unwrap();
    client.write_all(b"late").unwrap();
    net.link("main").restore().unwrap();
    let mut received = [0; 4];
    server.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"late");
}

#[test]
fn loss_is_what_was_asked_for() {
    crate::require!(Root, NetNs);
    let net = Net::new(&["main", "second"]).unwrap();
    let sockets = Sockets::bind(&net);
    let received_of_400 = || {
        let to = sockets.0[1].local_addr().unwrap();
        for _ in 0..400 {
            sockets.0[0].send_to(b"x", to).unwrap();
        }
        std::iter::repeat_with(|| sockets.0[1].recv_from(&mut [0; 16]))
            .take_while(Result::is_ok)
            .count()
    };
    net.loss(30).unwrap();
    let received = received_of_400();
    assert!(
        (220..=340).contains(&received),
        "{received} of 400 arrived at 30 % loss"
    );
    net.loss(0).unwrap();
    assert_eq!(received_of_400(), 400);
    net.loss(100).unwrap();
    assert_eq!(received_of_400(), 0);
}

#[test]
fn rate_limits_each_way_and_is_lifted() {
    crate::require!(Root, NetNs);
    const BYTES: usize = 2_500_000;
    let net = Net::new(&["main", "second"]).unwrap();
    let at = SocketAddr::from((net.host("main").ip(), 8093));
    let listener = net
        .host("main")
        .run(|| TcpListener::bind(at))
        .unwrap()
        .unwrap();
    let client = net
        .host("second")
        .run(|| TcpStream::connect(at))
        .unwrap()
        .unwrap();
    let (server, _) = listener.accept().unwrap();
    let transfer = |from: &TcpStream, to: &TcpStream| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| (&mut &*from).write_all(&vec![0; BYTES]).unwrap());
            (&mut &*to).read_exact(&mut vec![0; BYTES]).unwrap();
        });
        start.elapsed()
    };
    net.link("main").rate(20).unwrap();
    // 2.5 MB at 20 Mbit/s take a second; queue and burst may let a little pass early.
    for elapsed in [transfer(&client, &server), transfer(&server, &client)] {
        assert!(elapsed > Duration::from_millis(850), "{elapsed:?}");
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    }
    net.link("main").unlimited().unwrap();
    let elapsed = transfer(&client, &server);
    assert!(elapsed < Duration::from_millis(850), "{elapsed:?}");
}

#[test]
fn programs_and_commands_run_on_their_host() {
    crate::require!(Root, NetNs);
    let net = Net::new(&["main", "second"]).unwrap();
    let second = net.host("second");
    let output = second
        .command("ip")
        .args(["-brief", "address"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("10.77.0.2/16") && text.contains("127.0.0.1/8"),
        "{text}"
    );
    assert!(!text.contains("10.77.0.1"), "{text}");

    let mut process = Program::new("ip")
        .args(["-brief", "address"])
        .on(second)
        .user(65_534, 65_534)
        .start()
        .unwrap();
    process.wait_for_line("10.77.0.2/16", TIME).unwrap();
}

#[test]
fn several_networks_share_addresses_without_hearing_each_other() {
    crate::require!(Root, NetNs);
    let (one, two) = (Net::new(&NAMES).unwrap(), Net::new(&NAMES).unwrap());
    let (in_one, in_two) = (Sockets::bind(&one), Sockets::bind(&two));
    two.link("main").cut().unwrap();
    assert_eq!(in_one.heard(), all_but(&[]));
    assert_eq!(in_two.heard(), all_but(&[(0, 1), (0, 2)]));
}

#[test]
fn caller_stays_in_its_own_network_and_panics_come_through() {
    crate::require!(Root, NetNs);
    let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = own();
    let net = Net::new(&["main"]).unwrap();
    assert_ne!(net.host("main").run(own).unwrap(), before);
    assert_eq!(own(), before);
    let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = net.host("main").run(|| panic!("inside"));
    }));
    assert_eq!(
        panicking.unwrap_err().downcast_ref::<&str>(),
        Some(&"inside")
    );
}

#[test]
fn failed_tool_is_named_with_what_it_said() {
    crate::require!(Root, NetNs);
    let net = Net::new(&["main"]).unwrap();
    let error = net.link("main").unlimited().unwrap_err();
    assert_eq!(error.to_string(), "cannot free the link of \"main\"");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.starts_with("`tc -batch -` failed with exit status: "),
        "{cause}"
    );
    assert!(
        cause.contains("Error: ") && cause.ends_with("dev p1 root\n"),
        "{cause}"
    );
}

#[test]
fn names_are_checked_before_anything_is_made() {
    let too_many: Vec<String> = (0..65).map(|index| index.to_string()).collect();
    let too_many: Vec<&str> = too_many.iter().map(String::as_str).collect();
    assert!(matches!(
        Net::new(&too_many),
        Err(NetError::TooManyHosts { count: 65 })
    ));
}

#[test]
fn duplicate_names_are_refused() {
    crate::require!(Root, NetNs);
    let error = Net::new(&["a", "a"]).unwrap_err();
    assert!(matches!(error, NetError::DuplicateHost { name } if name == "a"));
}

#[test]
fn full_switch_connects_everyone() {
    crate::require!(Root, NetNs);
    let names: Vec<String> = (0..MAX_HOSTS).map(|index| format!("h{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let net = Net::new(&names).unwrap();
    let (first, last) = (net.host("h0"), net.host("h63"));
    let receiver = last
        .run(|| UdpSocket::bind((last.ip(), 9000)))
        .unwrap()
        .unwrap();
    receiver.set_read_timeout(Some(TIME)).unwrap();
    let sender = first
        .run(|| UdpSocket::bind((first.ip(), 0)))
        .unwrap()
        .unwrap();
    sender.send_to(b"x", (last.ip(), 9000)).unwrap();
    assert_eq!(receiver.recv_from(&mut [0; 16]).unwrap().1.ip(), first.ip());
}

#[test]
fn nothing_is_left_after_drop() {
    crate::require!(Root, NetNs);
    let links = || {
        std::fs::read_to_string("/proc/self/net/dev")
            .unwrap()
            .lines()
            .count()
    };
    let links_before = links();
    let net = Net::new(&NAMES).unwrap();
    let made = inodes(&net);
    assert_eq!(made.len(), 4);
    assert!(made.is_subset(&namespaces_in_use()));
    assert_eq!(
        links(),
        links_before,
        "nothing shows in the machine's own network"
    );
    drop(net);
    poll_until(TIME, "namespaces gone", || {
        made.is_disjoint(&namespaces_in_use())
    });
}

/// Not a test of its own: a test process that is killed while it has a network with programs in it.
#[test]
#[ignore = "run by nothing_is_left_of_a_test_process_that_is_killed"]
fn victim() {
    let net = Net::new(&NAMES).unwrap();
    let mut process = Program::new("/bin/sleep")
        .arg("600")
        .on(net.host("second"))
        .start()
        .unwrap();
    for inode in inodes(&net) {
        println!("inode={inode}.");
    }
    println!("ready");
    process.wait(Duration::from_secs(600)).unwrap();
}

#[test]
fn nothing_is_left_of_a_test_process_that_is_killed() {
    crate::require!(Root, NetNs);
    let mut victim = Program::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "net::tests::victim"])
        .start()
        .unwrap();
    victim.wait_for_line("ready", TIME).unwrap();
    let made: BTreeSet<u64> = victim
        .lines()
        .iter()
        .filter_map(|line| {
            line.text
                .strip_prefix("inode=")?
                .strip_suffix('.')?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(made.len(), 4);
    assert!(made.is_subset(&namespaces_in_use()));
    victim.kill9().unwrap();
    poll_until(TIME, "namespaces gone", || {
        made.is_disjoint(&namespaces_in_use())
    });
}
