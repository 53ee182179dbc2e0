//! The provider: containers as machines.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, KillContainerOptionsBuilder,
    ListContainersOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    RestartContainerOptionsBuilder, StartContainerOptions, StopContainerOptionsBuilder,
};
use futures_util::{FutureExt as _, StreamExt as _};
use muster_lifecycle::{State, Verb, VerbSet};
use muster_provider::{
    Answer, Capabilities, ClientToken, Described, FailureClass, Home, Isolation, ManagerId, Mark,
    Operation, Order, Owned, Profile, Provider, ProviderError, ProviderId, ResourceId,
};
use tokio::time::Instant;

use crate::creation::{Creation, plan};
use crate::engine::{Engine, EngineError};
use crate::executor::access;
use crate::failure::{Failure, Refusal};
use crate::fault::{CREATED, REMOVED, STARTED};
use crate::image;
use crate::pull::Pulls;
use crate::seen::Seen;

/// How long a machine may take to stop before its processes are killed, unless it is said otherwise.
const GRACE: Duration = Duration::from_secs(10);
/// How many machines that were destroyed are remembered, so that an order that comes late makes no new one.
const SPENT: usize = 4096;
/// How long whoever lost the race for a name waits for the winner, and how often he looks.
const RACE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// How much of what a container wrote is told, and how long that is waited for.
const LAST_WORDS: usize = 300;
const LAST_WORDS_TIME: Duration = Duration::from_secs(2);

/// A beginning for an error's text, without whatever a terminal would obey.
fn shown(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(&said[..said.len().min(LAST_WORDS)]);
    let line: String = said.chars().filter(|it| !it.is_control()).collect();
    match line.trim() {
        "" => String::new(),
        line => format!("; it said: {line}"),
    }
}

/// Makes containers and takes them away. See the [crate](crate) for what they are like.
#[derive(Debug)]
pub struct DockerProvider {
    engine: Engine,
    profile: Profile,
    grace: Duration,
    memory: Mutex<Memory>,
    pulls: Pulls,
}

/// What an engine does not tell.
#[derive(Debug, Default)]
struct Memory {
    /// Orders whose machines were destroyed, the oldest first: the engine forgets what it removes.
    spent: VecDeque<ClientToken>,
    /// Machines that reboot just now: between its two halves the engine shows them as stopped.
    rebooting: BTreeSet<ResourceId>,
    /// What the engine called itself last.
    home: Option<Home>,
}

