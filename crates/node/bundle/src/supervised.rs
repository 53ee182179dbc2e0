//! Instances as units, whatever runs in them.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use muster_api::domain::{InstanceIdent, RuntimeInfo};
use muster_runtime::{
    AdoptError, Adopted, Ended, InstanceSpec, RunEvent, RunId, RunPlace, RunState, Runtime,
    RuntimeError,
};
use muster_telemetry::ErrorChain;
use muster_unit_runner::instances::{EndRecords, InstanceUnit, InstanceUnits};
use muster_unit_runner::{MainProcess, Restart, UnitError, UnitRunner, UnitSpec};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::faults;
use crate::place::{Place, PlaceError, RunRecord, instances_in, make_outer};

/// Whatever takes longer than this to start a program hangs.
const START_TIME: Duration = Duration::from_secs(60);
/// How long an instance may take to end when the machine goes down.
const SHUTDOWN_TIME: Duration = Duration::from_secs(90);

/// How one kind of runtime differs from others. All methods may block; they are called on threads for that.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Why it fails.
    type Error: Error + Send + Sync + 'static;

    /// What its units are called, before the instance's id and the start's number: letters and `-`.
    const PREFIX: &'static str;

    /// What the controller is told about it.
    fn info(&self) -> RuntimeInfo;

    /// Whether it only ends what it once started.
    fn is_retired(&self) -> bool {
        false
    }

    /// Whether somebody who is not root has to get through the folder of all instances to one's own.
    fn is_passed_through(&self) -> bool {
        false
    }

    /// Makes everything that starting needs, anew, in the instance's folder.
    fn make(&self, place: &Place, instance: &InstanceSpec) -> Result<(), Self::Error>;

    /// The program that the record of a start names.
    fn program(&self) -> PathBuf;

    /// What the unit runs.
    fn commands(&self, place: &Place) -> UnitCommands;

    /// Why a start failed, if it knows better than the init system.
    fn explain(&self, place: &Place) -> Option<String>;

    /// What of its sandbox a start could not have, one sentence each.
    fn lacks(&self, _place: &Place) -> Vec<String> {
        Vec::new()
    }

    /// Takes away what [`make`](Self::make) and starting left beside plain files. The unit is gone by then.
    fn clear(&self, place: &Place, run: Option<&RunRecord>) -> Result<(), Self::Error>;
}

/// What a unit runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitCommands {
    /// The command that starts the instance.
    pub start: Vec<String>,
    /// How the init system knows its first process.
    pub main: MainProcess,
    /// The command that runs after each end, and calls [`crate::ends::record`].
    pub end: Vec<String>,
}

/// Why an instance could not be prepared, started, ended or adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError<E: Error + 'static> {
    /// What is special about the runtime failed.
    #[error(transparent)]
    Backend(E),
    /// A file of the instance.
    #[error(transparent)]
    Place(PlaceError),
    /// The init system.
    #[error(transparent)]
    Unit(UnitError),
    /// It did not start, and whoever started it says why.
    #[error("{said}")]
    Start {
        /// What it says.
        said: String,
        /// What the init system says.
        #[source]
        source: UnitError,
    },
    /// A blocking step was cut short.
    #[error("the work was cut short")]
    CutShort(#[source] tokio::task::JoinError),
}

/// A runtime whose instances are units.
#[derive(Debug)]
pub struct Supervised<B> {
    backend: Arc<B>,
    folder: PathBuf,
    units: InstanceUnits,
}

/// Ends as the units' own commands recorded them.
#[derive(Debug)]
struct RecordedEnds {
    folder: PathBuf,
}

impl EndRecords for RecordedEnds {
    fn end_of(&self, instance: Uuid, run: RunId) -> Option<Ended> {
        Place::new(&self.folder, instance).end_of(run).ok()?
    }
}

impl<B: Backend> Supervised<B> {
    /// Runs instances on this init system. `folder` holds theirs: on a file system that a reboot empties, in the mount
    /// namespace that the init system runs units in.
    #[must_use]
    pub fn new(backend: B, folder: PathBuf, runner: Arc<dyn UnitRunner>) -> Self {
        let ends = RecordedEnds {
            folder: folder.clone(),
        };
        Self {
            backend: Arc::new(backend),
            units: InstanceUnits::new(runner, B::PREFIX, Arc::new(ends)),
            folder,
        }
    }

