//! Where instances run: the balancer of updates, over the pure planners of places and networks.
//!
//! One plan at a time. What a plan gives out (users, addresses) is on disk before anybody acts upon it.

mod database;
mod plan;
mod surroundings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use muster_api::domain::{AosCode, AosError, InstanceIdent, RuntimeId, RuntimeType, SubjectId};
use muster_balance::{ExplainInstanceError, Explanation};
use muster_desired::seams::{Assignment, Balancer, Question};
use muster_dns::UnitNames;
use muster_instance_data::{InstanceData, Prepared};
use muster_items::Items;
use muster_store::Store;
use muster_telemetry::ErrorChain;
use muster_unit_config::UnitConfig;
use tokio::sync::{Mutex, watch};

pub(crate) use self::database::{LoadBooksError, SCHEMA};
pub(crate) use self::plan::PlanError;
use self::plan::{Books, Planned};
use self::surroundings::{ItemFacts, Surroundings};
use crate::config::parts::NetworksConfig;
use crate::fault::BOOKS_WRITTEN;
use crate::names::{self, UnitHosts};
use crate::nodes::NodeDirectory;

/// So many items are looked at at a time, where they are not here.
const LOOKS: usize = 8;

/// So long is waited for all of them.
const LOOKING: Duration = Duration::from_secs(20);

/// What a preview may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Items that are here.
    Here,
    /// Also sources of items that are not, for what they need.
    AlsoSources,
}

/// What places are made from.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) items: Items,
    pub(crate) nodes: NodeDirectory,
    pub(crate) unit_config: watch::Receiver<Option<Arc<UnitConfig>>>,
    /// Subjects that the Unit itself says are there.
    pub(crate) subjects: watch::Receiver<BTreeSet<SubjectId>>,
    pub(crate) data: InstanceData,
    pub(crate) networks: Option<NetworksConfig>,
    /// After so long, what an instance had is given to others.
    pub(crate) instance_ttl: Duration,
    pub(crate) handed_out: muster_balance::Limits,
}

/// Places instances.
#[derive(Debug)]
pub(crate) struct Placer {
    parts: Parts,
    /// Held while a plan is made and written down.
    books: Mutex<Books>,
    /// Of the last plan that was written down.
    names: watch::Sender<Arc<UnitNames>>,
}

impl Placer {
    pub(crate) async fn open(parts: Parts) -> Result<Self, LoadBooksError> {
        let books = Mutex::new(database::load(&parts.store).await?);
        let hosts = database::load_names(&parts.store).await;
        let hosts = hosts.map_err(LoadBooksError::Store)?;
        let (names, _) = watch::channel(Arc::new(names::served(&hosts)));
        Ok(Self {
            parts,
            books,
            names,
        })
    }

    /// The names of all instances that were given a place.
    pub(crate) fn names(&self) -> watch::Receiver<Arc<UnitNames>> {
        self.names.subscribe()
    }

    /// All but items.
    fn bare_surroundings(&self) -> Surroundings {
        Surroundings {
            nodes: self.parts.nodes.all(),
            unit_config: self.parts.unit_config.borrow().clone(),
            subjects: self.parts.subjects.borrow().clone(),
            handed_out: self.parts.handed_out.clone(),
            ..Surroundings::default()
        }
    }

    /// With items that may not be here yet: what they are is asked for at their sources.
    async fn looked_around(&self, question: &Question) -> Surroundings {
        let mut around = self.bare_surroundings();
        let looks = question.items.iter().map(|(id, item)| {
            let (items, desired) = (self.parts.items.clone(), Arc::clone(&question.desired));
            let (id, item) = (id.clone(), item.clone());
            async move { (id, items.inspect(&item, desired.trust()).await) }.boxed()
        });
        let looks: Vec<_> = looks.collect();
        let mut looks = futures_util::stream::iter(looks).buffer_unordered(LOOKS);
        let deadline = tokio::time::Instant::now() + LOOKING;
        while let Ok(Some((id, looked))) = tokio::time::timeout_at(deadline, looks.next()).await {
            match looked {
                Ok(described) => {
                    around.items.insert(id, ItemFacts::new(described));
                }
                Err(error) => {
                    let error = unknown(&ErrorChain(&error));
                    around.unreadable.insert(id, error);
                }
            }
        }
        for id in question.items.keys() {
            if !around.items.contains_key(id) && !around.unreadable.contains_key(id) {
                let why = format!("its source was not reached within {} s", LOOKING.as_secs());
                around.unreadable.insert(id.clone(), unknown(&why));
            }
        }
        around
    }

    async fn surroundings(&self, question: &Question) -> Surroundings {
        let mut around = self.bare_surroundings();
        for (id, item) in &question.items {
            match self.parts.items.describe(item).await {
                Ok(described) => {
                    around.items.insert(id.clone(), ItemFacts::new(described));
                }
                Err(error) => {
                    let error = AosError::new(AosCode::NotFound, ErrorChain(&error).to_string());
                    around.unreadable.insert(id.clone(), error);
                }
            }
        }
        around
    }

    /// Decides, beside the runtime: thousands of instances take a while.
    async fn decide(
        &self,
        question: Question,
        around: Surroundings,
        books: Books,
    ) -> Result<Decided, PlanError> {
        let networks = self.parts.networks.clone();
        let named = self.names.borrow().clone();
        let now = seconds(SystemTime::now());
        let expired = now.saturating_sub(self.parts.instance_ttl.as_secs());
        let work = move || {
            let decided = plan::plan(&question, &around, &books, networks.as_ref(), now, expired);
            decided.map(|(mut planned, forgotten)| {
                let hosts = planned.networks.as_mut().map(names::taken_from);
                let hosts = hosts.unwrap_or_default();
                let served = names::served(&hosts);
                Decided {
                    news: (served != *named).then(|| NewNames {
                        served: Arc::new(served),
                        hosts,
                    }),
                    question,
                    around,
                    planned,
                    forgotten,
                }
            })
        };
        let decided = tokio::task::spawn_blocking(work).await;
        decided.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }

