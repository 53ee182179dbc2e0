use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use muster_unit_file::config::{BindIpv6Only, SocketOptions, Timestamping, TypeOfService};
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::number::{Bytes, Mode};
use rustix::net::{SocketAddrAny, sockopt};

use super::*;

const TIME: Duration = Duration::from_secs(10);

fn config(lines: &[(ListenKind, &str)]) -> SocketConfig {
    let parse = |(kind, text): &(ListenKind, &str)| Listen::parse(*kind, text).unwrap();
    SocketConfig {
        listen: lines.iter().map(parse).collect(),
        ..SocketConfig::default()
    }
}

fn open_all(config: &SocketConfig) -> Vec<OwnedFd> {
    let opened = open(config, Owner::default(), Vec::new()).unwrap();
    assert_eq!(opened.warnings, []);
    opened.sockets
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn waits<Fd: AsFd>(fds: &[Fd]) -> Option<usize> {
    incoming(fds).unwrap()
}

fn wait_until_incoming<Fd: AsFd>(fds: &[Fd]) {
    muster_lab::poll_until(TIME, "something to come in", || waits(fds).is_some());
}

#[test]
fn streams_of_every_family_take_connections() {
    let place = Place::new();
    let unix = place.path("a/b/s.sock");
    let port = free_port();
    let tcp = format!("127.0.0.1:{port}");
    let name = format!("muster-test-{}", std::process::id());
    let lines = [
        (ListenKind::Stream, unix.as_str()),
        (ListenKind::Stream, &format!("@{name}")),
        (ListenKind::Stream, &tcp),
    ];
    let sockets = open_all(&config(&lines));
    assert_eq!(waits(&sockets), None);
    let one = UnixStream::connect(&unix).unwrap();
    wait_until_incoming(&sockets[..1]);
    let abstract_name = UnixAddr::from_abstract_name(&name).unwrap();
    let two = UnixStream::connect_addr(&abstract_name).unwrap();
    let three = TcpStream::connect(("127.0.0.1", port)).unwrap();
    wait_until_incoming(&sockets[2..]);

    let me = rustix::process::getpid().as_raw_pid();
    let uid = rustix::process::getuid().as_raw();
    let first = accept(&sockets[0]).unwrap().unwrap();
    assert_eq!(first.peer, Peer::Unix { pid: me, uid });
    assert_eq!(first.peer.instance(3), format!("3-{me}-{uid}"));
    assert_eq!(first.peer.remote_variables(), None);
    assert_eq!(first.peer.source(), None);
    assert!(accept(&sockets[0]).unwrap().is_none());
    assert!(accept(&sockets[1]).unwrap().is_some());

    let third = accept(&sockets[2]).unwrap().unwrap();
    let caller = three.local_addr().unwrap();
    let instance = format!("7-127.0.0.1:{port}-127.0.0.1:{}", caller.port());
    assert_eq!(third.peer.instance(7), instance);
    let variables = ("127.0.0.1".to_owned(), caller.port().to_string());
    assert_eq!(third.peer.remote_variables(), Some(variables));
    let loopback = Source::Ip(Ipv4Addr::LOCALHOST.into());
    assert_eq!(third.peer.source(), Some(loopback));
    // What a service reads from must block until there is something.
    let flags = rustix::fs::fcntl_getfl(&third.fd).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    drop((one, two));
}

#[test]
fn instance_names_are_systemds_for_every_family() {
    let v4 = "10.0.0.1:80".parse().unwrap();
    let mapped = "[::ffff:10.0.0.2]:1234".parse().unwrap();
    let peer = Peer::Ip {
        local: v4,
        remote: mapped,
    };
    assert_eq!(peer.instance(1), "1-10.0.0.1:80-10.0.0.2:1234");
    let address = peer.remote_variables().unwrap().0;
    assert_eq!(address, "10.0.0.2");
    let peer = Peer::Ip {
        local: "[2001:db8::1]:80".parse().unwrap(),
        remote: "[2001:db8::2]:9".parse().unwrap(),
    };
    let instance = peer.instance(2);
    assert_eq!(instance, "2-2001:db8::1:80-2001:db8::2:9");
    let template = muster_unit_file::name::UnitName::new("x@.service").unwrap();
    template.with_instance(&instance).unwrap();
    let peer = Peer::Vsock {
        local: (2, 10),
        remote: (3, 11),
    };
    assert_eq!(peer.instance(0), "0-2:10-3:11");
    assert_eq!(peer.remote_variables().unwrap().0, "vsock:3");
    assert_eq!(Peer::Unknown.instance(9), "9-unknown");
}

#[test]
fn datagrams_sequences_pipes_and_files_are_opened_and_told_when_something_comes() {
    let place = Place::new();
    let port = free_port();
    let udp = format!("127.0.0.1:{port}");
    let [datagram, sequence, fifo, special] = ["d", "q", "f", "s"].map(|name| place.path(name));
    std::fs::write(&special, "content").unwrap();
    let lines = [
        (ListenKind::Datagram, datagram.as_str()),
        (ListenKind::Datagram, &udp),
        (ListenKind::SequentialPacket, &sequence),
        (ListenKind::Fifo, &fifo),
        (ListenKind::Special, &special),
        (ListenKind::Special, "/dev/null"),
    ];
    let sockets = open_all(&config(&lines));
    assert_eq!(waits(&sockets[..4]), None);
    let unix = UnixDatagram::unbound().unwrap();
    unix.send_to(b"x", &datagram).unwrap();
    assert_eq!(waits(&sockets[..1]), Some(0));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"", ("127.0.0.1", port)).unwrap();
    wait_until_incoming(&sockets[1..2]);
    let caller = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&*sequence).unwrap();
    rustix::net::connect(&caller, &address).unwrap();
    assert_eq!(waits(&sockets[2..3]), Some(0));
    std::fs::OpenOptions::new()
        .write(true)
        .open(&fifo)
        .unwrap()
        .write_all(b"line\n")
        .unwrap();
    assert_eq!(waits(&sockets[3..4]), Some(0));
    assert_eq!(waits(&sockets[4..5]), Some(0));

    flush(&sockets[..4]);
    assert_eq!(waits(&sockets[..4]), None);
    // The caller finds out that nobody answers, rather than waiting for ever.
    let mut byte = [0u8; 1];
    assert_eq!(rustix::io::read(&caller, &mut byte), Ok(0));
}

