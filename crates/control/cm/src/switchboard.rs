//! Who is told what: facts about nodes go to the directory, to updates, to the Unit's configuration and to operators.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use muster_api::domain::{
    Alert, AlertKind, InstanceStatus, NodeId, NodeInfo, NodeMonitoring, SmInfo,
};
use muster_balance::Reason;
use muster_control_server::{NodeConfigFacts, Note, NoteKind, UnitView};
use muster_desired::Updates;
use muster_smcontroller::Incident;
use muster_unit_config::{UnitConfig, UnitConfigManager};

use crate::cloud::CloudDesk;
use crate::logs::LogRouter;
use crate::nodes::NodeDirectory;
use crate::nodes::table::NodeChange;
use crate::relief::relief;

/// What is there only after the controller, which tells them something.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) updates: Updates,
    pub(crate) unit_config: UnitConfigManager,
    /// The cloud, if there is one.
    pub(crate) cloud: Option<CloudDesk>,
}

/// Hands facts on.
#[derive(Debug)]
pub(crate) struct Switchboard {
    nodes: NodeDirectory,
    view: UnitView,
    logs: LogRouter,
    later: OnceLock<Later>,
}

impl Switchboard {
    /// Operators see the nodes that were known before, as not connected.
    pub(crate) fn new(nodes: NodeDirectory, view: UnitView) -> Self {
        for (node, record) in nodes.all() {
            view.node_info(record.described(&node));
        }
        Self {
            nodes,
            view,
            logs: LogRouter::default(),
            later: OnceLock::new(),
        }
    }

    /// Everybody is there. Called once, before the first node is served.
    pub(crate) fn complete(&self, later: Later) {
        self.later.set(later).expect("it is completed once");
    }

    /// Nodes are served only after everybody is there.
    fn later(&self) -> &Later {
        self.later.get().expect("nodes are served after the start")
    }

    pub(crate) fn nodes(&self) -> &NodeDirectory {
        &self.nodes
    }

    pub(crate) fn view(&self) -> &UnitView {
        &self.view
    }

    pub(crate) fn logs(&self) -> &LogRouter {
        &self.logs
    }

    /// A Service Manager has a stream, or says anew what it has.
    pub(crate) async fn connected(&self, info: SmInfo) {
        let node = info.node_id.clone();
        let change = self.nodes.connected(info.clone()).await;
        let record = self.nodes.get(&node).unwrap_or_default();
        self.view.node_info(record.described(&node));
        self.view.node_connected(info);
        let later = self.later();
        if let Some(cloud) = &later.cloud {
            cloud.changed();
        }
        self.show_config(&node, later.unit_config.current().borrow().as_deref());
        // Before what it says about its instances, which comes next.
        later
            .updates
            .node_up(node.clone(), record.is_paused())
            .await;
        if change.is_some_and(|it| it.replaces) {
            later.updates.replan(Reason::ConfigChange).await;
        }
        let (config, node_type) = (later.unit_config.clone(), record.node_type());
        // It asks the node, whose message is being taken here.
        tokio::spawn(async move { config.node_connected(&node, &node_type).await });
    }

    /// The stream is gone.
    pub(crate) async fn disconnected(&self, node: &NodeId) {
        self.nodes.disconnected(node).await;
        self.view.node_disconnected(node);
        if let Some(cloud) = &self.later().cloud {
            cloud.changed();
        }
        self.later().updates.node_down(node.clone()).await;
    }

    pub(crate) async fn instances(&self, node: NodeId, whole: bool, statuses: Vec<InstanceStatus>) {
        match whole {
            true => self.view.instances_all(&node, statuses.clone()),
            false => self.view.instances_changed(&node, statuses.clone()),
        }
        let later = self.later();
        if let Some(cloud) = &later.cloud {
            cloud.instances(&node, whole, &statuses);
        }
        later.updates.instances(node, whole, statuses).await;
    }

    pub(crate) fn measured(&self, node: &NodeId, usage: NodeMonitoring) {
        if let Some(cloud) = &self.later().cloud {
            cloud.measured(node, &usage);
        }
        self.nodes.measured(node, Arc::new(usage.clone()));
        self.view.measured(node, usage);
    }

