//! Nodes run when their machines do: where no systemd starts them, this does, after every start and reboot of a machine. It is tried
//! again, later and later, as long as the machine runs: one that boots answers late, and one that was away comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_executor::ExecutorError;
use muster_join::{JoinError, restart};
use muster_lifecycle::{State, Verb};
use muster_machine_api::reach::{self, ReachError};
use muster_machines::{Happened, MachineEvent, Record};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::access::AccessError;
use crate::desk::Desk;

/// How long is waited after the first time in vain, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A machine that boots is tried so often in vain, and nobody need know.
const USUAL: u32 = 6;
/// So many machines are seen to at once; the others wait.
const AT_ONCE: usize = 8;

/// Why a node does not run though its machine does.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error(transparent)]
    Access(AccessError),
    #[error(transparent)]
    Reach(ReachError),
    #[error("its machine does not answer")]
    Silent(#[source] ExecutorError),
    #[error(transparent)]
    Start(JoinError),
}

/// Which nodes are to be started, and when. Pure.
#[derive(Debug, Default)]
struct Waking {
    /// Not before then.
    waiting: BTreeMap<MachineId, Instant>,
    under_way: BTreeSet<MachineId>,
    /// How often in a row each was tried in vain.
    failures: BTreeMap<MachineId, u32>,
}

impl Waking {
    /// A machine has come up: its node is tried at once, whatever was before.
    fn add(&mut self, id: MachineId, now: Instant) {
        self.failures.remove(&id);
        self.waiting.insert(id, now);
    }

    /// Those that can be begun with now, the ones that wait longest first. One that is under way already comes again afterwards.
    fn begin(&mut self, now: Instant) -> Vec<MachineId> {
        let free = AT_ONCE.saturating_sub(self.under_way.len());
        let due = self.waiting.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due
            .filter(|(id, _)| !self.under_way.contains(*id))
            .collect();
        due.sort_by_key(|(_, at)| **at);
        let next: Vec<MachineId> = due
            .into_iter()
            .take(free)
            .map(|(id, _)| id.clone())
            .collect();
        for id in &next {
            self.waiting.remove(id);
            self.under_way.insert(id.clone());
        }
        next
    }

    /// When others can be begun with, if nothing happens before. As long as no more may be under way, that does not count.
    fn wake(&self) -> Option<Instant> {
        let next = self.waiting.iter();
        let next = next.filter(|(id, _)| !self.under_way.contains(*id));
        next.map(|(_, at)| *at)
            .min()
            .filter(|_| self.under_way.len() < AT_ONCE)
    }

    /// One that was under way is over. What was in vain is tried again, later each time; how often it was in vain in a row is told.
    fn end(&mut self, id: &MachineId, in_vain: bool, now: Instant) -> u32 {
        self.under_way.remove(id);
        if !in_vain {
            self.failures.remove(id);
            return 0;
        }
        let failures = self.failures.entry(id.clone()).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1_u32 << (*failures).min(16));
        *failures = failures.saturating_add(1);
        // One that has come up again meanwhile is not waited with.
        let until = now + pause.min(LONGEST_PAUSE);
        self.waiting.entry(id.clone()).or_insert(until);
        *failures
    }
}

/// Whether a machine may have been without its node a moment ago.
fn has_come_up(what: &Happened) -> bool {
    matches!(
        what,
        Happened::Moved {
            to: State::Running,
            ..
        } | Happened::Done { verb: Verb::Reboot }
    )
}

fn is_running_node(record: &Record) -> bool {
    record.unit.is_some() && record.state() == State::Running
}

/// Starts nodes again for as long as the registry lives.
pub(crate) async fn keep(desk: Desk) {
    let Some(mut events) = desk.machines().events() else {
        return;
    };
    let mut waking = Waking::default();
    let mut jobs: JoinSet<(MachineId, Result<(), WakeError>)> = JoinSet::new();
    // Machines may have been started while nobody looked.
    add_all(&mut waking, &desk);
    loop {
        for id in waking.begin(Instant::now()) {
            jobs.spawn(wake(desk.clone(), id));
        }
        let due = async {
            match waking.wake() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv() => match event {
                Ok(MachineEvent { machine, what, .. }) if has_come_up(&what) => {
                    let found = desk.machines().get(&machine);
                    if found.is_some_and(|it| it.record().unit.is_some()) {
                        waking.add(machine, Instant::now());
                    }
                }
                Ok(_) => {}
                // Too much happened at once; whose node runs is left alone.
                Err(RecvError::Lagged(_)) => add_all(&mut waking, &desk),
                Err(RecvError::Closed) => return,
            },
            Some(Ok((id, woken))) = jobs.join_next() => {
                let failures = waking.end(&id, woken.is_err(), Instant::now());
                if let Err(error) = woken {
                    tell(&id, &error, failures);
                }
            }
            () = due => {}
        }
    }
}

