//! When to give memory back, decided by how many pages are newly touched.
//!
//! Work touches pages that were not mapped, and the kernel counts each as a fault. A daemon that rests touches only what it has
//! touched a moment ago. So memory is given back when there has been work (many faults) and now there is none (hardly any). What is
//! needed even at rest comes back by itself.

/// So few faults between two looks are rest: a timer, a keep-alive, a measurement.
const AT_REST: u64 = 8;
/// So many faults were work. Each brings 16 pages or more, so even a little of it is megabytes. Giving those back again and again,
/// after each round of measurements, takes a millisecond each time.
const WORK: u64 = 32;

/// What a look has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing was done that is worth giving back.
    Rests,
    /// Something is being done.
    Works,
    /// Something was done, and is over: memory is to be given back.
    Over,
}

/// What the looks before have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quiet {
    /// Faults at the last look.
    seen: u64,
    /// Faults when memory had last been given back.
    given_back: u64,
}

impl Quiet {
    /// Of a process that has had so many faults, and has never given anything back.
    pub(super) fn new(faults: u64) -> Self {
        Self {
            seen: faults,
            given_back: 0,
        }
    }

    /// What the daemon does now, after so many faults in the process's life.
    pub(super) fn look(&mut self, faults: u64) -> Look {
        let rests = faults.saturating_sub(self.seen) <= AT_REST;
        let has_worked = faults.saturating_sub(self.given_back) >= WORK;
        self.seen = faults;
        match (rests, has_worked) {
            (true, true) => Look::Over,
            (true, false) => Look::Rests,
            (false, _) => Look::Works,
        }
    }

    /// It was given back, and that alone took faults, too.
    pub(super) fn given_back(&mut self, faults: u64) {
        self.seen = faults;
        self.given_back = faults;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_start_is_given_back_once_it_is_over() {
        let mut quiet = Quiet::new(100);
        assert_eq!(quiet.look(800), Look::Works, "it still starts");
        assert_eq!(quiet.look(801), Look::Over);
        quiet.given_back(830);
        assert_eq!(quiet.look(860), Look::Works, "what is needed returns");
        assert_eq!(quiet.look(860), Look::Rests);
        assert_eq!(quiet.look(2000), Look::Works);
        assert_eq!(quiet.look(2000), Look::Over);
    }

    #[test]
    fn a_daemon_that_was_never_busy_is_left_alone() {
        let mut quiet = Quiet::new(10);
        let mut looks = (10..WORK).map(|faults| quiet.look(faults));
        assert!(looks.all(|look| look == Look::Rests));
    }

    proptest! {
        #[test]
        fn memory_is_given_back_only_at_rest_and_not_without_work_in_between(
            steps in vec(0..100_u64, 0..100),
            own in 0..100_u64,
        ) {
            let mut quiet = Quiet::new(0);
            let (mut faults, mut last) = (0, 0);
            for step in steps {
                faults += step;
                let look = quiet.look(faults);
                prop_assert_eq!(look == Look::Works, step > AT_REST);
                if look == Look::Over {
                    prop_assert!(step <= AT_REST);
                    prop_assert!(faults - last >= WORK);
                    faults += own;
                    quiet.given_back(faults);
                    last = faults;
                } else {
                    prop_assert!(step > AT_REST || faults - last < WORK);
                }
            }
        }
    }
}
