//! The handle of the model: facts in, lists and changes out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use muster_api::domain::{Alert, InstanceStatus, ItemId, NodeId, NodeInfo, NodeMonitoring, SmInfo};
use muster_control_api::v1;
use muster_desired::seams::NodeShare;
use muster_desired::{DesiredStatus, Progress};
use tokio::sync::watch;

use crate::facts::{CloudFacts, NodeConfigFacts, Note, NoteKind, UnitAbout};
use crate::history::History;
use crate::limits::Limits;
use crate::state::{Notes, ProgressChanges, UnitState};
use crate::wire;

/// What is true about the Unit now. Cheap to clone. Facts about one object come in the order in which they became true; facts
/// about different objects in any order.
#[derive(Debug, Clone)]
pub struct UnitView {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<UnitState>,
    /// Of the newest change.
    revision: watch::Sender<u64>,
    /// Snapshots of updates are compared one after the other.
    progress_turn: Mutex<()>,
    history: History,
    started: Instant,
    failures: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No fact is applied halfway: a panic inside is a bug that ends the process where panics abort.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UnitView {
    /// Nothing is known yet. What happens goes into the history.
    pub fn new(about: UnitAbout, history: History, limits: &Limits) -> Self {
        let shared = Shared {
            state: Mutex::new(UnitState::new(about, limits.gone)),
            revision: watch::Sender::new(0),
            progress_turn: Mutex::new(()),
            history,
            started: Instant::now(),
            failures: limits.failures,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn apply(&self, fact: impl FnOnce(&mut UnitState, SystemTime, &mut Notes)) {
        let mut notes = Notes::default();
        let revision = {
            let mut state = lock(&self.shared.state);
            fact(&mut state, SystemTime::now(), &mut notes);
            state.settle();
            state.revision()
        };
        self.shared.revision.send_if_modified(|old| {
            let newer = *old < revision;
            *old = revision.max(*old);
            newer
        });
        for note in notes.into_vec() {
            self.shared.history.note(note);
        }
    }

    /// The identity manager says which Unit this is, and which node it is on. It may be reached long after the start.
    pub fn identified(&self, system_id: impl Into<String>, main_node: NodeId) {
        let system_id = system_id.into();
        self.apply(|state, _, _| state.identified(system_id, main_node));
    }

    /// The identity manager describes a node, for the first time or anew.
    pub fn node_info(&self, info: NodeInfo) {
        self.apply(|state, _, notes| state.node_info(info, notes));
    }

    /// A node is connected, or says anew what it has.
    pub fn node_connected(&self, info: SmInfo) {
        self.apply(|state, now, notes| state.node_connected(info, now, notes));
    }

    /// A node is not connected any more. What is known of it stays, and its instances are `away`.
    pub fn node_disconnected(&self, node: &NodeId) {
        self.apply(|state, now, notes| state.node_disconnected(node, now, notes));
    }

    /// A node is no part of the Unit any more.
    pub fn node_removed(&self, node: &NodeId) {
        self.apply(|state, now, notes| state.node_removed(node, now, notes));
    }

    /// What the configuration in force says about a node.
    pub fn node_config(&self, node: &NodeId, config: NodeConfigFacts) {
        self.apply(|state, _, notes| state.node_config(node, config, notes));
    }

    /// A node says how some of its instances are.
    pub fn instances_changed(&self, node: &NodeId, instances: Vec<InstanceStatus>) {
        self.apply(|state, now, notes| state.statuses(node, false, instances, now, notes));
    }

    /// A node says how its instances are; these are all of them.
    pub fn instances_all(&self, node: &NodeId, instances: Vec<InstanceStatus>) {
        self.apply(|state, now, notes| state.statuses(node, true, instances, now, notes));
    }

    /// A node is given these networks and instances, and no others: places, addresses and priorities come from here.
    pub fn node_given(&self, node: &NodeId, share: &NodeShare) {
        self.apply(|state, now, notes| state.share(node, share, now, notes));
    }

    /// What a node and its instances use.
    pub fn measured(&self, node: &NodeId, monitoring: NodeMonitoring) {
        self.apply(|state, _, _| state.measured(node, monitoring));
    }

    /// A node raises an alert.
    pub fn alert(&self, node: &NodeId, alert: Alert) {
        self.keep_alert(wire::alert(node, alert));
    }

    /// An item cannot be downloaded.
    pub fn download_alert(&self, item: &ItemId, message: impl Into<String>) {
        self.keep_alert(v1::Alert {
            timestamp: Some(SystemTime::now().into()),
            node_id: String::new(),
            kind: "download".to_owned(),
            instance: None,
            subject: item.to_string(),
            message: message.into(),
        });
    }

    fn keep_alert(&self, alert: v1::Alert) {
        let text = match alert.subject.as_str() {
            "" => alert.message.clone(),
            subject => format!("{subject}: {}", alert.message),
        };
        let note = Note::warning(NoteKind::Alert, alert.kind.clone(), text);
        self.shared.history.alert(alert);
        self.shared.history.note(note);
    }

    /// What is wanted from now on; items get their kind, owner and digest from here.
    pub fn wanted(&self, desired: &DesiredStatus) {
        self.apply(|state, _, _| state.wanted(desired));
    }

    /// How the newest update goes; items, and which instances are wanted, come from here. Costs what differs from the snapshot
    /// before, as far as the two share the rest. Others are held up only while what differs is taken over.
    pub fn progress(&self, progress: &Arc<Progress>) {
        let _turn = lock(&self.shared.progress_turn);
        let before = Arc::clone(lock(&self.shared.state).progress());
        let changes = ProgressChanges::between(&before, progress);
        let failures = wire::failures(progress, self.shared.failures);
        self.apply(|state, now, notes| {
            state.progressed(progress, changes, failures, now, notes);
        });
    }

    /// How the cloud can be reached.
    pub fn cloud(&self, cloud: CloudFacts) {
        self.apply(|state, _, notes| state.cloud(cloud, notes));
    }

    /// Something else happened that an operator may want to read about.
    pub fn note(&self, note: Note) {
        self.shared.history.note(note);
    }

    /// What is remembered.
    pub fn history(&self) -> &History {
        &self.shared.history
    }

    /// The Unit in a few numbers.
    pub fn overview(&self) -> v1::Overview {
        let overview = self.read(wire::overview);
        v1::Overview {
            uptime: self.shared.started.elapsed().try_into().ok(),
            alerts: self.shared.history.alerts_of_day(),
            ..overview
        }
    }

    /// Changes whenever anything does.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&UnitState) -> T) -> T {
        look(&lock(&self.shared.state))
    }
}
