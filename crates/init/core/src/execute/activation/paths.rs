//! Path units, PID files and the time zone, on one inotify descriptor that `muster-init` keeps.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;

use muster_activation::paths::{
    PathNotice, PathWatches, WatchId, WatchPathError, make_directories, read_pid_file,
};
use muster_activation::timers::ZONE_FILE;
use muster_engine::ids::UnitId;
use muster_engine::protocol::{ExitStatus, Input, Process, Severity};
use muster_engine::types::{Machine, PathState, ServiceState};
use muster_unit_file::config::{PathSpec, UnitKind};

use super::chain;
use crate::core::Core;
use crate::platform::Token;
use crate::recover::Kept;

/// What `muster-init` keeps the descriptor under.
const KEY: &str = "inotify";

/// Everything that is watched in the file system.
#[derive(Debug, Default)]
pub(super) struct PathTable {
    watches: Option<PathWatches>,
    /// The watch of each path unit, and what it was made of.
    units: HashMap<UnitId, (WatchId, Vec<PathSpec>)>,
    pid_files: HashMap<UnitId, WatchId>,
    /// Units whose PID file names nobody yet.
    without_main: BTreeSet<UnitId>,
    zone: Option<WatchId>,
    meaning: HashMap<WatchId, Meaning>,
}

/// Whom a watch is for.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Paths(UnitId),
    PidFile(UnitId),
    Zone,
}

impl Core {
    /// The watches; the descriptor is made with the first of them.
    fn path_watches(&mut self) -> Result<&mut PathWatches, WatchPathError> {
        let table = &mut self.activation.paths;
        if table.watches.is_none() {
            let watches = PathWatches::new()?;
            self.use_path_watches(watches);
        }
        let table = &mut self.activation.paths;
        Ok(table.watches.as_mut().expect("it was just put there"))
    }

    fn use_path_watches(&mut self, watches: PathWatches) {
        if let Err(error) = self.platform.watch(watches.as_fd(), Token::Paths, false) {
            let message = format!("Changes in the file system cannot be waited for: {error}.");
            self.say(Severity::Error, None, &message);
        }
        if let Ok(copy) = watches.as_fd().try_clone_to_owned() {
            self.platform.keep(KEY.to_owned(), copy);
        }
        self.activation.paths.watches = Some(watches);
    }

    pub(super) fn watch_paths(&mut self, unit: UnitId, on: bool) {
        if on {
            match self.arm_paths(unit) {
                Ok(Some(index)) => self.path_triggered(unit, index),
                Ok(None) => self.tell(unit, Input::PathsQuiet),
                Err(error) => self.say(Severity::Error, Some(unit), &chain(&error)),
            }
            return;
        }
        let runs = self.engine.get(unit).is_some_and(|record| {
            matches!(&record.machine, Machine::Path(path) if path.state == PathState::Running)
        });
        let table = &mut self.activation.paths;
        let (Some((watch, _)), Some(watches)) = (table.units.get(&unit), &mut table.watches) else {
            return;
        };
        if runs {
            // What it triggers runs; afterwards it is compared with what was there now.
            watches.disarm(*watch);
        } else {
            watches.remove(*watch);
            table.meaning.remove(watch);
            table.units.remove(&unit);
            self.activation.reasons.forget(unit);
        }
    }

    fn arm_paths(&mut self, unit: UnitId) -> Result<Option<u16>, WatchPathError> {
        let Some(name) = self.name_of(unit) else {
            return Ok(None);
        };
        let config = self.units.config(&name);
        let UnitKind::Path(path) = &config.kind else {
            return Ok(None);
        };
        let known = self.activation.paths.units.get(&unit);
        let stale = known.filter(|(_, paths)| *paths != path.paths);
        if let Some(watch) = stale.map(|(watch, _)| *watch) {
            self.path_watches()?.remove(watch);
            self.activation.paths.meaning.remove(&watch);
            self.activation.paths.units.remove(&unit);
        }
        let watch = match self.activation.paths.units.get(&unit) {
            Some((watch, _)) => *watch,
            None => {
                let watch = self.path_watches()?.add(&path.paths);
                let table = &mut self.activation.paths;
                table.units.insert(unit, (watch, path.paths.clone()));
                table.meaning.insert(watch, Meaning::Paths(unit));
                watch
            }
        };
        self.path_watches()?.arm(watch)
    }

