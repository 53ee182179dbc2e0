//! What happens in the simulated cloud, without waiting and without failing by chance.

use std::collections::{BTreeMap, BTreeSet};

use muster_lifecycle::{Halt, Moment, Reason, RefusedVerb, State, Step, Verb, VerbSet, decide};
use serde::{Deserialize, Serialize};

use super::settings::SimSettings;
use crate::error::{BoxError, FailureClass};
use crate::mark::{Mark, Owned};
use crate::name::{ClientToken, ManagerId, ResourceId};
use crate::provider::{Described, Order, Purchase};

/// A failure, before it is known who asked.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) class: FailureClass,
    pub(super) cause: BoxError,
}

fn failure(class: FailureClass, cause: impl Into<BoxError>) -> Failure {
    Failure {
        class,
        cause: cause.into(),
    }
}

/// One simulated machine, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SimMachine {
    pub(super) resource: ResourceId,
    /// None: somebody else's.
    pub(super) mark: Option<Mark>,
    state: State,
    /// What it becomes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<(Moment, State)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Its type, if it is a spot machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spot: Option<String>,
    /// What can be asked of it, of what the cloud can do at all.
    #[serde(default = "VerbSet::all", skip_serializing_if = "VerbSet::is_all")]
    verbs: VerbSet,
    /// How often it was rebooted.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(super) reboots: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

impl SimMachine {
    /// Where it is by now.
    pub(super) fn state_at(&self, now: Moment) -> State {
        match self.next {
            Some((at, state)) if at <= now => state,
            _ => self.state,
        }
    }

    fn go(&mut self, through: State, to: Option<State>, settings: &SimSettings, now: Moment) {
        let time = match through {
            State::Pending => settings.boot,
            _ => settings.halt,
        };
        self.state = through;
        self.next = to.map(|to| (now.after(time), to));
    }

    fn is_alive_at(&self, now: Moment) -> bool {
        self.state_at(now) != State::Terminated
    }

    fn describe(&self, mark: &Mark, now: Moment) -> Described {
        Described {
            resource: self.resource.clone(),
            mark: mark.clone(),
            state: self.state_at(now),
            reason: self.reason,
            spot: self.spot.is_some(),
            verbs: self.verbs,
            address: None,
            access: Default::default(),
            details: Default::default(),
        }
    }
}

/// Every machine there is. Machines that are gone stay known by their token, as with EC2.
#[derive(Debug, Default)]
pub(super) struct World {
    machines: BTreeMap<ResourceId, SimMachine>,
    tokens: BTreeMap<ClientToken, ResourceId>,
    /// Those that managers are not shown.
    hidden: BTreeSet<ResourceId>,
}