#[test]
fn flushing_ends_although_somebody_sends_without_end() {
    let place = Place::new();
    let path = place.path("f");
    let sockets = open_all(&config(&[(ListenKind::Special, "/dev/zero")]));
    flush(&sockets);
    drop(sockets);
    let sockets = open_all(&config(&[(ListenKind::Stream, &path)]));
    let callers: Vec<_> = (0..3000)
        .map_while(|_| UnixStream::connect(&path).ok())
        .collect();
    flush(&sockets);
    let left = callers.len().saturating_sub(1024);
    let mut rest = 0;
    while accept(&sockets[0]).unwrap().is_some() {
        rest += 1;
    }
    assert_eq!(rest, left);
}

#[test]
fn message_queues_are_opened_used_again_and_removed() {
    let name = format!("/muster-test-{}", std::process::id());
    let mut config = config(&[(ListenKind::MessageQueue, &name)]);
    config.options.message_queue_max_messages = 3;
    config.options.message_queue_message_size = 64;
    config.socket_mode = Mode(0o640);
    config.remove_on_stop = true;
    let sockets = open_all(&config);
    let stat = rustix::fs::fstat(&sockets[0]).unwrap();
    assert_eq!(stat.st_mode & 0o777, 0o640);
    assert_eq!(waits(&sockets), None);
    let opened = open(&config, Owner::default(), sockets).unwrap();
    assert_eq!(opened.reused, 1);
    assert_eq!(remove_files(&config), []);
    assert_eq!(remove_files(&config), []);
    // The queue that is kept has no name any more, so it is of no use.
    let opened = open(&config, Owner::default(), opened.sockets).unwrap();
    assert_eq!(opened.reused, 0);
    assert_eq!(remove_files(&config), []);
}