impl DockerProvider {
    /// A provider over an engine. Nothing is asked of it yet.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let verbs = VerbSet::ALL.without(Verb::Hibernate).without(Verb::Resume);
        Self {
            engine,
            profile: Profile {
                id: ProviderId::Docker,
                verbs,
                access: access(),
                spot: false,
                one_machine: false,
                isolation: Isolation::Isolated,
            },
            grace: GRACE,
            memory: Mutex::default(),
            pulls: Pulls::default(),
        }
    }

    /// With another time that a machine may take to stop, or to go down for a reboot, before its processes are killed.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The engine, for executors.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing panics while it is held.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine counts whole seconds, and kills at once after none.
    fn grace_seconds(&self) -> i32 {
        let begun = u64::from(self.grace.subsec_nanos() > 0);
        let seconds = self.grace.as_secs().saturating_add(begun);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }

    /// How long the engine may take to answer when it stops something.
    fn stop_time(&self) -> Duration {
        self.grace.saturating_add(RACE)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.profile.access
    }

    /// What there is of an id or a name.
    async fn inspect(&self, key: &str) -> Result<Option<Seen>, Failure> {
        let docker = self.engine.docker().await?;
        match docker
            .inspect_container(key, None::<InspectContainerOptions>)
            .await
        {
            Ok(found) => Ok(Seen::inspected(found)),
            Err(error) => match EngineError::new("inspect the container", error) {
                error if error.status() == Some(404) => Ok(None),
                error => Err(error.into()),
            },
        }
    }

    /// A machine of ours, if it is there; refused, if it bears another mark.
    async fn find(&self, machine: &Owned) -> Result<Option<Seen>, Failure> {
        // Docker would also take a name, or the beginning of an id.
        if !is_id(&machine.resource) {
            return Ok(None);
        }
        let found = self.inspect(machine.resource.as_str()).await?;
        let Some(seen) = found.filter(|seen| seen.resource == machine.resource) else {
            return Ok(None);
        };
        match seen.mark() {
            Some(mark) if mark == machine.mark => Ok(Some(seen)),
            _ => Err(Failure::new(FailureClass::Refused, Refusal::NotOurs)),
        }
    }

    fn describe_seen(&self, seen: &Seen, mark: Mark) -> Described {
        let mut described = seen.describe(mark, self.capabilities());
        if self.memory().rebooting.contains(&seen.resource) {
            described.state = State::Running;
        }
        described
    }

    async fn make(&self, order: &Order) -> Result<Described, Failure> {
        if self.memory().spent.contains(&order.mark.token) {
            return Err(Failure::new(FailureClass::Refused, Refusal::Spent));
        }
        let resource = match self.create(&plan(order, None)?, &order.mark).await {
            Err(failure) => match failure.without_disk_limit() {
                Some(why) => self.create(&plan(order, Some(&why))?, &order.mark).await?,
                None => return Err(failure),
            },
            Ok(resource) => resource,
        };
        muster_fault::hit(CREATED);
        self.start_new(&resource, &order.mark).await
    }

    /// Makes the container, or finds the one that this order made before.
    async fn create(&self, creation: &Creation, mark: &Mark) -> Result<ResourceId, Failure> {
        let deadline = Instant::now() + RACE;
        let mut pulled = false;
        loop {
            let docker = self.engine.docker().await?;
            let options = CreateContainerOptions {
                name: Some(creation.name.clone()),
                platform: creation.platform.clone().unwrap_or_default(),
            };
            let body = match image::find(&docker, &creation.image).await? {
                Some(exact) => creation.made_of(&exact),
                None if !pulled => {
                    self.pulls.pull(&docker, creation).await?;
                    pulled = true;
                    continue;
                }
                None => creation.body.clone(),
            };
            let made = docker.create_container(Some(options), body);
            let error = match made.await {
                Ok(made) => {
                    let id = ResourceId::new(&made.id);
                    return id.map_err(|error| Failure::new(FailureClass::Retryable, error));
                }
                Err(error) => EngineError::new("create the container", error),
            };
            match error.status() {
                Some(404) if !pulled => {
                    self.pulls.pull(&docker, creation).await?;
                    pulled = true;
                }
                Some(409) => {
                    if let Some(seen) = self.inspect(&creation.name).await? {
                        return match seen.mark() {
                            Some(theirs) if theirs == *mark => Ok(seen.resource),
                            _ => {
                                let refusal = Refusal::NameTaken(creation.name.clone());
                                Err(Failure::new(FailureClass::Refused, refusal))
                            }
                        };
                    }
                    // Whoever has the name is not done yet, or has just given it up.
                    if Instant::now() >= deadline {
                        return Err(Failure::new(FailureClass::Retryable, Refusal::Race));
                    }
                    tokio::time::sleep(LOOK).await;
                }
                _ => return Err(Failure::of_order(error)),
            }
        }
    }

    /// Starts what was made, unless it has been before: a machine that was stopped since stays so.
    async fn start_new(&self, resource: &ResourceId, mark: &Mark) -> Result<Described, Failure> {
        let gone = || Failure::new(FailureClass::Retryable, Refusal::Gone);
        let owned = Owned {
            resource: resource.clone(),
            mark: mark.clone(),
        };
        let seen = self.find(&owned).await?.ok_or_else(gone)?;
        if seen.state() != State::Pending {
            return Ok(self.describe_seen(&seen, mark.clone()));
        }
        if let Err(error) = self.start(resource).await {
            // One that cannot be started is no machine; if it cannot be removed either, its mark tells. Where the answer was
            // lost it may run, and the next try finds it.
            if error.status().is_some() {
                let _ = self.remove(resource).await;
            }
            return Err(Failure::of_order(error));
        }
        muster_fault::hit(STARTED);
        let seen = self.find(&owned).await?.ok_or_else(gone)?;
        if let State::Stopped(_) = seen.state() {
            let said = self.last_words(resource).await;
            let _ = self.remove(resource).await;
            return Err(Failure::new(FailureClass::Refused, Refusal::Ended(said)));
        }
        Ok(self.describe_seen(&seen, mark.clone()))
    }

    /// What a container that ended wrote last, as far as it can be shown; it may be the reason.
    async fn last_words(&self, resource: &ResourceId) -> String {
        let Ok(docker) = self.engine.docker().await else {
            return String::new();
        };
        let options = LogsOptionsBuilder::default().stdout(true).stderr(true);
        let mut log = pin!(docker.logs(resource.as_str(), Some(options.tail("1").build())));
        let mut said = Vec::new();
        let read = async {
            while let Some(Ok(piece)) = log.next().await
                && said.len() < LAST_WORDS
            {
                said.extend_from_slice(&piece.into_bytes());
            }
        };
        // An engine that does not tell keeps nobody waiting.
        let _ = tokio::time::timeout(LAST_WORDS_TIME, read).await;
        shown(&said)
    }

    async fn start(&self, resource: &ResourceId) -> Result<(), EngineError> {
        let docker = self.engine.docker().await?;
        let started = docker.start_container(resource.as_str(), None::<StartContainerOptions>);
        let started = started.await;
        started.map_err(|error| EngineError::new("start the container", error))
    }

    async fn remove(&self, resource: &ResourceId) -> Result<State, EngineError> {
        let docker = self.engine.docker().await?;
        // With the volumes that have no name of their own: nobody else can know them.
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
        let removed = docker.remove_container(resource.as_str(), Some(options.build()));
        match removed.await {
            Ok(()) => Ok(State::Terminated),
            Err(error) => match EngineError::new("remove the container", error) {
                error if error.status() == Some(404) => Ok(State::Terminated),
                // Somebody else removes it at this moment.
                error if error.status() == Some(409) => Ok(State::ShuttingDown),
                error => Err(error),
            },
        }
    }

    async fn end(&self, machine: &Owned) -> Result<State, Failure> {
        let Some(_) = self.find(machine).await? else {
            return Ok(State::Terminated);
        };
        self.spend(&machine.mark.token);
        let state = self.remove(&machine.resource).await?;
        muster_fault::hit(REMOVED);
        Ok(state)
    }

    fn spend(&self, token: &ClientToken) {
        let spent = &mut self.memory().spent;
        if !spent.contains(token) {
            if spent.len() == SPENT {
                spent.pop_front();
            }
            spent.push_back(token.clone());
        }
    }

    async fn do_verb(&self, machine: &Owned, verb: Verb) -> Result<State, Failure> {
        match verb {
            Verb::Terminate => return self.end(machine).await,
            Verb::Hibernate | Verb::Resume => {
                return Err(Failure::new(FailureClass::Unsupported, Refusal::Hibernate));
            }
            Verb::Start | Verb::Stop | Verb::ForceStop | Verb::Reboot => {}
        }
        let found = self.find(machine).await?;
        let seen = found.ok_or_else(|| Failure::new(FailureClass::NotFound, Refusal::Gone))?;
        let state = seen.state();
        let illegal = Err(Failure::new(
            FailureClass::Refused,
            Refusal::IllegalState(state),
        ));
        let id = machine.resource.as_str();
        let docker = self.engine.docker().await?;
        match (verb, state) {
            (_, State::ShuttingDown | State::Terminated) => return illegal,
            (Verb::Start, State::Running) if seen.is_paused() => {
                let done = docker.unpause_container(id).await;
                done.map_err(|error| EngineError::new("wake the container", error))?;
            }
            (Verb::Start, State::Running) => return Ok(state),
            (Verb::Start, _) => self.start(&machine.resource).await?,
            (Verb::Stop | Verb::ForceStop, State::Stopped(_)) => return Ok(state),
            (Verb::Stop, _) => {
                let options = StopContainerOptionsBuilder::new().t(self.grace_seconds());
                let docker = docker.clone().with_timeout(self.stop_time());
                let done = docker.stop_container(id, Some(options.build())).await;
                done.map_err(|error| EngineError::new("stop the container", error))?;
            }
            (Verb::ForceStop, _) => {
                let options = KillContainerOptionsBuilder::new().signal("KILL");
                let done = docker.kill_container(id, Some(options.build())).await;
                match done.map_err(|error| EngineError::new("kill the container", error)) {
                    // It has ended by itself.
                    Err(error) if error.status() == Some(409) => {}
                    done => done?,
                }
            }
            (Verb::Reboot, State::Running) => {
                let _reboots = Rebooting::begin(self, &machine.resource);
                let options = RestartContainerOptionsBuilder::new().t(self.grace_seconds());
                let docker = docker.clone().with_timeout(self.stop_time());
                let done = docker.restart_container(id, Some(options.build())).await;
                done.map_err(|error| EngineError::new("restart the container", error))?;
            }
            _ => return illegal,
        }
        let seen = self.find(machine).await?;
        Ok(seen.map_or(State::Terminated, |seen| seen.state()))
    }

    async fn list_all(&self, manager: &ManagerId) -> Result<Vec<Described>, Failure> {
        let (key, value) = Mark::manager_label(manager);
        let filters = HashMap::from([("label".to_owned(), vec![format!("{key}={value}")])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters);
        let docker = self.engine.docker().await?;
        let listed = docker.list_containers(Some(options.build())).await;
        let listed = listed.map_err(|error| EngineError::new("list containers", error))?;
        let seen = listed.into_iter().filter_map(Seen::listed);
        let ours = seen.filter_map(|seen| {
            let mark = seen.mark().filter(|mark| mark.manager == *manager)?;
            Some(self.describe_seen(&seen, mark))
        });
        Ok(ours.collect())
    }

    /// What the engine calls itself, and where it keeps its containers. Since version 23 its name is kept there too, so that an engine
    /// whose disk is not mounted has another; an older one is called after its machine, and told from others by the folder alone.
    async fn engine_id(&self) -> Result<Option<Home>, Failure> {
        let docker = self.engine.docker().await?;
        let info = docker.info().await;
        let info = info.map_err(|error| EngineError::new("describe itself", error))?;
        let Some(id) = info.id else {
            return Ok(None);
        };
        let folder = info.docker_root_dir.unwrap_or_default();
        let whole = Home::new(&format!("{id}{folder}"));
        // A folder may have a name that no home has.
        Ok(whole.or_else(|_| Home::new(&id)).ok())
    }

    /// Who answers. An engine that draws a new name for each answer, as podman's does, tells nothing by it.
    async fn who_answers(&self) -> Result<Option<Home>, Failure> {
        let first = self.engine_id().await?;
        let known = self.memory().home.clone();
        if first.is_none() || first == known || first == self.engine_id().await? {
            self.memory().home.clone_from(&first);
            return Ok(first);
        }
        Ok(None)
    }

    fn answer<T>(
        &self,
        operation: Operation,
        object: &str,
        result: Result<T, Failure>,
    ) -> Result<T, ProviderError> {
        result.map_err(|Failure { class, source }| ProviderError {
            provider: self.profile.id,
            operation,
            object: object.to_owned(),
            class,
            source,
        })
    }
}

