//! What is being done about machines that bear our mark and that nobody needs: each is destroyed by one call at a time, and one
//! that cannot be destroyed is asked for less and less often, so that it leaves its provider's calls to others.

use std::collections::{BTreeMap, BTreeSet};

use muster_lifecycle::Moment;
use muster_provider::{Described, ResourceId};

/// How many of so many calls strays may take at once.
pub(super) const fn at_once(calls: usize) -> usize {
    match calls / 4 {
        0 => 1,
        some => some,
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Stray {
    calling: bool,
    failures: u32,
    again: Option<Moment>,
}

/// Those of one provider.
#[derive(Debug, Default)]
pub(super) struct Strays(BTreeMap<ResourceId, Stray>);

impl Strays {
    /// Whether one is to be destroyed now: nobody does so already, and it is time.
    pub(super) fn begin(&mut self, resource: &ResourceId, most: usize, now: Moment) -> bool {
        if self.0.values().filter(|it| it.calling).count() >= most {
            return false;
        }
        let stray = self.0.entry(resource.clone()).or_default();
        if stray.calling || stray.again.is_some_and(|again| again > now) {
            return false;
        }
        stray.calling = true;
        true
    }

    /// A call has ended.
    pub(super) fn answered(
        &mut self,
        resource: &ResourceId,
        done: bool,
        again: impl FnOnce(u32) -> Moment,
    ) {
        let Some(stray) = self.0.get_mut(resource) else {
            return;
        };
        stray.calling = false;
        // Should one that is done be shown once more, it is asked for at once.
        stray.failures = if done {
            0
        } else {
            stray.failures.saturating_add(1)
        };
        stray.again = (!done).then(|| again(stray.failures));
    }

    /// Forgets those that are not shown any more.
    pub(super) fn keep(&mut self, shown: &[Described]) {
        let shown: BTreeSet<&ResourceId> = shown.iter().map(|it| &it.resource).collect();
        self.0
            .retain(|resource, stray| stray.calling || shown.contains(resource));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(text: &str) -> ResourceId {
        ResourceId::new(text).unwrap()
    }

    #[test]
    fn a_stray_is_destroyed_by_one_call_at_a_time_and_leaves_most_calls_to_others() {
        let now = Moment::from_millis(0);
        let mut strays = Strays::default();
        assert!(strays.begin(&name("a"), 2, now));
        assert!(!strays.begin(&name("a"), 2, now), "it is on its way");
        assert!(strays.begin(&name("b"), 2, now));
        assert!(!strays.begin(&name("c"), 2, now), "two are on their way");
        strays.answered(&name("b"), true, |_| now);
        assert!(strays.begin(&name("c"), 2, now));
        assert_eq!([0, 1, 8, 64].map(at_once), [1, 1, 2, 16]);
    }

    #[test]
    fn one_that_cannot_be_destroyed_is_tried_later() {
        let now = Moment::from_millis(0);
        let later = |failures: u32| now.after(Duration::from_secs(failures.into()));
        let mut strays = Strays::default();
        for failures in 1..4 {
            let due = later(failures - 1);
            assert!(strays.begin(&name("a"), 2, due), "{failures}");
            strays.answered(&name("a"), false, later);
            assert!(!strays.begin(&name("a"), 2, due), "{failures}");
        }
        // Whatever is not shown any more needs no wait.
        strays.keep(&[]);
        assert!(strays.begin(&name("a"), 2, now));
    }
}
