//! The one way into the journal: everything that any source takes goes through [`Recorder::record`].
//!
//! It decides whether an entry is kept (level, rate limit), puts the trusted fields beside it, appends it
//! together with the progress of its source, and forwards it.

use std::path::{Path, PathBuf};

use muster_control::feed::Stream;
use rustix::time::{ClockId, clock_gettime};

use crate::config::Config;
use crate::entry::{Fields, joined};
use crate::forward::{Forwarded, Forwarder};
use crate::origin::{Host, Origins};
use crate::parse::native::is_client_name;
use crate::parse::priority::Level;
use crate::policy::rate::{RateLimit, RateLimiter, Verdict};
use crate::state::{Ledger, Progress};
use crate::store::{Stamp, Store};
use crate::sys::Sender;

/// Lines of a unit were dropped because of its rate.
const MESSAGE_SUPPRESSED: &str = "a596d6fe7bfa4994828e72309e95d61e";
/// How often limits and losses are looked at, in microseconds.
const HOUSEKEEPING_US: u64 = 1_000_000;
/// The facility of daemons.
pub const FACILITY_DAEMON: u8 = 3;
/// Who speaks when logd does.
const OWN_NAME: &str = "muster-logd";

/// The unit of a stream, by the manager's word.
#[derive(Clone, Debug)]
pub struct UnitOrigin {
    /// The unit; the key of its rate limit.
    pub name: Box<str>,
    /// `_SYSTEMD_UNIT=` and so on, and the unit's own extra fields.
    pub fields: Fields,
    /// Its own rate limit, if it has one.
    pub limit: Option<RateLimit>,
}

impl UnitOrigin {
    /// The unit of a stream that the manager has given.
    #[must_use]
    pub fn of(stream: &Stream) -> Option<Self> {
        if stream.unit.is_empty() {
            return None;
        }
        let mut fields = Fields::default();
        for (name, value) in [
            ("_SYSTEMD_CGROUP", &stream.cgroup),
            ("_SYSTEMD_UNIT", &stream.unit),
            ("_SYSTEMD_SLICE", &stream.slice),
            ("_SYSTEMD_INVOCATION_ID", &stream.invocation),
        ] {
            fields.push_some(
                name,
                Some(value.as_bytes()).filter(|value| !value.is_empty()),
            );
        }
        for field in &stream.extra_fields {
            if field
                .split_once('=')
                .is_some_and(|(name, _)| is_client_name(name.as_bytes()))
            {
                fields.push_whole(field.as_bytes());
            }
        }
        Some(Self {
            name: stream.unit.clone(),
            fields,
            limit: (stream.rate_interval > 0).then_some(RateLimit {
                interval_us: stream.rate_interval,
                burst: stream.rate_burst,
            }),
        })
    }
}

/// Where an entry goes besides the journal, and whether it goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Into the journal.
    pub journal: bool,
    /// To the console.
    pub console: bool,
    /// Into the kernel's log.
    pub kmsg: bool,
}

impl Routing {
    /// Into the journal, and wherever configuration sends all entries.
    pub const USUAL: Self = Self {
        journal: true,
        console: false,
        kmsg: false,
    };
}

/// Who speaks: not everybody is treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// A program, which may say too much.
    Client,
    /// The service manager, whose words are few and needed.
    Manager,
    /// The kernel's log, to which nothing of its own goes back.
    Kernel,
}

/// An entry as its source sees it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// What its being in the journal moves forward.
    pub progress: Option<Progress>,
    /// How severe it is.
    pub level: Level,
    /// The client's fields.
    pub fields: &'a Fields,
    /// Who sent it, by the kernel's word.
    pub sender: Option<Sender>,
    /// Its unit by the manager's word; otherwise the sender's cgroup tells.
    pub unit: Option<&'a UnitOrigin>,
    /// Where it goes.
    pub routing: Routing,
    /// Who speaks.
    pub speaker: Speaker,
}

