//! Work that takes longer than anybody waits for one answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// How long work goes on that nobody asks for any more. Whoever wants it asks again long before.
const UNWANTED: Duration = Duration::from_secs(300);

/// Work of which each kind is done once for all who wait for it, in a task that outlives them: fetching an image, above all.
///
/// Whoever loses patience asks again and waits on. What nobody asks for any more for a while ends, and so does everything when this
/// is dropped.
pub struct Ongoing<K, T> {
    jobs: Mutex<BTreeMap<K, Job<T>>>,
}

#[derive(Clone)]
enum State<T> {
    UnderWay,
    Done(T),
    /// Nobody wanted it any more.
    GivenUp,
}

struct Job<T> {
    told: watch::Sender<State<T>>,
    asked: Arc<Notify>,
    task: Task,
}

/// A task that ends with its owner.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Job<T> {
    /// Whether there is nothing to wait for: it was given up, or ended without a word.
    fn is_lost(&self) -> bool {
        match *self.told.borrow() {
            State::UnderWay => self.task.0.is_finished(),
            State::Done(_) => false,
            State::GivenUp => true,
        }
    }

    fn is_forgotten(&self) -> bool {
        self.task.0.is_finished() && self.told.receiver_count() == 0
    }
}

impl<K, T> Default for Ongoing<K, T> {
    fn default() -> Self {
        Self {
            jobs: Mutex::default(),
        }
    }
}

impl<K, T> fmt::Debug for Ongoing<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ongoing")
    }
}

impl<K, T> Ongoing<K, T>
where
    K: Ord,
    T: Clone + Send + Sync + 'static,
{
    /// Waits for some work at most so long, and begins it unless it is under way. `None`: it still is.
    ///
    /// What it came to while nobody waited is told to whoever asks next.
    pub async fn wait<W>(&self, key: K, longest: Duration, work: impl FnOnce() -> W) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
        K: Clone,
    {
        let mut told = self.join(key.clone(), work);
        let ended = told.wait_for(|state| !matches!(state, State::UnderWay));
        let state = match tokio::time::timeout(longest, ended).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) | Err(_) => return None,
        };
        let mut jobs = self.jobs();
        if jobs
            .get(&key)
            .is_some_and(|job| job.told.subscribe().same_channel(&told))
        {
            jobs.remove(&key);
        }
        match state {
            State::Done(done) => Some(done),
            State::UnderWay | State::GivenUp => None,
        }
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<K, Job<T>>> {
        // Nothing panics while it is held.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join<W>(&self, key: K, work: impl FnOnce() -> W) -> watch::Receiver<State<T>>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut jobs = self.jobs();
        if let Some(job) = jobs.get(&key).filter(|job| !job.is_lost()) {
            job.asked.notify_one();
            return job.told.subscribe();
        }
        jobs.retain(|_, job| !job.is_forgotten());
        let (told, waiting) = watch::channel(State::UnderWay);
        let asked = Arc::new(Notify::new());
        let task = tokio::spawn(carry_out(work(), told.clone(), Arc::clone(&asked)));
        let task = Task(task.abort_handle());
        jobs.insert(key, Job { told, asked, task });
        waiting
    }
}

async fn carry_out<T>(
    work: impl Future<Output = T>,
    told: watch::Sender<State<T>>,
    asked: Arc<Notify>,
) {
    let state = tokio::select! {
        done = work => State::Done(done),
        () = is_unwanted(&told, &asked) => State::GivenUp,
    };
    told.send_replace(state);
}

/// Comes when nobody waits, and nobody has asked for a while.
async fn is_unwanted<T>(told: &watch::Sender<T>, asked: &Notify) {
    loop {
        let quiet = tokio::time::timeout(UNWANTED, asked.notified()).await;
        if quiet.is_err() && told.receiver_count() == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SHORT: Duration = Duration::from_secs(60);

    /// Work that takes so long, and counts how often it was begun.
    struct Work {
        begun: Arc<AtomicUsize>,
        takes: Duration,
        ongoing: Ongoing<&'static str, usize>,
    }

    impl Work {
        fn taking(takes: Duration) -> Self {
            Self {
                begun: Arc::default(),
                takes,
                ongoing: Ongoing::default(),
            }
        }

        async fn wait(&self, key: &'static str) -> Option<usize> {
            let work = || {
                let (begun, takes) = (Arc::clone(&self.begun), self.takes);
                async move {
                    let nth = begun.fetch_add(1, Ordering::Relaxed) + 1;
                    tokio::time::sleep(takes).await;
                    nth
                }
            };
            self.ongoing.wait(key, SHORT, work).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_longer_than_a_call_is_done_once_and_told_to_everybody() {
        let work = Work::taking(9 * SHORT + SHORT / 2);
        for _ in 0..9 {
            let (one, two) = tokio::join!(work.wait("a"), work.wait("a"));
            assert_eq!((one, two), (None, None), "it is under way");
        }
        let both = tokio::join!(work.wait("a"), work.wait("a"));
        assert_eq!(both, (Some(1), Some(1)));
        // Whoever wants it anew gets it anew; another is another.
        assert_eq!(work.wait("a").await, None);
        assert_eq!(work.wait("b").await, None);
        assert_eq!(work.begun.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_it_came_to_while_nobody_waited_is_told_to_the_next() {
        let work = Work::taking(2 * SHORT);
        assert_eq!(work.wait("a").await, None);
        tokio::time::sleep(3 * SHORT).await;
        assert_eq!(work.wait("a").await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_wants_any_more_ends() {
        let work = Work::taking(100 * SHORT);
        assert_eq!(work.wait("a").await, None);
        tokio::time::sleep(2 * UNWANTED).await;
        let is_over = work.ongoing.jobs()["a"].task.0.is_finished();
        assert!(is_over);
        assert_eq!(work.wait("a").await, None);
        assert_eq!(work.begun.load(Ordering::Relaxed), 2, "it was begun anew");
    }
}
