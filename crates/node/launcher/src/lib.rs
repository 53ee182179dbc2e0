//! From the wanted set of instances to the running one.
//!
//! The controller says which instances a node shall run; the init system runs them. Between the two stands the launcher: it
//! gets images, starts, stops and replaces instances in the right order, notices when they fail, goes back to the version
//! that worked, and says how everything is. It goes on without a controller, and after its own death it takes over what runs.
//!
//! # Entry points
//! * [`Launcher::start`] recovers from the database, adopts what runs and starts the one task. [`Launcher`] is the handle:
//!   [`update`](Launcher::update), [`override_env`](Launcher::override_env), [`reaches`](Launcher::reaches),
//!   [`look_again`](Launcher::look_again), [`snapshot`](Launcher::snapshot).
//! * [`Reports`] is what comes out: changed statuses as they happen, and one whole set when an update has settled.
//! * [`Observer`] is told when an instance comes and goes and where it runs; [`Launcher::directory`] answers whose unit
//!   that is. For monitoring, alerts and logs.
//! * [`seams`] are the parts of the Service Manager that the launcher uses: images, permissions, network, resources.
//!
//! # How it decides
//! [`decide::Decider`] is pure: an event and the time go in, a [`decide::Step`] comes out, which first is written to the
//! database and then carried out. Decisions do not follow events but facts: after each event every instance is looked at, and
//! what it *has* (nothing, a start under way, a run, a stop under way) is moved one step towards what it *wants*. A new set
//! that arrives in the middle of another therefore needs no queue: it is the new goal at once, and no download that hangs
//! holds it up.
//!
//! | has | wants the same | wants another | wants nothing |
//! |---|---|---|---|
//! | nothing | fetch, wait for its turn, start | the same | forgotten |
//! | a start under way | wait | wait | wait |
//! | a run | left alone | fetch; when that is there, stop | stop |
//! | a stop under way | wait | wait | wait |
//!
//! **Turns.** Higher priority starts first; an instance waits for those of items that it connects to (`dependencies`,
//! `allowedConnections`), which are as urgent as it is. Only starts that are under way or ready hold others up, those whose leftovers
//! wait to be cleared away, and a fetch only for [`Limits::order_patience`]. Two instances that share storage or state are never up
//! together while one of them is on its way out. Of stops, those come first that somebody urgent waits for: to start in its place, or
//! with its storage, address or resource. Their number is bounded because of the work; one that waits for a program that does not want
//! to end takes nobody's place ([`Limits::stop_patience`]).
//!
//! **Failures.** The init system restarts what ends, `restartInterval` later. Ends are counted over the whole life of an
//! instance, also while no launcher is there: `startBurst` of them, whether within `startInterval` or over hours, and it is
//! stopped and `failed`. It is tried again after 10 s, 20 s, ... at most 10 minutes. Only [`Limits::forgive_after`] without an
//! end resets all of that. What is found running is left alone, however often it had ended: the next end decides.
//!
//! **Going back.** The first time that a version has run for a healthy period it is *good*. A version that is given up before
//! it became good, while there is another that was, is *rejected*: the good one runs again, its status carries the reason, and
//! the same version is not tried again until the controller wants something else. What is gone back to is the version, with the
//! variables that are set over it now: an override that is over does not come back, and where only overrides differ there is
//! nothing to go back to.
//!
//! **Not yet.** A start that fails because something around the instance is not there yet (the identity manager, for
//! permissions) says nothing about the version: it is tried again after 2 s, 4 s, ... at most a minute, is not counted, and holds
//! nobody else up. Whoever knows that the missing part may be there ([`Launcher::look_again`]), a new set and a controller that
//! comes back have it tried at once. While it waits its status stays as it is.
//!
//! **Refusals.** An instance of a set that makes no sense is reported as failed, with the reason; what runs of it stays as it is.
//! Where not even its name can be read, it may be any of those that run and are not named: all of them stay until a set can be read.
//!
//! **A lost database.** Without any record of a start, what runs is left alone until the first set arrives, and is ended then:
//! nobody knows what it is made of.
//!
//! **Time.** Health, forgiveness and waits are measured in time that the machine was awake: a program shows nothing while it is
//! suspended. Time on its own goes on while the machine sleeps.
//!
//! **Offline.** An item's `offlineTTL` counts time without the cloud, as the controller tells, or without a controller where none
//! ever told of a cloud; and only while the node is powered: the clock of a device that was switched off cannot be trusted.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | launcher, one | commands (bounded to 32), events of the runtimes (bounded), ends of actions, deadlines | database, actions, [`Reports`] |
//! | actions, at most [`Limits::starts`] starts, [`Limits::stops`] stops, [`Limits::fetches`] fetches | | its end |
//!
//! # Invariants
//! * What a step decides is on disk before it is carried out or reported.
//! * A healthy instance whose target did not change is never touched, whoever dies or comes back.
//! * A [`RunId`](muster_runtime::RunId) is never used twice for an instance.
//! * A failed start leaves nothing behind: the steps are undone in reverse order.
//! * Reports never hold the launcher up: they are merged per instance until they are taken.
//!
//! # What this crate does not do
//! It runs no program and opens no connection; it does not know what a container is.

mod actions;
mod clock;
mod crashes;
mod data;
mod database;
pub mod decide;
mod driver;
mod limits;
mod observe;
mod reports;
pub mod seams;
mod takeover;
mod target;

pub use self::database::{LoadError, SCHEMA};
pub use self::decide::Reach;
pub use self::driver::{Launcher, LauncherGone, Parts, StartLauncherError};
pub use self::limits::Limits;
pub use self::observe::{Directory, Observer, Resident, RunningInstance};
pub use self::reports::{Picture, Report, Reports, enter};
pub use self::target::{DesiredSet, EnvOverride, Refused, Target};

pub use self::driver::FAULT_POINTS;