    /// What is special about it.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    fn place_of(&self, instance: Uuid) -> Place {
        Place::new(&self.folder, instance)
    }

    async fn make(&self, instance: Arc<InstanceSpec>) -> Result<(), SuperviseError<B::Error>> {
        let place = self.place_of(instance.info.instance.instance_id());
        let (backend, folder) = (self.backend.clone(), self.folder.clone());
        blocking(move || {
            make_outer(&folder, backend.is_passed_through()).map_err(SuperviseError::Place)?;
            place.make().map_err(SuperviseError::Place)?;
            muster_fault::hit(faults::AFTER_FOLDER);
            backend
                .make(&place, &instance)
                .map_err(SuperviseError::Backend)
        })
        .await?;
        muster_fault::hit(faults::AFTER_PREPARE);
        Ok(())
    }

    async fn start_unit(
        &self,
        instance: &InstanceSpec,
        run: RunId,
    ) -> Result<(), SuperviseError<B::Error>> {
        let id = instance.info.instance.instance_id();
        let place = self.place_of(id);
        let record = RunRecord {
            run: run.0,
            name: format!("{}-{id}", B::PREFIX),
            program: self.backend.program(),
        };
        let known = place.read_run().map_err(SuperviseError::Place)?;
        if known.is_some_and(|known| known.run != run.0) {
            self.end_others(id, run).await?;
            place.clear_traces().map_err(SuperviseError::Place)?;
        }
        place.write_run(&record).map_err(SuperviseError::Place)?;
        self.units.know(&instance.info.instance);
        muster_fault::hit(faults::BEFORE_UNIT);
        let started = self
            .units
            .runner()
            .start(self.unit(instance, &place, run))
            .await;
        started.map_err(|source| match self.backend.explain(&place) {
            Some(said) => SuperviseError::Start { said, source },
            None => SuperviseError::Unit(source),
        })?;
        muster_fault::hit(faults::AFTER_UNIT);
        Ok(())
    }

    /// Ends starts of an instance other than this one. Without a record of one there is none: that is written before.
    async fn end_others(&self, instance: Uuid, run: RunId) -> Result<(), SuperviseError<B::Error>> {
        let units = self
            .units
            .of(instance)
            .await
            .map_err(SuperviseError::Unit)?;
        for old in units.into_iter().filter(|unit| unit.run != run) {
            let ended = self.units.runner().stop(old.name, Duration::ZERO).await;
            ended.map_err(SuperviseError::Unit)?;
        }
        Ok(())
    }

    fn unit(&self, instance: &InstanceSpec, place: &Place, run: RunId) -> UnitSpec {
        let ident = &instance.info.instance;
        let commands = self.backend.commands(place);
        let item = &instance.item_config;
        UnitSpec {
            name: self.units.name(ident.instance_id(), run),
            description: format!("Instance {ident}"),
            main: commands.main,
            start: commands.start,
            after_end: commands.end,
            restart: Restart {
                delay: instance.policy.restart_interval,
                burst: instance.policy.start_burst,
                interval: instance.policy.start_interval,
            },
            start_timeout: START_TIME,
            stop_timeout: item.run_parameters.stop_timeout.unwrap_or(SHUTDOWN_TIME),
        }
    }

    /// Ends all starts of an instance and removes what is left of it.
    async fn remove(
        &self,
        instance: Uuid,
        grace: Duration,
    ) -> Result<(), SuperviseError<B::Error>> {
        let units = self
            .units
            .of(instance)
            .await
            .map_err(SuperviseError::Unit)?;
        for unit in units {
            let ended = self.units.runner().stop(unit.name, grace).await;
            ended.map_err(SuperviseError::Unit)?;
        }
        muster_fault::hit(faults::AFTER_STOP);
        let place = self.place_of(instance);
        let backend = self.backend.clone();
        blocking(move || {
            // A record that cannot be read does not keep its folder from being removed.
            let run = place.read_run().unwrap_or_default();
            backend
                .clear(&place, run.as_ref())
                .map_err(SuperviseError::Backend)?;
            muster_fault::hit(faults::AFTER_CLEAR);
            place.remove().map_err(SuperviseError::Place)
        })
        .await
    }

    async fn take_over(
        &self,
        known: Vec<InstanceIdent>,
        grace: Duration,
    ) -> Result<Vec<Adopted>, SuperviseError<B::Error>> {
        // Before anything else: ending what is too many takes its time, and what ends meanwhile is told of only once.
        for instance in &known {
            self.units.know(instance);
        }
        let mut units = self.units.list().await.map_err(SuperviseError::Unit)?;
        // Another runtime of the same kind has units of such names, too. Ours have a folder of ours from before their start until
        // after their end.
        units.retain(|unit| self.place_of(unit.instance).folder().is_dir());
        let (newest, older) = sort_out(units);
        join_all(older.into_iter().map(|unit| self.end_earlier(unit, grace))).await;
        let mut adopted = HashMap::new();
        for instance in known {
            let id = instance.instance_id();
            let ended = self.ended_meanwhile(id);
            let state = match newest.get(&id) {
                // A unit between two states is not taken for one that is not there.
                Some(unit) => {
                    let ended = ended.filter(|(run, _)| *run == unit.run);
                    let unclear = || ended.map_or(RunState::Starting, |(_, state)| state);
                    Some((unit.run, self.units.state(unit).unwrap_or_else(unclear)))
                }
                None => ended,
            };
            if let Some((run, state)) = state {
                let one = Adopted {
                    instance,
                    run,
                    restarts: newest.get(&id).map_or(0, |unit| unit.seen.restarts),
                    state,
                };
                adopted.insert(id, one);
            }
        }
        let mut rest: BTreeSet<Uuid> = newest.into_keys().collect();
        rest.extend(instances_in(&self.folder));
        rest.retain(|id| !adopted.contains_key(id));
        join_all(rest.into_iter().map(|id| self.clear_away(id, grace))).await;
        Ok(adopted.into_values().collect())
    }

    /// What does not end does not keep others from being adopted; the next start of its instance tries again.
    async fn end_earlier(&self, unit: InstanceUnit, grace: Duration) {
        let ended = self.units.runner().stop(unit.name.clone(), grace).await;
        if let Err(error) = ended {
            tracing::warn!(unit = %unit.name, error = %ErrorChain(&error), "cannot end an earlier start of an instance");
        }
    }

    /// What cannot be cleared away does not keep what runs from being adopted; the next start tries again.
    async fn clear_away(&self, instance: Uuid, grace: Duration) {
        if let Err(error) = self.remove(instance, grace).await {
            tracing::warn!(%instance, error = %ErrorChain(&error), "cannot clear away what is left of an instance");
        }
    }

    /// A start whose unit ended well and was forgotten while nobody looked.
    fn ended_meanwhile(&self, instance: Uuid) -> Option<(RunId, RunState)> {
        let place = self.place_of(instance);
        let run = RunId(place.read_run().ok()??.run);
        let end = place.end_of(run).ok()??;
        Some((run, RunState::Ended(end)))
    }
}

