//! What the service manager hears.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{PATIENCE, Probe, command};

struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bind the socket");
        Self {
            socket,
            path,
            _folder: folder,
        }
    }

    /// The next message, or nothing within `patience`.
    fn next_within(&self, patience: Duration) -> Option<String> {
        self.socket
            .set_read_timeout(Some(patience))
            .expect("set the timeout");
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    fn next(&self) -> String {
        self.next_within(PATIENCE)
            .expect("a message from the probe")
    }
}

#[test]
fn the_service_manager_hears_of_every_step_in_order() {
    let manager = Manager::new();
    let mut probe = Probe::start(command("plain").env("NOTIFY_SOCKET", &manager.path));
    assert_eq!(manager.next(), "STATUS=startingdone");
    assert_eq!(manager.next(), "READY=1");
    probe.wait_for("ready");
    probe.signal(Signal::HUP);
    assert!(manager.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(manager.next(), "READY=1");
    probe.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1");
    assert_eq!(probe.wait().code(), Some(0));
    assert_eq!(manager.next_within(Duration::from_millis(10)), None);
}

#[test]
fn watchdog_pings_stop_when_the_heartbeat_stops() {
    let manager = Manager::new();
    let period = Duration::from_millis(400);
    let mut probe = Probe::start(
        command("plain")
            .env("NOTIFY_SOCKET", &manager.path)
            .env("WATCHDOG_USEC", period.as_micros().to_string()),
    );
    probe.wait_for("ready");
    let pings = |until: Instant| {
        let messages = std::iter::from_fn(|| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                None
            } else {
                manager.next_within(left)
            }
        });
        messages.filter(|message| message == "WATCHDOG=1").count()
    };
    let alive = pings(Instant::now() + 5 * period);
    assert!(
        alive >= 5,
        "a live daemon pings at least once in each period, but {alive} in 5"
    );
    // The probe stops its heartbeat when it is asked to reload.
    probe.signal(Signal::HUP);
    while manager.next() != "READY=1" {}
    let _last = pings(Instant::now() + period);
    assert_eq!(
        pings(Instant::now() + 5 * period),
        0,
        "a hung main loop is not alive"
    );
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(0));
}

#[test]
fn a_watchdog_meant_for_another_process_is_not_answered() {
    let manager = Manager::new();
    let mut probe = Probe::start(
        command("plain")
            .env("NOTIFY_SOCKET", &manager.path)
            .env("WATCHDOG_USEC", "20000")
            .env("WATCHDOG_PID", "1"),
    );
    probe.wait_for("ready");
    assert_ne!(probe.pid(), 1);
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(0));
    let heard: Vec<String> =
        std::iter::from_fn(|| manager.next_within(Duration::from_millis(10))).collect();
    assert_eq!(heard, ["STATUS=startingdone", "READY=1", "STOPPING=1"]);
}
