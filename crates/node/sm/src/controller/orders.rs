//! Networks and sets of instances, which are carried out one after the other: a set may need the networks that came before it.
//!
//! Making networks takes as long as their plugins do. Whoever gives an order does not wait for it, so that everything else that the
//! controller asks is answered meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use muster_api::servicemanager::v5 as wire;
use muster_launcher::{DesiredSet, Launcher};
use tokio::sync::mpsc;

use crate::seams::Networks;

/// What the node shall have.
#[derive(Debug, PartialEq)]
pub(super) enum Order {
    Networks(wire::UpdateNetworks),
    Set(DesiredSet),
}

/// Orders that wait. Pure.
///
/// Each says all that there shall be, so a newer one takes the place of an older one: at most one set waits, and with it the last
/// networks before it and the last ones after it.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Order>);

impl Waiting {
    fn push(&mut self, order: Order) {
        if matches!(order, Order::Set(_)) {
            self.0.retain(|it| matches!(it, Order::Networks(_)));
            // Nobody needs those any more that only the older set did.
            let superseded = self.0.len().saturating_sub(1);
            self.0.drain(..superseded);
        } else if matches!(self.0.back(), Some(Order::Networks(_))) {
            self.0.pop_back();
        }
        self.0.push_back(order);
    }
}

/// Takes orders. Its task ends with it, after what it is at.
#[derive(Debug)]
pub(super) struct Orders {
    waiting: Arc<Mutex<Waiting>>,
    bell: mpsc::Sender<()>,
}

impl Orders {
    pub(super) fn start(launcher: Launcher, networks: Arc<dyn Networks>) -> Self {
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (bell, rings) = mpsc::channel(1);
        tokio::spawn(carry_out(Arc::clone(&waiting), rings, launcher, networks));
        Self { waiting, bell }
    }

    pub(super) fn give(&self, order: Order) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(order);
        // Who has not heard the last ring yet will look at all that waits.
        let _ = self.bell.try_send(());
    }
}

async fn carry_out(
    waiting: Arc<Mutex<Waiting>>,
    mut rings: mpsc::Receiver<()>,
    launcher: Launcher,
    networks: Arc<dyn Networks>,
) {
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.pop_front()
    };
    while rings.recv().await.is_some() {
        while let Some(order) = next() {
            match order {
                Order::Networks(all) => networks.update(all).await,
                Order::Set(set) => {
                    if launcher.update(set).await.is_err() {
                        tracing::error!(
                            "the launcher has ended; the set of instances is not taken"
                        );
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Networks in small letters, sets in capitals: what is left of orders that came in this order.
    fn left_of(orders: &str) -> String {
        let mut waiting = Waiting::default();
        for name in orders.chars() {
            let network_id = name.to_string();
            let order = match name.is_ascii_lowercase() {
                true => Order::Networks(wire::UpdateNetworks {
                    networks: vec![wire::UpdateNetworkParameters {
                        network_id,
                        ..wire::UpdateNetworkParameters::default()
                    }],
                }),
                // Only whether it names more tells sets apart here.
                false => Order::Set(DesiredSet {
                    names_more: name == 'Z',
                    ..DesiredSet::default()
                }),
            };
            waiting.push(order);
        }
        let name = |order: &Order| match order {
            Order::Networks(all) => all.networks[0].network_id.clone(),
            Order::Set(set) if set.names_more => "Z".to_owned(),
            Order::Set(_) => "S".to_owned(),
        };
        waiting.0.iter().map(name).collect()
    }

    #[test]
    fn of_orders_that_wait_the_newest_of_each_kind_stays_in_order() {
        for (came, left) in [
            ("", ""),
            ("a", "a"),
            ("ab", "b"),
            ("aS", "aS"),
            ("SZ", "Z"),
            ("aSb", "aSb"),
            ("aSbc", "aSc"),
            ("aSbZ", "bZ"),
            ("aSZ", "aZ"),
            ("SaZ", "aZ"),
            ("Sa", "Sa"),
            ("aSbZcSdZe", "dZe"),
        ] {
            assert_eq!(left_of(came), left, "{came}");
        }
    }
}
