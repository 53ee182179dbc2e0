//! Nodes that are kept out for a while because of what they did. Pure: time comes in as a value.

use std::collections::HashMap;
use std::time::Duration;

use muster_api::domain::NodeId;

use crate::limits::Limits;

/// Records of nodes that behave again are swept out when there are this many. On a port without certificates anybody can make
/// names up; beyond this, whoever is let in again soonest is forgotten.
const RECORDS: usize = 4096;

#[derive(Debug)]
struct Record {
    offences: u32,
    until: Duration,
}

/// Who is kept out, and until when.
#[derive(Debug)]
pub(crate) struct Quarantine {
    limits: Limits,
    nodes: HashMap<NodeId, Record>,
}

impl Quarantine {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            nodes: HashMap::new(),
        }
    }

    /// The node has done something; this is how long it is kept out.
    pub(crate) fn punish(&mut self, node: &NodeId, now: Duration) -> Duration {
        if self.nodes.len() >= RECORDS && !self.nodes.contains_key(node) {
            self.sweep(now);
        }
        let forgiven_after = self.limits.forgiven_after;
        let record = self.nodes.entry(node.clone()).or_insert(Record {
            offences: 0,
            until: now,
        });
        if now >= record.until.saturating_add(forgiven_after) {
            record.offences = 0;
        }
        let factor = 2u32.saturating_pow(record.offences);
        let pause = self
            .limits
            .quarantine_first
            .saturating_mul(factor)
            .min(self.limits.quarantine_longest);
        record.offences = record.offences.saturating_add(1);
        record.until = now.saturating_add(pause);
        pause
    }

    /// How long the node is still kept out, if it is.
    pub(crate) fn rest(&self, node: &NodeId, now: Duration) -> Option<Duration> {
        let rest = self.nodes.get(node)?.until.checked_sub(now)?;
        (!rest.is_zero()).then_some(rest)
    }

    fn sweep(&mut self, now: Duration) {
        let forgiven_after = self.limits.forgiven_after;
        self.nodes
            .retain(|_, record| now < record.until.saturating_add(forgiven_after));
        if self.nodes.len() >= RECORDS {
            let soonest = self.nodes.iter().min_by_key(|(_, record)| record.until);
            if let Some(node) = soonest.map(|(node, _)| node.clone()) {
                self.nodes.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn node(name: &str) -> NodeId {
        name.parse().expect("an id")
    }

    #[test]
    fn pauses_grow_and_are_forgiven() {
        let mut quarantine = Quarantine::new(Limits::default());
        let bad = node("bad");
        let mut now = Duration::ZERO;
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let pause = quarantine.punish(&bad, now);
            assert_eq!(pause, Duration::from_secs(seconds));
            assert_eq!(quarantine.rest(&bad, now), Some(pause));
            assert_eq!(
                quarantine.rest(&bad, now + pause - SECOND / 2),
                Some(SECOND / 2)
            );
            now += pause;
            assert_eq!(quarantine.rest(&bad, now), None);
        }
        assert_eq!(quarantine.rest(&node("good"), now), None);
        now += Limits::default().forgiven_after;
        assert_eq!(quarantine.punish(&bad, now), SECOND);
    }

    #[test]
    fn names_that_are_made_up_do_not_fill_the_memory() {
        let mut quarantine = Quarantine::new(Limits::default());
        let worst = node("worst");
        for offence in 0..8 {
            quarantine.punish(&worst, SECOND * offence);
        }
        for number in 0..3 * RECORDS {
            quarantine.punish(&node(&number.to_string()), 8 * SECOND);
        }
        assert!(quarantine.nodes.len() <= RECORDS);
        assert!(
            quarantine.rest(&worst, 8 * SECOND).is_some(),
            "the crowd does not let the worst one out"
        );
    }
}
