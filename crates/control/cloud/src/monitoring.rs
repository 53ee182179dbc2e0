//! Monitoring on its way to the disk: put together, and bounded.

use std::sync::Arc;
use std::time::Duration;

use muster_telemetry::ErrorChain;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::database::{Class, Outbox, Row};
use crate::message::Outgoing;
use crate::message::telemetry::{InstanceMonitoring, MonitoringData, NodeMonitoring};

/// Samples in one kept entry; it is then about 64 KiB long.
const SAMPLES: usize = 512;

impl MonitoringData {
    /// Adds what was told later.
    pub fn merge(&mut self, later: Self) {
        for node in later.nodes {
            let same = |it: &&mut NodeMonitoring| it.node == node.node;
            match self.nodes.iter_mut().find(same) {
                Some(known) => {
                    known.node_states.extend(node.node_states);
                    known.items.extend(node.items);
                }
                None => self.nodes.push(node),
            }
        }
        for instance in later.instances {
            let same = |it: &&mut InstanceMonitoring| {
                it.item == instance.item
                    && it.subject == instance.subject
                    && it.instance == instance.instance
                    && it.node == instance.node
            };
            match self.instances.iter_mut().find(same) {
                Some(known) => {
                    known.item_states.extend(instance.item_states);
                    known.items.extend(instance.items);
                }
                None => self.instances.push(instance),
            }
        }
    }

    fn samples(&self) -> usize {
        let nodes = self.nodes.iter().map(|it| it.items.len());
        let instances = self.instances.iter().map(|it| it.items.len());
        nodes.chain(instances).sum()
    }
}

/// Puts samples together and keeps them. Ends when every handle is gone.
#[derive(Debug)]
pub(crate) struct Keeper {
    outbox: Outbox,
    news: Arc<Notify>,
    samples: mpsc::Receiver<MonitoringData>,
    after: Duration,
    largest_message: usize,
}

impl Keeper {
    pub(crate) fn new(
        outbox: Outbox,
        news: Arc<Notify>,
        samples: mpsc::Receiver<MonitoringData>,
        after: Duration,
        largest_message: usize,
    ) -> Self {
        Self {
            outbox,
            news,
            samples,
            after,
            largest_message,
        }
    }

    pub(crate) async fn run(mut self) {
        while let Some(mut together) = self.samples.recv().await {
            let until = Instant::now() + self.after;
            while together.samples() < SAMPLES
                && let Ok(Some(more)) = timeout_at(until, self.samples.recv()).await
            {
                together.merge(more);
            }
            self.keep(together).await;
        }
    }

    async fn keep(&self, data: MonitoringData) {
        let body = Outgoing::Monitoring(data).data(None);
        if body.len() > self.largest_message.saturating_sub(1024) {
            self.outbox.count_unkept();
            return;
        }
        let row = Row {
            class: Class::Monitoring,
            key: None,
            body,
        };
        match self.outbox.append(vec![row]).await {
            Ok(()) => self.news.notify_one(),
            Err(error) => {
                self.outbox.count_unkept();
                warn!(error = %ErrorChain(&error), "monitoring for the cloud could not be kept");
            }
        }
    }
}
