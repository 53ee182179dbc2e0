//! What others say for ever: the identity manager about nodes and subjects, updates about what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{NodeId, NodeInfo, SubjectId};
use muster_balance::Reason;
use muster_control_server::UnitView;
use muster_desired::Updates;
use muster_iamclient::Followed;
use muster_unit_config::UnitConfig;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::identity::{LateIdentity, arrival};
use crate::switchboard::Switchboard;

/// Follows both as soon as the identity manager is reached.
pub(crate) async fn follow(
    identity: LateIdentity,
    switchboard: Arc<Switchboard>,
    subjects: watch::Sender<BTreeSet<SubjectId>>,
) {
    let identity = arrival(identity).await;
    let (system, main) = (identity.system.clone(), identity.main_node.clone());
    switchboard.view().identified(system, main);
    let nodes = identity.iam.follow_nodes();
    let here = identity.iam.follow_subjects();
    tokio::join!(
        follow_nodes(nodes.subscribe(), &switchboard),
        follow_subjects(here.subscribe(), &switchboard, &subjects),
    );
}

async fn follow_nodes(
    mut nodes: watch::Receiver<Followed<BTreeMap<NodeId, NodeInfo>>>,
    switchboard: &Switchboard,
) {
    loop {
        let known = nodes.borrow_and_update().value.clone();
        if let Some(known) = known {
            switchboard.known(&known).await;
        }
        if nodes.changed().await.is_err() {
            return;
        }
    }
}

async fn follow_subjects(
    mut here: watch::Receiver<Followed<Vec<SubjectId>>>,
    switchboard: &Switchboard,
    subjects: &watch::Sender<BTreeSet<SubjectId>>,
) {
    loop {
        let now = here.borrow_and_update().value.clone();
        if let Some(now) = now {
            let now: BTreeSet<SubjectId> = now.into_iter().collect();
            let has_changed = subjects.send_if_modified(|before| {
                let differs = *before != now;
                *before = now;
                differs
            });
            if has_changed {
                switchboard.replan(Reason::NewDesired).await;
            }
        }
        if here.changed().await.is_err() {
            return;
        }
    }
}

/// Shows operators what is wanted: the items of each update.
pub(crate) async fn show_wanted(updates: Updates, view: UnitView) {
    let mut progress = updates.progress();
    let mut shown = None;
    loop {
        let newest = progress.borrow_and_update().update;
        if newest != shown
            && let Ok(versions) = updates.versions().await
            && let Some(wanted) = versions.first()
        {
            view.wanted(&wanted.desired);
            shown = newest;
        }
        if progress.changed().await.is_err() {
            return;
        }
    }
}

/// Shows operators what the configuration in force says about nodes.
pub(crate) async fn show_config(
    mut config: watch::Receiver<Option<Arc<UnitConfig>>>,
    switchboard: Arc<Switchboard>,
) {
    loop {
        let now = config.borrow_and_update().clone();
        switchboard.configured(now.as_deref());
        if config.changed().await.is_err() {
            return;
        }
    }
}

/// Notices nodes that should have a stream and have had none for `patience`.
pub(crate) async fn watch_silence(switchboard: Arc<Switchboard>, patience: Duration) {
    let look = (patience / 4).clamp(Duration::from_millis(100), Duration::from_secs(60));
    let mut looks = tokio::time::interval(look);
    let mut missing: BTreeMap<NodeId, Instant> = BTreeMap::new();
    loop {
        let now = looks.tick().await;
        let found = switchboard.nodes().missing();
        missing.retain(|node, _| found.contains(node));
        for node in found {
            let since = *missing.entry(node.clone()).or_insert(now);
            if now - since >= patience
                && let Some(change) = switchboard.nodes().silent(&node).await
            {
                tracing::warn!(%node, ?patience, "the node's Service Manager does not connect");
                switchboard.node_changed(change).await;
            }
        }
    }
}
