//! Making machines, and asking something of them.

use std::time::Duration;

use muster_lifecycle::{State, Step, UnknownVerb, Verb};
use muster_machine_api::{time, v1};
use muster_machines::{AskError, Machine};
use tonic::Status;

use super::{Services, error, wish};
use crate::desk::{Key, Ordered};
use crate::wire;

/// Whoever needs a machine longer says so again.
const LONGEST_BUSY: Duration = Duration::from_secs(30 * 24 * 3600);

impl Services {
    pub(super) async fn provision_machine(
        &self,
        request: v1::ProvisionRequest,
    ) -> Result<v1::Machine, Status> {
        let parts = self.desk.parts();
        let asked = wish::asked(&request);
        let wish = request.wish.unwrap_or_default();
        let timers = wire::read_timers(request.timers.as_ref(), &parts.timers);
        let timers = timers.map_err(error::invalid)?;
        // One that was free has another name already, and another key.
        let usual = match request.labels.is_empty() && request.key.is_empty() {
            true => parts.usual(),
            false => parts.usual_anew(),
        };
        let wish = wish::read(&wish, usual).map_err(error::invalid)?;
        let order = Ordered {
            wish: wish.living_for(timers.lifetime),
            labels: request.labels,
            timers,
            key: Some(request.key)
                .filter(|key| !key.is_empty())
                .map(|name| Key { name, asked }),
            wait: request.wait,
        };
        let made = self.desk.provision(&order).await;
        let id = made.map_err(error::provision)?;
        let machine = self.machine(id.as_str())?;
        Ok(self.desk.show(&machine))
    }

    pub(super) fn list(&self, all: bool) -> Vec<v1::Machine> {
        let machines = self.desk.machines().all();
        let wanted = |it: &&Machine| all || it.record().concerns_somebody();
        let mut shown: Vec<&Machine> = machines.values().filter(wanted).collect();
        shown.sort_by_key(|it| (it.record().ordered, it.record().id.clone()));
        shown.into_iter().map(|it| self.desk.show(it)).collect()
    }

    pub(super) async fn ask_machine(
        &self,
        request: v1::AskRequest,
    ) -> Result<v1::AskResponse, Status> {
        let verb: Verb = request
            .verb
            .parse()
            .map_err(|unknown: UnknownVerb| error::invalid(unknown))?;
        let machine = self.machine(&request.machine)?;
        let id = machine.record().id.clone();
        if request.dry_run {
            let record = machine.record();
            if let Some(missing) = self.desk.without_provider(record) {
                return Err(error::ask(missing));
            }
            let step = record.decide(verb, self.desk.verbs(record.order.provider));
            let step = step.map_err(|source| {
                error::ask(AskError::Refused {
                    machine: id.clone(),
                    source,
                })
            })?;
            return Ok(self.answer(&machine, step));
        }
        let step = self.desk.machines().ask(&id, verb).await;
        let step = step.map_err(error::ask)?;
        if request.wait {
            self.wait_for(&machine, verb).await?;
        }
        let machine = self.machine(id.as_str())?;
        Ok(self.answer(&machine, step))
    }

    pub(super) async fn record_unit(
        &self,
        request: v1::SetUnitRequest,
    ) -> Result<v1::Machine, Status> {
        let machine = self.machine(&request.machine)?;
        let id = &machine.record().id;
        let unit = Some(request.unit).filter(|unit| !unit.is_empty());
        let machines = self.desk.machines();
        machines.set_unit(id, unit).await.map_err(error::ask)?;
        // One that is gone may be forgotten from the moment on at which its Unit does not know it any more.
        let now = machines.get(id).unwrap_or_else(|| machine.clone());
        Ok(self.desk.show(&now))
    }

    pub(super) async fn keep_machine_busy(
        &self,
        request: &v1::KeepBusyRequest,
    ) -> Result<v1::Machine, Status> {
        let machine = self.machine(&request.machine)?;
        let time = request.time.as_ref().map(time::length).transpose();
        let time = time.map_err(error::invalid)?.unwrap_or_default();
        if time.is_zero() || time > LONGEST_BUSY {
            let said = "a machine is kept busy for more than 0 s and at most 30 days at a time";
            return Err(Status::invalid_argument(said));
        }
        let kept = self
            .desk
            .machines()
            .heartbeat(&machine.record().id, time)
            .await;
        kept.map_err(error::ask)?;
        Ok(self.desk.show(&machine))
    }

    fn answer(&self, machine: &Machine, step: Step) -> v1::AskResponse {
        v1::AskResponse {
            machine: Some(self.desk.show(machine)),
            already: step == Step::Already,
        }
    }

    /// Waits until a verb has come about, or will not.
    async fn wait_for(&self, machine: &Machine, verb: Verb) -> Result<(), Status> {
        let id = &machine.record().id;
        let mut all = self.desk.machines().watch();
        let settled = all.wait_for(|all| {
            let Some(machine) = all.get(id) else {
                return true;
            };
            let record = machine.record();
            let under_way = record.made().is_some_and(|made| made.life.task().is_some());
            let ending = verb == Verb::Terminate && record.state() != State::Terminated;
            !under_way && !ending || record.state() == State::Terminated
        });
        let settled = settled.await.map_err(|_| error::ask(AskError::Ended))?;
        // One that is not remembered any more is gone.
        let state = settled
            .get(id)
            .map_or(State::Terminated, |it| it.record().state());
        let why = settled.get(id).and_then(|it| it.record().failure());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        match reached(verb, state) {
            true => Ok(()),
            false => Err(Status::aborted(format!(
                "machine {id} is {} and not what was asked for{why}; `muster machine events {id}` tells more",
                state.as_str()
            ))),
        }
    }

    pub(super) async fn orphans(
        &self,
        destroy: bool,
    ) -> Result<v1::CollectOrphansResponse, Status> {
        let machines = self.desk.machines();
        let found = match destroy {
            true => machines.collect_orphans().await,
            false => machines.find_orphans().await,
        };
        let found = found.map_err(error::collect)?;
        let failures = found.failures.iter();
        let failures = failures.map(|it| muster_telemetry::ErrorChain(it).to_string());
        Ok(v1::CollectOrphansResponse {
            orphans: found.orphans.iter().map(wire::orphan).collect(),
            failures: failures.collect(),
        })
    }
}

/// Whether a state is where a verb leads.
fn reached(verb: Verb, state: State) -> bool {
    match verb {
        Verb::Start | Verb::Resume | Verb::Reboot => state == State::Running,
        Verb::Stop | Verb::ForceStop => matches!(state, State::Stopped(_)),
        Verb::Hibernate => state == State::Stopped(muster_lifecycle::Halt::Hibernated),
        Verb::Terminate => state == State::Terminated,
    }
}
