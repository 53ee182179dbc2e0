//! A busy machine: daemons, sockets with clients that connect all the time, timers, a service that logs. Whatever happens
//! to the manager, none of them may notice.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use muster_lab::machine::MachineBuilder;
use muster_lab::poll_until;

use crate::rig::{ProcessKey, Rig, TIME};

/// How much there is of everything.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) daemons: usize,
    pub(crate) sockets: usize,
    pub(crate) timers: usize,
}

/// Adds the units of a scene, all pulled in by `scene.target`.
pub(crate) fn build(mut builder: MachineBuilder, size: Size) -> MachineBuilder {
    let mut target = "[Unit]\nWants=chatty.service\n".to_owned();
    for n in 0..size.daemons {
        target.push_str(&format!("Wants=daemon-{n}.service\n"));
        let text = "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\n";
        builder = builder.unit(format!("daemon-{n}.service"), text);
    }
    for n in 0..size.sockets {
        target.push_str(&format!("Wants=echo-{n}.socket\n"));
        let socket = format!(
            "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/echo-{n}\nAccept=yes\nTriggerLimitIntervalSec=0\n"
        );
        let service =
            "[Service]\nExecStart=/bin/cat\nStandardInput=socket\nStandardOutput=socket\n";
        builder = builder
            .unit(format!("echo-{n}.socket"), socket)
            .unit(format!("echo-{n}@.service"), service);
    }
    for n in 0..size.timers {
        target.push_str(&format!("Wants=tick-{n}.timer\n"));
        let timer = "[Timer]\nOnActiveSec=100ms\nOnUnitInactiveSec=200ms\nAccuracySec=1ms\n";
        let service = format!(
            "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo tick >>/run/tick-{n}'\n"
        );
        builder = builder
            .unit(format!("tick-{n}.timer"), timer)
            .unit(format!("tick-{n}.service"), service);
    }
    // Numbered lines, so that a lost one shows.
    let chatty = "[Service]\nExecStart=/bin/sh -c 'n=0; while :; do echo line $$n; n=$$((n+1)); sleep 0.01; done'\n";
    builder
        .unit("chatty.service", chatty)
        .unit("scene.target", target)
}

/// A scene that plays.
pub(crate) struct Scene {
    size: Size,
    daemons: BTreeSet<ProcessKey>,
    clients: Clients,
}

impl Scene {
    pub(crate) fn start(rig: &Rig, size: Size) -> Self {
        rig.ok(&["start", "scene.target"]);
        poll_until(TIME, "all daemons run", || {
            Self::daemons_now(rig).len() == size.daemons
        });
        let daemons = Self::daemons_now(rig);
        let sockets = (0..size.sockets)
            .map(|n| rig.path(format!("/run/echo-{n}")))
            .collect();
        Self {
            size,
            daemons,
            clients: Clients::start(sockets),
        }
    }

    fn daemons_now(rig: &Rig) -> BTreeSet<ProcessKey> {
        let daemons = rig.named("sleep").into_iter();
        daemons
            .filter(|process| process.cgroup.contains("/daemon-"))
            .map(|process| (process.host_pid, process.start_time))
            .collect()
    }

    /// As [`assert_goes_on`](Self::assert_goes_on), after a death at any moment: a connection that had left its queue and was not
    /// with `muster-init` yet, which is one at most, may be lost with whoever was taking it.
    pub(crate) fn assert_goes_on_after_death(&self, rig: &Rig, after: &str) {
        self.clients.shared.deaths.fetch_add(1, Ordering::Relaxed);
        self.assert_goes_on(rig, after);
    }

    /// Nothing was restarted, every socket answers, every timer goes on.
    pub(crate) fn assert_goes_on(&self, rig: &Rig, after: &str) {
        assert_eq!(
            Self::daemons_now(rig),
            self.daemons,
            "daemons after {after}"
        );
        let served = self.clients.served();
        poll_until(TIME, &format!("clients are served after {after}"), || {
            self.clients.served() >= served + self.size.sockets as u64
        });
        self.clients.assert_none_failed(after);
        let ticks = || -> Vec<usize> {
            let count = |n| {
                rig.read(format!("/run/tick-{n}"))
                    .unwrap_or_default()
                    .lines()
                    .count()
            };
            (0..self.size.timers).map(count).collect()
        };
        let before = ticks();
        poll_until(TIME, &format!("timers elapse after {after}"), || {
            ticks().iter().zip(&before).all(|(now, then)| now > then)
        });
    }

    /// Ends the scene, and checks that no log line was lost.
    pub(crate) fn finish(self, rig: &Rig) {
        self.clients.stop();
        rig.ok(&["stop", "chatty.service"]);
        let lines = rig.ok(&["logs", "--unit", "chatty.service", "--output", "cat"]);
        let numbers: Vec<u64> = lines
            .lines()
            .filter_map(|line| line.strip_prefix("line ")?.parse().ok())
            .collect();
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        assert!(numbers.len() > 10, "{lines}");
        assert_eq!(numbers, expected, "log lines are lost or doubled");
    }
}

/// Threads that connect, ask, check the answer and hang up, again and again.
struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    served: AtomicU64,
    /// How often somebody died who may have been taking a connection.
    deaths: AtomicU64,
    lost: AtomicU64,
    failures: std::sync::Mutex<Vec<String>>,
}

impl Clients {
    fn start(sockets: Vec<PathBuf>) -> Self {
        let shared = Arc::new(Shared::default());
        // One thread for several sockets: it is the manager that is to be busy.
        let threads = sockets
            .chunks(10)
            .map(|sockets| {
                let (shared, sockets) = (Arc::clone(&shared), sockets.to_vec());
                std::thread::spawn(move || {
                    for (number, socket) in sockets.iter().cycle().enumerate() {
                        if shared.stop.load(Ordering::Relaxed) {
                            return;
                        }
                        match ask(socket, number) {
                            Ok(()) => {
                                shared.served.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) if is_lost(&error) => {
                                shared.lost.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => shared
                                .failures
                                .lock()
                                .unwrap()
                                .push(format!("{}: {error}", socket.display())),
                        }
                    }
                })
            })
            .collect();
        Self { shared, threads }
    }

    fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }

    fn assert_none_failed(&self, after: &str) {
        let failures = self.shared.failures.lock().unwrap();
        assert!(failures.is_empty(), "clients after {after}: {failures:?}");
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (lost, deaths) = (count(&self.shared.lost), count(&self.shared.deaths));
        assert!(
            lost <= deaths,
            "{lost} connections lost in {deaths} deaths after {after}"
        );
    }

    fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Whether a connection that was made ended without a word.
fn is_lost(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn ask(socket: &PathBuf, number: usize) -> std::io::Result<()> {
    let question = format!("question {number}\n");
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIME))?;
    stream.write_all(question.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer == question {
        return Ok(());
    }
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Err(std::io::Error::other(format!(
        "{answer:?} instead of {question:?}"
    )))
}
