//! The owner of everything: state, record, tables; and the loop.

mod boot;
mod exits;
mod signals;

use std::collections::{HashMap, VecDeque};
use std::io;

use muster_engine::event::{Action, Event, LoadState, LoadedUnit, Request, What};
use muster_engine::ids::{ActionId, Clock, RequestId, Time, UnitId};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{ActiveState, Input, Severity};
use muster_engine::{EngineState, dep::DepKind};
use muster_handover::FromInit;
use muster_unit_file::fs::RealFs;
use muster_unit_file::name::UnitName;

use crate::context::machine::Machine;
use crate::control::Control;
use crate::execute::activation::Activation;
use crate::execute::namespaces::NamespaceTable;
use crate::execute::setup::SettingUp;
use crate::journal_feed::Logs;
use crate::memory::Memory;
use crate::options::Options;
use crate::platform::{Platform, Ready, Token};
use crate::record::{self, Entry};
use crate::resources::Limited;
use crate::units::UnitTable;
use crate::user_directory::UserDirectory;

muster_fault::points! {
    /// An event is recorded, and nothing was done about it.
    pub RECORDED = "core.recorded",
    /// A process was made, and its event is not recorded.
    pub SPAWNED = "core.spawned",
    /// An action was carried out.
    pub ACTED = "core.acted",
    /// Everything that follows from an input is done; nothing was acknowledged.
    pub SETTLED = "core.settled",
    /// A new snapshot is written and not yet in its place.
    pub SNAPSHOT = "core.snapshot",
    /// What was kept is taken over; nothing was adopted.
    pub BEGUN = "core.begun",
    /// The state is replayed; unfinished actions are not finished.
    pub REPLAYED = "core.replayed",
}

/// A log that is longer than this is replaced by a snapshot when there is time.
const SMALL_LOG: usize = 64 << 10;
/// A log that is longer than this, and than the snapshot before it, is replaced at once.
const LARGE_LOG: usize = 1 << 20;
/// How long nothing must happen before a snapshot is worth its time.
const QUIET: u64 = 1_000_000;

/// What a running core can end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// To be started again, perhaps as another program.
    Reexec,
    /// Everything is down; `muster-init` does the rest.
    Shutdown,
}

