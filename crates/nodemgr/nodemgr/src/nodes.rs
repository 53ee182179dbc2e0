//! Nodes run when their machines do: where no systemd starts them, this does, after every start and reboot of a machine.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_join::{JoinError, NotReady, restart, wait_ready};
use muster_lifecycle::{State, Verb};
use muster_machine_api::reach::{self, ReachError};
use muster_machines::{Happened, MachineEvent, Record};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::access::AccessError;
use crate::desk::Desk;

/// How long a machine may take until it answers.
const BOOT: Duration = Duration::from_secs(600);
/// So many machines are seen to at once; the others wait.
const AT_ONCE: usize = 8;

/// Why a node does not run though its machine does.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error(transparent)]
    Access(AccessError),
    #[error(transparent)]
    Reach(ReachError),
    #[error(transparent)]
    NotReady(NotReady),
    #[error(transparent)]
    Start(JoinError),
}

/// Which nodes are to be started. Pure.
#[derive(Debug, Default)]
struct Waking {
    waiting: BTreeSet<MachineId>,
    under_way: BTreeSet<MachineId>,
}

impl Waking {
    /// Those that can be begun with now. One that is under way already comes again afterwards.
    fn begin(&mut self) -> Vec<MachineId> {
        let free = AT_ONCE.saturating_sub(self.under_way.len());
        let next = self.waiting.difference(&self.under_way);
        let next: Vec<MachineId> = next.take(free).cloned().collect();
        for id in &next {
            self.waiting.remove(id);
            self.under_way.insert(id.clone());
        }
        next
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
    let mut jobs: JoinSet<MachineId> = JoinSet::new();
    // Machines may have been started while nobody looked.
    waking.waiting.extend(all_nodes(&desk));
    loop {
        for id in waking.begin() {
            jobs.spawn(wake(desk.clone(), id));
        }
        tokio::select! {
            event = events.recv() => match event {
                Ok(MachineEvent { machine, what, .. }) if has_come_up(&what) => {
                    let found = desk.machines().get(&machine);
                    if found.is_some_and(|it| it.record().unit.is_some()) {
                        waking.waiting.insert(machine);
                    }
                }
                Ok(_) => {}
                // Too much happened at once; whose node runs is left alone.
                Err(RecvError::Lagged(_)) => waking.waiting.extend(all_nodes(&desk)),
                Err(RecvError::Closed) => return,
            },
            Some(Ok(id)) = jobs.join_next() => {
                waking.under_way.remove(&id);
            }
        }
    }
}

fn all_nodes(desk: &Desk) -> Vec<MachineId> {
    let all = desk.machines().all();
    let records = all.values().map(|machine| machine.record());
    let nodes = records.filter(|record| is_running_node(record));
    nodes.map(|record| record.id.clone()).collect()
}

async fn wake(desk: Desk, id: MachineId) -> MachineId {
    let record = desk.machines().get(&id).map(|it| it.record().clone());
    if let Some(record) = record.filter(|record| is_running_node(record)) {
        match start(&desk, &record).await {
            Ok(()) => tracing::info!(machine = %id, "its node runs"),
            Err(error) => {
                tracing::warn!(machine = %id, error = %ErrorChain(&error), "its node was not started again");
            }
        }
    }
    id
}

async fn start(desk: &Desk, record: &Record) -> Result<(), WakeError> {
    let access = desk.access(record).map_err(WakeError::Access)?;
    let executor = reach::executor(&access).map_err(WakeError::Reach)?;
    let ready = wait_ready(&*executor, BOOT).await;
    ready.map_err(WakeError::NotReady)?;
    restart(&*executor).await.map_err(WakeError::Start)
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
        let mut waking = Waking::default();
        waking.waiting.extend(all.clone());
        let first = waking.begin();
        assert_eq!(first, all[..AT_ONCE]);
        // It was rebooted meanwhile.
        waking.waiting.insert(all[0].clone());
        assert_eq!(waking.begin(), []);
        waking.under_way.remove(&all[0]);
        assert_eq!(waking.begin(), [all[0].clone()]);
        for id in &first[1..] {
            waking.under_way.remove(id);
        }
        assert_eq!(waking.begin(), all[AT_ONCE..]);
        assert_eq!(waking.begin(), []);
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