#[test]
fn netlink_families_are_opened_by_name_and_number() {
    let lines = [
        (ListenKind::Netlink, "kobject-uevent 1"),
        (ListenKind::Netlink, "route"),
        (ListenKind::Netlink, "15 2"),
    ];
    let config = config(&lines);
    let sockets = open_all(&config);
    let protocols: Vec<_> = sockets
        .iter()
        .map(|fd| sockopt::socket_protocol(fd).unwrap())
        .collect();
    let uevent = Some(rustix::net::netlink::KOBJECT_UEVENT);
    assert_eq!(protocols, [uevent, None, uevent]);
    let numbers: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    // Taken over in any order: each goes to the line that it was made for.
    let reversed = sockets.into_iter().rev().collect();
    let opened = open(&config, Owner::default(), reversed).unwrap();
    let again: Vec<_> = opened.sockets.iter().map(AsRawFd::as_raw_fd).collect();
    assert_eq!((opened.reused, again), (3, numbers));
}

#[test]
fn what_cannot_be_opened_names_its_line() {
    let place = Place::new();
    std::fs::create_dir(place.path("dir")).unwrap();
    let good = place.path("good");
    let port = free_port();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let cases = [
        (
            ListenKind::UsbFunction,
            "/dev/usb-ffs/x".to_owned(),
            OpenStep::Open,
            Errno::OPNOTSUPP,
        ),
        (
            ListenKind::Stream,
            format!("127.0.0.1:{port}"),
            OpenStep::Listen,
            Errno::ADDRINUSE,
        ),
        (
            ListenKind::Stream,
            place.path("dir"),
            OpenStep::Bind,
            Errno::ADDRINUSE,
        ),
        (
            ListenKind::Fifo,
            place.path("dir"),
            OpenStep::Open,
            Errno::ISDIR,
        ),
        (
            ListenKind::Special,
            place.path("none"),
            OpenStep::Open,
            Errno::NOENT,
        ),
        (
            ListenKind::Stream,
            "192.0.2.1:80".to_owned(),
            OpenStep::Bind,
            Errno::ADDRNOTAVAIL,
        ),
        (
            ListenKind::Stream,
            "[fe80::1]:80%nolink".to_owned(),
            OpenStep::Resolve,
            Errno::NODEV,
        ),
    ];
    for (kind, address, step, source) in cases {
        let lines = [(ListenKind::Stream, good.as_str()), (kind, &address)];
        let error = open(&config(&lines), Owner::default(), Vec::new()).unwrap_err();
        assert_eq!((error.index, error.kind), (1, kind), "{address}");
        // Where the port is taken is found out by one call or the other.
        let step_fits = error.step == step || source == Errno::ADDRINUSE;
        assert!(step_fits && error.source == source, "{error:?}");
        assert!(error.to_string().contains(&*error.address), "{error}");
    }
    drop(taken);
}

#[test]
fn files_have_the_mode_owner_links_and_folders_that_were_asked_for() {
    muster_lab::require!(Root);
    let place = Place::new();
    let (path, link) = (place.path("x/y/s"), place.path("l/link"));
    let mut config = config(&[(ListenKind::Stream, &path)]);
    config.socket_mode = Mode(0o606);
    config.directory_mode = Mode(0o711);
    config.remove_on_stop = true;
    config.symlinks.0.push(&link);
    let owner = Owner {
        uid: Some(1234),
        gid: Some(4321),
    };
    let opened = open(&config, owner, Vec::new()).unwrap();
    let file = std::fs::metadata(&path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o606);
    assert_eq!((file.uid(), file.gid()), (1234, 4321));
    let folder = std::fs::metadata(place.path("x/y")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o711);
    assert_eq!(std::fs::read_link(&link).unwrap(), PathBuf::from(&path));
    // Another file where a link should be is left alone, and told.
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "mine").unwrap();
    let opened = open(&config, owner, opened.sockets).unwrap();
    assert_eq!(opened.reused, 1);
    assert_eq!(opened.warnings.len(), 1);
    assert_eq!(opened.warnings[0].option, "Symlinks");
    assert_eq!(remove_files(&config), []);
    assert!(!PathBuf::from(&path).exists() && PathBuf::from(&link).exists());
    config.remove_on_stop = false;
    open_all_but_links(&config);
    assert_eq!(remove_files(&config), []);
    assert!(PathBuf::from(&path).exists());
}