/// What has been recorded and what not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderCounters {
    /// Entries that were dropped because their unit says too much.
    pub suppressed: u64,
    /// Entries that were dropped because they matter too little.
    pub below_level: u64,
    /// Messages that could not be understood or were too large.
    pub refused: u64,
    /// Lines that the manager could not hand over.
    pub lost_by_manager: u64,
    /// Kernel messages that were overwritten before they were read.
    pub lost_by_kernel: u64,
}

/// The way into the journal.
#[derive(Debug)]
pub struct Recorder {
    /// Configuration.
    pub config: Config,
    /// The machine.
    pub host: Host,
    /// Who is who.
    pub origins: Origins,
    /// The journal.
    pub store: Store,
    /// What is in the journal already.
    pub ledger: Ledger,
    /// Devices that get lines too.
    pub forwarder: Forwarder,
    /// Counters, for status.
    pub counters: RecorderCounters,
    rate: RateLimiter,
    housekeeping_at_us: u64,
    own: Fields,
}

impl Recorder {
    /// A recorder on an open store and ledger.
    #[must_use]
    pub fn new(config: Config, host: Host, store: Store, ledger: Ledger, kmsg: &Path) -> Self {
        let forwarder = Forwarder::new(&config.console, kmsg);
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let sender = Sender {
            pid,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        let mut origins = Origins::new(PathBuf::from("/proc"));
        let facts = origins.of(sender, 0);
        let mut own = Fields::default();
        for field in facts.process.iter().chain(facts.place.iter()) {
            own.push_whole(field);
        }
        Self {
            config,
            host,
            origins,
            store,
            ledger,
            forwarder,
            counters: RecorderCounters::default(),
            rate: RateLimiter::default(),
            housekeeping_at_us: 0,
            own,
        }
    }

    /// Records an entry, or says why not by a counter. Progress is made in any case.
    pub fn record(&mut self, item: &Item<'_>) {
        let now = now();
        if item.level > self.config.max_level_store {
            self.counters.below_level += 1;
            return self.skip(item.progress);
        }
        let facts = item
            .sender
            .map(|sender| self.origins.of(sender, now.monotonic_us));
        let unit = match item.unit {
            Some(unit) => Some(&*unit.name),
            None => facts.and_then(|facts| facts.unit.as_deref()),
        };
        let is_limited = item.speaker == Speaker::Client;
        if let Some(unit) = unit.filter(|unit| is_limited && !unit.is_empty()) {
            let limit = item
                .unit
                .and_then(|unit| unit.limit)
                .unwrap_or(self.config.rate);
            let free = self.store.free_bytes(now);
            match self
                .rate
                .check(unit, item.level, limit, free, now.monotonic_us)
            {
                Verdict::Drop => {
                    self.counters.suppressed += 1;
                    return self.skip(item.progress);
                }
                Verdict::Keep { suppressed: 0 } => {}
                Verdict::Keep { suppressed } => {
                    let unit: Box<str> = unit.into();
                    self.say_suppressed(&unit, suppressed);
                }
            }
        }
        // Once more: telling of what was suppressed needed all of `self`.
        let facts = item
            .sender
            .map(|sender| self.origins.of(sender, now.monotonic_us));
        let none = Fields::default();
        let (process, place) = match (facts, item.unit) {
            (Some(facts), Some(unit)) => (&facts.process, &unit.fields),
            (Some(facts), None) => (&facts.process, &facts.place),
            (None, Some(unit)) => (&none, &unit.fields),
            (None, None) => (&none, &none),
        };
        if item.routing.journal {
            let fields = joined(&[item.fields, process, place, self.host.fields()]);
            self.store
                .append(&mut self.ledger, item.progress, now, item.level, &fields);
        } else if let Some(progress) = item.progress {
            self.ledger.advance(progress);
        }
        self.forward(item);
    }

    /// Makes progress without an entry.
    pub fn skip(&mut self, progress: Option<Progress>) {
        if let Some(progress) = progress {
            self.ledger.advance(progress);
        }
    }

    fn forward(&mut self, item: &Item<'_>) {
        let console = item.routing.console
            || self.config.forward_to_console && item.level <= self.config.max_level_console;
        let kmsg = item.speaker != Speaker::Kernel
            && (item.routing.kmsg
                || self.config.forward_to_kmsg && item.level <= self.config.max_level_kmsg);
        if !console && !kmsg {
            return;
        }
        let number = |name| {
            let text = item
                .fields
                .get(name)
                .and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(|text| text.parse::<u32>().ok())
        };
        let line = Forwarded {
            level: item.level,
            facility: number("SYSLOG_FACILITY")
                .and_then(|facility| u8::try_from(facility).ok())
                .unwrap_or(FACILITY_DAEMON),
            identifier: item.fields.get("SYSLOG_IDENTIFIER").unwrap_or_default(),
            pid: item
                .sender
                .and_then(|sender| u32::try_from(sender.pid).ok()),
            message: item.fields.get("MESSAGE").unwrap_or_default(),
        };
        if console {
            self.forwarder.to_console(&line);
        }
        if kmsg {
            self.forwarder.to_kernel(&line);
        }
    }

    /// Says something of logd's own.
    pub fn say(&mut self, level: Level, message: &str, more: &[(&str, &str)]) {
        let mut fields = Fields::default();
        fields.push("MESSAGE", message);
        fields.push("PRIORITY", level.digit());
        fields.push_number("SYSLOG_FACILITY", u64::from(FACILITY_DAEMON));
        fields.push("SYSLOG_IDENTIFIER", OWN_NAME);
        fields.push("_TRANSPORT", "driver");
        for (name, value) in more {
            fields.push(name, value);
        }
        let fields = joined(&[&fields, &self.own, self.host.fields()]);
        self.store
            .append(&mut self.ledger, None, now(), level, &fields);
    }

    fn say_suppressed(&mut self, unit: &str, count: u64) {
        let message = format!("Suppressed {count} messages from {unit}");
        let count = count.to_string();
        let more = [
            ("MESSAGE_ID", MESSAGE_SUPPRESSED),
            ("N_DROPPED", count.as_str()),
            ("UNIT", unit),
        ];
        self.say(Level::WARNING, &message, &more);
    }

    /// Does what is due; says when it wants to be called again, in microseconds since boot.
    pub fn turn(&mut self) -> Option<u64> {
        let now = now();
        if self.housekeeping_at_us <= now.monotonic_us {
            self.housekeeping_at_us = now.monotonic_us + HOUSEKEEPING_US;
            self.keep_house(now);
        }
        if let Some(problem) = self.store.take_problem() {
            self.say(Level::ERR, &chain(&problem), &[]);
        }
        let store = self.store.turn(now);
        let owes = self.rate.owes_a_word() || self.store.has_untold_loss();
        let house = owes.then_some(self.housekeeping_at_us);
        [house, store].into_iter().flatten().min()
    }

    /// What is looked at now and then.
    fn keep_house(&mut self, now: Stamp) {
        self.host.refresh();
        for (unit, count) in self.rate.silent(now.monotonic_us) {
            self.say_suppressed(&unit, count);
        }
        if let Some(count) = self.store.take_untold_loss(now) {
            let message = format!("{count} entries could not be stored and are lost");
            self.say(Level::ERR, &message, &[("N_DROPPED", &count.to_string())]);
        }
    }
}

/// The time, by both clocks.
#[must_use]
pub fn now() -> Stamp {
    Stamp {
        realtime_us: clock_us(ClockId::Realtime),
        monotonic_us: clock_us(ClockId::Monotonic),
    }
}

fn clock_us(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(nanos / 1000)
}

/// An error with all that led to it, in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
