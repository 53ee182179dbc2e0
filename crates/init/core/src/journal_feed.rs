//! The way to `muster-logd`: streams of services and core's own lines, never waiting for anybody.
//!
//! Messages that the feed does not take wait here, so many and no more; what does not fit is counted and the count is
//! handed over. Streams are never dropped: a service's output waits in its own socket.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_control::feed::{FeedMessage, LOGD_UNIT, LogLine};
use muster_engine::ids::{Clock, InvocationId, UnitId};
use muster_engine::protocol::Severity;
use muster_unit_file::config::UnitConfig;

use crate::core::Core;
use crate::platform::Platform;

/// Lines that wait at most.
const BACKLOG: usize = 4096;

/// A service's output on its way to the log.
#[derive(Debug)]
struct Open {
    read: OwnedFd,
    /// For the next command of the run. A stream of the core before this one has lost it.
    write: Option<OwnedFd>,
    id: Box<str>,
    key: String,
    invocation: InvocationId,
}

/// Something that waits to be sent.
#[derive(Debug)]
enum Waiting {
    Line(Vec<u8>),
    Stream {
        key: String,
        unit: UnitId,
        message: Vec<u8>,
    },
}

/// Everything on its way to the log.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// One for each run; another if core died in the middle of it.
    open: HashMap<UnitId, Vec<Open>>,
    /// Units whose run is over and whose stream still waits to be handed over.
    closing: Vec<UnitId>,
    waiting: VecDeque<Waiting>,
    lines: usize,
    lost: u64,
    /// Lines that matter so much also go to standard error.
    pub(crate) console: Option<Severity>,
    /// That is so only because nobody reads the feed yet.
    until_read: bool,
}

/// A unit and its run.
type About = Option<(Box<str>, InvocationId)>;

impl Logs {
    /// Nothing waits. Without a stated level, warnings are on the console until somebody reads the feed.
    pub(crate) fn new(console: Option<Severity>) -> Self {
        Self {
            console: console.or(Some(Severity::Warning)),
            until_read: console.is_none(),
            ..Self::default()
        }
    }

    /// A line of the manager's own.
    pub(crate) fn say(&mut self, now: Clock, severity: Severity, about: About, message: &str) {
        self.say_with(now, severity, about, message, Vec::new());
    }

    /// A line with further fields.
    pub(crate) fn say_with(
        &mut self,
        now: Clock,
        severity: Severity,
        about: About,
        message: &str,
        fields: Vec<Box<str>>,
    ) {
        if self.console.is_some_and(|least| severity <= least) {
            let about = about.as_ref().map_or("", |(unit, _)| unit);
            let colon = if about.is_empty() { "" } else { ": " };
            eprintln!("muster-core: {about}{colon}{message}");
        }
        if self.lines >= BACKLOG {
            self.lost += 1;
            return;
        }
        let (unit, invocation) = about.unzip();
        let line = FeedMessage::Log(Box::new(LogLine {
            real: u64::try_from(now.real).unwrap_or_default(),
            monotonic: now.monotonic.0,
            priority: priority(severity),
            message: message.into(),
            unit,
            invocation: invocation.map(|id| id.to_string().into()),
            identifier: "muster-core".into(),
            pid: speaker(),
            fields,
        }));
        self.lines += 1;
        self.waiting.push_back(Waiting::Line(json(&line)));
    }

    /// The writing end of a unit's stream, if it has one.
    pub(crate) fn writer(&self, unit: UnitId) -> Option<BorrowedFd<'_>> {
        let open = self.open.get(&unit)?;
        open.iter()
            .rev()
            .find_map(|one| one.write.as_ref())
            .map(AsFd::as_fd)
    }

    /// Whether the next command of this run can write into a stream that is there.
    fn is_open_for(&self, unit: UnitId, invocation: InvocationId) -> bool {
        let open = self.open.get(&unit);
        open.is_some_and(|open| {
            let fits = |one: &Open| one.invocation == invocation && one.write.is_some();
            open.iter().any(fits)
        })
    }

    fn find(&self, unit: UnitId, key: &str) -> Option<&Open> {
        self.open.get(&unit)?.iter().find(|one| one.key == key)
    }

    /// Sends what waits, as far as the feed takes it.
    fn send(&mut self, platform: &mut dyn Platform) {
        if self.lost > 0 {
            let lost = json(&FeedMessage::Lost { count: self.lost });
            if platform.feed(&lost, None).unwrap_or(false) {
                self.lost = 0;
            }
        }
        while let Some(next) = self.waiting.front() {
            let sent = match next {
                Waiting::Line(line) => platform.feed(line, None),
                Waiting::Stream { key, unit, message } => match self.find(*unit, key) {
                    Some(open) => platform.feed(message, Some(open.read.as_fd())),
                    None => Ok(true),
                },
            };
            match sent {
                Ok(true) => {}
                Ok(false) => return,
                // A line that is too long for a packet, for example: the others are not held up by it.
                Err(_) => self.lost += 1,
            }
            if let Some(Waiting::Line(_)) = self.waiting.pop_front() {
                self.lines -= 1;
            }
        }
    }
}

