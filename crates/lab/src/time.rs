//! Waiting for a condition instead of for a while.

use std::time::{Duration, Instant};

/// How long to leave the processor to whatever is being waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds.
///
/// # Panics
/// Panics, naming `what`, when the condition does not hold `within` that time. It is checked at least
/// once, and once more after the time is up, so a test process that was not scheduled does not fail.
#[track_caller]
pub fn poll_until(within: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    poll_for(within, what, || condition().then_some(()));
}

/// Waits until `attempt` yields a value, and returns it.
///
/// # Panics
/// As [`poll_until`].
#[track_caller]
pub fn poll_for<T>(within: Duration, what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    try_poll_for(within, attempt).unwrap_or_else(|| panic!("not within {within:?}: {what}"))
}

/// [`poll_for`] for callers that have more to say when the time is up.
pub fn try_poll_for<T>(within: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let last = start.elapsed() >= within;
        if let Some(value) = attempt() {
            return Some(value);
        }
        if last {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_returned_as_soon_as_there_is_one() {
        let mut attempts = 0;
        let value = poll_for(Duration::from_secs(60), "third attempt", || {
            attempts += 1;
            (attempts == 3).then_some("value")
        });
        assert_eq!((value, attempts), ("value", 3));
    }

    #[test]
    fn condition_is_checked_even_without_time() {
        poll_until(Duration::ZERO, "at once", || true);
        assert_eq!(try_poll_for(Duration::ZERO, || None::<()>), None);
    }

    #[test]
    #[should_panic(expected = "not within 10ms: the moon is full")]
    fn panic_names_what_was_waited_for() {
        poll_until(Duration::from_millis(10), "the moon is full", || false);
    }
}
