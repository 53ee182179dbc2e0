//! A cloud that is only simulated: for tests, and for trying plans out.
//!
//! [`SimCloud`] is the cloud: it goes on when its manager dies, in another process too if it has a file. [`SimProvider`] is
//! one manager's way to it. Calls take their time and fail as [`SimSettings`] say, drawn from a seed.

mod file;
mod settings;
#[cfg(test)]
mod tests;
mod world;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_lifecycle::{Moment, State, Verb};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

pub use self::file::OpenSimError;
use self::file::SimFile;
pub use self::settings::{SimCapacity, SimFaults, SimSettings};
use self::world::{Failure, SimMachine, World};
use crate::clock::{Clock, SystemClock};
use crate::error::{FailureClass, Operation, ProviderError};
use crate::fault::SIM_CHANGED;
use crate::mark::{Mark, Owned};
use crate::name::{Home, ManagerId, ResourceId};
use crate::provider::{Answer, Described, Isolation, Order, Profile, Provider};
use muster_template::ProviderId;

/// A machine of a simulated cloud, as its owner would see it in the cloud's console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimView {
    /// Its name.
    pub resource: ResourceId,
    /// Whose it is; none is somebody else's.
    pub mark: Option<Mark>,
    /// Where it is.
    pub state: State,
    /// How often it was rebooted.
    pub reboots: u32,
}

#[derive(Debug)]
struct Inside {
    world: World,
    file: Option<SimFile>,
    settings: SimSettings,
    chance: StdRng,
    calls: u64,
}

/// A simulated cloud. Clones are the same one.
#[derive(Debug, Clone)]
pub struct SimCloud {
    inside: Arc<Mutex<Inside>>,
    clock: Arc<dyn Clock>,
}

impl SimCloud {
    /// One that lives in memory.
    #[must_use]
    pub fn new(settings: SimSettings) -> Self {
        Self::with(settings, None, World::default(), 0, Arc::new(SystemClock))
    }

    /// One that lives in memory, with a clock of its own.
    #[must_use]
    pub fn with_clock(settings: SimSettings, clock: Arc<dyn Clock>) -> Self {
        Self::with(settings, None, World::default(), 0, clock)
    }

    /// One that lives in a file, for one process at a time.
    ///
    /// # Errors
    /// When the file cannot be read or made.
    pub fn open(path: &Path, settings: SimSettings) -> Result<Self, OpenSimError> {
        let (file, world, lines) = SimFile::open(path)?;
        let clock = Arc::new(SystemClock);
        Ok(Self::with(settings, Some(file), world, lines, clock))
    }

    fn with(
        settings: SimSettings,
        file: Option<SimFile>,
        world: World,
        past: u64,
        clock: Arc<dyn Clock>,
    ) -> Self {
        // What was drawn before a restart is not drawn again, or the same call would fail for ever.
        let chance = StdRng::seed_from_u64(settings.seed.wrapping_add(past));
        let inside = Inside {
            world,
            file,
            settings,
            chance,
            calls: 0,
        };
        Self {
            inside: Arc::new(Mutex::new(inside)),
            clock,
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing in there panics between two changes that belong together.
        let guard = self.inside.lock();
        guard.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes how it behaves from now on. The chances go on from where they were.
    pub fn set(&self, settings: SimSettings) {
        self.inside().settings = settings;
    }

    /// How many calls providers made so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.inside().calls
    }

    /// Every machine that is not gone, whoever made it.
    #[must_use]
    pub fn machines(&self) -> Vec<SimView> {
        let now = self.clock.now();
        let inside = self.inside();
        let all = inside.world.machines().map(|machine| SimView {
            resource: machine.resource.clone(),
            mark: machine.mark.clone(),
            state: machine.state_at(now),
            reboots: machine.reboots,
        });
        all.filter(|view| view.state != State::Terminated).collect()
    }

    /// Somebody else makes a machine there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_foreign(&self) -> std::io::Result<ResourceId> {
        let mut inside = self.inside();
        let machine = inside.world.add_foreign();
        inside.keep(Some(&machine))?;
        Ok(machine.resource)
    }

    /// Makes a machine with a mark, whether or not there is one: what a cloud that broke its promise would show.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn duplicate(&self, mark: &Mark) -> std::io::Result<ResourceId> {
        let mut inside = self.inside();
        let machine = inside.world.duplicate(mark);
        inside.keep(Some(&machine))?;
        Ok(machine.resource)
    }

    /// The cloud takes a spot machine back. Says whether it was one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn interrupt(&self, resource: &ResourceId) -> std::io::Result<bool> {
        let now = self.clock.now();
        self.inside().interrupt(resource, now)
    }

    /// Shows a machine to its managers no more, or again: it is there, and whoever asks is told that it is not.
    pub fn hide(&self, resource: &ResourceId, hidden: bool) {
        self.inside().world.hide(resource, hidden);
    }

    /// The way to this cloud for managers.
    #[must_use]
    pub fn provider(&self) -> SimProvider {
        let inside = self.inside();
        SimProvider {
            cloud: self.clone(),
            profile: Profile {
                id: ProviderId::Sim,
                verbs: inside.settings.verbs,
                access: inside.settings.access.clone(),
                spot: true,
                one_machine: false,
                isolation: Isolation::Isolated,
            },
        }
    }
}

