//! Memory that runs out in groups of cgroup v1.
//!
//! The kernel rings before it ends somebody, and does not say when it has. So whoever was rung for is looked at again and again
//! for a while, until the number of those that were ended has grown.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks before it is believed that nobody was ended: memory was found after all.
const LOOKS: u16 = 500;

#[derive(Debug)]
struct Alarm {
    descriptor: OwnedFd,
    /// Those that were ended, as far as it was told.
    killed: u64,
    /// How often it is still looked at.
    looks: u16,
}

/// Alarms by cgroup.
#[derive(Debug, Default)]
pub(in crate::platform::real) struct Alarms {
    by_path: HashMap<Box<str>, Alarm>,
}

impl Alarms {
    pub(in crate::platform::real) fn add(&mut self, path: &str, descriptor: OwnedFd, killed: u64) {
        let alarm = Alarm {
            descriptor,
            killed,
            looks: 0,
        };
        self.by_path.insert(path.into(), alarm);
    }

    pub(in crate::platform::real) fn remove(&mut self, path: &str) {
        self.by_path.remove(path);
    }

    /// How long may be waited at most; `None` is as long as one likes.
    pub(in crate::platform::real) fn patience(&self) -> Option<Duration> {
        let mut alarms = self.by_path.values();
        alarms.any(|alarm| alarm.looks > 0).then_some(PAUSE)
    }

    /// Cgroups in which somebody was ended since they were asked for last; `killed` says how many ever were.
    pub(in crate::platform::real) fn look(
        &mut self,
        killed: impl Fn(&str) -> u64,
        starved: &mut Vec<Box<str>>,
    ) {
        for (path, alarm) in &mut self.by_path {
            let mut count = [0; 8];
            if rustix::io::read(&alarm.descriptor, &mut count).is_ok() {
                alarm.looks = LOOKS;
            }
            if alarm.looks == 0 {
                continue;
            }
            alarm.looks -= 1;
            let now = killed(path);
            if now > alarm.killed {
                alarm.killed = now;
                alarm.looks = 0;
                starved.push(path.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn who_was_rung_for_is_looked_at_until_somebody_was_ended() {
        let mut alarms = Alarms::default();
        let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        alarms.add("a.service", bell.try_clone().unwrap(), 2);
        let killed = Cell::new(2);
        let look = |alarms: &mut Alarms| {
            let mut starved = Vec::new();
            alarms.look(|_| killed.get(), &mut starved);
            starved.len()
        };
        // Nobody rang, so nobody is looked at, whatever the number says.
        killed.set(3);
        assert_eq!((look(&mut alarms), alarms.patience()), (0, None));
        killed.set(2);
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        assert_eq!((look(&mut alarms), alarms.patience()), (0, Some(PAUSE)));
        killed.set(3);
        assert_eq!((look(&mut alarms), alarms.patience()), (1, None));
        // One that comes to nothing is given up.
        rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
        let looks = (0..u32::from(LOOKS))
            .map(|_| look(&mut alarms))
            .sum::<usize>();
        assert_eq!((looks, alarms.patience()), (0, None));
    }
}
