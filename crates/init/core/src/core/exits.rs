//! Ends of processes, and of everybody in a cgroup.

use std::collections::{BTreeSet, VecDeque};

use muster_engine::ids::{Time, UnitId};
use muster_engine::protocol::{ExitStatus, Input};
use muster_engine::types::{Machine, ServiceState};
use muster_handover::Exit;

use super::Core;

/// How long, in microseconds, the end of a process may go unnoticed that is not reported.
const LOOK_AGAIN: u64 = 2_000_000;
/// The same where it is expected at any moment.
const LOOK_SOON: u64 = 50_000;

/// Cgroups that are waited for and whose emptiness the kernel does not report.
#[derive(Debug, Default)]
pub(crate) struct Unwatched {
    paths: BTreeSet<Box<str>>,
    /// When they were looked at last.
    looked: Time,
}

/// Ends of processes of which nobody knew whose they were. One may yet be named as a main process: who ends at once does so before
/// his PID file is read.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    ended: VecDeque<(u32, ExitStatus)>,
}

/// Ends of strangers that are remembered.
const STRANGERS: usize = 64;

impl Strangers {
    fn note(&mut self, pid: u32, status: ExitStatus) {
        self.forget(pid);
        if self.ended.len() == STRANGERS {
            self.ended.pop_front();
        }
        self.ended.push_back((pid, status));
    }

    /// The number is somebody else's now.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.ended.retain(|(stranger, _)| *stranger != pid);
    }

    /// How a stranger ended, for whom he was no stranger.
    pub(crate) fn take(&mut self, pid: u32) -> Option<ExitStatus> {
        let at = self.ended.iter().position(|(one, _)| *one == pid)?;
        self.ended.remove(at).map(|(_, status)| status)
    }
}

/// How a process ended, from what the kernel reports.
fn status_of(exit: &Exit) -> ExitStatus {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (exit.outcome.code(), exit.outcome.signal()) {
        (_, Some(signal)) if exit.outcome.dumped_core() => ExitStatus::Core(small(signal)),
        (_, Some(signal)) => ExitStatus::Signal(small(signal)),
        (code, None) => ExitStatus::Code(small(code.unwrap_or(255))),
    }
}

impl Core {
    /// A child of `muster-init` ended. What is nobody's main or helper process is of no interest by itself.
    pub(crate) fn exited(&mut self, exit: Exit) {
        let pid = u32::try_from(exit.pid).unwrap_or_default();
        self.end_setup(pid);
        if let Some(unit) = self.processes.remove(&pid) {
            let status = status_of(&exit);
            self.before_exit(unit);
            // Whoever lost a process to a lack of memory often ends badly itself, before the kernel's own word of it is heard.
            if status != ExitStatus::Code(0) {
                self.look_for_oom(&self.cgroup_of(unit));
            }
            self.note_logout(unit, pid, status);
            self.tell(unit, Input::Exited { pid, status });
        } else {
            self.strangers.note(pid, status_of(&exit));
            self.look_for_awaited_mains();
        }
        self.platform.forget(pid);
        self.platform.acknowledge(exit.seq);
    }

    /// A unit that stays up without processes needs neither a cgroup nor a stream to the log any more.
    pub(super) fn tidy_after_exit(&mut self, unit: UnitId) {
        let record = self.engine.get(unit);
        let is_over = record.is_some_and(|record| match &record.machine {
            Machine::Service(service) => {
                service.state == ServiceState::Exited && record.machine.processes().next().is_none()
            }
            _ => false,
        });
        if is_over && !self.platform.is_populated(&self.cgroup_of(unit)) {
            self.release_cgroup(unit);
        }
    }

    /// Watched cgroups changed.
    pub(super) fn look_at_cgroups(&mut self) {
        let (mut emptied, mut starved) = (Vec::new(), Vec::new());
        self.platform.changed_cgroups(&mut emptied, &mut starved);
        for path in starved {
            self.look_for_oom(&path);
        }
        for path in emptied {
            // Whoever was the last may be the one that is waited for: his end is heard from muster-init, a moment later.
            let unit = self.cgroups.get(&*path).copied();
            match unit.is_some_and(|unit| self.awaits_main(unit)) {
                true => self.look_later(path, LOOK_SOON),
                false => self.look_whether_empty(&path),
            }
        }
    }

    fn look_whether_empty(&mut self, path: &str) {
        if self.platform.is_populated(path) {
            return;
        }
        self.platform.unwatch_cgroup(path);
        if let Some(unit) = self.cgroups.remove(path) {
            self.tell(unit, Input::CgroupEmpty);
        }
    }

    /// Reports the moment when nobody is left in a unit's cgroup; at once, if that is so already.
    pub(crate) fn await_empty(&mut self, unit: UnitId) {
        let path = self.cgroup_of(unit);
        if self.cgroups.contains_key(&path) {
            return;
        }
        let watched = self.platform.watch_cgroup(&path).is_ok();
        if !self.platform.is_populated(&path) {
            if watched {
                self.platform.unwatch_cgroup(&path);
            }
            return self.tell(unit, Input::CgroupEmpty);
        }
        if !watched {
            self.look_later(path.clone(), LOOK_AGAIN);
        }
        self.cgroups.insert(path, unit);
    }

    /// Looks at a cgroup after the next exits, or when this time has passed without any.
    fn look_later(&mut self, path: Box<str>, within: u64) {
        let looked = Time((self.now().monotonic.0 + within).saturating_sub(LOOK_AGAIN));
        self.unwatched.looked = match self.unwatched.paths.is_empty() {
            true => looked,
            false => looked.min(self.unwatched.looked),
        };
        self.unwatched.paths.insert(path);
    }

    /// Looks at cgroups that the kernel says nothing about. That is after exits, since most of those who were in one are reported
    /// when they end; and now and then, since somebody else may be the parent of the last.
    pub(super) fn look_at_unwatched(&mut self) {
        if self.unwatched.paths.is_empty() {
            return;
        }
        let cgroups = &self.cgroups;
        self.unwatched
            .paths
            .retain(|path| cgroups.contains_key(path));
        for path in self.unwatched.paths.clone() {
            self.look_whether_empty(&path);
        }
        self.unwatched.looked = self.now().monotonic;
    }

    /// When cgroups are to be looked at, whether or not somebody ends.
    pub(super) fn next_look(&self) -> Option<Time> {
        let looked = self.unwatched.looked;
        (!self.unwatched.paths.is_empty()).then(|| Time(looked.0 + LOOK_AGAIN))
    }
}
