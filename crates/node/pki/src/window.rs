//! From when until when certificates and lists are valid. Pure.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

const DAY: SignedDuration = SignedDuration::from_hours(24);
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);

/// How long certificates of nodes and operators are valid.
pub(crate) const LEAF_YEARS: i32 = 1;
/// How long the root is.
pub(crate) const ROOT_YEARS: i32 = 20;
/// How long an intermediate is.
pub(crate) const INTERMEDIATE_YEARS: i32 = 5;
/// Clocks of new devices are often behind.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);
/// A certificate that would be shorter is not worth its handling, and hides that its authority is about to end.
const SHORTEST: SignedDuration = DAY;
const LIST_LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);

/// A time of validity, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First moment.
    pub not_before: Timestamp,
    /// Last moment.
    pub not_after: Timestamp,
}

impl Window {
    /// For a certificate made now; it ends with the one above it at the latest. None if hardly anything
    /// would be left, or if the clock shows a time that no certificate can have.
    pub(crate) fn below(now: Timestamp, years: i32, above: Option<Timestamp>) -> Option<Self> {
        let now = whole_seconds(now)?;
        let wanted = now.checked_add(YEAR * years).ok()?;
        let not_after = above.map_or(wanted, |above| wanted.min(above));
        (not_after >= now + SHORTEST).then_some(Self {
            not_before: now - BACKDATED,
            not_after,
        })
    }

    /// For a revocation list signed now.
    pub(crate) fn of_list(now: Timestamp) -> Option<Self> {
        let now = whole_seconds(now)?;
        Some(Self {
            not_before: now - BACKDATED,
            not_after: now.checked_add(LIST_LIFE).ok()?,
        })
    }

    /// Whether less than this is left.
    #[must_use]
    pub fn ends_within(&self, within: SignedDuration, now: Timestamp) -> bool {
        self.not_after.duration_since(now) <= within
    }

    /// Whether more than half of it is over, or it has not begun: a clock that was wrong signed it.
    pub(crate) fn half_over(&self, now: Timestamp) -> bool {
        let whole = self.not_after.duration_since(self.not_before);
        now < self.not_before || now.duration_since(self.not_before) * 2 > whole
    }
}

/// Whether an intermediate that ends then should be certified again now: a full leaf no longer fits.
pub(crate) fn is_intermediate_due(not_after: Timestamp, now: Timestamp) -> bool {
    not_after.duration_since(now) < YEAR * LEAF_YEARS
}

/// How long a revoked certificate stays on the list after its end: at least one list more has to name it.
pub(crate) fn is_listed(not_after: Timestamp, now: Timestamp) -> bool {
    now.duration_since(not_after) < LIST_LIFE + DAY
}

/// Certificates have no fractions of seconds. None before 1970 and a day: certificates reach back a little.
fn whole_seconds(now: Timestamp) -> Option<Timestamp> {
    let seconds = Timestamp::from_second(now.as_second()).ok()?;
    (seconds > Timestamp::UNIX_EPOCH + DAY).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_leaf_has_a_year_and_an_hour() {
        let window = Window::below(at("2026-03-01T12:00:00.7Z"), LEAF_YEARS, None).expect("window");
        assert_eq!(window.not_before, at("2026-03-01T11:00:00Z"));
        assert_eq!(window.not_after, at("2027-03-01T12:00:00Z"));
    }

    #[test]
    fn nothing_outlives_what_is_above_it() {
        let now = at("2026-03-01T12:00:00Z");
        let above = at("2026-06-01T00:00:00Z");
        assert_eq!(
            Window::below(now, LEAF_YEARS, Some(above)).map(|window| window.not_after),
            Some(above)
        );
        assert_eq!(Window::below(now, LEAF_YEARS, Some(now)), None);
        assert_eq!(
            Window::below(
                now,
                LEAF_YEARS,
                Some(now + DAY - SignedDuration::from_secs(1))
            ),
            None
        );
    }

    #[test]
    fn a_clock_at_the_ends_of_time_gives_no_certificate() {
        assert_eq!(Window::below(Timestamp::UNIX_EPOCH, LEAF_YEARS, None), None);
        assert_eq!(Window::below(Timestamp::MIN, LEAF_YEARS, None), None);
        assert_eq!(Window::below(Timestamp::MAX, LEAF_YEARS, None), None);
        assert_eq!(Window::of_list(Timestamp::MAX), None);
    }

    #[test]
    fn lists_are_due_at_half_time_and_when_they_are_from_the_future() {
        let window = Window::of_list(at("2026-03-01T00:00:00Z")).expect("window");
        assert!(!window.half_over(at("2026-03-15T00:00:00Z")));
        assert!(window.half_over(at("2026-03-17T00:00:00Z")));
        assert!(window.half_over(at("2026-02-01T00:00:00Z")));
    }
}