impl World {
    /// Takes a machine as it was kept.
    pub(super) fn restore(&mut self, machine: SimMachine) {
        if let Some(mark) = &machine.mark {
            let token = mark.token.clone();
            self.tokens.insert(token, machine.resource.clone());
        }
        self.machines.insert(machine.resource.clone(), machine);
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = &SimMachine> {
        self.machines.values()
    }

    pub(super) fn get(&self, resource: &ResourceId) -> Option<&SimMachine> {
        self.machines.get(resource)
    }

    fn next_resource(&self) -> ResourceId {
        let number = self.machines.len() + 1;
        ResourceId::new(&format!("sim-{number:08}")).expect("digits are visible")
    }

    fn running(&self, mark: Option<Mark>) -> SimMachine {
        SimMachine {
            resource: self.next_resource(),
            mark,
            state: State::Running,
            next: None,
            reason: None,
            spot: None,
            verbs: VerbSet::ALL,
            reboots: 0,
        }
    }

    /// Makes a machine that belongs to nobody we know.
    pub(super) fn add_foreign(&mut self) -> SimMachine {
        let machine = self.running(None);
        self.restore(machine.clone());
        machine
    }

    /// Makes one more machine with a mark, whose token goes on to give the first.
    pub(super) fn duplicate(&mut self, mark: &Mark) -> SimMachine {
        let machine = self.running(Some(mark.clone()));
        self.machines
            .insert(machine.resource.clone(), machine.clone());
        machine
    }

    /// Shows a machine to managers no more, or again.
    pub(super) fn hide(&mut self, resource: &ResourceId, hidden: bool) {
        match hidden {
            true => self.hidden.insert(resource.clone()),
            false => self.hidden.remove(resource),
        };
    }

    fn count(&self, now: Moment, which: impl Fn(&SimMachine) -> bool) -> u32 {
        let alive = self.machines.values();
        let found = alive.filter(|machine| which(machine) && machine.is_alive_at(now));
        u32::try_from(found.count()).unwrap_or(u32::MAX)
    }

    /// The type of spot machine to give; `None` for one on demand.
    fn kind(
        &self,
        purchase: &Purchase,
        settings: &SimSettings,
        now: Moment,
    ) -> Result<Option<String>, Failure> {
        let capacity = &settings.capacity;
        if let Purchase::Spot { types, fallback } = purchase {
            let free = |kind: &String| {
                let offered = capacity.spot.get(kind).copied();
                let used = self.count(now, |machine| machine.spot.as_ref() == Some(kind));
                capacity.spot.is_empty() || offered.is_some_and(|offered| used < offered)
            };
            let any = || capacity.spot.keys().find(|&kind| free(kind)).cloned();
            let found = match types.as_slice() {
                [] if capacity.spot.is_empty() => Some("any".to_owned()),
                [] => any(),
                types => types.iter().find(|&kind| free(kind)).cloned(),
            };
            match found {
                Some(kind) => return Ok(Some(kind)),
                None if !fallback => {
                    let cause = format!("no spot machine of the types {types:?} is to be had");
                    return Err(failure(FailureClass::Capacity, cause));
                }
                None => {}
            }
        }
        let used = self.count(now, |machine| machine.spot.is_none());
        match capacity.on_demand {
            Some(most) if used >= most => {
                let cause = format!("all {most} machines are in use");
                Err(failure(FailureClass::Capacity, cause))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn provision(
        &mut self,
        order: &Order,
        settings: &SimSettings,
        now: Moment,
    ) -> Result<(Described, Option<SimMachine>), Failure> {
        let mark = &order.mark;
        if let Some(known) = self.tokens.get(&mark.token) {
            let machine = &self.machines[known];
            if machine.mark.as_ref() != Some(mark) {
                let cause = "this token was used with another mark";
                return Err(failure(FailureClass::Refused, cause));
            }
            return Ok((machine.describe(mark, now), None));
        }
        let of_manager = |machine: &SimMachine| {
            let mark = machine.mark.as_ref();
            mark.is_some_and(|it| it.manager == order.mark.manager)
        };
        if let Some(quota) = settings.capacity.quota
            && self.count(now, of_manager) >= quota
        {
            let cause = format!("a manager may have {quota} machines");
            return Err(failure(FailureClass::Quota, cause));
        }
        let spot = self.kind(&order.purchase, settings, now)?;
        let verbs = match spot {
            Some(_) => settings.made_with.and(settings.spot_verbs),
            None => settings.made_with,
        };
        let mut machine = SimMachine {
            resource: self.next_resource(),
            mark: Some(mark.clone()),
            state: State::Pending,
            next: None,
            reason: None,
            spot,
            verbs,
            reboots: 0,
        };
        machine.go(State::Pending, Some(State::Running), settings, now);
        let described = machine.describe(mark, now);
        self.restore(machine.clone());
        Ok((described, Some(machine)))
    }

    /// The machine of that name, if it is alive or remembered and bears the mark.
    fn owned(&mut self, owned: &Owned) -> Result<Option<&mut SimMachine>, Failure> {
        match self.machines.get_mut(&owned.resource) {
            Some(_) if self.hidden.contains(&owned.resource) => Ok(None),
            Some(machine) if machine.mark.as_ref() != Some(&owned.mark) => {
                let cause = "the machine does not bear our mark";
                Err(failure(FailureClass::Refused, cause))
            }
            machine => Ok(machine),
        }
    }

    pub(super) fn describe(
        &mut self,
        owned: &Owned,
        now: Moment,
    ) -> Result<Option<Described>, Failure> {
        let machine = self.owned(owned)?;
        Ok(machine.map(|machine| machine.describe(&owned.mark, now)))
    }

    pub(super) fn list(&self, manager: &ManagerId, now: Moment) -> Vec<Described> {
        let alive = self
            .machines
            .values()
            .filter(|machine| machine.is_alive_at(now) && !self.hidden.contains(&machine.resource));
        alive
            .filter_map(|machine| {
                let mark = machine.mark.as_ref()?;
                (mark.manager == *manager).then(|| machine.describe(mark, now))
            })
            .collect()
    }

    pub(super) fn destroy(
        &mut self,
        owned: &Owned,
        settings: &SimSettings,
        now: Moment,
    ) -> Result<(State, Option<SimMachine>), Failure> {
        let Some(machine) = self.owned(owned)? else {
            return Ok((State::Terminated, None));
        };
        if machine.state_at(now).is_ending() {
            return Ok((machine.state_at(now), None));
        }
        let end = Some(State::Terminated);
        machine.go(State::ShuttingDown, end, settings, now);
        Ok((machine.state_at(now), Some(machine.clone())))
    }

    pub(super) fn act(
        &mut self,
        owned: &Owned,
        verb: Verb,
        settings: &SimSettings,
        now: Moment,
    ) -> Result<(State, Option<SimMachine>), Failure> {
        if verb == Verb::Terminate {
            return self.destroy(owned, settings, now);
        }
        let Some(machine) = self.owned(owned)? else {
            return Err(failure(FailureClass::NotFound, "there is no such machine"));
        };
        let state = machine.state_at(now);
        let step = decide(state, verb, settings.verbs.and(machine.verbs)).map_err(|refused| {
            let refused = refused.of_machine(settings.verbs);
            let class = match refused {
                RefusedVerb::Unsupported { .. } => FailureClass::Unsupported,
                RefusedVerb::Illegal { .. } | RefusedVerb::NotThisOne { .. } => {
                    FailureClass::Refused
                }
            };
            failure(class, refused)
        })?;
        let Step::Act(verb) = step else {
            return Ok((state, None));
        };
        match verb {
            Verb::Start | Verb::Resume => {
                machine.go(State::Pending, Some(State::Running), settings, now);
            }
            Verb::Stop => {
                let off = State::Stopped(Halt::Off);
                let end = (!settings.ignore_stop).then_some(off);
                machine.go(State::Stopping(Halt::Off), end, settings, now);
            }
            Verb::ForceStop => {
                let off = State::Stopped(Halt::Off);
                machine.go(State::Stopping(Halt::Off), Some(off), settings, now);
            }
            Verb::Hibernate => {
                let through = State::Stopping(Halt::Hibernated);
                let to = State::Stopped(Halt::Hibernated);
                machine.go(through, Some(to), settings, now);
            }
            Verb::Reboot => machine.reboots += 1,
            Verb::Terminate => {}
        }
        Ok((machine.state_at(now), Some(machine.clone())))
    }

    /// Takes a spot machine back. Nothing happens to one that is not.
    pub(super) fn interrupt(
        &mut self,
        resource: &ResourceId,
        settings: &SimSettings,
        now: Moment,
    ) -> Option<SimMachine> {
        let machine = self.machines.get_mut(resource)?;
        if machine.spot.is_none() || machine.state_at(now).is_ending() {
            return None;
        }
        machine.reason = Some(Reason::Interrupted);
        let end = Some(State::Terminated);
        machine.go(State::ShuttingDown, end, settings, now);
        Some(machine.clone())
    }
}
