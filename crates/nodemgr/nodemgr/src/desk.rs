//! What every call works with: the machines, who makes them, and what is written about them.

mod pins;
mod pools;
mod provision;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Moment, State, VerbSet};
use muster_machine_api::v1;
use muster_machines::{AskError, Contact, Machine, Machines, Record};
use muster_provider::{Clock, MachineId, ManagerId, ProviderId};
use muster_schedule::{Policy, Quota};
use muster_seed::ManagerKeys;
use muster_telemetry::CancellationToken;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use self::pools::PoolWish;
pub(crate) use self::provision::{Key, Ordered, ProvisionFailed, nothing_fits};
use crate::access::{AccessError, access};
use crate::catalog::{Catalog, Descriptions, LoadCatalogError};
use crate::choice::{Choice, ChooseError, Existing, Offer, Wish, decide};
use crate::providers::{Enabled, Unusable};
use crate::service::wish::Usual;
use crate::ways::SshWays;
use crate::wire;

/// The label by which people may call a machine.
pub(crate) const NAME: &str = "name";

/// A machine that was made for a run, and that no run uses, goes after so long.
pub(crate) const IDLE_OF_RUNS: Duration = Duration::from_secs(15 * 60);

/// What the desk is made of.
#[derive(Debug)]
pub(crate) struct DeskParts {
    pub(crate) machines: Machines,
    pub(crate) providers: Vec<Enabled>,
    pub(crate) unusable: Vec<Unusable>,
    pub(crate) descriptions: Descriptions,
    pub(crate) policy: Policy,
    pub(crate) insecure: bool,
    /// Whether the configured policy says that a machine that is free will do.
    pub(crate) reuse: bool,
    pub(crate) timers: Timers,
    pub(crate) keys: Arc<ManagerKeys>,
    pub(crate) ways: SshWays,
    pub(crate) manager: ManagerId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) about: About,
    pub(crate) stop: CancellationToken,
}

/// What the manager says of itself.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) state_dir: String,
    pub(crate) config_file: String,
    pub(crate) started: Moment,
}

/// The desk. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Desk(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    parts: DeskParts,
    /// Whoever has it may change the lock file.
    lock_file: Mutex<()>,
    /// Whoever has it may change the templates that were added.
    templates: Mutex<()>,
}

/// Why no machine is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindError {
    #[error("there is no machine {name:?}{}", suggestion.as_ref().map(|it| format!("; did you mean {it}?")).unwrap_or_else(|| "; `muster machine list` shows those that there are".to_owned()))]
    None {
        name: String,
        suggestion: Option<String>,
    },
    #[error("{name:?} could be any of {}: write more of it", candidates.join(", "))]
    Several {
        name: String,
        candidates: Vec<String>,
    },
}

/// Why no choice was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceFailed {
    #[error("cannot read what is written about machines")]
    Catalog(#[source] LoadCatalogError),
    #[error(transparent)]
    Choose(ChooseError),
    #[error("the provider {0} cannot be used: {1}")]
    Unusable(ProviderId, String),
    #[error("reading what is written about machines ended early")]
    Interrupted,
}

impl DeskParts {
    /// What wishes go by that say nothing else.
    pub(crate) fn usual(&self) -> Usual<'_> {
        Usual {
            policy: &self.policy,
            reuse: self.reuse,
            insecure: self.insecure,
        }
    }

    /// The same for those who want one of their own: pools, runs, which may put away what they take, and whoever names it.
    pub(crate) fn usual_anew(&self) -> Usual<'_> {
        Usual {
            reuse: false,
            ..self.usual()
        }
    }
}

impl Desk {
    pub(crate) fn new(parts: DeskParts) -> Self {
        Self(Arc::new(Inside {
            parts,
            lock_file: Mutex::new(()),
            templates: Mutex::new(()),
        }))
    }

    pub(crate) fn parts(&self) -> &DeskParts {
        &self.0.parts
    }

    pub(crate) fn machines(&self) -> &Machines {
        &self.0.parts.machines
    }

    pub(crate) fn provider(&self, id: ProviderId) -> Option<&Enabled> {
        let mut providers = self.0.parts.providers.iter();
        providers.find(|it| it.offer.profile.id == id)
    }

    /// Why nothing can be asked of a machine, if its provider is not there.
    pub(crate) fn without_provider(&self, record: &Record) -> Option<AskError> {
        let provider = record.order.provider;
        if self.provider(provider).is_some() || record.state() == State::Terminated {
            return None;
        }
        let mut unusable = self.parts().unusable.iter();
        Some(AskError::NoProvider {
            machine: record.id.clone(),
            provider,
            why: unusable
                .find(|it| it.id == provider)
                .map(|it| it.why.clone()),
        })
    }

    pub(crate) fn verbs(&self, id: ProviderId) -> VerbSet {
        self.provider(id)
            .map_or(VerbSet::NONE, |it| it.offer.profile.verbs)
    }

    pub(crate) fn show(&self, machine: &Machine) -> v1::Machine {
        wire::machine(machine, self.verbs(machine.record().order.provider))
    }

