//! What nodes say, handed on to whoever it concerns. A node's messages come one at a time and in order.

use std::sync::Arc;

use muster_api::domain::{Alert, InstanceStatus, NodeId, NodeMonitoring, SmInfo};
use muster_api::servicemanager::v5 as wire;
use muster_smcontroller::{
    AlertReceiver, Incident, InstanceStatusReceiver, LogReceiver, MonitoringReceiver, NodeReceiver,
    Receivers, Taken,
};

use crate::switchboard::Switchboard;

/// All receivers, over one switchboard.
pub(crate) fn receivers(switchboard: &Arc<Switchboard>) -> Receivers {
    let one = Arc::new(FromNodes(Arc::clone(switchboard)));
    Receivers {
        nodes: one.clone(),
        instances: one.clone(),
        monitoring: one.clone(),
        alerts: one.clone(),
        logs: one,
    }
}

#[derive(Debug)]
struct FromNodes(Arc<Switchboard>);

impl NodeReceiver for FromNodes {
    fn connected(&self, info: SmInfo) -> Taken<'_> {
        Box::pin(self.0.connected(info))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        let node = node.clone();
        Box::pin(async move { self.0.disconnected(&node).await })
    }

    fn incident(&self, incident: Incident) {
        self.0.incident(&incident);
    }
}

impl InstanceStatusReceiver for FromNodes {
    fn changed(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_> {
        Box::pin(self.0.instances(node.clone(), false, instances))
    }

    fn all(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_> {
        Box::pin(self.0.instances(node.clone(), true, instances))
    }

    fn disconnected(&self, _: &NodeId) -> Taken<'_> {
        // Whoever knows instances learns it with the node.
        Box::pin(std::future::ready(()))
    }
}

impl MonitoringReceiver for FromNodes {
    fn instant(&self, node: &NodeId, monitoring: NodeMonitoring) -> Taken<'_> {
        self.0.measured(node, monitoring);
        Box::pin(std::future::ready(()))
    }
}

impl AlertReceiver for FromNodes {
    fn alert(&self, node: &NodeId, alert: Alert) -> Taken<'_> {
        let node = node.clone();
        Box::pin(async move { self.0.alert(&node, alert).await })
    }
}

impl LogReceiver for FromNodes {
    fn part(&self, node: &NodeId, part: wire::LogData) -> Taken<'_> {
        self.0.logs().part(node, part);
        Box::pin(std::future::ready(()))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.0.logs().disconnected(node);
        Box::pin(std::future::ready(()))
    }
}
