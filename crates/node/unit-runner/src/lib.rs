//! Units of the init system at hand, for what is to outlive the one who started it.
//!
//! The Service Manager starts instances and may end, crash or be replaced while they run. So it does not run them itself: it
//! asks the init system for a *unit*, which that keeps alive, restarts and accounts for. Two init systems are spoken to,
//! each over its own interface: [`CoreRunner`] (`muster-core`, varlink) and [`SystemdRunner`] (systemd, D-Bus). Both are
//! asked for the same thing, a [`UnitSpec`], and are seen through the same properties ([`Observation`]), so that nobody
//! above this crate needs to know which one it is.
//!
//! # Entry points
//! - [`detect`] finds out what the machine has ([`HostInit`]), [`InitSystem`] overrides it. Core counts when it answers: a socket
//!   that nobody listens at any more is none. Whoever has units on one of them keeps that in mind and goes on with it: units that
//!   another init system is asked for are not there, and would be taken for ended.
//! - [`UnitRunner`]: start, stop, list, watch.
//! - [`instances::InstanceUnits`]: units that are instances: their names, and their story as [`muster_runtime::RunEvent`]s.
//!
//! # Tasks and channels
//! [`UnitRunner::watch`] spawns one task. It looks at all units with a prefix, follows what the init system tells about them,
//! and sends [`UnitEvent`]s into a channel of [`EVENT_QUEUE`]; a reader that is slow holds the task back, nothing is lost. The
//! task ends when the receiver is dropped. When the init system goes away (it may be replaced or crash too) the task looks
//! again until it is back, and tells what happened meanwhile.
//!
//! # Invariants
//! - One unit name is one start. Starting a unit that is there joins that start; stopping one that is not is a success.
//! - A start that fails leaves no unit behind; neither does a stop.
//! - A restart between two looks is told, because restarts are counted ([`UnitState::Restarting`]).
//! - Units have `Delegate=yes`: below their cgroup there is one writer, and it is not the init system.
//!
//! # Deliberately absent
//! Limits and sandboxes (whoever runs in the unit sets them), unit files on disk, user managers.

mod core;
mod detect;
mod error;
pub mod instances;
mod spec;
mod state;
mod systemd;

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub use self::core::CoreRunner;
pub use self::detect::{HostInit, InitSystem, NoInitSystem, detect};
pub use self::error::{AskError, UnitError};
pub use self::spec::{InvalidUnitName, MainProcess, Restart, UnitName, UnitSpec};
pub use self::state::{Observation, UnitEnd, UnitEvent, UnitState};
pub use self::systemd::SystemdRunner;

/// How many events wait for a reader before the watching task does.
pub const EVENT_QUEUE: usize = 256;
/// What was killed is gone within this time, or something holds it in the kernel.
const KILL_TIME: Duration = Duration::from_secs(30);
/// An init system that starts anew is back within this time.
const AWAY_TIME: Duration = Duration::from_secs(15);

/// Runs units.
pub trait UnitRunner: Send + Sync + std::fmt::Debug + 'static {
    /// The init system's name, for people.
    fn name(&self) -> &'static str;

    /// Makes a unit and starts it; returns when it is up.
    fn start(&self, unit: UnitSpec) -> BoxFuture<'_, Result<(), UnitError>>;

    /// Asks a unit to end, kills it after `grace`, and returns when nothing of it is left.
    fn stop(&self, unit: UnitName, grace: Duration) -> BoxFuture<'_, Result<(), UnitError>>;

    /// Units whose names begin so, also those that failed.
    fn list(
        &self,
        prefix: String,
    ) -> BoxFuture<'_, Result<Vec<(UnitName, Observation)>, UnitError>>;

    /// What happens to units whose names begin so, beginning with how they are now. Spawns a task on the current runtime.
    fn watch(&self, prefix: String) -> mpsc::Receiver<UnitEvent>;
}

/// How long to put up with an init system that is away.
#[derive(Debug)]
struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);

    fn new() -> Self {
        Self {
            until: Instant::now() + AWAY_TIME,
            pause: Self::FIRST,
        }
    }

    /// Waits a while; `false` when that was done long enough.
    async fn wait(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        self.pause_longer().await;
        true
    }

    /// Waits after something went on for `lasted`; shortly if that was long.
    async fn rest(&mut self, lasted: Duration) {
        if lasted > AWAY_TIME {
            self.pause = Self::FIRST;
        }
        self.pause_longer().await;
    }

    async fn pause_longer(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Self::LONGEST);
    }
}

/// Tells news; nobody may be there any more to hear them, which the watching task notices by itself.
async fn send(events: &mpsc::Sender<UnitEvent>, news: Vec<UnitEvent>) {
    for event in news {
        let _ = events.send(event).await;
    }
}