/// Whether a resource is a whole id of Docker's.
fn is_id(resource: &ResourceId) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    resource.as_str().len() == 64 && resource.as_str().bytes().all(digit)
}

/// As long as it lives, a machine reboots.
struct Rebooting<'a> {
    provider: &'a DockerProvider,
    resource: &'a ResourceId,
}

impl<'a> Rebooting<'a> {
    fn begin(provider: &'a DockerProvider, resource: &'a ResourceId) -> Self {
        provider.memory().rebooting.insert(resource.clone());
        Self { provider, resource }
    }
}

impl Drop for Rebooting<'_> {
    fn drop(&mut self) {
        self.provider.memory().rebooting.remove(self.resource);
    }
}

impl Provider for DockerProvider {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        let object = order.mark.machine.as_str();
        async move { self.answer(Operation::Provision, object, self.make(order).await) }.boxed()
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State> {
        let object = machine.resource.as_str();
        async move { self.answer(Operation::Destroy, object, self.end(machine).await) }.boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        let object = machine.resource.as_str();
        async move {
            let found = self.find(machine).await;
            let described =
                found.map(|seen| Some(self.describe_seen(&seen?, machine.mark.clone())));
            self.answer(Operation::Describe, object, described)
        }
        .boxed()
    }

    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        let object = manager.as_str();
        async move { self.answer(Operation::List, object, self.list_all(manager).await) }.boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        let object = machine.resource.as_str();
        async move {
            let done = self.do_verb(machine, verb).await;
            self.answer(Operation::Act(verb), object, done)
        }
        .boxed()
    }

    fn home(&self) -> Answer<'_, Option<Home>> {
        async move { self.answer(Operation::Home, "itself", self.who_answers().await) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_never_shorter_than_it_is_said() {
        let endpoint = crate::Endpoint::Unix("/none.sock".into());
        let mut provider = DockerProvider::new(Engine::new(endpoint));
        for (grace, seconds) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(500), 1),
            (Duration::from_secs(2), 2),
            (Duration::from_millis(2001), 3),
            (Duration::MAX, i32::MAX),
        ] {
            provider = provider.with_grace(grace);
            assert_eq!(provider.grace_seconds(), seconds, "{grace:?}");
            assert!(provider.stop_time() >= grace);
        }
    }

    #[test]
    fn last_words_are_short_and_obeyed_by_no_terminal() {
        assert_eq!(shown(b" \n"), "");
        assert_eq!(
            shown(b"\x1b[31mno such program\r\n"),
            "; it said: [31mno such program"
        );
        assert!(shown(&[b'x'; 10_000]).len() < 2 * LAST_WORDS);
    }
}
