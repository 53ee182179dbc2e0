//! The real program on a bus of dbus-daemon.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use muster_lab::program::{Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;
use zbus::blocking::{Connection, connection};

const TIME: Duration = Duration::from_secs(20);

/// A bus of its own.
struct TestBus {
    folder: TempDir,
    daemon: Option<Process>,
}

impl TestBus {
    /// A place for a bus, where none is yet.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bus");
        let config = format!(
            "<busconfig><type>session</type><listen>unix:path={}</listen>\
             <policy context=\"default\"><allow send_destination=\"*\"/><allow receive_sender=\"*\"/>\
             <allow own=\"*\"/></policy></busconfig>",
            socket.display()
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        Self {
            folder,
            daemon: None,
        }
    }

    fn started() -> Self {
        let mut bus = Self::new();
        bus.start();
        bus
    }

    fn start(&mut self) {
        let mut daemon = Program::new("dbus-daemon")
            .arg("--config-file")
            .arg(self.folder.path().join("config"))
            .args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"])
            .start()
            .unwrap();
        daemon.wait_for_line("unix:path=", TIME).unwrap();
        self.daemon = Some(daemon);
    }

    fn kill(&mut self) {
        self.daemon.take().unwrap().kill9().unwrap();
        std::fs::remove_file(self.socket()).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    /// A connection that owns a name.
    fn own(&self, name: &str) -> Connection {
        let builder = connection::Builder::address(self.address().as_str()).unwrap();
        builder.name(name.to_owned()).unwrap().build().unwrap()
    }
}

/// The program under test.
struct Watcher {
    child: Child,
    input: Option<ChildStdin>,
    reports: Receiver<Value>,
}

impl Watcher {
    fn start(address: &str, names: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_muster-buswatch"))
            .arg("--bus")
            .arg(address)
            .args(names)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (lines, reports) = sync_channel(1000);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if lines.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            reports,
        }
    }

    fn tell(&mut self, command: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
    }

    fn next(&self) -> Value {
        self.reports.recv_timeout(TIME).expect("a report in time")
    }

    /// The next report is that a name has this owner, which is a connection of this process.
    fn expect_owned(&self, name: &str, owner: &Connection) {
        let owner = owner.unique_name().unwrap().as_str();
        let expected = json!({"name": name, "owner": owner, "pid": std::process::id()});
        assert_eq!(self.next(), expected);
    }

    fn expect_free(&self, name: &str) {
        assert_eq!(
            self.next(),
            json!({"name": name, "owner": null, "pid": null})
        );
    }

    fn expect_error(&self, name: &str, text: &str) {
        let report = self.next();
        assert_eq!(report["name"], name, "{report}");
        let error = report["error"].as_str().unwrap();
        assert!(error.contains(text), "{report}");
    }

    /// It ends with its input.
    fn finish(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn owners_are_reported_as_they_come_and_go() {
    muster_lab::require!(Tool("dbus-daemon"));
    let bus = TestBus::started();
    let mut watcher = Watcher::start(&bus.address(), &["org.example.A"]);
    watcher.expect_free("org.example.A");
    let first = bus.own("org.example.A");
    watcher.expect_owned("org.example.A", &first);
    // A name that is there already, and one that nobody asked for.
    let _other = bus.own("org.example.Other");
    let second = bus.own("org.example.B");
    watcher.tell("watch org.example.B");
    watcher.expect_owned("org.example.B", &second);
    drop(first);
    watcher.expect_free("org.example.A");
    // No longer watched: the next report is about another one.
    watcher.tell("unwatch org.example.B");
    watcher.tell("watch org.example.C");
    watcher.expect_free("org.example.C");
    drop(second);
    let third = bus.own("org.example.C");
    watcher.expect_owned("org.example.C", &third);
    // Whoever asks again is told again, once.
    watcher.tell("watch org.example.C");
    watcher.expect_owned("org.example.C", &third);
    drop(third);
    watcher.expect_free("org.example.C");
    watcher.finish();
}

#[test]
fn missing_bus_is_said_for_each_name_and_found_when_it_comes() {
    muster_lab::require!(Tool("dbus-daemon"));
    let mut bus = TestBus::new();
    let mut watcher = Watcher::start(&bus.address(), &["org.example.A"]);
    let place = format!("no bus at {}", bus.address());
    watcher.expect_error("org.example.A", &place);
    watcher.tell("watch org.example.B");
    watcher.expect_error("org.example.B", "No such file");
    bus.start();
    watcher.expect_free("org.example.A");
    watcher.expect_free("org.example.B");
    watcher.finish();
}

#[test]
fn bus_that_restarts_is_found_again() {
    muster_lab::require!(Tool("dbus-daemon"));
    let mut bus = TestBus::started();
    let watcher = Watcher::start(&bus.address(), &["org.example.A"]);
    watcher.expect_free("org.example.A");
    for _ in 0..3 {
        let owner = bus.own("org.example.A");
        watcher.expect_owned("org.example.A", &owner);
        bus.kill();
        watcher.expect_error("org.example.A", "");
        drop(owner);
        bus.start();
        watcher.expect_free("org.example.A");
    }
    // Connections that were lost leave no thread behind: it comes to have as many as one that never lost any.
    let fresh = Watcher::start(&bus.address(), &["org.example.A"]);
    fresh.expect_free("org.example.A");
    muster_lab::poll_until(TIME, "the listeners have ended", || {
        threads(&watcher) <= threads(&fresh)
    });
    fresh.finish();
    watcher.finish();
}

fn threads(watcher: &Watcher) -> usize {
    let folder = format!("/proc/{}/task", watcher.child.id());
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn mistakes_are_answered() {
    let mut watcher = Watcher::start("unix:path=/no/such/bus", &["not-a-name"]);
    watcher.expect_error("not-a-name", "is not a well-known bus name");
    watcher.tell("look at this");
    let report = watcher.next();
    assert!(report.get("name").is_none(), "{report}");
    assert!(report["error"].as_str().unwrap().contains("look at this"));
    watcher.tell(&format!("watch a.{}", "b".repeat(2000)));
    assert!(
        watcher.next()["error"]
            .as_str()
            .unwrap()
            .contains("longer than")
    );
    watcher.finish();
}

#[test]
fn wrong_command_line_fails() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster-buswatch"))
        .arg("--buss=x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--buss=x"));
}

#[test]
fn bus_that_does_not_answer_is_said_and_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("bus");
    // It accepts connections and then says nothing.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let address = format!("unix:path={}", Path::new(&socket).display());
    let mut watcher = Watcher::start(&address, &["org.example.A"]);
    watcher.expect_error("org.example.A", "it does not answer");
    watcher.tell("watch org.example.B");
    watcher.expect_error("org.example.B", "it does not answer");
    watcher.finish();
}
