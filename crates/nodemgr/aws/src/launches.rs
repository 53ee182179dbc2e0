//! Which orders are being carried out, and how far they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_provider::{ClientToken, Mark};
use tokio::sync::OwnedMutexGuard;

/// Orders that are remembered at once, at most. More are forgotten, and then found by their tags.
const MOST: usize = 4096;

/// How far an order is: the attempt whose answer is not known.
pub(crate) type Progress = usize;

/// One call at a time for each order, and what it knows when it is repeated.
///
/// An order is several attempts, of which each is idempotent by itself, but not all of them together: when the first found no
/// capacity and the answer to the second was lost, repeating the first could make one machine more. So an order that is repeated
/// goes on with the attempt that was not answered. After a restart, the machine is found by its tags.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    orders: Mutex<HashMap<ClientToken, Arc<tokio::sync::Mutex<Progress>>>>,
    recent: Mutex<HashMap<String, Recent>>,
}

#[derive(Debug, Clone)]
struct Recent {
    mark: Mark,
    at: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while a map is changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Launches {
    /// Waits until nobody else carries an order out.
    pub(crate) async fn begin(&self, token: &ClientToken) -> OwnedMutexGuard<Progress> {
        let order = {
            let mut orders = lock(&self.orders);
            if orders.len() >= MOST {
                orders.retain(|_, order| Arc::strong_count(order) > 1);
            }
            Arc::clone(orders.entry(token.clone()).or_default())
        };
        order.lock_owned().await
    }

    /// An order has come to an end that will not be taken back.
    pub(crate) fn end(&self, token: &ClientToken, mut progress: OwnedMutexGuard<Progress>) {
        *progress = 0;
        drop(progress);
        let mut orders = lock(&self.orders);
        // Whoever waits for it needs it still.
        if orders
            .get(token)
            .is_some_and(|order| Arc::strong_count(order) == 1)
        {
            orders.remove(token);
        }
    }

    /// An instance was made just now.
    pub(crate) fn made(&self, id: &str, mark: &Mark, settle: Duration) {
        let at = Instant::now();
        let mut recent = lock(&self.recent);
        recent.retain(|_, made| made.at.elapsed() < settle);
        if recent.len() < MOST && !settle.is_zero() {
            let mark = mark.clone();
            recent.insert(id.to_owned(), Recent { mark, at });
        }
    }

    /// Whether an instance was made so lately that not everybody may see it.
    pub(crate) fn is_recent(&self, id: &str, mark: &Mark, settle: Duration) -> bool {
        let recent = lock(&self.recent);
        let made = recent.get(id);
        made.is_some_and(|made| made.mark == *mark && made.at.elapsed() < settle)
    }
}

#[cfg(test)]
mod tests {
    use muster_provider::{MachineId, ManagerId};

    use super::*;

    #[tokio::test]
    async fn an_order_that_was_not_answered_goes_on_where_it_was() {
        let launches = Launches::default();
        let token = ClientToken::random();
        *launches.begin(&token).await = 2;
        let progress = launches.begin(&token).await;
        assert_eq!(*progress, 2);
        launches.end(&token, progress);
        assert_eq!(*launches.begin(&token).await, 0);
    }

    #[tokio::test]
    async fn two_calls_of_one_order_follow_each_other() {
        let launches = Arc::new(Launches::default());
        let token = ClientToken::random();
        let first = launches.begin(&token).await;
        let second = {
            let (launches, token) = (Arc::clone(&launches), token.clone());
            tokio::spawn(async move { *launches.begin(&token).await })
        };
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        launches.end(&token, first);
        assert_eq!(second.await.unwrap(), 0);
        let third = launches.begin(&token).await;
        launches.end(&token, third);
        assert!(lock(&launches.orders).is_empty());
    }

    #[test]
    fn what_was_made_is_recent_for_its_owner_and_for_a_while() {
        let launches = Launches::default();
        let mark = || Mark {
            manager: ManagerId::random(),
            machine: MachineId::random(),
            token: ClientToken::random(),
        };
        let (ours, other) = (mark(), mark());
        let long = Duration::from_secs(3600);
        launches.made("i-1", &ours, long);
        assert!(launches.is_recent("i-1", &ours, long));
        assert!(!launches.is_recent("i-1", &other, long));
        assert!(!launches.is_recent("i-2", &ours, long));
        assert!(!launches.is_recent("i-1", &ours, Duration::ZERO));
    }
}
