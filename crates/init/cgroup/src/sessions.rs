//! Tracking without cgroups: every service leads a session, and what it starts stays in it unless it takes pains not to.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Pid;

use crate::path::CgroupPath;

/// The sessions of each unit. The kernel keeps nothing here, so a manager that was started again records the sessions of
/// the processes it knows.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    leaders: RefCell<BTreeMap<CgroupPath, BTreeSet<i32>>>,
}

impl Sessions {
    pub(crate) fn make(&self, path: &CgroupPath) {
        self.leaders.borrow_mut().entry(path.clone()).or_default();
    }

    pub(crate) fn record(&self, path: &CgroupPath, leader: Pid) {
        let mut leaders = self.leaders.borrow_mut();
        let sessions = leaders.entry(path.clone()).or_default();
        sessions.insert(leader.as_raw_pid());
    }

    pub(crate) fn forget(&self, path: &CgroupPath) {
        let mut leaders = self.leaders.borrow_mut();
        leaders.retain(|place, _| !place.is_within(path));
    }

    pub(crate) fn members(&self, path: &CgroupPath) -> Vec<Pid> {
        let leaders = self.leaders.borrow();
        let inside = leaders.iter().filter(|(place, _)| place.is_within(path));
        let wanted: BTreeSet<i32> = inside.flat_map(|(_, sessions)| sessions).copied().collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| session_of(*pid).is_some_and(|session| wanted.contains(&session)))
            .filter_map(Pid::from_raw)
            .collect()
    }

    pub(crate) fn places(&self) -> Vec<CgroupPath> {
        self.leaders.borrow().keys().cloned().collect()
    }
}

/// The session of a process that lives; a zombie has none that matters.
fn session_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    session_in(&stat)
}

/// The name of a program may hold anything, so fields are counted from its last parenthesis.
fn session_in(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::session_in;

    #[test]
    fn the_session_is_found_behind_any_program_name() {
        assert_eq!(session_in("7 (a) S 1 7 9 0 -1"), Some(9));
        assert_eq!(session_in("7 (a) Z 1 2 3) S 1 7 9 0 -1"), Some(9));
        assert_eq!(session_in("7 (a) Z 1 7 9 0 -1"), None);
        assert_eq!(session_in("7 (a"), None);
        assert_eq!(session_in("7 (a) S 1"), None);
    }
}
