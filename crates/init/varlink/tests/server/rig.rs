//! A daemon that runs a server in a foreign epoll loop, as real ones do.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use muster_varlink::{
    CallId, CallMode, Client, Counters, Reply, ReplyError, Server, ServerOptions,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

pub(crate) struct Daemon {
    pub(crate) path: PathBuf,
    _dir: tempfile::TempDir,
    /// Closing it ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    reports: Receiver<Report>,
}

/// What the daemon looks like from inside, after a call of `test.Report`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) connections: usize,
    pub(crate) counters: Counters,
    pub(crate) longest_turn: Duration,
    pub(crate) turns: u64,
    /// Events that a subscriber was too slow for.
    pub(crate) dropped: u64,
    /// Bytes that other users have not read.
    pub(crate) queued_for_others: usize,
}

impl Daemon {
    pub(crate) fn start(options: ServerOptions) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        // A deep backlog, so that a crowd waits for the server and not for the kernel.
        rustix::net::listen(&listener, 4096).expect("a listening socket");
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        let (report, reports) = sync_channel(64);
        let server = Server::new(listener.into(), options).expect("a server");
        let thread = std::thread::spawn(move || Loop::new(server, report).run(&stopped));
        Self {
            path,
            _dir: dir,
            stop: Some(stop),
            thread: Some(thread),
            reports,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect("test", &self.path).expect("the daemon runs");
        client.set_timeout(Some(Duration::from_secs(20)));
        client
    }

    pub(crate) fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("the daemon runs");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream
    }

    pub(crate) fn report(&self) -> Report {
        let _: Value = self
            .client()
            .call("test.Report", &json!({}))
            .expect("an answer");
        self.reports
            .recv_timeout(Duration::from_secs(20))
            .expect("a report")
    }

    /// Looks again and again until the daemon is as expected.
    pub(crate) fn until(&self, expected: impl Fn(&Report) -> bool) -> Report {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let report = self.report();
            if expected(&report) {
                return report;
            }
            assert!(Instant::now() < end, "{report:?}");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.take();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("a thread").expect("the daemon did not panic");
        }
    }
}

struct Loop {
    server: Server,
    report: SyncSender<Report>,
    began: Instant,
    subscribers: Vec<CallId>,
    longest_turn: Duration,
    turns: u64,
    dropped: u64,
}

impl Loop {
    fn new(server: Server, report: SyncSender<Report>) -> Self {
        Self {
            server,
            report,
            began: Instant::now(),
            subscribers: Vec::new(),
            longest_turn: Duration::ZERO,
            turns: 0,
            dropped: 0,
        }
    }

    fn run(mut self, stopped: &UnixStream) {
        loop {
            let left = self
                .server
                .next_deadline()
                .map(|at| at.saturating_sub(self.began.elapsed()));
            let left = left.map(|left| Timespec::try_from(left).expect("a short time"));
            let mut fds = [
                PollFd::new(&self.server, PollFlags::IN),
                PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, left.as_ref());
            if !fds[1].revents().is_empty() {
                return;
            }
            let from = Instant::now();
            self.turn();
            self.turns += 1;
            self.longest_turn = self.longest_turn.max(from.elapsed());
        }
    }

    fn turn(&mut self) {
        let now = self.began.elapsed();
        self.server.turn(now);
        while let Some(mut call) = self.server.next_call(now) {
            let reply = match call.split_method().1 {
                "Echo" => Reply::of(&call.parameters.read::<Value>().expect("an object"))
                    .with_fds(std::mem::take(&mut call.call.fds)),
                "Big" => Reply::of(&json!({"text": "x".repeat(3_000_000)})),
                "Who" => Reply::of(&json!({"uid": call.peer.uid, "pid": call.peer.pid})),
                "Watch" if call.mode == CallMode::More => {
                    self.subscribers.push(call.id);
                    Reply::of(&json!({"n": 0})).and_more()
                }
                "Publish" => {
                    self.publish(call.parameters.read::<Value>().expect("an object")["n"].as_u64());
                    Reply::empty()
                }
                "Report" => {
                    let report = Report {
                        connections: self.server.connections(),
                        counters: self.server.counters(),
                        longest_turn: self.longest_turn,
                        turns: self.turns,
                        dropped: self.dropped,
                        queued_for_others: self.server.queued_for_others(),
                    };
                    self.report.try_send(report).expect("room for a report");
                    Reply::empty()
                }
                _ => Reply::failure("test.Unknown", &json!({})),
            };
            // Whoever wants no reply gets none.
            let _ = self.server.reply(call.id, reply);
        }
        self.server.flush(now);
    }

    fn publish(&mut self, count: Option<u64>) {
        for n in 1..=count.expect("a number") {
            self.subscribers.retain(|subscriber| {
                let event = Reply::of(&json!({"n": n, "text": "y".repeat(500)})).and_more();
                match self.server.reply(*subscriber, event) {
                    Ok(()) => true,
                    Err(ReplyError::Full(_)) => {
                        self.dropped += 1;
                        true
                    }
                    Err(_) => false,
                }
            });
        }
    }
}
