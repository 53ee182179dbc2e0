//! Units of `muster-core`, over its control socket.

mod client;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_control::manager::{
    Change, Empty, KillCall, ListUnitsCall, ListUnitsReply, ShowCall, ShowReply,
    StartTransientCall, SubmitCall, SubmitReply, SubscribeCall, SubscribeReply, UnitCall, WaitWhat,
    error, method,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::client::{CoreClient, Replies};
use crate::error::{AskError, UnitError};
use crate::spec::{UnitName, UnitSpec};
use crate::state::{Observation, Tracker, UnitEvent};
use crate::{EVENT_QUEUE, KILL_TIME, Patience, UnitRunner, send};

/// What is asked for in a look at a unit.
const LOOKED_AT: [&str; 8] = [
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "NRestarts",
    "MainPID",
];
const SIGKILL: i32 = 9;

/// Runs units on `muster-core`.
#[derive(Debug, Clone)]
pub struct CoreRunner {
    client: CoreClient,
}

impl CoreRunner {
    /// Speaks to the core at this socket ([`muster_control::socket_path`] says where it usually is). Core need not be there
    /// yet.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self {
            client: CoreClient::new(socket),
        }
    }

    /// A job's end, or the reason why there is none. Core may be started anew in the middle: the job goes on, so asking again
    /// joins it.
    async fn start_unit(&self, unit: &UnitSpec) -> Result<SubmitReply, AskError> {
        let make = StartTransientCall {
            unit: unit.name.to_string(),
            properties: settings::settings(unit),
            ..StartTransientCall::default()
        };
        let mut patience = Patience::new();
        loop {
            let mut answer = self.ask_for_job(method::START_TRANSIENT, &make).await;
            if matches!(&answer, Err(AskError::Refused { name, .. }) if name == error::REFUSED) {
                // It is there already: the start is wanted twice, and is the same one.
                answer = self
                    .ask_for_job(method::SUBMIT, &job(&unit.name, "start"))
                    .await;
            }
            match answer {
                Err(failure) if failure.may_pass() && patience.wait().await => {}
                answer => return answer,
            }
        }
    }

    async fn ask_for_job<P: serde::Serialize + Sync>(
        &self,
        method: &str,
        call: &P,
    ) -> Result<SubmitReply, AskError> {
        self.client.call_more(method, call).await?.last().await
    }

    /// Ends a unit: asks at once, kills at the deadline. `false` if it survived even that.
    async fn stop_once(&self, unit: &UnitName, deadline: Instant) -> Result<bool, AskError> {
        let mut replies = self
            .client
            .call_more(method::SUBMIT, &job(unit, "stop"))
            .await?;
        let ended = tokio::time::timeout_at(deadline, replies.last::<SubmitReply>()).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(_elapsed) => {
                // The job is under way: what is killed now is not started again.
                self.kill(unit).await?;
                match tokio::time::timeout(KILL_TIME, replies.last::<SubmitReply>()).await {
                    Ok(ended) => ended,
                    Err(_elapsed) => return Ok(false),
                }
            }
        };
        match ended {
            Ok(_) => Ok(true),
            Err(AskError::Refused { name, .. }) if name == error::NO_SUCH_UNIT => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    async fn kill(&self, unit: &UnitName) -> Result<(), AskError> {
        let call = KillCall {
            unit: unit.to_string(),
            whom: "all".to_owned(),
            signal: SIGKILL,
        };
        match self.client.call::<_, Empty>(method::KILL, &call).await {
            Ok(Empty {}) => Ok(()),
            // Nobody is left to be killed.
            Err(AskError::Refused { name, .. }) if name != error::NOT_PERMITTED => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Lets core forget a unit that failed.
    async fn forget(&self, unit: &UnitName) -> Result<(), AskError> {
        let call = UnitCall {
            unit: unit.to_string(),
        };
        match self
            .client
            .call::<_, Empty>(method::RESET_FAILED, &call)
            .await
        {
            Ok(Empty {}) => Ok(()),
            Err(AskError::Refused { name, .. }) if name == error::NO_SUCH_UNIT => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn end(&self, unit: &UnitName, grace: Duration) -> Result<(), UnitError> {
        let ask = |failure: AskError| failure.while_doing("stop unit", unit.as_str());
        let deadline = Instant::now() + grace;
        let mut patience = Patience::new();
        let has_ended = loop {
            match self.stop_once(unit, deadline).await {
                Err(failure) if failure.may_pass() && patience.wait().await => {}
                ended => break ended.map_err(ask)?,
            }
        };
        if !has_ended {
            return Err(UnitError::Survived {
                unit: unit.clone(),
                within: KILL_TIME,
            });
        }
        self.forget(unit).await.map_err(ask)
    }

    async fn observe(&self, unit: &UnitName) -> Result<Option<Observation>, AskError> {
        let call = ShowCall {
            unit: unit.to_string(),
            properties: LOOKED_AT.map(str::to_owned).to_vec(),
            all: true,
        };
        match self.client.call::<_, ShowReply>(method::SHOW, &call).await {
            Ok(reply) => Ok(observation(&reply)),
            Err(AskError::Refused { name, .. }) if name == error::NO_SUCH_UNIT => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn all(&self, prefix: &str) -> Result<Vec<(UnitName, Observation)>, AskError> {
        let call = ListUnitsCall {
            patterns: vec![format!("{prefix}*.service")],
            all: true,
            ..ListUnitsCall::default()
        };
        let reply: ListUnitsReply = self.client.call(method::LIST_UNITS, &call).await?;
        let mut units = Vec::with_capacity(reply.units.len());
        for row in reply.units {
            let Ok(name) = UnitName::new(row.name) else {
                continue;
            };
            if let Some(look) = self.observe(&name).await? {
                units.push((name, look));
            }
        }
        Ok(units)
    }

    /// Tells what happens until the connection ends.
    async fn follow(
        &self,
        prefix: &str,
        tracker: &mut Tracker,
        events: &mpsc::Sender<UnitEvent>,
    ) -> Result<(), AskError> {
        let call = SubscribeCall {
            since: None,
            units: vec![format!("{prefix}*.service")],
        };
        let mut replies: Replies = self.client.call_more(method::SUBSCRIBE, &call).await?;
        let mut is_behind = true;
        loop {
            let (reply, _): (SubscribeReply, bool) = tokio::select! {
                reply = replies.next() => reply?,
                () = events.closed() => return Ok(()),
            };
            if is_behind || reply.resync {
                send(events, tracker.look_at_all(&self.all(prefix).await?)).await;
                is_behind = false;
            }
            for event in reply.events {
                let Change::Unit { unit, active, sub } = event.change else {
                    continue;
                };
                let Ok(unit) = UnitName::new(unit) else {
                    continue;
                };
                let look = self.observe(&unit).await?;
                if look.is_none() {
                    // It has come and gone: that it had come is known from what was told.
                    let told = Observation::told(active, sub);
                    send(events, tracker.look(&unit, Some(&told))).await;
                }
                send(events, tracker.look(&unit, look.as_ref())).await;
            }
        }
    }
}

impl UnitRunner for CoreRunner {
    fn name(&self) -> &'static str {
        "muster-core"
    }

    fn start(&self, unit: UnitSpec) -> BoxFuture<'_, Result<(), UnitError>> {
        Box::pin(async move {
            let ask = |failure: AskError| failure.while_doing("start unit", unit.name.as_str());
            let limit = unit.start_timeout + KILL_TIME;
            let reply = match tokio::time::timeout(limit, self.start_unit(&unit)).await {
                Ok(reply) => reply.map_err(ask)?,
                Err(_elapsed) => return Err(ask(AskError::TimedOut { within: limit })),
            };
            let came_up = matches!(reply.result.as_deref(), None | Some("done"));
            if came_up {
                return Ok(());
            }
            // It may be about to be started again, which nobody waits for.
            self.end(&unit.name, Duration::ZERO).await?;
            let outcome = [reply.reason, reply.outcome]
                .into_iter()
                .find(|text| !text.is_empty());
            Err(UnitError::Start {
                unit: unit.name,
                reason: outcome.unwrap_or_else(|| reply.result.unwrap_or_default()),
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
                match self.all(&prefix).await {
                    Err(failure) if failure.may_pass() && patience.wait().await => {}
                    units => {
                        return units
                            .map_err(|failure| failure.while_doing("list units of", &prefix));
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
                    let socket = runner.client.path().display();
                    tracing::debug!(%socket, error = %failure, "lost sight of units, looking again");
                }
                patience.rest(begun.elapsed()).await;
            }
        });
        receiver
    }
}

fn job(unit: &UnitName, verb: &str) -> SubmitCall {
    SubmitCall {
        unit: unit.to_string(),
        verb: verb.to_owned(),
        mode: String::new(),
        wait: WaitWhat::Job,
    }
}

/// What core shows of a unit; `None` for one that it does not have.
fn observation(reply: &ShowReply) -> Option<Observation> {
    let get = |wanted: &str| {
        let mut found = reply.properties.iter().filter(|(name, _)| name == wanted);
        found
            .next()
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    (get("LoadState") == "loaded").then(|| Observation {
        active: get("ActiveState").to_owned(),
        sub: get("SubState").to_owned(),
        result: get("Result").to_owned(),
        main_code: get("ExecMainCode").parse().unwrap_or_default(),
        main_status: get("ExecMainStatus").parse().unwrap_or_default(),
        restarts: get("NRestarts").parse().unwrap_or_default(),
        main_pid: get("MainPID").parse().unwrap_or_default(),
    })
}
