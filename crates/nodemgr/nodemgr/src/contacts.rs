//! Whether machines answer on which somebody counts: those of pools that wait for somebody, and those that did not answer the last
//! time they were tried. A provider only says that a machine runs; whether it can be used, only a try shows.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_executor::ExecutorError;
use muster_join::has_answered;
use muster_lifecycle::State;
use muster_machines::{Contact, Machine, Machines, Snapshot};
use muster_orchestrate::{Reach, ReachError};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// What is told is known to everybody after so long.
const SOON: Duration = Duration::from_secs(2);

/// How machines are tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// So many at once; the others wait.
    pub(crate) at_once: usize,
    /// How long one try may take.
    pub(crate) patience: Duration,
    /// How long to wait after the first try that failed; doubled with each.
    pub(crate) pause: Duration,
    /// The longest such wait.
    pub(crate) pause_longest: Duration,
    /// The same once it counts as silent.
    pub(crate) pause_silent: Duration,
    /// How long a machine may boot before it counts as silent.
    pub(crate) boot: Duration,
    /// How long one that has answered may say nothing before it counts as silent.
    pub(crate) lapse: Duration,
    /// How often one that answers is tried again.
    pub(crate) again: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            at_once: 16,
            patience: Duration::from_secs(10),
            pause: Duration::from_millis(200),
            pause_longest: Duration::from_secs(5),
            pause_silent: Duration::from_secs(60),
            boot: Duration::from_secs(300),
            lapse: Duration::from_secs(30),
            again: Duration::from_secs(60),
        }
    }
}

/// What is known about a machine that is tried.
#[derive(Debug, Clone, Copy)]
struct Tried {
    /// When it came to run, or answered last.
    since: Instant,
    /// When it is tried next.
    next: Instant,
    failures: u32,
    under_way: bool,
}

/// Which machines are tried when. Pure.
#[derive(Debug, Default)]
struct Contacts {
    machines: BTreeMap<MachineId, Tried>,
}

impl Contacts {
    /// These are to be tried from now on, and no others. One that nobody has tried since it runs is tried at once.
    fn follow(&mut self, wanted: BTreeMap<MachineId, Contact>, now: Instant) {
        self.machines
            .retain(|id, tried| tried.under_way || wanted.contains_key(id));
        for (id, contact) in wanted {
            let fresh = Tried {
                since: now,
                next: now,
                failures: 0,
                under_way: false,
            };
            let tried = self.machines.entry(id).or_insert(fresh);
            // It has answered and runs anew, so fast that nobody saw that it did not. What was told a moment ago may be under way.
            if contact == Contact::Untried && tried.failures == 0 {
                tried.next = tried.next.min(tried.since + SOON);
            }
        }
    }

    /// Those that can be tried now.
    fn begin(&mut self, pace: &Pace, now: Instant) -> Vec<MachineId> {
        let under_way = self.machines.values().filter(|it| it.under_way).count();
        let free = pace.at_once.saturating_sub(under_way);
        let mut due: Vec<_> = self.machines.iter_mut().collect();
        due.retain(|(_, tried)| !tried.under_way && tried.next <= now);
        due.sort_by_key(|(_, tried)| tried.next);
        let begun = due.into_iter().take(free).map(|(id, tried)| {
            tried.under_way = true;
            id.clone()
        });
        begun.collect()
    }

    /// What a try came to: whether the machine answers, if that is known now.
    fn end(
        &mut self,
        id: &MachineId,
        answered: bool,
        contact: Contact,
        pace: &Pace,
        now: Instant,
    ) -> Option<bool> {
        let tried = self.machines.get_mut(id)?;
        tried.under_way = false;
        if answered {
            (tried.since, tried.failures) = (now, 0);
            tried.next = now + pace.again;
            return Some(true);
        }
        let by = 1 << tried.failures.min(16);
        tried.failures = tried.failures.saturating_add(1);
        let (longest, pause) = match contact {
            Contact::Untried => (pace.boot, pace.pause_longest),
            Contact::Answers => (pace.lapse, pace.pause_longest),
            Contact::Silent(_) => (pace.lapse, pace.pause_silent),
        };
        tried.next = now + pace.pause.saturating_mul(by).min(pause);
        (now.duration_since(tried.since) >= longest).then_some(false)
    }