/// What core cannot go on without.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The record takes nothing any more, and nothing may be done that is not recorded.
    #[error("cannot write the record")]
    Record(#[source] io::Error),
    /// `muster-init` is gone.
    #[error("the link to muster-init is broken")]
    Link(#[source] io::Error),
    /// Waiting for events is not possible.
    #[error("cannot wait for events")]
    Wait(#[source] io::Error),
    /// A socket that everything depends on cannot be opened.
    #[error("cannot open {what}")]
    Open {
        /// Which.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The service manager.
pub struct Core {
    pub(crate) platform: Box<dyn Platform>,
    pub(crate) options: Options,
    pub(crate) engine: EngineState,
    pub(crate) memory: Memory,
    pub(crate) units: UnitTable<RealFs>,
    /// Files and accounts, for the settings of processes.
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) logs: Logs,
    pub(crate) control: Control,
    pub(crate) activation: Activation,
    /// Which unit a process belongs to.
    pub(crate) processes: HashMap<u32, UnitId>,
    /// Processes that a helper sets up.
    pub(crate) setting_up: SettingUp,
    /// Namespaces of runs.
    pub(crate) namespaces: NamespaceTable,
    /// Who dynamic users are, for others.
    pub(crate) user_directory: UserDirectory,
    /// Which unit a watched cgroup belongs to.
    pub(crate) cgroups: HashMap<Box<str>, UnitId>,
    /// Those of them that somebody has to look at.
    unwatched: exits::Unwatched,
    pub(crate) strangers: exits::Strangers,
    /// What cgroups were given, and what they were refused.
    pub(crate) limited: Limited,
    /// Recorded, not yet applied.
    queue: VecDeque<Event>,
    /// The action that is being carried out: what it pushes is its outcome.
    cause: Option<ActionId>,
    done: ActionId,
    log_size: usize,
    snapshot_size: usize,
    /// Something is remembered that no event tells the next core of.
    is_unwritten: bool,
    quiet_since: Time,
    /// Something happened since memory was last given back.
    is_untidy: bool,
    buffer: Vec<u8>,
    /// Instances that went down and that perhaps nobody needs to know any more.
    pub(crate) forgettable: Vec<UnitId>,
    pub(crate) safe_mode: bool,
    pub(crate) supervised: bool,
    pub(crate) ending: Option<Ending>,
    failure: Option<CoreError>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("units", &self.engine.units().count())
            .field("safe_mode", &self.safe_mode)
            .finish_non_exhaustive()
    }
}

impl Core {
    /// Both clocks now.
    pub(crate) fn now(&self) -> Clock {
        self.platform.clock()
    }

    /// Takes an input in: records it, and queues it to be applied. Returns when it is safe with the record.
    pub fn push(&mut self, what: What) {
        self.push_for(self.cause, what);
    }

    fn push_for(&mut self, cause: Option<ActionId>, what: What) {
        if self.failure.is_some() {
            return;
        }
        let event = Event {
            clock: self.platform.clock(),
            entropy: self.platform.chance(),
            what,
        };
        let entry = Entry {
            done: self.done,
            cause,
            event,
        };
        record::entry(&entry, &mut self.buffer);
        if let Err(error) = self.platform.append(&self.buffer) {
            self.failure = Some(CoreError::Record(error));
            return;
        }
        self.log_size += self.buffer.len();
        self.is_untidy = true;
        // One large event (a load of everything) must not leave a large buffer behind.
        if self.buffer.capacity() > SMALL_LOG {
            self.buffer = Vec::new();
        }
        muster_fault::hit(RECORDED);
        self.queue.push_back(entry.event);
    }

    /// Something for a unit's type.
    pub(crate) fn tell(&mut self, unit: UnitId, input: Input) {
        self.push(What::Unit { unit, input });
    }

    /// Queues a job on behalf of the manager itself.
    pub(crate) fn want(&mut self, unit: &str, verb: JobVerb, mode: JobMode) -> RequestId {
        self.ensure_loaded(unit);
        let id = self.next_request();
        self.push(What::Request(Request {
            id,
            unit: unit.into(),
            verb,
            mode,
            manual: false,
        }));
        id
    }

    /// A number for a request.
    pub(crate) fn next_request(&mut self) -> RequestId {
        self.memory.last_request += 1;
        RequestId(self.memory.last_request)
    }

    /// Loads a unit that the engine does not know, or knows only by name.
    pub(crate) fn ensure_loaded(&mut self, unit: &str) {
        if has_files(&self.engine, unit) || self.is_being_loaded(unit) {
            return;
        }
        let Ok(name) = UnitName::new(unit) else {
            return;
        };
        // What an action needs is not what comes of it: whoever recovers from a death in between carries it out again.
        self.load_for(None, [name]);
    }

    /// Whether a unit was read and the engine is about to be told.
    pub(crate) fn is_being_loaded(&self, unit: &str) -> bool {
        let has_it = |units: &[LoadedUnit]| {
            let mut units = units.iter();
            units.any(|one| {
                let mut names = std::iter::once(&one.name).chain(&one.aliases);
                one.load == LoadState::Loaded && names.any(|name| &**name == unit)
            })
        };
        let mut events = self.queue.iter();
        events.any(|event| matches!(&event.what, What::Loaded(units) if has_it(units)))
    }

    /// Reads units that the engine lacks.
    pub(crate) fn load(&mut self, names: impl IntoIterator<Item = UnitName>) {
        self.load_for(self.cause, names);
    }

    fn load_for(&mut self, cause: Option<ActionId>, names: impl IntoIterator<Item = UnitName>) {
        self.list_mounts();
        let engine = &self.engine;
        let known = |name: &UnitName| has_files(engine, name.as_str());
        let loaded = self.units.load(names, known);
        if !loaded.is_empty() {
            let from_kernel = crate::execute::activation::from_kernel(&loaded);
            self.push_for(cause, What::Loaded(loaded));
            // While an action is carried out the queue waits: its other actions come first.
            if self.cause.is_none() {
                self.apply_queued();
                self.tell_from_kernel(&from_kernel);
            } else {
                self.activation.look_again();
            }
        }
    }

    /// Instances that are down, have no job and are mentioned by nobody are forgotten: a socket with `Accept=yes` would
    /// otherwise leave one behind for each connection there ever was. What failed stays until somebody has seen it.
    fn forget_instances(&mut self) {
        for unit in std::mem::take(&mut self.forgettable) {
            let Some(record) = self.engine.get(unit) else {
                continue;
            };
            let is_mentioned = record.edges().iter().any(|edge| edge.theirs);
            if record.active() != ActiveState::Inactive || record.job.is_some() || is_mentioned {
                continue;
            }
            let name = record.name.clone();
            if let Ok(name) = UnitName::new(&name) {
                self.units.forget(&name);
            }
            self.push(What::Unloaded(vec![name]));
        }
    }

    /// A unit's name as a name.
    pub(crate) fn name_of(&self, unit: UnitId) -> Option<UnitName> {
        let record = self.engine.get(unit)?;
        UnitName::new(&record.name).ok()
    }

    /// A unit's cgroup below the root of the tree.
    pub(crate) fn cgroup_of(&self, unit: UnitId) -> Box<str> {
        let Some(record) = self.engine.get(unit) else {
            return "".into();
        };
        let slice = record.deps(DepKind::InSlice).next();
        let slice = slice.map_or("", |slice| &*self.engine.unit(slice).name);
        crate::execute::cgroups::path_of(&record.name, slice)
    }

    /// Applies what is queued and carries out what follows, until nothing is left.
    pub(crate) fn apply_queued(&mut self) {
        while let Some(event) = self.queue.pop_front() {
            let actions = self.apply(&event);
            for action in &actions {
                self.carry_out(action);
                self.done = action.id;
                muster_fault::hit(ACTED);
            }
            if let What::Unit {
                unit,
                input: Input::Exited { .. },
            } = event.what
            {
                self.tidy_after_exit(unit);
            }
        }
        self.follow_phase();
    }

    /// Applies an event to the engine's state and to core's own memory.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Action> {
        self.memory.observe(event.clock, &event.what);
        let going: Vec<UnitId> = match &event.what {
            What::Unloaded(names) => names.iter().filter_map(|n| self.engine.find(n)).collect(),
            _ => Vec::new(),
        };
        let actions = self.engine.apply(event);
        for unit in going {
            // Its number may be another unit's next.
            if self.engine.get(unit).is_none() {
                self.memory.forget(unit);
            }
        }
        for action in &actions {
            self.memory.follow(event.clock, action, &self.engine);
        }
        actions
    }

    fn carry_out(&mut self, action: &Action) {
        let outer = self.cause.replace(action.id);
        self.execute(action);
        self.cause = outer;
    }

    /// Carries out an action that the last core may have carried out in part.
    pub(crate) fn carry_out_again(&mut self, action: &Action) {
        self.carry_out(action);
        self.done = action.id;
    }

    /// Tells the outcome of an action that the last core carried out without recording it.
    pub(crate) fn tell_outcome(&mut self, action: ActionId, unit: UnitId, input: Input) {
        let outer = self.cause.replace(action);
        self.tell(unit, input);
        self.cause = outer;
        self.done = action;
    }

    /// All actions up to this one were carried out before.
    pub(crate) fn resume_at(&mut self, done: ActionId) {
        self.done = done;
    }

    /// The loop.
    ///
    /// # Errors
    /// If core cannot go on; whoever started it starts it again, and nothing is lost.
    pub fn run(&mut self) -> Result<Ending, CoreError> {
        let mut ready = Vec::new();
        loop {
            self.settle()?;
            if let Some(ending) = self.ending {
                return Ok(ending);
            }
            let until = self.next_moment();
            self.platform
                .wait(until, &mut ready)
                .map_err(CoreError::Wait)?;
            for one in ready.drain(..) {
                self.ready(one)?;
            }
            self.time_has_passed();
        }
    }

    /// Everything that follows from what came in is done, acknowledged and handed over.
    fn settle(&mut self) -> Result<(), CoreError> {
        self.apply_queued();
        self.forget_instances();
        self.control_settled();
        self.apply_queued();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        muster_fault::hit(SETTLED);
        self.feed_logs();
        self.platform.flush().map_err(CoreError::Link)?;
        if self.is_unwritten || self.log_size > LARGE_LOG.max(self.snapshot_size) {
            self.write_snapshot()?;
        }
        Ok(())
    }

    /// Puts a snapshot in the place of snapshot and log.
    pub(crate) fn write_snapshot(&mut self) -> Result<(), CoreError> {
        self.memory.done = self.done;
        let bytes = record::snapshot(&self.memory, &self.engine);
        muster_fault::hit(SNAPSHOT);
        self.platform
            .replace_record(&bytes)
            .map_err(CoreError::Record)?;
        self.snapshot_size = bytes.len();
        self.log_size = 0;
        self.is_unwritten = false;
        Ok(())
    }

    /// Has everything written down before core waits again.
    pub(crate) fn write_soon(&mut self) {
        self.is_unwritten = true;
    }

    /// When something must happen even if nothing happens before.
    fn next_moment(&self) -> Option<Time> {
        let tidy = self.is_untidy.then(|| Time(self.quiet_since.0 + QUIET));
        [
            self.engine.next_deadline(),
            self.next_activation_moment(),
            self.control_deadline(),
            self.user_directory_deadline(),
            self.next_look(),
            tidy,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn time_has_passed(&mut self) {
        let now = self.now().monotonic;
        if self.engine.next_deadline().is_some_and(|at| at <= now) {
            self.push(What::Tick);
        }
        self.activation_time_has_passed();
        self.control_time_has_passed();
        self.user_directory_time_has_passed();
        if self.next_look().is_some_and(|at| at <= now) {
            self.look_at_unwatched();
        }
        if self.is_untidy && now.since(self.quiet_since) >= QUIET && self.queue.is_empty() {
            self.is_untidy = false;
            if self.log_size > SMALL_LOG {
                // A failure here is found again, and then reported, by the snapshot that cannot wait.
                let _ = self.write_snapshot();
            }
            self.platform.give_memory_back();
        }
    }

    fn ready(&mut self, ready: Ready) -> Result<(), CoreError> {
        self.quiet_since = self.now().monotonic;
        match ready.token {
            Token::Init => self.hear_init()?,
            Token::Notify => self.hear_notifications(),
            Token::Control => self.control_ready(ready),
            Token::Users => self.user_directory_ready(),
            Token::Cgroups => self.look_at_cgroups(),
            Token::Feed => self.feed_logs(),
            Token::Report(pid) => self.hear_setup(pid),
            _ => self.activation_ready(ready),
        }
        Ok(())
    }

    fn hear_init(&mut self) -> Result<(), CoreError> {
        let mut took = Vec::new();
        self.platform
            .hear_init(&mut took)
            .map_err(CoreError::Link)?;
        for message in took {
            match message {
                FromInit::Exit(exit) => self.exited(exit),
                FromInit::Ping => self.platform.pong(),
                FromInit::Signal(signal) => self.signalled(signal),
                FromInit::Refused(count) => {
                    let message = format!(
                        "muster-init has no room for {count} more descriptors; they would not survive a restart."
                    );
                    self.say(Severity::Error, None, &message);
                }
            }
        }
        self.look_at_unwatched();
        Ok(())
    }
}

/// Whether the engine knows more of a unit than its name.
fn has_files(engine: &EngineState, unit: &str) -> bool {
    let load = engine.find(unit).map(|id| engine.unit(id).load);
    load.is_some_and(|load| !matches!(load, LoadState::Stub | LoadState::NotFound))
}