fn tell(machine: &MachineId, error: &WakeError, failures: u32) {
    let error = ErrorChain(error);
    match failures <= USUAL {
        true => tracing::debug!(%machine, %error, failures, "its node was not started yet"),
        false => tracing::warn!(%machine, %error, failures, "its node was not started again"),
    }
}

fn add_all(waking: &mut Waking, desk: &Desk) {
    let now = Instant::now();
    for id in all_nodes(desk) {
        waking.add(id, now);
    }
}

fn all_nodes(desk: &Desk) -> Vec<MachineId> {
    let all = desk.machines().all();
    let records = all.values().map(|machine| machine.record());
    let nodes = records.filter(|record| is_running_node(record));
    nodes.map(|record| record.id.clone()).collect()
}

/// Whatever is not a running node any more needs no start.
async fn wake(desk: Desk, id: MachineId) -> (MachineId, Result<(), WakeError>) {
    let record = desk.machines().get(&id).map(|it| it.record().clone());
    let woken = match record.filter(|record| is_running_node(record)) {
        Some(record) => start(&desk, &record).await,
        None => Ok(()),
    };
    (id, woken)
}

/// A machine that does not answer yet makes room for others.
async fn start(desk: &Desk, record: &Record) -> Result<(), WakeError> {
    let access = desk.access(record).map_err(WakeError::Access)?;
    let executor = reach::executor(&access).map_err(WakeError::Reach)?;
    executor.probe().await.map_err(WakeError::Silent)?;
    restart(&*executor).await.map_err(WakeError::Start)?;
    tracing::info!(machine = %record.id, "its node runs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u32) -> Vec<MachineId> {
        let ids = (0..count).map(|it| MachineId::new(&format!("m-{it:02}")).unwrap());
        ids.collect()
    }

    #[test]
    fn a_few_nodes_are_started_at_once_and_none_is_forgotten() {
        let all = ids(10);
        let now = Instant::now();
        let mut waking = Waking::default();
        for id in &all {
            waking.add(id.clone(), now);
        }
        let first = waking.begin(now);
        assert_eq!(first, all[..AT_ONCE]);
        // It was rebooted meanwhile.
        waking.add(all[0].clone(), now);
        assert_eq!(waking.begin(now), []);
        assert_eq!(waking.wake(), None, "there is no room");
        waking.end(&all[0], false, now);
        assert_eq!(waking.wake(), Some(now));
        assert_eq!(waking.begin(now), [all[0].clone()]);
        for id in &first[1..] {
            waking.end(id, false, now);
        }
        assert_eq!(waking.begin(now), all[AT_ONCE..]);
        assert_eq!(waking.begin(now), []);
        assert_eq!(waking.wake(), None);
    }

    #[test]
    fn a_node_that_was_not_started_is_tried_again_later_and_later_and_holds_nobody_up() {
        let all = ids(u32::try_from(AT_ONCE).unwrap() + 1);
        let (late, silent) = all.split_last().unwrap();
        let mut now = Instant::now();
        let mut waking = Waking::default();
        for id in silent {
            waking.add(id.clone(), now);
        }
        assert_eq!(waking.begin(now), silent);
        waking.add(late.clone(), now);
        for id in silent {
            assert_eq!(waking.end(id, true, now), 1);
        }
        // Whoever has not been tried yet comes first.
        assert_eq!(waking.begin(now), std::slice::from_ref(late));
        waking.end(late, false, now);
        let mut pauses = Vec::new();
        for times in 2..=12 {
            let at = waking.wake().unwrap();
            pauses.push((at - now).as_secs());
            assert_eq!(waking.begin(at - Duration::from_millis(1)), []);
            now = at;
            for id in waking.begin(now) {
                assert_eq!(waking.end(&id, true, now), times);
            }
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        // A machine that comes up again is tried at once, and patiently again.
        waking.add(silent[0].clone(), now);
        assert_eq!(waking.begin(now), [silent[0].clone()]);
        assert_eq!(waking.end(&silent[0], true, now), 1);
        // One whose machine does not run any more is not.
        let at = waking.wake().unwrap();
        assert_eq!(waking.begin(at), [silent[0].clone()]);
        assert_eq!(waking.end(&silent[0], false, at), 0);
        assert_eq!(waking.begin(at), []);
    }

    #[test]
    fn a_start_a_resume_and_a_reboot_may_leave_a_machine_without_its_node() {
        let moved = |from, to| Happened::Moved { from, to };
        assert!(has_come_up(&moved(State::Pending, State::Running)));
        assert!(has_come_up(&Happened::Done { verb: Verb::Reboot }));
        assert!(!has_come_up(&moved(State::Running, State::ShuttingDown)));
        assert!(!has_come_up(&Happened::Done { verb: Verb::Stop }));
    }
}