fn open_all_but_links(config: &SocketConfig) {
    open(config, Owner::default(), Vec::new()).unwrap();
}

#[test]
fn stale_files_are_replaced() {
    let place = Place::new();
    let path = place.path("s");
    let config = config(&[(ListenKind::Stream, &path)]);
    drop(open_all(&config));
    let sockets = open_all(&config);
    let _caller = UnixStream::connect(&path).unwrap();
    assert_eq!(waits(&sockets), Some(0));
}

#[test]
fn options_are_set() {
    muster_lab::require!(Root);
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut config = config(&[(ListenKind::Stream, &address)]);
    *config.options = SocketOptions {
        keep_alive: true,
        keep_alive_time: TimeSpan::from_secs(77),
        keep_alive_interval: TimeSpan::from_micros(1_500_000),
        keep_alive_probes: 4,
        defer_accept: TimeSpan::from_secs(3),
        no_delay: true,
        priority: Some(5),
        receive_buffer: Bytes(100_000),
        send_buffer: Bytes(120_000),
        ip_tos: Some(TypeOfService(0x10)),
        ip_ttl: Some(33),
        mark: Some(9),
        free_bind: true,
        transparent: true,
        pass_packet_info: true,
        timestamping: Timestamping::Nanos,
        tcp_congestion: Some("reno".into()),
        reuse_port: true,
        ..SocketOptions::default()
    };
    config.bind_to_device = Some("lo".into());
    let sockets = open_all(&config);
    let fd = &sockets[0];
    assert!(sockopt::socket_keepalive(fd).unwrap());
    assert_eq!(sockopt::tcp_keepidle(fd).unwrap(), Duration::from_secs(77));
    assert_eq!(sockopt::tcp_keepintvl(fd).unwrap(), Duration::from_secs(2));
    assert_eq!(sockopt::tcp_keepcnt(fd).unwrap(), 4);
    assert!(sockopt::tcp_nodelay(fd).unwrap());
    assert!(sockopt::socket_reuseport(fd).unwrap());
    assert!(sockopt::ip_freebind(fd).unwrap());
    // The kernel doubles what is asked for.
    assert_eq!(sockopt::socket_recv_buffer_size(fd).unwrap(), 200_000);
    assert_eq!(sockopt::socket_send_buffer_size(fd).unwrap(), 240_000);
    assert_eq!(sockopt::ip_tos(fd).unwrap(), 0x10);
    assert_eq!(sockopt::ip_ttl(fd).unwrap(), 33);
    assert_eq!(sockopt::tcp_congestion(fd).unwrap(), "reno");
    // Options are set again on what is taken over.
    config.options.ip_ttl = Some(44);
    let opened = open(&config, Owner::default(), sockets).unwrap();
    assert_eq!(opened.reused, 1);
    assert_eq!(sockopt::ip_ttl(&opened.sockets[0]).unwrap(), 44);
}