    /// Whoever has it may change the lock file.
    pub(crate) async fn lock_file(&self) -> MutexGuard<'_, ()> {
        self.0.lock_file.lock().await
    }

    /// Whoever has it may change the templates that were added.
    pub(crate) async fn added_templates(&self) -> MutexGuard<'_, ()> {
        self.0.templates.lock().await
    }

    /// What is needed to reach a machine.
    pub(crate) fn access(&self, record: &Record) -> Result<v1::Access, AccessError> {
        let enabled = self.provider(record.order.provider);
        let endpoint = enabled.map_or("", |it| it.endpoint.as_str());
        let way = self.0.parts.ways.of(record.order.provider);
        access(record, endpoint, way, &self.0.parts.keys)
    }

    /// The machine that is meant by an id, a name, or a beginning of an id.
    pub(crate) fn find(&self, name: &str) -> Result<Machine, FindError> {
        find(&self.machines().all(), name)
    }

    /// What is written about machines, as it is now.
    pub(crate) async fn catalog(&self) -> Result<Catalog, ChoiceFailed> {
        let descriptions = self.0.parts.descriptions.clone();
        let loaded = tokio::task::spawn_blocking(move || descriptions.load()).await;
        let loaded = loaded.map_err(|_| ChoiceFailed::Interrupted)?;
        let loaded = loaded.map_err(ChoiceFailed::Catalog)?;
        let providers = self.0.parts.providers.iter();
        Ok(providers.fold(loaded, |catalog, it| {
            catalog.with_usual(it.offer.profile.id, it.usual.clone())
        }))
    }

    pub(crate) async fn choose(&self, wish: &Wish) -> Result<Choice, ChoiceFailed> {
        let offers = self.parts().providers.iter();
        let offers: Vec<Offer> = offers.map(|it| it.offer.clone()).collect();
        self.choose_among(&offers, wish).await
    }

    /// As if no quota were used up.
    pub(crate) async fn choose_beyond_quotas(&self, wish: &Wish) -> Result<Choice, ChoiceFailed> {
        let offers = self.parts().providers.iter().map(|it| Offer {
            quota: Quota::default(),
            ..it.offer.clone()
        });
        let offers: Vec<Offer> = offers.collect();
        self.choose_among(&offers, wish).await
    }

    async fn choose_among(&self, offers: &[Offer], wish: &Wish) -> Result<Choice, ChoiceFailed> {
        let catalog = self.catalog().await?;
        let parts = self.parts();
        let all = self.machines().all();
        let now = parts.clock.now();
        let existing = all.values().map(|machine| Existing {
            record: machine.record(),
            busy: machine.work().is_busy(now),
            silent: matches!(machine.contact(), Contact::Silent(_)),
        });
        let decided = decide(wish, &catalog, offers, existing, now);
        decided.map_err(|error| self.explained(error))
    }

    /// A provider that is missed may be one that was wanted and cannot be used.
    fn explained(&self, error: ChooseError) -> ChoiceFailed {
        let mut unusable = self.parts().unusable.iter();
        let found = match &error {
            ChooseError::NoProvider(id) => unusable.find(|it| it.id == *id),
            ChooseError::NoProviders => unusable.next(),
            ChooseError::Template(_) => None,
        };
        match found {
            Some(it) => ChoiceFailed::Unusable(it.id, it.why.clone()),
            None => ChoiceFailed::Choose(error),
        }
    }
}

fn find(all: &BTreeMap<MachineId, Machine>, name: &str) -> Result<Machine, FindError> {
    if let Some(machine) = MachineId::new(name).ok().and_then(|id| all.get(&id)) {
        return Ok(machine.clone());
    }
    let alive = |machine: &&Machine| !machine.record().state().is_ending();
    let called = |machine: &&Machine| {
        let labels = &machine.record().order.labels;
        labels.get(NAME).is_some_and(|it| it == name)
    };
    let begins = |machine: &&Machine| {
        let id = machine.record().id.as_str();
        !name.is_empty()
            && (id.starts_with(name)
                || id.strip_prefix("m-").is_some_and(|it| it.starts_with(name)))
    };
    let named: Vec<&Machine> = all.values().filter(called).filter(alive).collect();
    let meant = match named.is_empty() {
        true => all.values().filter(begins).collect(),
        false => named,
    };
    match meant.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let names = all.values().filter(alive).flat_map(|machine| {
                let record = machine.record();
                [
                    Some(record.id.as_str()),
                    record.order.labels.get(NAME).map(String::as_str),
                ]
            });
            let names: Vec<&str> = names.flatten().collect();
            Err(FindError::None {
                name: muster_config::printable(name, 64),
                suggestion: muster_config::nearest(name, &names).map(ToOwned::to_owned),
            })
        }
        several => Err(FindError::Several {
            name: muster_config::printable(name, 64),
            candidates: several
                .iter()
                .take(5)
                .map(|it| it.record().id.to_string())
                .collect(),
        }),
    }
}
