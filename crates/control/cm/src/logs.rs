//! Answers to requests for logs, on their way from nodes to whoever asked.
//!
//! A request has a name of its own (the correlation id), which stands in every part of its answer. Parts of requests that
//! nobody waits for any more are thrown away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::domain::NodeId;
use muster_api::servicemanager::v5 as wire;
use tokio::sync::mpsc;

/// Parts of one answer that wait for their reader. A node's whole answer fits: it has 80 at most.
const PARTS: usize = 256;

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum LogNews {
    /// A part of the answer.
    Part(wire::LogData),
    /// The node is gone, and the rest with it.
    Gone,
}

#[derive(Debug)]
struct Waiting {
    node: NodeId,
    parts: mpsc::Sender<LogNews>,
}

/// Knows who waits for what. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogRouter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    // Held for moments, never over an await.
    waiting: Mutex<HashMap<String, Waiting>>,
    next: AtomicU64,
}

/// An answer that is waited for; whoever drops it does not wait any more.
#[derive(Debug)]
pub(crate) struct LogAnswer {
    id: String,
    router: LogRouter,
    parts: mpsc::Receiver<LogNews>,
}

impl LogRouter {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an answer of `node` under a name that no other request has.
    pub(crate) fn expect(&self, node: NodeId) -> LogAnswer {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        // The process's number sets answers apart that were asked for before a restart.
        let id = format!("muster-cm-{}-{number}", std::process::id());
        let (sender, parts) = mpsc::channel(PARTS);
        let waiting = Waiting {
            node,
            parts: sender,
        };
        self.waiting().insert(id.clone(), waiting);
        LogAnswer {
            id,
            router: self.clone(),
            parts,
        }
    }

    /// A node sends a part. Never waits: whoever reads too slowly loses the answer, not the node its stream.
    pub(crate) fn part(&self, node: &NodeId, part: wire::LogData) {
        let mut waiting = self.waiting();
        let Some(known) = waiting.get(&part.correlation_id) else {
            return;
        };
        if known.node != *node {
            tracing::warn!(%node, "a node answers a request for logs that another one was asked");
            return;
        }
        let id = part.correlation_id.clone();
        if known.parts.try_send(LogNews::Part(part)).is_err() {
            waiting.remove(&id);
        }
    }

    /// The node is gone, and what it has not sent.
    pub(crate) fn disconnected(&self, node: &NodeId) {
        self.waiting().retain(|_, waiting| {
            let stays = waiting.node != *node;
            if !stays {
                // Full: the reader finds the end of the channel behind what is there.
                let _ = waiting.parts.try_send(LogNews::Gone);
            }
            stays
        });
    }
}

impl LogAnswer {
    /// Its name, for the request.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What comes next; `None` if parts were lost because they were not taken in time.
    pub(crate) async fn next(&mut self) -> Option<LogNews> {
        self.parts.recv().await
    }
}

impl Drop for LogAnswer {
    fn drop(&mut self) {
        self.router.waiting().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: &str, number: u64) -> wire::LogData {
        wire::LogData {
            correlation_id: id.to_owned(),
            part: number,
            ..wire::LogData::default()
        }
    }

    fn node(id: &str) -> NodeId {
        id.parse().expect("an id")
    }

    #[tokio::test]
    async fn parts_reach_who_asked_and_nobody_else() {
        let router = LogRouter::default();
        let mut one = router.expect(node("a"));
        let mut other = router.expect(node("a"));
        router.part(&node("a"), part(other.id(), 1));
        router.part(&node("b"), part(one.id(), 7));
        router.part(&node("a"), part("nobody's", 8));
        router.part(&node("a"), part(one.id(), 2));
        let number = |news: Option<LogNews>| match news {
            Some(LogNews::Part(part)) => part.part,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(one.next().await), 2);
        assert_eq!(number(other.next().await), 1);
        router.disconnected(&node("b"));
        router.disconnected(&node("a"));
        assert!(matches!(one.next().await, Some(LogNews::Gone)));
        assert!(one.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_holds_nobody_up_and_one_that_left_is_forgotten() {
        let router = LogRouter::default();
        let slow = router.expect(node("a"));
        for number in 0..(PARTS as u64 + 10) {
            router.part(&node("a"), part(slow.id(), number));
        }
        assert!(router.waiting().is_empty());
        drop(slow);
        let left = router.expect(node("a"));
        drop(left);
        assert!(router.waiting().is_empty());
    }
}
