//! The clocks, and how long to sleep by them.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::decide::Now;

/// A sleep does not go on while the machine is suspended, and what is due then is late by no more than this.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// What time it is. The steady clock is the one that goes on while the machine is suspended: an item that may be on its own for
/// a day is on its own on a device that sleeps, too. A program shows nothing of its health while it is suspended.
pub(crate) fn now() -> Now {
    // Since boot, it is never before it.
    let read = |clock| clock_gettime(clock).try_into().unwrap_or_default();
    Now {
        awake: read(ClockId::Monotonic),
        steady: read(ClockId::Boottime),
        wall: SystemTime::now(),
    }
}

/// How long to sleep before looking again.
pub(crate) fn nap(due_in: Option<Duration>) -> Duration {
    due_in.unwrap_or(LONGEST_NAP).min(LONGEST_NAP)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn no_sleep_is_longer_than_what_a_suspended_machine_may_be_late() {
        let nap_of = |seconds| nap(Some(Duration::from_secs(seconds))).as_secs();
        assert_eq!([0, 7, 60, 89_000].map(nap_of), [0, 7, 60, 60]);
        assert_eq!(nap(None), LONGEST_NAP);
    }

    #[test]
    fn the_steady_clock_goes_on_while_the_machine_is_suspended() {
        // Where the two clocks of the kernel have never differed, this process gets a namespace in which they do.
        let inside = std::env::var_os("MUSTER_TEST_CLOCK").is_some();
        if !inside && rustix::process::geteuid().is_root() {
            let test = "clock::tests::the_steady_clock_goes_on_while_the_machine_is_suspended";
            let program = std::env::current_exe().expect("the running test");
            let output = std::process::Command::new("unshare")
                .args(["--time", "--boottime", "100000", "--fork"])
                .arg(program)
                .args(["--exact", test])
                .env("MUSTER_TEST_CLOCK", "inside")
                .output()
                .expect("unshare runs");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
            return;
        }
        let uptime = || {
            let text = fs::read_to_string("/proc/uptime").expect("the uptime");
            let seconds = text.split('.').next().expect("seconds");
            Duration::from_secs(seconds.parse().expect("a number"))
        };
        let (before, seen, after) = (uptime(), now(), uptime());
        assert!(
            before <= seen.steady && seen.steady < after + Duration::from_secs(1),
            "{before:?} {seen:?} {after:?}"
        );
        if inside {
            // The other clock knows nothing of what only this one was moved by.
            let apart = seen.steady.saturating_sub(seen.awake);
            assert!(apart >= Duration::from_secs(99_999), "{seen:?}");
        }
    }
}
