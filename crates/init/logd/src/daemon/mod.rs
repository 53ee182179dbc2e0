//! The loop: one thread, one epoll, everything that can be read.

mod greetings;
mod poll;
mod requests;
mod streams;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use muster_varlink::{OpenServerError, Server, ServerOptions};
use thiserror::Error;

use self::greetings::{Greeted, Greetings};
use self::poll::{Poll, Source};
use self::requests::Pending;
use self::streams::Streams;
use crate::config::Config;
use crate::input::{
    FeedEvent, FeedSource, InputError, KernelSource, NativeSource, SyslogSource, Taken,
};
use crate::notify::Notifier;
use crate::origin::Host;
use crate::parse::priority::Level;
use crate::recorder::{Recorder, chain, now};
use crate::sockets::Sockets;
use crate::state::{Ledger, LedgerFile, OpenLedgerError};
use crate::store::{Places, Store};
use crate::sys;

/// How many turns a socket gets before a request to synchronise is answered: enough for all the messages that it
/// can hold, and not more, for a client that never stops must not hold the request up.
const DRAIN_TURNS: usize = 8;
/// The same for the kernel's messages, whose ring is larger.
const KERNEL_TURNS: usize = 4096;

/// What the daemon is started with.
#[derive(Debug)]
pub struct Setup {
    /// Configuration.
    pub config: Config,
    /// The machine.
    pub host: Host,
    /// The folders of journal files, without the machine's id.
    pub memory_root: PathBuf,
    /// The same, on disk.
    pub disk_root: PathBuf,
    /// The ledger.
    pub ledger: PathBuf,
    /// The kernel's messages.
    pub kmsg: PathBuf,
    /// The disk is not to be used before it is said so.
    pub wait_for_flush: bool,
    /// What it listens to.
    pub sockets: Sockets,
    /// What was wrong with the configuration.
    pub warnings: Vec<String>,
}