fn json(message: &FeedMessage) -> Vec<u8> {
    serde_json::to_vec(message).expect("every part of a message can be written as JSON")
}

/// Who speaks: on a machine of its own the manager is process 1 to everybody, journalctl included, whichever of its two
/// processes says something.
fn speaker() -> u32 {
    match std::os::unix::process::parent_id() {
        1 => 1,
        _ => std::process::id(),
    }
}

/// syslog's number.
fn priority(severity: Severity) -> u8 {
    match severity {
        Severity::Error => 3,
        Severity::Warning => 4,
        Severity::Notice => 5,
        Severity::Info => 6,
        Severity::Debug => 7,
    }
}

/// `log:UNIT:STREAM`
pub(crate) fn stream_key(unit: &str, id: &str) -> String {
    format!("log:{unit}:{id}")
}

impl Core {
    /// Sends to the log what waits.
    pub(crate) fn feed_logs(&mut self) {
        self.logs.send(&mut *self.platform);
        for unit in std::mem::take(&mut self.logs.closing) {
            // One that was started again meanwhile has a stream that it needs.
            if self
                .engine
                .get(unit)
                .is_none_or(|record| record.active().is_down())
            {
                self.close_handed_over(unit);
            }
        }
    }

    fn close_handed_over(&mut self, unit: UnitId) {
        let waits =
            |waiting: &Waiting| matches!(waiting, Waiting::Stream { unit: of, .. } if *of == unit);
        if self.logs.waiting.iter().any(waits) {
            // The stream goes when it was handed over: until then nobody else has its reading end.
            self.logs.closing.push(unit);
            return;
        }
        for open in self.logs.open.remove(&unit).unwrap_or_default() {
            self.platform.release(&open.key);
        }
    }

    /// Makes sure that a unit's run has a stream to the log.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(crate) fn open_stream(
        &mut self,
        unit: UnitId,
        invocation: InvocationId,
        config: &UnitConfig,
    ) -> std::io::Result<()> {
        if self.logs.is_open_for(unit, invocation) {
            return Ok(());
        }
        let of_run = |one: &Open| one.invocation == invocation;
        if !self
            .logs
            .open
            .get(&unit)
            .is_some_and(|open| open.iter().any(of_run))
        {
            self.close_stream(unit);
        }
        let (read, write) = self.platform.log_stream()?;
        let id: Box<str> = self.platform.chance().to_string().into();
        let key = stream_key(config.name.as_str(), &id);
        self.platform.keep(key.clone(), read.try_clone()?);
        let open = Open {
            read,
            write: Some(write),
            id,
            key,
            invocation,
        };
        let waiting = self.introduce(unit, &open, config);
        self.logs.waiting.push_back(waiting);
        self.logs.open.entry(unit).or_default().push(open);
        Ok(())
    }

    /// What the log daemon is told of a stream.
    fn introduce(&self, unit: UnitId, open: &Open, config: &UnitConfig) -> Waiting {
        let about = self.stream_of(unit, &open.id, open.invocation, config);
        Waiting::Stream {
            key: open.key.clone(),
            unit,
            message: json(&FeedMessage::Stream(Box::new(about))),
        }
    }

    /// A unit's run is over: what it wrote is still read, by whoever was given the other end.
    pub(crate) fn close_stream(&mut self, unit: UnitId) {
        if self.logs.open.contains_key(&unit) {
            self.logs.send(&mut *self.platform);
            self.close_handed_over(unit);
        }
    }

    /// A stream of the core before this one: only its reading end is left, and the log daemon knows it.
    pub(crate) fn restore_stream(&mut self, unit: UnitId, key: String, id: &str, read: OwnedFd) {
        let open = Open {
            read,
            write: None,
            id: id.into(),
            key,
            invocation: self.engine.unit(unit).invocation,
        };
        self.logs.open.entry(unit).or_default().push(open);
    }

    /// The log daemon starts: it is given everything that is open.
    pub(crate) fn greet_log_daemon(&mut self) {
        if std::mem::take(&mut self.logs.until_read) {
            self.logs.console = None;
        }
        let open = std::mem::take(&mut self.logs.open);
        let is_line = |waiting: &Waiting| matches!(waiting, Waiting::Line(_));
        self.logs.waiting.retain(is_line);
        for (unit, streams) in &open {
            let Some(name) = self.name_of(*unit) else {
                continue;
            };
            let config = self.units.config(&name);
            for one in streams {
                let waiting = self.introduce(*unit, one, &config);
                self.logs.waiting.push_back(waiting);
            }
        }
        self.logs.open = open;
        let facts = &self.units.host().specifiers;
        let boot_id = facts.boot_id.clone().unwrap_or_default();
        let hello = json(&FeedMessage::Hello { boot_id });
        self.logs.lines += 1;
        self.logs.waiting.push_front(Waiting::Line(hello));
        self.feed_logs();
    }

    /// Whether this unit is the one that writes logs.
    pub(crate) fn is_log_daemon(name: &str) -> bool {
        name == LOGD_UNIT
    }
}
