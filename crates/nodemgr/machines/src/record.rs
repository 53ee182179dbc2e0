//! What is kept about a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use muster_lifecycle::timers::Timers;
use muster_lifecycle::{
    Lifecycle, Moment, Reason, RefusedVerb, State, Step, Verb, VerbSet, decide,
};
use muster_provider::{
    Capability, ClientToken, Described, Home, MachineId, MachineSpec, ManagerId, Mark, Order,
    Owned, ProviderId, Purchase, ResourceId,
};
use serde::{Deserialize, Serialize};

/// A machine that somebody wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineOrder {
    /// Who makes it.
    pub provider: ProviderId,
    /// The template it comes from, for people.
    pub template: String,
    /// What it is like.
    pub spec: MachineSpec,
    /// How it is paid for.
    #[serde(default)]
    pub purchase: Purchase,
    /// What its owner says about it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When it is put away.
    #[serde(default)]
    pub timers: Timers,
    /// Ordering again with the same key gives the machine that was ordered first. For whoever may crash between his order
    /// and writing down what he got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A hash of what was asked for with the key, where that is more than what is ordered: a choice among several makes an order of
    /// it. Whoever asks for something else with the key is told so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

impl MachineOrder {
    /// Whether it asks for the machine that another asks for, whoever has it and however it is paid for: the same template at the
    /// same provider, and the same of it. A name of an image that was pinned meanwhile asks for the same.
    #[must_use]
    pub fn is_for_the_same(&self, other: &Self) -> bool {
        self.provider == other.provider
            && self.template == other.template
            && self.spec.is_like(&other.spec)
    }
}

/// A machine, from the order to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Our name of it.
    pub id: MachineId,
    /// What makes its order idempotent.
    pub token: ClientToken,
    /// What was ordered.
    pub order: MachineOrder,
    /// When.
    pub ordered: Moment,
    /// The pool it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Who took it from its pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
    /// The Unit that it is a node of, by the path of its description. It stays when the machine is gone, until somebody has
    /// taken the node out of the Unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// It is in use until then, somebody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_until: Option<Moment>,
    /// Nobody has ever used it. What is older than this word may have been.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untouched: bool,
    /// How far it is.
    pub phase: Phase,
}

/// How far a machine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The provider is to make it, and may have been asked.
    Ordered,
    /// It is not wanted any more, and nobody knows whether the provider has made it.
    Cancelled {
        /// Since when.
        since: Moment,
        /// Why.
        reason: Reason,
        /// What the provider said last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    /// It exists.
    Made(Made),
    /// It does not exist any more, or never did.
    Gone {
        /// Since when.
        since: Moment,
        /// Why.
        reason: Reason,
        /// What the provider said, if it could not make it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
        /// What it was, if nobody asked it to end: should its provider show it again, it is taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<Lost>,
    },
}

/// A machine that its provider showed no more, though nobody had asked it to end. Not to be seen is not to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The provider's name of it.
    pub resource: ResourceId,
    /// When it was made.
    pub at: Moment,
    /// Who had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Home>,
}

/// A machine that exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The provider's name of it.
    pub resource: ResourceId,
    /// When it was made.
    pub at: Moment,
    /// Where it is in its life.
    pub life: Lifecycle,
    /// Who has it, behind the provider's name. Others say nothing about it by not knowing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Home>,
    /// Whether the provider may take it back.
    #[serde(default)]
    pub spot: bool,
    /// What can be asked of it, of what its provider can do at all.
    #[serde(default = "VerbSet::all", skip_serializing_if = "VerbSet::is_all")]
    pub verbs: VerbSet,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// How it can be used.
    #[serde(default)]
    pub access: BTreeSet<Capability>,
    /// What else the provider tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
    /// Why the last thing that was asked of it was not done, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl From<&Made> for Lost {
    fn from(made: &Made) -> Self {
        Self {
            resource: made.resource.clone(),
            at: made.at,
            home: made.home.clone(),
        }
    }
}

impl Made {
    pub(crate) fn new(described: Described, now: Moment) -> Self {
        Self {
            resource: described.resource,
            at: now,
            life: Lifecycle::new(described.state, now),
            home: None,
            spot: described.spot,
            verbs: described.verbs,
            address: described.address,
            access: described.access,
            details: described.details,
            trouble: None,
        }
    }
}

impl Record {
    /// Where it is: pending from its order on.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Ordered => State::Pending,
            Phase::Cancelled { .. } => State::ShuttingDown,
            Phase::Made(made) => made.life.state(),
            Phase::Gone { .. } => State::Terminated,
        }
    }

    /// What is known of it while it exists.
    #[must_use]
    pub fn made(&self) -> Option<&Made> {
        match &self.phase {
            Phase::Made(made) => Some(made),
            _ => None,
        }
    }

    /// What can be asked of it, by a provider that can do these.
    #[must_use]
    pub fn verbs(&self, of_provider: VerbSet) -> VerbSet {
        self.made()
            .map_or(of_provider, |made| of_provider.and(made.verbs))
    }

    /// What a verb would come to, by a provider that can do these.
    ///
    /// # Errors
    /// When it would be refused.
    pub fn decide(&self, verb: Verb, of_provider: VerbSet) -> Result<Step, RefusedVerb> {
        let decided = decide(self.state(), verb, self.verbs(of_provider));
        decided.map_err(|refused| refused.of_machine(of_provider))
    }

    /// Why it is gone, or is to go, if it is.
    #[must_use]
    pub fn end(&self) -> Option<Reason> {
        match &self.phase {
            Phase::Gone { reason, .. } | Phase::Cancelled { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// What its provider said when it could not make it, or not do what was asked of it last.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.phase {
            Phase::Gone { failure, .. } | Phase::Cancelled { failure, .. } => failure.as_deref(),
            Phase::Made(made) => made.trouble.as_deref(),
            Phase::Ordered => None,
        }
    }

    /// Whether nothing is under way any more with a machine that was to run: it does, it ends, or it is stopped and nobody
    /// starts it.
    #[must_use]
    pub fn has_come_up_or_not(&self) -> bool {
        match self.state() {
            State::Running | State::ShuttingDown | State::Terminated => true,
            State::Stopped(_) => self.made().is_none_or(|made| made.life.task().is_none()),
            State::Pending | State::Stopping(_) => false,
        }
    }

    /// Whether it is on its way out of running, though it may still be seen to run: nobody is given it any more.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let task = self.made().and_then(|made| made.life.task());
        let stays = |verb| matches!(verb, Verb::Start | Verb::Resume | Verb::Reboot);
        task.is_some_and(|task| !stays(task.verb))
    }

    /// Whether it is there, or somebody has to see to what it left: a node that its Unit still knows.
    #[must_use]
    pub fn concerns_somebody(&self) -> bool {
        self.state() != State::Terminated || self.unit.is_some()
    }

    /// The mark it bears at its provider.
    #[must_use]
    pub fn mark(&self, manager: &ManagerId) -> Mark {
        Mark {
            manager: manager.clone(),
            machine: self.id.clone(),
            token: self.token.clone(),
        }
    }

    /// The machine as its provider knows it, for executors and providers.
    #[must_use]
    pub fn owned(&self, manager: &ManagerId) -> Option<Owned> {
        Some(Owned {
            resource: self.made()?.resource.clone(),
            mark: self.mark(manager),
        })
    }

    pub(crate) fn provider_order(&self, manager: &ManagerId) -> Order {
        Order {
            spec: self.order.spec.clone(),
            mark: self.mark(manager),
            purchase: self.order.purchase.clone(),
            ssh: None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone { .. })
    }
}
