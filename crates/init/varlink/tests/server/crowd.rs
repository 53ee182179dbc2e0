//! Many clients at once.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_varlink::admission::Places;
use muster_varlink::{Server, ServerOptions};
use serde_json::{Value, json};

use crate::rig::Daemon;

#[test]
fn ten_thousand_connections_do_not_keep_a_caller_waiting() {
    let daemon = Daemon::start(ServerOptions::default());
    let places = Places::default().total;
    // The test's own limit is on descriptors, so the oldest ones are given up: the server has closed them long since.
    let mut open = VecDeque::new();
    let mut slowest = Duration::ZERO;
    for n in 0..10_000 {
        open.push_back(daemon.stream());
        if open.len() > places + 500 {
            open.pop_front();
        }
        if n % 500 == 0 {
            let from = Instant::now();
            let value: Value = daemon.client().call("test.Echo", &json!({"n": n})).unwrap();
            assert_eq!(value["n"], n);
            slowest = slowest.max(from.elapsed());
        }
    }
    let report = daemon.until(|report| report.counters.accepted >= 10_000);
    assert!(report.connections <= places);
    assert!(report.counters.replaced >= 10_000 - places as u64 - 500);
    println!(
        "slowest call {slowest:?}, longest turn {:?}",
        report.longest_turn
    );
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

#[test]
fn connections_at_work_are_not_closed_for_idle_ones() {
    let daemon = Daemon::start(ServerOptions {
        places: Places {
            total: 20,
            per_user: 5,
        },
        ..ServerOptions::default()
    });
    let mut events = daemon
        .client()
        .call_more::<_, Value>("test.Watch", &json!({}))
        .unwrap();
    assert_eq!(events.next().unwrap().unwrap()["n"], 0);
    let _crowd: Vec<_> = (0..200).map(|_| daemon.stream()).collect();
    daemon.until(|report| report.counters.accepted >= 200);
    let _: Value = daemon
        .client()
        .call("test.Publish", &json!({"n": 1}))
        .unwrap();
    assert_eq!(events.next().unwrap().unwrap()["n"], 1);
}

#[test]
fn another_user_gets_its_share_and_root_is_served() {
    if !rustix::process::geteuid().is_root() {
        println!("another_user_gets_its_share_and_root_is_served: skipped, not root");
        return;
    }
    let daemon = Daemon::start(ServerOptions {
        places: Places {
            total: 40,
            per_user: 10,
        },
        ..ServerOptions::default()
    });
    open_to_others(&daemon.path);
    let mut crowd = Crowd::of_nobody(&daemon.path, 300, "1");
    let report = daemon.until(|report| report.counters.accepted >= 10);
    assert!(report.connections <= 11, "{report:?}");
    let own: Vec<_> = (0..39).map(|_| daemon.client()).collect();
    for mut client in own {
        let who: Value = client.call("test.Who", &json!({})).unwrap();
        assert_eq!(who["uid"], 0);
    }
    crowd.end();
}

fn open_to_others(socket: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let everybody = |mode| std::fs::Permissions::from_mode(mode);
    let folder = socket.parent().expect("a socket lies in a folder");
    std::fs::set_permissions(socket, everybody(0o666)).expect("the socket is ours");
    std::fs::set_permissions(folder, everybody(0o755)).expect("the folder is ours");
}

/// A process of another user that holds connections open.
struct Crowd {
    process: std::process::Child,
}

impl Crowd {
    fn of_nobody(path: &Path, count: u32, each: &str) -> Self {
        let script = format!(
            "use Socket; $) = $( = 65534; $> = $< = 65534; my @s; \
             for (1..{count}) {{ socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die; \
             connect($s, sockaddr_un('{}')) or die $!; {each}; push @s, $s }} \
             $| = 1; print \"ready\\n\"; <STDIN>",
            path.display()
        );
        let mut process = Command::new("perl")
            .args(["-e", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl is part of Debian's base");
        let mut ready = [0; 6];
        let out = process.stdout.as_mut().expect("a pipe");
        let told = out.read_exact(&mut ready);
        let crowd = Self { process };
        told.expect("the other user could connect");
        crowd
    }

    fn end(&mut self) {
        self.process.stdin.take();
        assert!(self.process.wait().expect("a child").success());
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_thousand_slow_writers_are_served_a_byte_at_a_time() {
    let daemon = Daemon::start(ServerOptions::default());
    let text = b"{\"method\":\"test.Echo\"}\0";
    let mut writers: Vec<UnixStream> = (0..1000).map(|_| daemon.stream()).collect();
    for byte in text {
        for writer in &mut writers {
            writer.write_all(&[*byte]).unwrap();
        }
    }
    for writer in &mut writers {
        let mut reply = [0; 18];
        writer.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"{\"parameters\":{}}\0");
    }
}

#[test]
fn root_does_not_wait_for_the_calls_of_others() {
    if !rustix::process::geteuid().is_root() {
        println!("root_does_not_wait_for_the_calls_of_others: skipped, not root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut server = Server::new(listener.into(), ServerOptions::default()).unwrap();
    open_to_others(&path);
    let ask = r#"syswrite($s, ('{"method":"test.Echo"}' . chr(0)) x 100)"#;
    let mut crowd = Crowd::of_nobody(&path, 20, ask);
    let mut own = UnixStream::connect(&path).unwrap();
    own.write_all(b"{\"method\":\"test.Own\"}\0").unwrap();
    // Accepted and read, all of them, before the first call is taken.
    for _ in 0..10 {
        server.turn(Duration::ZERO);
    }
    assert_eq!(server.connections(), 21);
    let first = server.next_call(Duration::ZERO).unwrap();
    assert_eq!((first.peer.uid, &*first.method), (0, "test.Own"));
    let second = server.next_call(Duration::ZERO).unwrap();
    assert_eq!((second.peer.uid, &*second.method), (65534, "test.Echo"));
    crowd.end();
}

#[test]
fn what_others_do_not_read_is_bounded_for_all_of_them_together() {
    if !rustix::process::geteuid().is_root() {
        println!("what_others_do_not_read_is_bounded_for_all_of_them_together: skipped, not root");
        return;
    }
    let daemon = Daemon::start(ServerOptions {
        queued_for_others: 4 << 20,
        ..ServerOptions::default()
    });
    open_to_others(&daemon.path);
    let ask = r#"syswrite($s, '{"method":"test.Big"}' . chr(0))"#;
    let mut crowd = Crowd::of_nobody(&daemon.path, 8, ask);
    // One reply is three megabytes long: one more is begun while the bound is not passed.
    let report = daemon.until(|report| report.queued_for_others > 4 << 20);
    assert!(report.queued_for_others < 8 << 20, "{report:?}");
    let value: Value = daemon.client().call("test.Echo", &json!({"n": 1})).unwrap();
    assert_eq!(value["n"], 1);
    crowd.end();
    daemon.until(|report| report.queued_for_others == 0);
}