/// Why the daemon cannot start or go on.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The ledger.
    #[error("cannot keep account of what is in the journal")]
    Ledger(#[source] OpenLedgerError),
    /// One of the sources.
    #[error("cannot listen")]
    Input(#[source] InputError),
    /// The control socket.
    #[error("cannot offer the control interface")]
    Control(#[source] OpenServerError),
    /// Waiting itself.
    #[error("cannot wait for messages")]
    Poll(#[source] std::io::Error),
}

/// The daemon.
#[derive(Debug)]
pub struct Daemon {
    poll: Poll,
    signals: OwnedFd,
    recorder: Recorder,
    feed: Option<FeedSource>,
    syslog: Option<SyslogSource>,
    native: Option<NativeSource>,
    kernel: Option<KernelSource>,
    greetings: Option<Greetings>,
    streams: Streams,
    servers: Vec<Server>,
    notifier: Notifier,
    watchdog_at_us: Option<u64>,
    pending: Vec<Pending>,
    is_stopping: bool,
}

impl Daemon {
    /// Opens everything and takes over what an earlier process has left.
    ///
    /// # Errors
    /// If something that the daemon cannot do without is not there. A disk is not among that.
    pub fn start(setup: Setup) -> Result<Self, DaemonError> {
        let signals =
            sys::signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2])
                .map_err(DaemonError::Poll)?;
        // Whoever has the ledger writes the journal, so it comes first.
        let ledger = LedgerFile::lock(&setup.ledger).map_err(DaemonError::Ledger)?;
        let places = Places::new(&setup.memory_root, &setup.disk_root, setup.host.machine_id);
        let mut store = Store::new(&setup.config, &setup.host, places, setup.wait_for_flush);
        // Before anything is begun or moved: what the last process had begun is judged by the file that it wrote to.
        let boot = u128::from_le_bytes(*setup.host.boot_id.as_bytes());
        let ledger =
            Ledger::open(ledger, boot, store.left_sequence()).map_err(DaemonError::Ledger)?;
        let opened = store.open(now());
        let reads_kernel = setup.config.read_kmsg;
        let mut recorder = Recorder::new(setup.config, setup.host, store, ledger, &setup.kmsg);
        for warning in &setup.warnings {
            recorder.say(Level::WARNING, warning, &[]);
        }
        if let Err(error) = opened {
            recorder.say(Level::ERR, &chain(&error), &[]);
        }
        let has_feed = setup.sockets.feed.is_some();
        let notifier = Notifier::from_environment();
        let mut daemon = Self {
            poll: Poll::new().map_err(DaemonError::Poll)?,
            signals,
            streams: Streams::new(&recorder, has_feed),
            recorder,
            feed: None,
            syslog: None,
            native: None,
            kernel: None,
            greetings: None,
            servers: Vec::new(),
            watchdog_at_us: notifier.watchdog_us().map(|_| 0),
            notifier,
            pending: Vec::new(),
            is_stopping: false,
        };
        daemon.listen(setup.sockets)?;
        if reads_kernel {
            daemon.listen_to_kernel(&setup.kmsg);
        }
        daemon.notifier.say("READY=1");
        Ok(daemon)
    }

    fn listen(&mut self, sockets: Sockets) -> Result<(), DaemonError> {
        let recorder = &mut self.recorder;
        let poll = &self.poll;
        let watch = |fd: BorrowedFd<'_>, source| poll.add(fd, source).map_err(DaemonError::Poll);
        watch(self.signals.as_fd(), Source::Signals)?;
        if let Some(socket) = sockets.feed {
            let source = FeedSource::new(socket, recorder).map_err(DaemonError::Input)?;
            watch(source.as_fd(), Source::Feed)?;
            self.feed = Some(source);
        }
        if let Some(socket) = sockets.syslog {
            let source = SyslogSource::new(socket, recorder).map_err(DaemonError::Input)?;
            watch(source.as_fd(), Source::Syslog)?;
            self.syslog = Some(source);
        }
        if let Some(socket) = sockets.native {
            let source = NativeSource::new(socket, recorder).map_err(DaemonError::Input)?;
            watch(source.as_fd(), Source::Native)?;
            self.native = Some(source);
        }
        if let Some(socket) = sockets.stdout {
            let greetings = Greetings::new(socket).map_err(DaemonError::Poll)?;
            watch(greetings.listener(), Source::Listener)?;
            self.greetings = Some(greetings);
        }
        for (index, socket) in sockets.varlink.into_iter().enumerate() {
            let server =
                Server::new(socket, ServerOptions::default()).map_err(DaemonError::Control)?;
            watch(server.as_fd(), Source::Control(index))?;
            self.servers.push(server);
        }
        Ok(())
    }

    /// Reads the kernel's messages where that is possible; a container often may not.
    fn listen_to_kernel(&mut self, path: &std::path::Path) {
        let opened = KernelSource::open(path).and_then(|source| {
            let added = self.poll.add(source.as_fd(), Source::Kernel);
            added.map(|()| source).map_err(|error| InputError {
                operation: "wait for",
                source_name: "the kernel's messages",
                source: error,
            })
        });
        match opened {
            Ok(source) => self.kernel = Some(source),
            Err(error) => {
                let message = format!("{}: the kernel's messages are not recorded", chain(&error));
                self.recorder.say(Level::NOTICE, &message, &[]);
            }
        }
    }

    /// Runs until a signal ends it; then everything that was sent is in the journal and on disk.
    ///
    /// # Errors
    /// If waiting itself fails.
    pub fn run(mut self) -> Result<(), DaemonError> {
        while !self.is_stopping {
            let deadline = self.deadline();
            self.turn(deadline)?;
            self.answer_pending();
        }
        self.notifier.say("STOPPING=1");
        self.drain();
        if let Err(error) = self.recorder.store.sync() {
            self.recorder.say(Level::ERR, &chain(&error), &[]);
        }
        Ok(())
    }

    /// Waits until something can be read or the time has come, and reads it.
    fn turn(&mut self, deadline_us: Option<u64>) -> Result<(), DaemonError> {
        let timeout = deadline_us.map(|at| at.saturating_sub(now().monotonic_us));
        let ready = self.poll.wait(timeout).map_err(DaemonError::Poll)?;
        for source in &ready {
            self.read(*source);
        }
        Ok(())
    }

    /// Gives a source its turn.
    fn read(&mut self, source: Source) -> Taken {
        let recorder = &mut self.recorder;
        let result = match source {
            Source::Signals => return self.take_signals(),
            Source::Feed => return self.read_feed(),
            Source::Stream(slot) => return self.streams.turn(slot, recorder, &self.poll),
            Source::Control(index) => return self.serve(index),
            Source::Listener => return self.accept_streams(),
            Source::Greeting(number) => return self.greet(number),
            Source::Syslog => self.syslog.as_mut().map(|source| source.turn(recorder)),
            Source::Native => self.native.as_mut().map(|source| source.turn(recorder)),
            Source::Kernel => self.kernel.as_mut().map(|source| source.turn(recorder)),
        };
        match result {
            None => Taken::All,
            Some(Ok(taken)) => taken,
            Some(Err(error)) => {
                self.give_up(source, &error);
                Taken::All
            }
        }
    }

    fn read_feed(&mut self) -> Taken {
        let Some(feed) = &mut self.feed else {
            return Taken::All;
        };
        let (streams, poll, pending) = (&mut self.streams, &self.poll, &mut self.pending);
        let mut is_closed = false;
        let result = feed.turn(&mut self.recorder, |event, recorder| match event {
            FeedEvent::Hello => streams.expect_all(),
            FeedEvent::Stream(descriptor, stream) => {
                streams.take(descriptor, &stream, recorder, poll);
            }
            FeedEvent::Sync => pending.push(Pending::Sync),
            FeedEvent::Closed => is_closed = true,
        });
        if is_closed {
            self.drop_source(Source::Feed);
        }
        result.unwrap_or_else(|error| {
            self.give_up(Source::Feed, &error);
            Taken::All
        })
    }

    fn accept_streams(&mut self) -> Taken {
        let Some(greetings) = &mut self.greetings else {
            return Taken::All;
        };
        match greetings.accept(&self.poll) {
            Ok(turned_away) => self.recorder.counters.refused += turned_away,
            Err(source) => {
                let error = InputError {
                    operation: "accept a client of",
                    source_name: "the stream socket",
                    source,
                };
                self.give_up(Source::Listener, &error);
            }
        }
        Taken::All
    }

    fn greet(&mut self, number: u64) -> Taken {
        let Some(greetings) = &mut self.greetings else {
            return Taken::All;
        };
        match greetings.turn(number, &self.poll) {
            Greeted::NotYet => {}
            Greeted::Refused => self.recorder.counters.refused += 1,
            Greeted::Stream(descriptor, stream) => {
                let recorder = &mut self.recorder;
                self.streams.take(descriptor, &stream, recorder, &self.poll);
            }
        }
        Taken::All
    }

    /// A source that cannot be read is not read again: it would be ready for ever.
    fn give_up(&mut self, source: Source, error: &InputError) {
        let message = format!("{}: it is not read any more", chain(error));
        self.recorder.say(Level::ERR, &message, &[]);
        self.drop_source(source);
    }

    fn drop_source(&mut self, source: Source) {
        let poll = &self.poll;
        match source {
            Source::Feed => drop(self.feed.take().inspect(|feed| poll.remove(feed.as_fd()))),
            Source::Syslog => drop(
                self.syslog
                    .take()
                    .inspect(|syslog| poll.remove(syslog.as_fd())),
            ),
            Source::Native => drop(
                self.native
                    .take()
                    .inspect(|native| poll.remove(native.as_fd())),
            ),
            Source::Kernel => drop(
                self.kernel
                    .take()
                    .inspect(|kernel| poll.remove(kernel.as_fd())),
            ),
            Source::Listener => {
                drop(
                    self.greetings
                        .take()
                        .inspect(|greetings| poll.remove(greetings.listener())),
                );
            }
            Source::Signals | Source::Control(_) | Source::Stream(_) | Source::Greeting(_) => {}
        }
    }

    fn take_signals(&mut self) -> Taken {
        while let Ok(signal) = sys::next_signal(self.signals.as_fd()) {
            match signal {
                libc::SIGUSR1 => self.pending.push(Pending::Flush),
                libc::SIGUSR2 => self.pending.push(Pending::Rotate),
                _ => self.is_stopping = true,
            }
        }
        Taken::All
    }

    /// Reads everything that was sent until now.
    fn drain(&mut self) {
        // The feed and the listener first: they bring streams.
        self.drain_source(Source::Feed, DRAIN_TURNS);
        self.drain_source(Source::Listener, 1);
        let greetings = self.greetings.as_ref().map(Greetings::waiting);
        for number in greetings.unwrap_or_default() {
            self.drain_source(Source::Greeting(number), 1);
        }
        self.streams.drain(&mut self.recorder, &self.poll);
        self.drain_source(Source::Syslog, DRAIN_TURNS);
        self.drain_source(Source::Native, DRAIN_TURNS);
        self.drain_source(Source::Kernel, KERNEL_TURNS);
    }

    fn drain_source(&mut self, source: Source, turns: usize) {
        for _ in 0..turns {
            if self.read(source) == Taken::All {
                break;
            }
        }
    }

    /// Does what time asks for; says when it asks again.
    fn deadline(&mut self) -> Option<u64> {
        let time = now().monotonic_us;
        if self.watchdog_at_us.is_some_and(|at| at <= time) {
            self.notifier.say("WATCHDOG=1");
            self.watchdog_at_us = self.notifier.watchdog_us().map(|every| time + every / 2);
        }
        let orphans = self.streams.adopt_orphans(time, &mut self.recorder);
        let recorder = self.recorder.turn();
        for index in 0..self.servers.len() {
            // A client that took too long is only found out by a turn.
            if self.servers[index]
                .next_deadline()
                .is_some_and(|at| at <= control_time())
            {
                self.serve(index);
            }
        }
        let control = self.servers.iter().filter_map(Server::next_deadline).min();
        let control = control.map(|at| u64::try_from(at.as_micros()).unwrap_or(u64::MAX));
        [orphans, recorder, control, self.watchdog_at_us]
            .into_iter()
            .flatten()
            .min()
    }
}

/// The monotonic clock as control servers want it.
fn control_time() -> Duration {
    Duration::from_micros(now().monotonic_us)
}