/// The newest start of every instance, and all older ones.
fn sort_out(units: Vec<InstanceUnit>) -> (HashMap<Uuid, InstanceUnit>, Vec<InstanceUnit>) {
    let (mut newest, mut older) = (HashMap::<Uuid, InstanceUnit>::new(), Vec::new());
    for unit in units {
        match newest.remove(&unit.instance) {
            Some(other) if other.run > unit.run => {
                older.push(unit);
                newest.insert(other.instance, other);
            }
            other => {
                older.extend(other);
                newest.insert(unit.instance, unit);
            }
        }
    }
    (newest, older)
}

async fn blocking<T: Send + 'static, E: Error + Send + 'static>(
    work: impl FnOnce() -> Result<T, SuperviseError<E>> + Send + 'static,
) -> Result<T, SuperviseError<E>> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(SuperviseError::CutShort)?
}

/// An error about an instance, with what was being done.
fn step<E: Error + Send + Sync + 'static>(
    instance: InstanceIdent,
    step: &'static str,
) -> impl FnOnce(SuperviseError<E>) -> RuntimeError {
    move |source| RuntimeError {
        instance,
        step,
        source: source.into(),
    }
}

impl<B: Backend> Runtime for Supervised<B> {
    fn info(&self) -> RuntimeInfo {
        self.backend.info()
    }

    fn is_retired(&self) -> bool {
        self.backend.is_retired()
    }

    fn adopt(
        &self,
        known: Vec<InstanceIdent>,
        grace: Duration,
    ) -> BoxFuture<'_, Result<Vec<Adopted>, AdoptError>> {
        Box::pin(async move {
            let adopted = self.take_over(known, grace).await;
            adopted.map_err(|error| AdoptError {
                source: error.into(),
            })
        })
    }

    fn prepare(&self, spec: Arc<InstanceSpec>) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let instance = spec.info.instance.clone();
            let made = self.make(spec).await;
            if made.is_err() {
                // Nothing is left of a step that failed; that it cannot be removed is said when somebody stops it.
                let _ = self.remove(instance.instance_id(), Duration::ZERO).await;
            }
            made.map_err(step(instance, "prepare"))
        })
    }

    fn start(
        &self,
        spec: Arc<InstanceSpec>,
        run: RunId,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let started = self.start_unit(&spec, run).await;
            started.map_err(step(spec.info.instance.clone(), "start"))
        })
    }

    fn stop(
        &self,
        instance: InstanceIdent,
        grace: Duration,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let removed = self.remove(instance.instance_id(), grace).await;
            removed.map_err(step(instance.clone(), "stop"))?;
            self.units.forget(&instance);
            Ok(())
        })
    }

    fn place(&self, instance: &InstanceIdent, run: RunId) -> Option<RunPlace> {
        let id = instance.instance_id();
        let place = self.place_of(id);
        let recorded = place.read_run().ok()??;
        if recorded.run != run.0 {
            return None;
        }
        let group = place.group();
        let written = place.written();
        Some(RunPlace {
            unit: self.units.name(id, run).to_string(),
            cgroup: group.as_ref().map(|group| group.as_str().to_owned()),
            instance_cgroup: group.map(|group| group.container()),
            written: written.is_dir().then_some(written),
            lacks: self.backend.lacks(&place),
        })
    }

    fn events(&self) -> mpsc::Receiver<RunEvent> {
        self.units.events()
    }
}

#[cfg(test)]
mod tests;
