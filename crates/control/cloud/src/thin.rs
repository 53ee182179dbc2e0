//! What goes when there is no room. Pure.
//!
//! First monitoring, where it is closer together than its age is worth, so that what is left still spans all of the time, the
//! finer the younger, however often this is done; then logs, then answers, and alerts last, of each the oldest first.

use crate::database::Class;

/// Thinning begins with what is closer together than this part of its age.
const FINEST: i128 = 256;

/// Something that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: i64,
    pub(crate) class: Class,
    pub(crate) bytes: u64,
}

/// What to drop so that at least `excess` bytes get free, or everything. `entries` are in the order of their age, oldest
/// first.
pub(crate) fn plan(entries: &[Entry], excess: u64) -> Vec<Entry> {
    let mut plan = Plan {
        dropped: Vec::new(),
        excess,
    };
    let of = |class| entries.iter().copied().filter(move |it| it.class == class);
    let mut left: Vec<Entry> = of(Class::Monitoring).collect();
    let newest = left.last().map_or(0, |it| it.id);
    // The distance that two neighbours have at least, in so many parts of their age.
    let mut apart = 1;
    while left.len() > 1 && plan.excess > 0 {
        let mut before: Option<Entry> = None;
        left.retain(|entry| {
            let near = before.is_some_and(|before| {
                let age = i128::from(newest) - i128::from(entry.id) + 1;
                let distance = i128::from(entry.id) - i128::from(before.id);
                distance * FINEST < apart * age
            });
            let stays = !near || !plan.take(*entry);
            if stays {
                before = Some(*entry);
            }
            stays
        });
        apart *= 2;
    }
    let others = [Class::Logs, Class::Answers, Class::Alerts];
    for entry in left.into_iter().chain(others.into_iter().flat_map(of)) {
        plan.take(entry);
    }
    plan.dropped
}

struct Plan {
    dropped: Vec<Entry>,
    excess: u64,
}

impl Plan {
    /// Drops the entry if that is needed.
    fn take(&mut self, entry: Entry) -> bool {
        if self.excess == 0 {
            return false;
        }
        self.excess = self.excess.saturating_sub(entry.bytes);
        self.dropped.push(entry);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let class = prop::sample::select(Class::ALL.to_vec());
        let entry = (class, 1u64..1000);
        prop::collection::vec(entry, 0..60).prop_map(|entries| {
            let entry = |(id, (class, bytes)): (usize, (Class, u64))| Entry {
                id: i64::try_from(id).expect("few"),
                class,
                bytes,
            };
            entries.into_iter().enumerate().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn enough_goes_and_nothing_more_important_before_the_less(entries in entries(), excess in 0u64..40_000) {
            let dropped = plan(&entries, excess);
            let freed: u64 = dropped.iter().map(|it| it.bytes).sum();
            prop_assert!(freed >= excess || dropped.len() == entries.len());
            let last = dropped.last().map_or(0, |it| it.bytes);
            prop_assert!(dropped.is_empty() || freed - last < excess, "more than needed");
            let mut ids: Vec<i64> = dropped.iter().map(|it| it.id).collect();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), dropped.len(), "nothing twice");
            for entry in &dropped {
                let left = entries.iter().filter(|it| !ids.contains(&it.id));
                for kept in left {
                    prop_assert!(kept.class >= entry.class, "{kept:?} stays, {entry:?} goes");
                    if kept.class == entry.class && kept.class != Class::Monitoring {
                        prop_assert!(kept.id > entry.id, "the younger one went");
                    }
                }
            }
        }

        #[test]
        fn thinned_monitoring_still_spans_all_of_the_time(count in 2usize..200, share in 0.0f64..0.9) {
            let entry = |id| Entry { id, class: Class::Monitoring, bytes: 10 };
            let entries: Vec<Entry> = (0..i64::try_from(count).expect("few")).map(entry).collect();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
                reason = "small numbers")]
            let excess = (count as f64 * share) as u64 * 10;
            let dropped = plan(&entries, excess);
            let left: Vec<i64> = (entries.iter().filter(|it| !dropped.contains(it))).map(|it| it.id).collect();
            prop_assert!(!left.is_empty());
            prop_assert_eq!(left[0], 0, "the oldest is never the one that goes while others can");
            let gaps: Vec<i64> = left.windows(2).map(|pair| pair[1] - pair[0]).collect();
            // Gaps only get smaller towards now.
            for pair in gaps.windows(2) {
                prop_assert!(pair[1] <= pair[0] * 2, "{left:?}");
            }
        }

        #[test]
        fn a_long_absence_leaves_something_of_every_time(room in 40u64..200, count in 400i64..2000, others in 1i64..4) {
            // As it happens: one comes, and there is no room for it.
            let mut kept: Vec<Entry> = Vec::new();
            for id in 0..count {
                kept.push(Entry { id: id * others, class: Class::Monitoring, bytes: 10 });
                let total = 10 * u64::try_from(kept.len()).expect("few");
                if total > room * 10 {
                    let dropped = plan(&kept, total - (room - room / 16) * 10);
                    kept.retain(|it| !dropped.contains(it));
                }
            }
            let left: Vec<i64> = kept.iter().map(|it| it.id / others).collect();
            prop_assert_eq!((left[0], left[left.len() - 1]), (0, count - 1));
            let gaps = left.windows(2).map(|pair| (pair[1] - pair[0], count - pair[0]));
            for (gap, age) in gaps {
                prop_assert!(gap <= 1 + age / 2, "{gap} at age {age}: {left:?}");
            }
        }
    }
}
