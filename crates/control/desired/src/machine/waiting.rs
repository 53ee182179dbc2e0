//! Which nodes an update waits for before it places instances, and for how long. Pure functions of times.
//!
//! A node that went away is expected for [`Limits::nodes_patience`](crate::Limits::nodes_patience): it may only be restarting. Not
//! expected is one that is paused, one that was shut out for what it did, and one that nobody has ever seen. A node that comes
//! and goes is expected once, not anew with each time it goes.

use std::time::Duration;

/// How a node that is away is seen by an update that would wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absence {
    /// From when it counts, by [`counts_from`].
    pub(super) from: Duration,
    /// It misbehaved, and is kept out.
    pub(super) is_shut_out: bool,
}

/// Until when somebody who is away is expected. Whoever is paused gets nothing new, and is not waited for.
pub(super) fn expected_until(
    absence: Absence,
    is_paused: bool,
    patience: Duration,
) -> Option<Duration> {
    (!is_paused && !absence.is_shut_out).then(|| absence.from + patience)
}

/// From when an absence counts, of a node that came at `came` and left at `left`. Whoever did not stay for `patience` has not
/// been back.
pub(super) fn counts_from(
    earlier: Option<Duration>,
    came: Duration,
    left: Duration,
    patience: Duration,
) -> Duration {
    match earlier {
        Some(first) if left.saturating_sub(came) < patience => first,
        _ => left,
    }
}

/// What a step that waits for nodes looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// When the step began.
    pub(super) since: Duration,
    /// Some node is here.
    pub(super) is_anybody_here: bool,
    /// Until when the last of those who are away is expected.
    pub(super) expected_until: Option<Duration>,
}

/// Whether the wait is over: everybody who is expected is here, or was waited for long enough.
pub(super) fn is_over(wait: Wait, now: Duration, patience: Duration) -> bool {
    let is_expecting = wait.expected_until.is_some_and(|until| until > now);
    wait.since + patience <= now || (wait.is_anybody_here && !is_expecting)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_whoever_may_come_back_soon_is_expected() {
        let away = Absence {
            from: at(10),
            is_shut_out: false,
        };
        assert_eq!(expected_until(away, false, PATIENCE), Some(at(40)));
        assert_eq!(expected_until(away, true, PATIENCE), None);
        let shut_out = Absence {
            is_shut_out: true,
            ..away
        };
        assert_eq!(expected_until(shut_out, false, PATIENCE), None);
    }

    #[test]
    fn coming_and_going_is_one_absence() {
        assert_eq!(counts_from(None, at(0), at(5), PATIENCE), at(5));
        assert_eq!(counts_from(Some(at(5)), at(10), at(12), PATIENCE), at(5));
        let stayed = counts_from(Some(at(5)), at(10), at(40), PATIENCE);
        assert_eq!(stayed, at(40), "it was back");
    }

    proptest! {
        /// However often a node comes and goes, with stays shorter than the patience, and whatever its quarantine does: nobody
        /// waits for it longer than the patience in all.
        #[test]
        fn a_flapping_node_is_waited_for_once(stays in prop::collection::vec((0u64..30, 0u64..40), 1..20)) {
            let mut now = at(100);
            let first = now;
            let mut from = None;
            for (stay, pause) in stays {
                let came = now;
                now += at(stay);
                let counted = counts_from(from, came, now, PATIENCE);
                from = Some(counted);
                let absence = Absence { from: counted, is_shut_out: false };
                let until = expected_until(absence, false, PATIENCE);
                prop_assert!(until <= Some(first + at(30) + PATIENCE));
                now += at(pause);
            }
        }

        /// A wait always ends, and never before somebody is here unless it was long enough.
        #[test]
        fn every_wait_ends(since in 0u64..100, later in 0u64..100, here: bool, until in prop::option::of(0u64..300)) {
            let wait = Wait { since: at(since), is_anybody_here: here, expected_until: until.map(at) };
            let now = at(since + later);
            let is_over = is_over(wait, now, PATIENCE);
            prop_assert!(is_over || later < 30);
            if is_over && later < 30 {
                prop_assert!(here && until.is_none_or(|until| at(until) <= now));
            }
        }
    }
}