    pub(super) fn make_watched_directories(&mut self, unit: UnitId) {
        let Some(name) = self.name_of(unit) else {
            return;
        };
        let config = self.units.config(&name);
        if let UnitKind::Path(path) = &config.kind {
            for error in make_directories(path) {
                self.say(Severity::Warning, Some(unit), &chain(&error));
            }
        }
    }

    /// Looks for the main process of a unit, now and whenever its PID file changes.
    pub(super) fn watch_pid_file(&mut self, unit: UnitId, on: bool) {
        let table = &mut self.activation.paths;
        if let (Some(watch), Some(watches)) = (table.pid_files.remove(&unit), &mut table.watches) {
            watches.remove(watch);
            table.meaning.remove(&watch);
        }
        if !on {
            table.without_main.remove(&unit);
            return;
        }
        // Watched before it is read: what is written in between is not missed.
        if let Some(path) = self.pid_file_of(unit) {
            match self
                .path_watches()
                .map(|watches| watches.watch_changes(&path))
            {
                Ok(Ok(watch)) => {
                    let table = &mut self.activation.paths;
                    table.pid_files.insert(unit, watch);
                    table.meaning.insert(watch, Meaning::PidFile(unit));
                }
                Ok(Err(error)) | Err(error) => {
                    self.say(Severity::Error, Some(unit), &chain(&error));
                }
            }
        }
        self.look_for_main(unit);
    }

    fn pid_file_of(&mut self, unit: UnitId) -> Option<Box<str>> {
        let name = self.name_of(unit)?;
        match &self.units.config(&name).kind {
            UnitKind::Service(service) => service.pid_file.as_ref().map(|path| path.0.clone()),
            _ => None,
        }
    }

    fn look_for_main(&mut self, unit: UnitId) {
        let process = match self.pid_file_of(unit) {
            None => self.guess_main(unit),
            Some(path) => match read_pid_file(&path) {
                Ok(file) => {
                    let process = self.main_process(unit, file.pid);
                    if process.is_none()
                        && let Some(status) = self.strangers.take(file.pid)
                    {
                        return self.main_has_ended(unit, file.pid, status);
                    }
                    if process.is_none() {
                        let message = format!(
                            "The PID file {path} names process {}, which is not of this unit.",
                            file.pid
                        );
                        self.say(Severity::Warning, Some(unit), &message);
                    }
                    process
                }
                // It is not written yet, or not completely.
                Err(error) => {
                    self.say(Severity::Debug, Some(unit), &chain(&error));
                    None
                }
            },
        };
        let table = &mut self.activation.paths;
        match &process {
            None => table.without_main.insert(unit),
            Some(_) => table.without_main.remove(&unit),
        };
        self.tell(unit, Input::PidFile { process });
    }

    /// The main process that a PID file names has ended already.
    fn main_has_ended(&mut self, unit: UnitId, pid: u32, status: ExitStatus) {
        self.activation.paths.without_main.remove(&unit);
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let process = Process {
            pid,
            pidfd_inode: 0,
            cgroup: self.cgroup_of(unit),
            invocation: record.invocation,
        };
        let process = Some(process);
        self.tell(unit, Input::PidFile { process });
        self.tell(unit, Input::Exited { pid, status });
        self.await_empty(unit);
    }

    /// Whether a unit is waiting for its PID file to name somebody.
    pub(crate) fn awaits_main(&self, unit: UnitId) -> bool {
        let is_without = self.activation.paths.without_main.contains(&unit);
        let machine = self.engine.get(unit).map(|record| &record.machine);
        is_without
            && matches!(machine, Some(Machine::Service(service)) if service.state == ServiceState::Start)
    }

