//! Tracking without cgroups: every service leads a session, and what it starts stays in it unless it takes pains not to.
//!
//! The kernel gives the number of a session away again once nobody is in it. So a session is known by its number only for
//! as long as somebody is there: its leader, who is recognised by the moment when he was started, or another member.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::CgroupError;
use crate::path::CgroupPath;

/// Processes that were recorded by their numbers, with the moment when each was started; `None` once it is gone and others of
/// its session are left.
type Leaders = BTreeMap<i32, Option<u64>>;

/// The sessions of each unit. The kernel keeps nothing here, so a manager that was started again records the sessions of
/// the processes it knows.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    units: RefCell<BTreeMap<CgroupPath, Leaders>>,
}

/// What the kernel says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    session: i32,
    /// In clock ticks since boot.
    start: u64,
}

impl Sessions {
    pub(crate) fn make(&self, path: &CgroupPath) {
        self.units.borrow_mut().entry(path.clone()).or_default();
    }

    pub(crate) fn record(&self, path: &CgroupPath, leader: Pid) {
        let leader = leader.as_raw_pid();
        let start = process(leader).ok().flatten();
        let start = start.map(|process| process.start);
        let mut units = self.units.borrow_mut();
        for (place, leaders) in &mut *units {
            // Whoever had this number before is gone, and his session with him.
            if place != path {
                leaders.remove(&leader);
            }
        }
        units.entry(path.clone()).or_default().insert(leader, start);
    }

    /// Forgets a unit that nobody is left of.
    pub(crate) fn remove(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        if !self.members(path)?.is_empty() {
            return Err(CgroupError::Busy { path: path.clone() });
        }
        let mut units = self.units.borrow_mut();
        units.retain(|place, _| !place.is_within(path));
        Ok(())
    }

    pub(crate) fn members(&self, path: &CgroupPath) -> Result<Vec<Pid>, CgroupError> {
        let mut units = self.units.borrow_mut();
        let inside = units.iter().filter(|(place, _)| place.is_within(path));
        if inside.into_iter().all(|(_, leaders)| leaders.is_empty()) {
            return Ok(Vec::new());
        }
        let running = running()
            .map_err(|error| CgroupError::new("list the processes of", path, errno(&error)))?;
        let mut members = Vec::new();
        for (place, leaders) in &mut *units {
            let some = prune(leaders, &running);
            if place.is_within(path) {
                members.extend(some.into_iter().filter_map(Pid::from_raw));
            }
        }
        Ok(members)
    }

    /// Looks whether a session ended with a process, before its number means another one.
    pub(crate) fn reaped(&self, pid: Pid) {
        let mut units = self.units.borrow_mut();
        let mut leaders = units.values().flatten();
        // Whoever has no leader any more may end with anybody.
        if !leaders.any(|(leader, start)| *leader == pid.as_raw_pid() || start.is_none()) {
            return;
        }
        // Whoever cannot be looked at now is looked at with the next.
        if let Ok(running) = running() {
            for leaders in units.values_mut() {
                prune(leaders, &running);
            }
        }
    }

    pub(crate) fn places(&self) -> Vec<CgroupPath> {
        self.units.borrow().keys().cloned().collect()
    }
}

/// Who belongs to these leaders. Those whose session is over are forgotten, and those whose number has become another's.
fn prune(leaders: &mut Leaders, running: &[Process]) -> Vec<i32> {
    let mut members = Vec::new();
    leaders.retain(|leader, start| {
        let now = running.iter().find(|process| process.pid == *leader);
        match (now, *start) {
            (Some(now), Some(start)) if now.start == start => {}
            (Some(_), _) => return false,
            (None, _) => *start = None,
        }
        let before = members.len();
        // Before it has made its session, and if it never does, a process is there alone.
        let own = running
            .iter()
            .filter(|process| process.session == *leader || process.pid == *leader);
        members.extend(own.map(|process| process.pid));
        members.len() > before
    });
    members.sort_unstable();
    members.dedup();
    members
}

/// Everybody who lives.
fn running() -> io::Result<Vec<Process>> {
    let mut running = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            running.extend(process(pid)?);
        }
    }
    Ok(running)
}

/// A process that lives; a zombie does nothing any more.
fn process(pid: i32) -> io::Result<Option<Process>> {
    match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(process_in(pid, &String::from_utf8_lossy(&stat))),
        // Gone, or hidden from us, and then not ours.
        Err(error)
            if matches!(
                errno(&error),
                Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The name of a program may hold anything, so fields are counted from its last parenthesis.
fn process_in(pid: i32, stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    // The first thread may be gone while others work.
    if matches!(*fields.first()?, "Z" | "X") && threads <= 1 {
        return None;
    }
    Some(Process {
        pid,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: i32, session: i32, start: u64) -> Process {
        Process {
            pid,
            session,
            start,
        }
    }

    #[test]
    fn a_process_is_read_behind_any_program_name() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("7 ({name}) {state} 1 7 9 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 10 11\n")
        };
        let read = |name, state, threads| process_in(7, &stat(name, state, threads));
        assert_eq!(read("a", "S", 1), Some(one(7, 9, 4711)));
        assert_eq!(read("a) Z 1 2 3", "S", 1), Some(one(7, 9, 4711)));
        assert_eq!(read("a", "Z", 1), None);
        assert_eq!(read("a", "Z", 2), Some(one(7, 9, 4711)));
        assert_eq!(process_in(7, "7 (a"), None);
        assert_eq!(process_in(7, "7 (a) S 1"), None);
    }

    #[test]
    fn whoever_is_in_the_session_belongs_to_it() {
        let mut leaders = Leaders::from([(5, Some(100)), (8, Some(300))]);
        let running = [
            one(5, 5, 100),
            one(6, 5, 200),
            one(7, 1, 250),
            // It has not made its session yet.
            one(8, 1, 300),
        ];
        assert_eq!(prune(&mut leaders, &running), [5, 6, 8]);
        assert_eq!(leaders.len(), 2);
    }

    #[test]
    fn a_session_lasts_as_long_as_somebody_is_in_it() {
        let mut leaders = Leaders::from([(5, Some(100))]);
        assert_eq!(prune(&mut leaders, &[one(6, 5, 200)]), [6]);
        assert_eq!(prune(&mut leaders, &[one(7, 5, 300)]), [7]);
        assert_eq!(prune(&mut leaders, &[one(9, 9, 50)]), [0_i32; 0]);
        assert!(leaders.is_empty());
        // Whoever gets the number later is somebody else.
        assert_eq!(prune(&mut leaders, &[one(5, 5, 900)]), [0_i32; 0]);
    }

    #[test]
    fn a_number_that_became_another_s_is_not_taken_for_the_leader() {
        for start in [Some(100), None] {
            let mut leaders = Leaders::from([(5, start)]);
            let running = [one(5, 5, 900), one(6, 5, 901)];
            assert_eq!(prune(&mut leaders, &running), [0_i32; 0]);
            assert!(leaders.is_empty());
        }
    }
}