#[test]
fn an_option_that_cannot_be_set_is_a_warning() {
    let place = Place::new();
    let mut config = config(&[(ListenKind::Stream, &place.path("s"))]);
    config.options.tcp_congestion = Some("nonsense".into());
    config.options.pass_credentials = true;
    let opened = open(&config, Owner::default(), Vec::new()).unwrap();
    let failed: Vec<_> = opened.warnings.iter().map(|w| w.option).collect();
    assert_eq!(failed, ["TCPCongestion"]);
    assert!(sockopt::socket_passcred(&opened.sockets[0]).unwrap());
    let fifo = place.path("f");
    let mut config = super::tests::config(&[(ListenKind::Fifo, &fifo)]);
    config.options.pipe_size = Bytes(8192);
    let sockets = open_all(&config);
    let size = rustix::pipe::fcntl_getpipe_size(&sockets[0]).unwrap();
    assert_eq!(size, 8192);
}

#[test]
fn ipv6_takes_ipv4_or_not_as_asked() {
    muster_lab::require!(File("/proc/net/if_inet6"));
    let port = free_port();
    let both = config(&[(ListenKind::Stream, &port.to_string())]);
    let sockets = open_all(&both);
    let bound = rustix::net::getsockname(&sockets[0]).unwrap();
    assert_eq!(bound.address_family(), AddressFamily::INET6);
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    wait_until_incoming(&sockets);
    let peer = accept(&sockets[0]).unwrap().unwrap().peer;
    assert!(peer.instance(0).starts_with("0-127.0.0.1:"), "{peer:?}");
    drop(sockets);
    let only = SocketConfig {
        bind_ipv6_only: BindIpv6Only::Ipv6Only,
        ..both
    };
    let sockets = open_all(&only);
    assert!(sockopt::ipv6_v6only(&sockets[0]).unwrap());
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();
}

#[test]
fn vsock_is_bound_where_the_kernel_has_it() {
    let listening = config(&[(ListenKind::Stream, "vsock::53211")]);
    match open(&listening, Owner::default(), Vec::new()) {
        Ok(opened) => {
            let bound: SocketAddrAny = rustix::net::getsockname(&opened.sockets[0]).unwrap();
            let address = crate::sys::VsockAddress::read(&bound).unwrap();
            assert_eq!((address.cid, address.port), (u32::MAX, 53211));
            let again = open(&listening, Owner::default(), opened.sockets).unwrap();
            assert_eq!(again.reused, 1);
        }
        Err(error) => assert_eq!(error.source, Errno::AFNOSUPPORT, "{error:?}"),
    }
}

#[test]
fn protocols_beside_the_usual_are_asked_for() {
    let port = free_port();
    let mut listening = config(&[(ListenKind::Datagram, &format!("127.0.0.1:{port}"))]);
    listening.protocol = SocketProtocol::UdpLite;
    match open(&listening, Owner::default(), Vec::new()) {
        Ok(opened) => {
            let found = sockopt::socket_protocol(&opened.sockets[0]).unwrap();
            assert_eq!(found, Some(ipproto::UDPLITE));
            let again = open(&listening, Owner::default(), opened.sockets).unwrap();
            assert_eq!(again.reused, 1);
        }
        Err(error) => assert_eq!(error.source, Errno::PROTONOSUPPORT, "{error:?}"),
    }
    listening.protocol = SocketProtocol::Sctp;
    listening.listen[0].kind = ListenKind::Stream;
    if let Err(error) = open(&listening, Owner::default(), Vec::new()) {
        assert_eq!((error.index, error.source), (0, Errno::PROTONOSUPPORT));
    }
}

