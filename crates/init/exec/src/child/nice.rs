//! The new process's nice level.

use std::ffi::{c_int, c_long};

use super::{Failure, check, current_limit};
use crate::step::Step;

/// What the kernel takes the worst level for where it counts the other way round.
const WORST: c_long = 20;
/// The levels that there are.
const LOWEST: c_long = -20;
const HIGHEST: c_long = 19;

/// Sets the level. A process that may not have one that good gets the best that it may have, as with systemd.
pub(super) fn set(wanted: i8) -> Result<(), Failure> {
    let wanted = c_long::from(wanted);
    let refused = match set_to(wanted) {
        Err(failure) if matches!(failure.errno, libc::EPERM | libc::EACCES) => failure,
        other => return other,
    };
    // The kernel says `20 - level`, so that no level looks like an error.
    // SAFETY: no addresses are involved.
    let said = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    let current = WORST - check(Step::Nice, said)?;
    if wanted > current {
        // Everybody may have a worse one: the call is closed to the process altogether.
        return Err(refused);
    }
    let [allowed, _] = current_limit(libc::RLIMIT_NICE)?;
    match nearest(current, wanted.max(best(allowed))) {
        Some(level) => set_to(level),
        None => Ok(()),
    }
}

fn set_to(level: c_long) -> Result<(), Failure> {
    // SAFETY: no addresses are involved.
    let result = unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, level) };
    check(Step::Nice, result).map(|_| ())
}

/// The best level that a limit allows.
fn best(limit: u64) -> c_long {
    let limit = c_int::try_from(limit).unwrap_or(c_int::MAX);
    WORST
        .saturating_sub(c_long::from(limit))
        .clamp(LOWEST, HIGHEST)
}

/// The level to take: none if the process has one that is as good already.
fn nearest(current: c_long, best: c_long) -> Option<c_long> {
    (current > best).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_stands_for_the_best_level() {
        for (limit, level) in [
            (0, 19),
            (1, 19),
            (20, 0),
            (25, -5),
            (40, -20),
            (u64::MAX, -20),
        ] {
            assert_eq!(best(limit), level, "{limit}");
        }
    }

    #[test]
    fn nobody_gets_worse_by_asking_for_better() {
        assert_eq!(nearest(0, best(0)), None);
        assert_eq!(nearest(0, best(25)), Some(-5));
        assert_eq!(nearest(-7, best(25)), None);
    }
}