impl Inside {
    fn keep(&mut self, changed: Option<&SimMachine>) -> std::io::Result<()> {
        match (&mut self.file, changed) {
            (Some(file), Some(machine)) => file.append(machine),
            _ => Ok(()),
        }
    }

    fn interrupt(&mut self, resource: &ResourceId, now: Moment) -> std::io::Result<bool> {
        let Self {
            world, settings, ..
        } = self;
        let changed = world.interrupt(resource, settings, now);
        self.keep(changed.as_ref())?;
        Ok(changed.is_some())
    }

    fn draw(&mut self, thousandths: u16) -> bool {
        thousandths > 0 && self.chance.random_range(0..1000) < u32::from(thousandths)
    }

    fn latency(&mut self) -> Duration {
        let range = self.settings.latency.clone();
        match range.start() < range.end() {
            true => self.chance.random_range(range),
            false => *range.start(),
        }
    }
}

/// A manager's way to a [`SimCloud`].
#[derive(Debug, Clone)]
pub struct SimProvider {
    cloud: SimCloud,
    profile: Profile,
}

#[derive(Debug, thiserror::Error)]
enum SimTrouble {
    #[error("the simulated call failed before anything happened")]
    Failed,
    #[error("the simulated answer was lost after it had happened")]
    AnswerLost,
    #[error("the simulated cloud is out of capacity for the moment")]
    NoCapacity,
    #[error("the file of the simulated cloud cannot be written")]
    File(#[source] std::io::Error),
}

impl SimProvider {
    /// With the ways into it.
    fn shown(&self, machine: Described) -> Described {
        Described {
            access: self.profile.access.clone(),
            ..machine
        }
    }

    fn error(&self, operation: Operation, object: &str, failure: Failure) -> ProviderError {
        ProviderError {
            provider: self.profile.id,
            operation,
            object: object.to_owned(),
            class: failure.class,
            source: failure.cause,
        }
    }

    /// One call: takes its time, may fail before and after, and keeps what it changed before it answers.
    async fn call<T>(
        &self,
        operation: Operation,
        object: &str,
        work: impl FnOnce(&mut Inside, Moment) -> Result<(T, Option<SimMachine>), Failure>,
    ) -> Result<T, ProviderError> {
        let latency = {
            let mut inside = self.cloud.inside();
            inside.calls += 1;
            inside.latency()
        };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let now = self.cloud.clock.now();
        let mut inside = self.cloud.inside();
        let trouble = |class, cause: SimTrouble| {
            let cause = Box::new(cause);
            self.error(operation, object, Failure { class, cause })
        };
        let faults = inside.settings.faults;
        if inside.draw(faults.fail) {
            return Err(trouble(FailureClass::Retryable, SimTrouble::Failed));
        }
        if operation == Operation::Provision && inside.draw(faults.no_capacity) {
            return Err(trouble(FailureClass::Capacity, SimTrouble::NoCapacity));
        }
        let (answer, changed) =
            work(&mut inside, now).map_err(|failure| self.error(operation, object, failure))?;
        let kept = inside.keep(changed.as_ref());
        kept.map_err(|error| trouble(FailureClass::Retryable, SimTrouble::File(error)))?;
        if changed.is_some() {
            muster_fault::hit(SIM_CHANGED);
        }
        if inside.draw(faults.lose_answer) {
            return Err(trouble(FailureClass::Retryable, SimTrouble::AnswerLost));
        }
        Ok(answer)
    }
}

impl Provider for SimProvider {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        let object = order.mark.machine.as_str();
        self.call(Operation::Provision, object, |inside, now| {
            let Inside {
                world, settings, ..
            } = inside;
            let (made, changed) = world.provision(order, settings, now)?;
            Ok((self.shown(made), changed))
        })
        .boxed()
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State> {
        let object = machine.resource.as_str();
        self.call(Operation::Destroy, object, |inside, now| {
            let Inside {
                world, settings, ..
            } = inside;
            world.destroy(machine, settings, now)
        })
        .boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        let object = machine.resource.as_str();
        self.call(Operation::Describe, object, |inside, now| {
            let chance = inside.settings.faults.interrupt;
            let runs = |machine: &SimMachine| machine.state_at(now) == State::Running;
            if inside.world.get(&machine.resource).is_some_and(runs) && inside.draw(chance) {
                inside
                    .interrupt(&machine.resource, now)
                    .map_err(|error| Failure {
                        class: FailureClass::Retryable,
                        cause: error.into(),
                    })?;
            }
            let found = inside.world.describe(machine, now)?;
            Ok((found.map(|found| self.shown(found)), None))
        })
        .boxed()
    }

    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        self.call(Operation::List, manager.as_str(), |inside, now| {
            let all = inside.world.list(manager, now).into_iter();
            Ok((all.map(|machine| self.shown(machine)).collect(), None))
        })
        .boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        let object = machine.resource.as_str();
        self.call(Operation::Act(verb), object, move |inside, now| {
            let Inside {
                world, settings, ..
            } = inside;
            world.act(machine, verb, settings, now)
        })
        .boxed()
    }

    fn home(&self) -> Answer<'_, Option<Home>> {
        self.call(Operation::Home, "itself", |inside, _| {
            let home = Home::new(&format!("sim-{}", inside.settings.account));
            Ok((home.ok(), None))
        })
        .boxed()
    }
}
