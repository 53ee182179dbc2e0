//! Signs of work on a machine, which keep it from being put away.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use muster_lifecycle::Moment;
use muster_lifecycle::timers::Work;
use muster_provider::Clock;
use tokio::sync::Notify;

/// The work on one machine. Counted where it happens, read by the registry when a timer runs out.
#[derive(Debug)]
pub(crate) struct Load {
    sessions: AtomicU32,
    commands: AtomicU32,
    /// Zero: none.
    heartbeat_until: AtomicU64,
    last: AtomicU64,
    /// Whether there was a session or a command since this manager started.
    worked: AtomicBool,
    /// As [`Load::set_contact`] keeps it.
    contact: AtomicU64,
}

/// Whether a machine answers, as far as anybody has tried since it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// Nobody has.
    Untried,
    /// It does.
    Answers,
    /// It does not, since then.
    Silent(Moment),
}

const UNTRIED: u64 = 0;
const ANSWERS: u64 = 1;

impl Load {
    pub(crate) fn new(last: Moment) -> Self {
        Self {
            sessions: AtomicU32::new(0),
            commands: AtomicU32::new(0),
            heartbeat_until: AtomicU64::new(0),
            last: AtomicU64::new(last.as_millis()),
            worked: AtomicBool::new(false),
            contact: AtomicU64::new(UNTRIED),
        }
    }

    pub(crate) fn work(&self) -> Work {
        let until = self.heartbeat_until.load(Ordering::Relaxed);
        Work {
            sessions: self.sessions.load(Ordering::Relaxed),
            commands: self.commands.load(Ordering::Relaxed),
            heartbeat_until: (until > 0).then(|| Moment::from_millis(until)),
            last: Moment::from_millis(self.last.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn touch(&self, now: Moment) {
        self.last.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// The machine is in use until then; never shortens an earlier word.
    pub(crate) fn heartbeat(&self, until: Moment) {
        self.heartbeat_until
            .fetch_max(until.as_millis(), Ordering::Relaxed);
    }

    /// The machine is in use until then, if it was in use by nobody. Of several who ask at once, one is told so.
    pub(crate) fn reserve(&self, until: Moment, now: Moment) -> bool {
        if self.work().is_busy(now) {
            return false;
        }
        let free = |held: u64| (held <= now.as_millis()).then_some(until.as_millis());
        let held = &self.heartbeat_until;
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .is_ok()
    }

    pub(crate) fn has_worked(&self) -> bool {
        self.worked.load(Ordering::Relaxed)
    }

    pub(crate) fn contact(&self) -> Contact {
        match self.contact.load(Ordering::Relaxed) {
            UNTRIED => Contact::Untried,
            ANSWERS => Contact::Answers,
            since => Contact::Silent(Moment::from_millis(since)),
        }
    }

    pub(crate) fn set_contact(&self, contact: Contact) {
        let kept = match contact {
            Contact::Untried => UNTRIED,
            Contact::Answers => ANSWERS,
            Contact::Silent(since) => since.as_millis().max(ANSWERS + 1),
        };
        self.contact.store(kept, Ordering::Relaxed);
    }

    fn counter(&self, kind: WorkKind) -> &AtomicU32 {
        match kind {
            WorkKind::Session => &self.sessions,
            WorkKind::Command => &self.commands,
        }
    }
}

/// What kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Somebody is on the machine.
    Session,
    /// A command runs there.
    Command,
}

/// Work that lasts until this is dropped.
pub struct Busy {
    load: Arc<Load>,
    kind: WorkKind,
    clock: Arc<dyn Clock>,
    ended: Arc<Notify>,
}

impl Busy {
    pub(crate) fn begin(
        load: Arc<Load>,
        kind: WorkKind,
        clock: Arc<dyn Clock>,
        ended: Arc<Notify>,
    ) -> Self {
        load.counter(kind).fetch_add(1, Ordering::Relaxed);
        if !load.worked.swap(true, Ordering::Relaxed) {
            // Whether a machine was ever used is kept.
            ended.notify_one();
        }
        Self {
            load,
            kind,
            clock,
            ended,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.load.touch(self.clock.now());
        self.load.counter(self.kind).fetch_sub(1, Ordering::Relaxed);
        self.ended.notify_one();
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy")
            .field("kind", &self.kind)
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}
