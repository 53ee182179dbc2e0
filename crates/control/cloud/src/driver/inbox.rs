//! Messages of the cloud, each handed on once, and what became of it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::delivery::{Delivery, Verdict};
use crate::message::Incoming;

/// Messages whose receivers have not said anything yet.
const OPEN: usize = 64;
/// Names of accepted messages that are remembered.
const REMEMBERED: usize = 256;
/// When a message is wanted again that there is no room for.
const BUSY: Duration = Duration::from_secs(1);

/// What the cloud is told about a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ack,
    Nack(Duration),
    /// Its receiver has it and says something later.
    Later,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Inbox {
    deliver: mpsc::Sender<Delivery>,
    verdict: mpsc::Sender<Verdict>,
    verdicts: mpsc::Receiver<Verdict>,
    open: BTreeSet<String>,
    accepted: VecDeque<String>,
}

impl Inbox {
    pub(super) fn new(deliver: mpsc::Sender<Delivery>) -> Self {
        let (verdict, verdicts) = mpsc::channel(OPEN);
        Self {
            deliver,
            verdict,
            verdicts,
            open: BTreeSet::new(),
            accepted: VecDeque::new(),
        }
    }

    /// Hands a message on, unless it was.
    pub(super) fn receive(
        &mut self,
        txn: String,
        correlation: Option<String>,
        message: Incoming,
    ) -> Answer {
        if self.open.contains(&txn) {
            return Answer::Later;
        }
        if self.accepted.contains(&txn) {
            return Answer::Ack;
        }
        let (Ok(verdict), Ok(place)) = (
            self.verdict.clone().try_reserve_owned(),
            self.deliver.try_reserve(),
        ) else {
            return Answer::Nack(BUSY);
        };
        self.open.insert(txn.clone());
        place.send(Delivery::new(message, correlation, txn, verdict));
        Answer::Later
    }

    /// What became of a message. Safe to cancel.
    pub(super) async fn verdict(&mut self) -> (String, Answer) {
        let verdict = self.verdicts.recv().await;
        let Verdict { txn, again } = verdict.expect("this side has a sender of its own");
        self.open.remove(&txn);
        let answer = match again {
            Some(after) => Answer::Nack(after),
            None => {
                self.accepted.push_back(txn.clone());
                if self.accepted.len() > REMEMBERED {
                    self.accepted.pop_front();
                }
                Answer::Ack
            }
        };
        (txn, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::incoming::OverrideEnvVars;

    fn message() -> Incoming {
        OverrideEnvVars::default().into()
    }

    #[tokio::test]
    async fn a_message_is_handed_on_once_and_acknowledged_when_it_is_accepted() {
        let (deliver, mut deliveries) = mpsc::channel(4);
        let mut inbox = Inbox::new(deliver);
        assert_eq!(inbox.receive("a".into(), None, message()), Answer::Later);
        assert_eq!(inbox.receive("a".into(), None, message()), Answer::Later);
        let delivery = deliveries.recv().await.expect("it was handed on");
        assert!(deliveries.try_recv().is_err(), "once");
        delivery.accept();
        assert_eq!(inbox.verdict().await, ("a".to_owned(), Answer::Ack));
        assert_eq!(inbox.receive("a".into(), None, message()), Answer::Ack);
        assert!(deliveries.try_recv().is_err(), "once");
    }

    #[tokio::test]
    async fn what_is_refused_or_dropped_is_wanted_again() {
        let (deliver, mut deliveries) = mpsc::channel(4);
        let mut inbox = Inbox::new(deliver);
        inbox.receive("a".into(), None, message());
        inbox.receive("b".into(), None, message());
        let wait = Duration::from_millis(70);
        deliveries.recv().await.expect("it").refuse(wait);
        drop(deliveries.recv().await);
        assert_eq!(inbox.verdict().await, ("a".to_owned(), Answer::Nack(wait)));
        assert!(matches!(inbox.verdict().await, (_, Answer::Nack(_))));
        assert_eq!(inbox.receive("a".into(), None, message()), Answer::Later);
        assert!(deliveries.try_recv().is_ok(), "handed on again");
    }

    #[tokio::test]
    async fn a_slow_receiver_has_the_cloud_send_again() {
        let (deliver, mut deliveries) = mpsc::channel(1);
        let mut inbox = Inbox::new(deliver);
        inbox.receive("a".into(), None, message());
        assert_eq!(
            inbox.receive("b".into(), None, message()),
            Answer::Nack(BUSY)
        );
        let mut taken = vec![deliveries.recv().await];
        for number in 1..OPEN {
            assert_eq!(
                inbox.receive(number.to_string(), None, message()),
                Answer::Later
            );
            taken.push(deliveries.recv().await);
        }
        assert_eq!(
            inbox.receive("z".into(), None, message()),
            Answer::Nack(BUSY)
        );
    }
}