    pub(crate) async fn alert(&self, node: &NodeId, alert: Alert) {
        let later = self.later();
        // What operators are shown is kept for the cloud.
        if let Some(cloud) = &later.cloud {
            cloud.alert(node, &alert).await;
        }
        self.view.alert(node, alert.clone());
        let record = self.nodes.get(node).unwrap_or_default();
        let config = later.unit_config.current().borrow().clone();
        if let Some(relief) = relief(node, &alert, &record, config.as_deref()) {
            tracing::warn!(%node, target = ?relief.target, "a node uses too much: instances are moved");
            later.updates.replan(Reason::QuotaAlert(vec![relief])).await;
        }
    }

    /// Something is wrong with a stream.
    pub(crate) fn incident(&self, incident: &Incident) {
        self.shut_out(incident);
        let (node, message) = told(incident);
        // A stream that has not said whose it is, and a clock before 1970, are no alerts of a node.
        let (Some(node), Ok(timestamp)) = (node, SystemTime::now().try_into()) else {
            self.view.note(Note::warning(NoteKind::Node, "", message));
            return;
        };
        let kind = AlertKind::Core {
            component: "muster-cm".to_owned(),
            message,
        };
        let alert = Alert { timestamp, kind };
        if let Some(cloud) = &self.later().cloud {
            cloud.alert_later(&node, &alert);
        }
        self.view.alert(&node, alert);
    }

    /// Updates do not wait for a node that is kept out. Names that nobody knows are nobody's business.
    fn shut_out(&self, incident: &Incident) {
        if let Incident::Refused {
            node: Some(node),
            kept_out: Some(_),
            ..
        } = incident
            && self.nodes.get(node).is_some()
        {
            let (updates, node) = (self.later().updates.clone(), node.clone());
            // Whoever ends a stream does not wait for updates. A node is kept out for a second at least, so there are few.
            tokio::spawn(async move { updates.node_shut_out(node).await });
        }
    }

    /// The identity manager says which nodes there are.
    pub(crate) async fn known(&self, all: &BTreeMap<NodeId, NodeInfo>) {
        for change in self.nodes.known(all).await {
            self.node_changed(change).await;
        }
    }

    /// A node is another one than it was.
    pub(crate) async fn node_changed(&self, change: NodeChange) {
        match &change.now {
            Some(record) => self.view.node_info(record.described(&change.node)),
            None => self.view.node_removed(&change.node),
        }
        if let Some(cloud) = &self.later().cloud {
            match &change.now {
                Some(_) => cloud.changed(),
                None => cloud.forgotten(&change.node),
            }
        }
        let updates = &self.later().updates;
        if let Some(paused) = change.paused {
            updates.node_paused(change.node.clone(), paused).await;
        }
        if change.replaces {
            updates.replan(Reason::ConfigChange).await;
        }
    }

    /// Another configuration is in force.
    pub(crate) fn configured(&self, config: Option<&UnitConfig>) {
        for (node, _) in self.nodes.all() {
            self.show_config(&node, config);
        }
    }

    fn show_config(&self, node: &NodeId, config: Option<&UnitConfig>) {
        let record = self.nodes.get(node).unwrap_or_default();
        let facts = config.map(|config| {
            let part = config.for_node(node, &record.node_type()).config;
            NodeConfigFacts {
                version: config.version.to_string(),
                labels: part.labels.into_iter().collect(),
                priority: part.priority,
            }
        });
        self.view.node_config(node, facts.unwrap_or_default());
    }

    /// Instances should be placed anew.
    pub(crate) async fn replan(&self, reason: Reason) {
        self.later().updates.replan(reason).await;
    }
}

/// An incident in words, and whose it is.
fn told(incident: &Incident) -> (Option<NodeId>, String) {
    match incident {
        Incident::Refused {
            node,
            address,
            why,
            kept_out,
        } => {
            let name = node.as_ref().map_or("an unknown node", NodeId::as_str);
            let mut text = format!("the stream of {name} from {address} was refused: {why}");
            if let Some(time) = kept_out {
                text.push_str(&format!(
                    "; it is kept out for {} s",
                    time.as_secs_f64().ceil()
                ));
            }
            (node.clone(), text)
        }
        Incident::Slowed { node, address } => {
            let text =
                format!("node {node} at {address} sends more than is taken, and is held back");
            (Some(node.clone()), text)
        }
    }
}