    /// Somebody ended of whom nobody knew whose he was: perhaps a PID file did.
    pub(crate) fn look_for_awaited_mains(&mut self) {
        let units: Vec<UnitId> = self.activation.paths.without_main.iter().copied().collect();
        for unit in units {
            if self.awaits_main(unit)
                && let Some(path) = self.pid_file_of(unit)
                && let Ok(file) = read_pid_file(&path)
                && let Some(status) = self.strangers.take(file.pid)
            {
                self.main_has_ended(unit, file.pid, status);
            }
        }
    }

    /// The only process of the unit's cgroup that is a child of `muster-init`.
    fn guess_main(&mut self, unit: UnitId) -> Option<Process> {
        let cgroup = self.cgroup_of(unit);
        let init = std::os::unix::process::parent_id();
        let pids = self.platform.processes(&cgroup);
        let is_child = |pid: &u32| {
            let facts = self.platform.process(*pid);
            facts.is_some_and(|facts| facts.parent == init)
        };
        let mut children = pids.iter().map(|(pid, _)| *pid).filter(is_child);
        let (first, second) = (children.next(), children.next());
        match (first, second) {
            (Some(pid), None) => self.main_process(unit, pid),
            _ => None,
        }
    }

    /// Watches the time zone; asked for by the first timer that has a calendar line.
    pub(super) fn watch_zone(&mut self) {
        if self.activation.paths.zone.is_some() {
            return;
        }
        match self
            .path_watches()
            .map(|watches| watches.watch_changes(ZONE_FILE))
        {
            Ok(Ok(watch)) => {
                self.activation.paths.zone = Some(watch);
                self.activation.paths.meaning.insert(watch, Meaning::Zone);
            }
            Ok(Err(error)) | Err(error) => self.say(Severity::Warning, None, &chain(&error)),
        }
    }

    /// Something changed in the file system.
    pub(super) fn paths_ready(&mut self) {
        let Some(watches) = &mut self.activation.paths.watches else {
            return;
        };
        let notices = match watches.dispatch() {
            Ok(notices) => notices,
            Err(error) => return self.say(Severity::Error, None, &chain(&error)),
        };
        for notice in notices {
            match notice {
                PathNotice::Triggered { watch, index } => self.path_changed(watch, index),
                PathNotice::Unwatchable { watch, error, .. } => {
                    let unit = match self.activation.paths.meaning.get(&watch) {
                        Some(Meaning::Paths(unit) | Meaning::PidFile(unit)) => Some(*unit),
                        Some(Meaning::Zone) | None => None,
                    };
                    self.say(Severity::Error, unit, &chain(&error));
                }
                PathNotice::Modified { .. } | PathNotice::Gone { .. } => {}
            }
        }
    }

    fn path_triggered(&mut self, unit: UnitId, index: u16) {
        self.activation.reasons.note_line(unit, index);
        self.tell(unit, Input::PathTriggered { index });
    }

    fn path_changed(&mut self, watch: WatchId, index: u16) {
        match self.activation.paths.meaning.get(&watch) {
            Some(Meaning::Paths(unit)) => self.path_triggered(*unit, index),
            Some(Meaning::PidFile(unit)) => self.look_for_main(*unit),
            Some(Meaning::Zone) => self.zone_changed(),
            None => {}
        }
    }

    /// Goes on watching what units asked for, on the descriptor that was kept: what it has queued is told.
    pub(super) fn restore_paths(&mut self, kept: &mut Kept) {
        if let Some(fd) = kept.take(KEY) {
            self.use_path_watches(PathWatches::adopt(fd));
        }
        let wanted: Vec<(UnitId, bool, bool)> = self
            .memory
            .watches
            .iter()
            .map(|(unit, watches)| (*unit, watches.paths, watches.pid_file))
            .collect();
        for (unit, paths, pid_file) in wanted {
            if paths {
                self.watch_paths(unit, true);
            }
            if pid_file {
                self.watch_pid_file(unit, true);
            }
        }
    }
}
