//! What a runtime tells.

use muster_api::domain::InstanceIdent;

/// One start of one instance, never used twice on a node: counted by the launcher, kept in its database, written into what runs (so that it is known again
/// after a restart).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// How a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Its program runs; with a unit that says when it is ready, not yet.
    Starting,
    /// It runs.
    Running,
    /// It has ended and is being started again by the init system.
    Restarting {
        /// How the last end was.
        last: Ended,
        /// How often it has ended in this run, with this time.
        restarts: u32,
    },
    /// It has ended and stays so.
    Ended(Ended),
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
    /// Killed for want of memory.
    OutOfMemory,
    /// It was not started: the init system says why.
    NotStarted(String),
}

/// Something happened to an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// Which instance.
    pub instance: InstanceIdent,
    /// Which start of it.
    pub run: RunId,
    /// How it is now.
    pub state: RunState,
}