/// A client that calls over and over while the manager is replaced never meets a closed door, and every connection that
/// was made is served.
#[test]
fn no_connection_is_lost_while_sockets_are_taken_over() {
    let place = Place::new();
    let path = place.path("s");
    let port = free_port();
    let lines = [
        (ListenKind::Stream, path.as_str()),
        (ListenKind::Stream, &format!("127.0.0.1:{port}")),
    ];
    let mut config = config(&lines);
    let mut sockets = open_all(&config);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let callers = [false, true].map(|tcp| {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let mut calls = 0u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut answer = [0u8; 1];
                    if tcp {
                        let mut call = TcpStream::connect(("127.0.0.1", port)).unwrap();
                        call.read_exact(&mut answer).unwrap();
                    } else {
                        let mut call = UnixStream::connect(path).unwrap();
                        call.read_exact(&mut answer).unwrap();
                    }
                    calls += 1;
                }
                calls
            })
        });
        let mut served = 0u32;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut round = 0;
        // On a busy machine the callers may come late.
        while round < 200 || (served <= 100 && std::time::Instant::now() < until) {
            round += 1;
            if round % 2 == 0 {
                config.listen.reverse();
            }
            // A manager dies with connections waiting; only the descriptors are kept.
            let kept: Vec<OwnedFd> = sockets
                .iter()
                .map(|fd| fd.try_clone().unwrap())
                .rev()
                .collect();
            drop(sockets);
            let opened = open(&config, Owner::default(), kept).unwrap();
            assert_eq!(opened.reused, 2);
            sockets = opened.sockets;
            served += serve(&sockets);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut made = 0;
        for caller in callers {
            while !caller.is_finished() {
                served += serve(&sockets);
            }
            made += caller.join().unwrap();
        }
        assert_eq!(made, served);
        served
    });
    assert!(served > 100, "{served} calls are too few to tell");
}

fn serve(sockets: &[OwnedFd]) -> u32 {
    let mut served = 0;
    for socket in sockets {
        while let Some(accepted) = accept(socket).unwrap() {
            rustix::io::write(&accepted.fd, b"!").unwrap();
            served += 1;
        }
    }
    served
}

#[test]
fn kept_descriptors_that_do_not_fit_are_not_used() {
    let place = Place::new();
    let (one, other) = (place.path("one"), place.path("other"));
    let stream = config(&[(ListenKind::Stream, &one)]);
    let cases = [
        config(&[(ListenKind::Stream, &other)]),
        config(&[(ListenKind::Datagram, &one)]),
        config(&[(ListenKind::Stream, "@muster-other")]),
        config(&[(ListenKind::Fifo, &place.path("fifo"))]),
    ];
    for other in cases {
        let kept = open_all(&stream);
        let opened = open(&other, Owner::default(), kept).unwrap();
        assert_eq!(opened.reused, 0, "{:?}", other.listen);
    }
    // Somebody removed the file: nobody can call that socket any more.
    let kept = open_all(&stream);
    std::fs::remove_file(&one).unwrap();
    let opened = open(&stream, Owner::default(), kept).unwrap();
    assert_eq!(opened.reused, 0);
    UnixStream::connect(&one).unwrap();
    // A pipe that was made again under the same name is another.
    let fifo = config(&[(ListenKind::Fifo, &place.path("fifo"))]);
    let kept = open_all(&fifo);
    std::fs::remove_file(place.path("fifo")).unwrap();
    assert_eq!(open(&fifo, Owner::default(), kept).unwrap().reused, 0);
    let kept = open_all(&fifo);
    assert_eq!(open(&fifo, Owner::default(), kept).unwrap().reused, 1);
    // Nonsense does no harm.
    let nonsense = BorrowedFd::try_clone_to_owned(&std::io::stdin().as_fd()).unwrap();
    assert_eq!(
        open(&fifo, Owner::default(), vec![nonsense])
            .unwrap()
            .reused,
        0
    );
}

#[test]
fn connections_are_counted_per_source() {
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80);
    let source = Source::Ip((*address.ip()).into());
    let other = Source::Vsock(3);
    let mut counts = ConnectionsPerSource::default();
    assert!(counts.take(source, 2) && counts.take(source, 2));
    assert!(!counts.take(source, 2));
    assert!(counts.take(other, 2));
    counts.release(source);
    assert!(counts.take(source, 2) && !counts.take(source, 2));
    assert!(counts.take(source, 0));
    assert_eq!((counts.count(source), counts.count(other)), (3, 1));
    for _ in 0..4 {
        counts.release(source);
    }
    counts.release(other);
    assert_eq!(counts, ConnectionsPerSource::default());
}