    async fn place(&self, question: Question) -> Result<Assignment, AosError> {
        let around = self.surroundings(&question).await;
        let mut books = self.books.lock().await;
        let decided = self.decide(question, around, books.clone()).await;
        let mut decided = decided.map_err(|error| failed(&error))?;
        if decided.planned.books != *books {
            let written = database::save(&self.parts.store, &decided.planned.books).await;
            written.map_err(|error| failed(&error))?;
            muster_fault::hit(BOOKS_WRITTEN);
            *books = decided.planned.books.clone();
        }
        if let Some(news) = decided.news.take() {
            let written = database::save_names(&self.parts.store, news.hosts).await;
            written.map_err(|error| failed(&error))?;
            self.names.send_replace(news.served);
        }
        drop(books);
        let prepared = self.prepare(&decided).await;
        let Decided {
            question,
            around,
            planned,
            ..
        } = decided;
        for note in planned.networks.iter().flat_map(|it| &it.notes) {
            tracing::warn!(%note, "a network is not as it may have been meant");
        }
        Ok(plan::assignment(&question, &around, &planned, prepared))
    }

    /// Folders of those who keep something, and the end of those that nobody wanted for long.
    async fn prepare(
        &self,
        decided: &Decided,
    ) -> BTreeMap<InstanceIdent, Result<Prepared, AosError>> {
        let data = &self.parts.data;
        let mut prepared = BTreeMap::new();
        for (instance, needs) in plan::needs(&decided.around, &decided.planned.plan) {
            let result = data.prepare(instance.clone(), needs).await;
            prepared.insert(instance, result.map_err(|error| failed(&error)));
        }
        for instance in decided.planned.plan.removed.keys() {
            data.release(instance.clone()).await;
        }
        for instance in &decided.forgotten {
            if let Err(error) = data.remove(instance.clone()).await {
                let error = ErrorChain(&error);
                tracing::warn!(%instance, %error, "what an instance kept is not removed");
            }
        }
        prepared
    }

    /// Where everything would be. Nothing is given out, and nothing is kept of items that are not here.
    pub(crate) async fn preview(
        &self,
        question: Question,
        sight: Sight,
    ) -> Result<Previewed, PlanError> {
        let around = match sight {
            Sight::AlsoSources => self.looked_around(&question).await,
            Sight::Here => {
                let mut around = self.surroundings(&question).await;
                for (item, error) in &mut around.unreadable {
                    // Only what is here says what it needs.
                    error.message = format!("item {item} is placed when it has been downloaded");
                }
                around
            }
        };
        let runtimes = runtime_types(&around);
        let books = self.books.lock().await.clone();
        let decided = self.decide(question, around, books).await?;
        let Decided {
            question,
            around,
            planned,
            ..
        } = decided;
        let assignment = plan::assignment(&question, &around, &planned, BTreeMap::new());
        Ok(Previewed {
            assignment,
            runtimes,
        })
    }

    /// Why an instance is where it is.
    pub(crate) async fn explain(
        &self,
        question: Question,
        instance: InstanceIdent,
    ) -> Result<Explanation, ExplainInstanceError> {
        let around = self.surroundings(&question).await;
        let ledger = self.books.lock().await.ledger.clone();
        let work = move || muster_balance::explain(&around.request(&question), &ledger, &instance);
        let explained = tokio::task::spawn_blocking(work).await;
        explained.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }
}

/// Where everything would be.
#[derive(Debug)]
pub(crate) struct Previewed {
    pub(crate) assignment: Assignment,
    /// What each runtime is.
    pub(crate) runtimes: BTreeMap<RuntimeId, RuntimeType>,
}

/// A plan, with what it was made from.
#[derive(Debug)]
struct Decided {
    question: Question,
    around: Surroundings,
    planned: Planned,
    /// Instances that nobody wanted for long.
    forgotten: Vec<InstanceIdent>,
    /// Names, if they are others than before.
    news: Option<NewNames>,
}

/// What can be resolved in each network.
#[derive(Debug)]
struct NewNames {
    hosts: UnitHosts,
    /// The same, as it is served.
    served: Arc<UnitNames>,
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}

/// Of an item that cannot be looked at.
fn unknown(why: &dyn std::fmt::Display) -> AosError {
    let text = format!("where it would run is not known: {why}");
    AosError::new(AosCode::NotFound, text)
}

fn failed(error: &(dyn std::error::Error + 'static)) -> AosError {
    AosError::new(AosCode::Failed, ErrorChain(error).to_string())
}

fn runtime_types(around: &Surroundings) -> BTreeMap<RuntimeId, RuntimeType> {
    let managers = around.nodes.iter().filter_map(|(_, it)| it.sm.as_ref());
    let runtimes = managers.flat_map(|it| &it.runtimes);
    runtimes
        .map(|it| (it.runtime_id.clone(), it.runtime_type.clone()))
        .collect()
}

impl Balancer for Placer {
    fn plan(&self, question: Question) -> BoxFuture<'_, Result<Assignment, AosError>> {
        Box::pin(self.place(question))
    }
}
