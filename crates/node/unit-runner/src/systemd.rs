//! Units of systemd, over D-Bus.

mod bus;
mod properties;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use zbus::MessageStream;
use zbus::zvariant::{OwnedObjectPath, OwnedValue, Value};

use self::bus::{Bus, MANAGER, NO_SUCH_UNIT, UNIT_EXISTS, failed, unit_of};
use crate::error::{AskError, UnitError};
use crate::spec::{UnitName, UnitSpec};
use crate::state::{Observation, Tracker, UnitEvent};
use crate::{EVENT_QUEUE, KILL_TIME, Patience, UnitRunner, send};

const SIGKILL: i32 = 9;
/// Of what `ListUnitsByPatterns` says about a unit, its name is of interest.
type ListedUnit = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

/// What `PropertiesChanged` says: an interface, what changed, and what is to be asked for.
type Changed = (String, HashMap<String, OwnedValue>, Vec<String>);

/// Runs units on systemd.
#[derive(Debug, Clone, Default)]
pub struct SystemdRunner {
    /// The connection for questions, while there is one.
    bus: Arc<Mutex<Option<Bus>>>,
}

impl SystemdRunner {
    /// Speaks to systemd over the system bus. Neither need be there yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    async fn bus(&self) -> Result<Bus, AskError> {
        let mut kept = self.bus.lock().await;
        if let Some(bus) = &*kept {
            return Ok(bus.clone());
        }
        let bus = Bus::connect().await?;
        *kept = Some(bus.clone());
        Ok(bus)
    }

    /// A connection that failed is not used again.
    async fn retry(&self, failure: AskError, patience: &mut Patience) -> Result<(), AskError> {
        *self.bus.lock().await = None;
        if failure.may_pass() && patience.wait().await {
            Ok(())
        } else {
            Err(failure)
        }
    }

    /// Makes and starts it, or joins the start that is going on; answers with the job's result.
    async fn start_once(&self, unit: &UnitSpec) -> Result<String, AskError> {
        let bus = self.bus().await?;
        let mut signals = bus.signals().await?;
        let properties = properties::properties(unit);
        let auxiliary: Vec<(&str, Vec<(&str, Value<'_>)>)> = Vec::new();
        let call = (unit.name.as_str(), "fail", properties, auxiliary);
        let made: Result<OwnedObjectPath, _> = bus.manager("StartTransientUnit", &call).await;
        let job = match made {
            Err(AskError::Refused { name, .. }) if name == UNIT_EXISTS => {
                bus.manager("StartUnit", &(unit.name.as_str(), "fail"))
                    .await?
            }
            made => made?,
        };
        job_end(&mut signals, &job).await
    }

    async fn start_unit(&self, unit: &UnitSpec) -> Result<String, AskError> {
        let mut patience = Patience::new();
        loop {
            match self.start_once(unit).await {
                Ok(result) => return Ok(result),
                Err(failure) => self.retry(failure, &mut patience).await?,
            }
        }
    }

    /// Ends a unit: asks at once, kills at the deadline. `false` if it survived even that.
    async fn stop_once(&self, unit: &UnitName, deadline: Instant) -> Result<bool, AskError> {
        let bus = self.bus().await?;
        let mut signals = bus.signals().await?;
        let stopping: Result<OwnedObjectPath, _> =
            bus.manager("StopUnit", &(unit.as_str(), "replace")).await;
        let job = match stopping {
            Err(AskError::Refused { name, .. }) if name == NO_SUCH_UNIT => return Ok(true),
            stopping => stopping?,
        };
        let ended = tokio::time::timeout_at(deadline, job_end(&mut signals, &job)).await;
        if let Ok(ended) = ended {
            return ended.map(|_| true);
        }
        // The job is under way: what is killed now is not started again.
        let call = (unit.as_str(), "all", SIGKILL);
        self.ask_if_there("KillUnit", &call).await?;
        match tokio::time::timeout(KILL_TIME, job_end(&mut signals, &job)).await {
            Ok(ended) => ended.map(|_| true),
            Err(_elapsed) => Ok(false),
        }
    }

    /// Asks for something about a unit that need not be there.
    async fn ask_if_there<B>(&self, method: &str, call: &B) -> Result<(), AskError>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType + Sync,
    {
        match self.bus().await?.manager::<_, ()>(method, call).await {
            Err(AskError::Refused { name, .. }) if name == NO_SUCH_UNIT => Ok(()),
            outcome => outcome,
        }
    }

    async fn end(&self, unit: &UnitName, grace: Duration) -> Result<(), UnitError> {
        let ask = |failure: AskError| failure.while_doing("stop unit", unit.as_str());
        let deadline = Instant::now() + grace;
        let mut patience = Patience::new();
        let has_ended = loop {
            match self.stop_once(unit, deadline).await {
                Ok(has_ended) => break has_ended,
                Err(failure) => self.retry(failure, &mut patience).await.map_err(ask)?,
            }
        };
        if !has_ended {
            return Err(UnitError::Survived {
                unit: unit.clone(),
                within: KILL_TIME,
            });
        }
        let call = (unit.as_str(),);
        self.ask_if_there("ResetFailedUnit", &call)
            .await
            .map_err(ask)
    }

    async fn all(bus: &Bus, prefix: &str) -> Result<Vec<(UnitName, Observation)>, AskError> {
        let states: [&str; 0] = [];
        let patterns = [format!("{prefix}*.service")];
        let call = (states.as_slice(), patterns.as_slice());
        let listed: Vec<ListedUnit> = bus.manager("ListUnitsByPatterns", &call).await?;
        let mut units = Vec::with_capacity(listed.len());
        for unit in listed {
            let Ok(name) = UnitName::new(unit.0) else {
                continue;
            };
            if let Some(look) = bus.observe(&name).await? {
                units.push((name, look));
            }
        }
        Ok(units)
    }

    /// Tells what happens until the connection ends. Has a connection of its own, so that a reader who is slow holds back
    /// nobody else.
    async fn follow(
        &self,
        prefix: &str,
        tracker: &mut Tracker,
        events: &mpsc::Sender<UnitEvent>,
    ) -> Result<(), AskError> {
        let bus = Bus::connect().await?;
        let mut signals = bus.signals().await?;
        let () = bus.manager("Subscribe", &()).await?;
        send(events, tracker.look_at_all(&Self::all(&bus, prefix).await?)).await;
        loop {
            let signal = tokio::select! {
                signal = signals.next() => signal,
                () = events.closed() => return Ok(()),
            };
            let Some(signal) = signal else {
                return Ok(());
            };
            let signal = signal.map_err(failed)?;
            if is_reloaded(&signal) {
                // It may have been replaced, and told nobody what happened then.
                send(events, tracker.look_at_all(&Self::all(&bus, prefix).await?)).await;
                continue;
            }
            let Some((unit, told)) = changed_unit(&signal) else {
                continue;
            };
            if !unit.as_str().starts_with(prefix) {
                continue;
            }
            let look = bus.observe(&unit).await?;
            if look.is_none() {
                // It has come and gone: that it had come is known from what was told.
                let told = Observation::told(told, String::new());
                send(events, tracker.look(&unit, Some(&told))).await;
            }
            send(events, tracker.look(&unit, look.as_ref())).await;
        }
    }
}

/// systemd is through with reading its files again, or with being replaced.
fn is_reloaded(signal: &zbus::Message) -> bool {
    let is_reloading = signal
        .header()
        .member()
        .is_some_and(|member| member == "Reloading");
    is_reloading
        && signal
            .body()
            .deserialize::<bool>()
            .is_ok_and(|active| !active)
}

/// The unit that a signal is about, and the state that it tells, if it does.
fn changed_unit(signal: &zbus::Message) -> Option<(UnitName, String)> {
    let header = signal.header();
    match header.member()?.as_str() {
        "PropertiesChanged" => {
            let unit = unit_of(header.path()?.as_str())?;
            let body = signal.body();
            let changed: Changed = body.deserialize().ok()?;
            let told = changed.1.get("ActiveState").cloned();
            let told = told.and_then(|value| String::try_from(value).ok());
            Some((unit, told.unwrap_or_default()))
        }
        "UnitRemoved" => {
            let (name, _): (String, OwnedObjectPath) = signal.body().deserialize().ok()?;
            Some((UnitName::new(name).ok()?, String::new()))
        }
        _ => None,
    }
}

/// Waits for a job's end: its result.
async fn job_end(signals: &mut MessageStream, job: &OwnedObjectPath) -> Result<String, AskError> {
    while let Some(signal) = signals.next().await {
        let signal = signal.map_err(failed)?;
        let header = signal.header();
        let is_end = header.member().is_some_and(|member| member == "JobRemoved")
            && header
                .interface()
                .is_some_and(|interface| interface == MANAGER);
        if !is_end {
            continue;
        }
        let (_, ended, _, result): (u32, OwnedObjectPath, String, String) =
            signal.body().deserialize().map_err(failed)?;
        if ended == *job {
            return Ok(result);
        }
    }
    Err(AskError::Closed {
        path: PathBuf::from("the system bus"),
    })
}

impl UnitRunner for SystemdRunner {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn start(&self, unit: UnitSpec) -> BoxFuture<'_, Result<(), UnitError>> {
        Box::pin(async move {
            let ask = |failure: AskError| failure.while_doing("start unit", unit.name.as_str());
            let limit = unit.start_timeout + KILL_TIME;
            let result = match tokio::time::timeout(limit, self.start_unit(&unit)).await {
                Ok(result) => result.map_err(ask)?,
                Err(_elapsed) => return Err(ask(AskError::TimedOut { within: limit })),
            };
            if result == "done" {
                return Ok(());
            }
            let bus = self.bus().await.map_err(ask)?;
            let look = bus.observe(&unit.name).await.map_err(ask)?;
            // It may be about to be started again, which nobody waits for.
            self.end(&unit.name, Duration::ZERO).await?;
            let reason = look.map(|look| look.result).filter(|word| !word.is_empty());
            Err(UnitError::Start {
                unit: unit.name,
                reason: reason.unwrap_or(result),
            })
        })
    }

    fn stop(&self, unit: UnitName, grace: Duration) -> BoxFuture<'_, Result<(), UnitError>> {
        Box::pin(async move { self.end(&unit, grace).await })
    }

    fn list(
        &self,
        prefix: String,
    ) -> BoxFuture<'_, Result<Vec<(UnitName, Observation)>, UnitError>> {
        Box::pin(async move {
            let mut patience = Patience::new();
            loop {
                let units = match self.bus().await {
                    Ok(bus) => Self::all(&bus, &prefix).await,
                    Err(failure) => Err(failure),
                };
                match units {
                    Ok(units) => return Ok(units),
                    Err(failure) => {
                        let again = self.retry(failure, &mut patience).await;
                        again.map_err(|failure| failure.while_doing("list units of", &prefix))?;
                    }
                }
            }
        })
    }

    fn watch(&self, prefix: String) -> mpsc::Receiver<UnitEvent> {
        let (events, receiver) = mpsc::channel(EVENT_QUEUE);
        let runner = self.clone();
        tokio::spawn(async move {
            let mut tracker = Tracker::default();
            let mut patience = Patience::new();
            while !events.is_closed() {
                let begun = Instant::now();
                if let Err(failure) = runner.follow(&prefix, &mut tracker, &events).await {
                    tracing::debug!(error = %failure, "lost sight of systemd's units, looking again");
                }
                patience.rest(begun.elapsed()).await;
            }
        });
        receiver
    }
}