    /// When to [`begin`](Self::begin) again, if nothing else happens.
    fn deadline(&self) -> Option<Instant> {
        let waiting = self.machines.values().filter(|tried| !tried.under_way);
        waiting.map(|tried| tried.next).min()
    }
}

/// Whether it matters that a machine answers: it waits for somebody, or it is said not to.
fn matters(machine: &Machine) -> bool {
    let record = machine.record();
    let Some(made) = record.made() else {
        return false;
    };
    // What shuts down or boots again is left alone meanwhile.
    if made.access.is_empty() || record.state() != State::Running || made.life.task().is_some() {
        return false;
    }
    let waits = record.pool.is_some() && record.claimed.is_none() && record.unit.is_none();
    waits || matches!(machine.contact(), Contact::Silent(_))
}

fn wanted(all: &Snapshot) -> BTreeMap<MachineId, Contact> {
    let wanted = all.iter().filter(|(_, machine)| matters(machine));
    wanted
        .map(|(id, machine)| (id.clone(), machine.contact()))
        .collect()
}

/// Tries machines for as long as the registry lives.
pub(crate) async fn keep(machines: Machines, reach: Arc<dyn Reach>, pace: Pace) {
    let mut all = machines.watch();
    let mut contacts = Contacts::default();
    let mut jobs: JoinSet<(MachineId, bool)> = JoinSet::new();
    loop {
        contacts.follow(wanted(&all.borrow_and_update()), Instant::now());
        for id in contacts.begin(&pace, Instant::now()) {
            jobs.spawn(attempt(
                machines.clone(),
                Arc::clone(&reach),
                id,
                pace.patience,
            ));
        }
        let free = jobs.len() < pace.at_once;
        let deadline = contacts.deadline().filter(|_| free);
        tokio::select! {
            changed = all.changed() => if changed.is_err() {
                return;
            },
            Some(Ok((id, answered))) = jobs.join_next() => {
                let contact = machines.get(&id).map_or(Contact::Untried, |it| it.contact());
                let known = contacts.end(&id, answered, contact, &pace, Instant::now());
                if let Some(reachable) = known {
                    tell(&machines, &id, contact, reachable).await;
                }
            }
            () = sleep_until(deadline) => {}
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn tell(machines: &Machines, id: &MachineId, before: Contact, reachable: bool) {
    match (before, reachable) {
        (Contact::Answers, true) | (Contact::Silent(_), false) => return,
        (_, true) => tracing::info!(machine = %id, "it answers"),
        (_, false) => tracing::warn!(machine = %id, "it runs and does not answer"),
    }
    machines.set_reachable(id, reachable).await;
}

/// Why a try failed.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error(transparent)]
    Reach(ReachError),
    #[error(transparent)]
    Executor(ExecutorError),
}

async fn attempt(
    machines: Machines,
    reach: Arc<dyn Reach>,
    id: MachineId,
    patience: Duration,
) -> (MachineId, bool) {
    let Some(machine) = machines.get(&id) else {
        return (id, false);
    };
    let probe = async {
        let executor = reach.reach(machine.record()).await;
        let executor = executor.map_err(TryError::Reach)?;
        match executor.probe().await {
            Err(error) if !has_answered(&error) => Err(TryError::Executor(error)),
            _ => Ok(()),
        }
    };
    let answered = match timeout(patience, probe).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(machine = %id, error = %ErrorChain(&error), "it does not answer yet");
            false
        }
        Err(_) => false,
    };
    (id, answered)
}
