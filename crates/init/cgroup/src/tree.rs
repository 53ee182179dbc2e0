//! The part of the hierarchy that a manager owns.

mod allotted;
mod legacy;
mod limits;
mod room;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::controllers::{Controller, Controllers};
use crate::error::{CgroupError, HierarchyError};
use crate::files::{Files, keyed, read_all};
use crate::hierarchy::{Hierarchy, Mode, OWN_SCOPE};
use crate::legacy::Legacy;
use crate::path::CgroupPath;
use crate::sessions::Sessions;
use crate::signal::signal_members;
use crate::usage::{Usage, consumed, of_group, of_processes};

use self::legacy::LegacyTrees;
pub use allotted::Allotted;
pub use limits::Refusals;

/// Controllers whose accounts every unit has. The others cost something, and are handed on where a unit needs them.
const COUNTED: [Controller; 2] = [Controller::Memory, Controller::Pids];

/// How a new process gets into a group.
#[derive(Debug)]
pub enum SpawnTarget {
    /// Born inside: the group's folder, for `CLONE_INTO_CGROUP`.
    Born(OwnedFd),
    /// It joins before it executes its program, by writing `0` into this file.
    Joins(OwnedFd),
    /// It leads a new session, and [`Tree::record`] is told of it.
    Recorded,
}

/// A group with processes that is not the manager's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where.
    pub path: CgroupPath,
    /// Who is in it, not counting groups below.
    pub processes: Vec<Pid>,
}

#[derive(Debug)]
enum Backing {
    V2(Files),
    V1(Files),
    Sessions(Sessions),
}

/// A tree of groups; all paths are below its root.
#[derive(Debug)]
pub struct Tree {
    mode: Mode,
    backing: Backing,
    /// Hierarchies of cgroup v1 that have the controllers which the tree does not have.
    legacy: LegacyTrees,
    /// The kernel measures the pressure on memory.
    has_pressure: bool,
    /// What units can be given.
    offered: Controllers,
    /// What new inner groups hand on to their children.
    handed_on: Controllers,
}

impl Tree {
    /// Opens the tree below a place of the hierarchy, making the place if it is missing.
    ///
    /// # Errors
    /// The place cannot be made or opened.
    pub fn open(hierarchy: &Hierarchy, below: &CgroupPath) -> Result<Self, HierarchyError> {
        let folder = |folder: &PathBuf| Files::open(folder.join(below.as_str()));
        let backing = match (&hierarchy.folder, hierarchy.mode) {
            (Some(place), Mode::Unified | Mode::Hybrid) => Backing::V2(folder(place)?),
            (Some(place), Mode::Legacy) => Backing::V1(folder(place)?),
            _ => Backing::Sessions(Sessions::default()),
        };
        Ok(Self {
            mode: hierarchy.mode,
            backing,
            legacy: LegacyTrees::default(),
            // A kernel that was told not to measure has the file and does not let it be opened.
            has_pressure: std::fs::File::open("/proc/pressure/memory").is_ok(),
            offered: Controllers::NONE,
            handed_on: Controllers::NONE,
        })
    }

    /// Also uses controllers of cgroup v1, in groups as far below the manager's own as the root of this tree is. Groups that an
    /// earlier manager left there are known from now on, or removed if they are not groups of this tree any more.
    pub fn use_legacy(&mut self, legacy: &Legacy, below: &CgroupPath) {
        // Where processes are not tracked by groups, nobody could tell which of those are still in use.
        if let Backing::V2(files) | Backing::V1(files) = &self.backing {
            self.legacy = LegacyTrees::open(legacy, below, files);
        }
    }

    /// Which kind of hierarchy this is.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What an operator should be told once about this machine; `None` where everything works.
    #[must_use]
    pub fn notice(&self) -> Option<&'static str> {
        let has_controllers = !self.legacy.subsystems().is_empty();
        match self.mode {
            Mode::Unified => None,
            Mode::Hybrid if has_controllers => Some(
                "Controllers are bound to cgroup v1: units that ask for limits are given groups there. Those of memory below \
                 the most, and latencies of disks, have no effect.",
            ),
            Mode::Legacy if has_controllers => Some(
                "Only cgroup v1 is there: processes are tracked and limited, but freezing and filters of addresses do not \
                 work, and a group that forks without end may outrun its end.",
            ),
            Mode::Hybrid => Some(
                "The cgroup v2 tree has no controllers (they are bound to v1): processes are tracked, resource limits \
                 have no effect.",
            ),
            Mode::Legacy => Some(
                "Only a cgroup v1 hierarchy is there: processes are tracked, but freezing and resource limits do not \
                 work, and a group that forks without end may outrun its end.",
            ),
            Mode::Sessions => Some(
                "No cgroups can be used: processes are tracked by their sessions, and one that makes a session of its \
                 own escapes.",
            ),
        }
    }

    /// Moves the manager's own processes into a group of their own and hands the controllers that everybody needs on to the
    /// root's children, which the kernel allows only when the root has no processes. Gives what units can be given from now on.
    ///
    /// # Errors
    /// A process could not be moved. Controllers that cannot be had are no error.
    pub fn settle(&mut self, own: &[Pid]) -> Result<Controllers, CgroupError> {
        let Backing::V2(files) = &self.backing else {
            return Ok(Controllers::NONE);
        };
        let root = CgroupPath::root();
        let scope = CgroupPath::parse(OWN_SCOPE).unwrap_or_else(|_| root.clone());
        self.create(&scope)?;
        for pid in own {
            self.attach(&scope, *pid)?;
        }
        let offered = files.read(&root.file("cgroup.controllers"));
        let offered =
            offered.map_err(|error| CgroupError::new("read controllers of", &root, error))?;
        let offered = Controllers::parse(&offered);
        let control = root.file("cgroup.subtree_control");
        self.handed_on = COUNTED
            .into_iter()
            .filter(|controller| offered.contains(*controller))
            // One by one: a controller that somebody else keeps busy must not take the others with it.
            .filter(|controller| {
                let word = Controllers::from(*controller).signed('+');
                files.write(&control, &word).is_ok()
            })
            .collect();
        self.offered = offered;
        Ok(offered)
    }

    /// Makes a group, and those above it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        self.make(path).map(|_| ())
    }

    /// Makes a group and those above it; whether it is new.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn make(&self, path: &CgroupPath) -> Result<bool, CgroupError> {
        let files = match &self.backing {
            Backing::V2(files) | Backing::V1(files) => files,
            Backing::Sessions(sessions) => {
                sessions.make(path);
                return Ok(false);
            }
        };
        match files.make(path.relative()) {
            Ok(new) => return Ok(new),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(CgroupError::new("make", path, error)),
        }
        let mut new = false;
        for step in path.steps() {
            let made = files.make(step);
            new = made.map_err(|error| CgroupError::new("make", path, error))?;
            if new && step.len() < path.as_str().len() && !self.handed_on.is_empty() {
                let control = format!("{step}/cgroup.subtree_control");
                let handed_on = files.write(&control, &self.handed_on.signed('+'));
                handed_on
                    .map_err(|error| CgroupError::new("hand controllers on to", path, error))?;
            }
        }
        Ok(new)
    }

    /// Makes a group and says how a new process gets into it.
    ///
    /// # Errors
    /// The kernel refuses, or the group or one above it is frozen or about to be.
    pub fn target(&self, path: &CgroupPath) -> Result<SpawnTarget, CgroupError> {
        let new = self.make(path)?;
        self.target_of(path, new)
    }

    /// Says how a new process gets into a group that exists, and that is `new` if nobody else can have done anything to it.
    ///
    /// # Errors
    /// The kernel refuses, or the group or one above it is frozen or about to be.
    pub fn target_of(&self, path: &CgroupPath, new: bool) -> Result<SpawnTarget, CgroupError> {
        let failed = |error| CgroupError::new("open", path, error);
        match &self.backing {
            Backing::V2(files) => {
                // A child that is born frozen never executes, and whoever started it waits for that. A new group can
                // only be frozen by one above it.
                let parent = new.then(|| path.parent());
                if let Some(path) = room::frozen_at(files, parent.as_ref().unwrap_or(path))? {
                    return Err(CgroupError::Frozen { path });
                }
                let folder = match new {
                    true => files.open_folder(path.relative()),
                    false => room::with_room(files, path),
                };
                Ok(SpawnTarget::Born(folder.map_err(failed)?))
            }
            Backing::V1(files) => {
                let file = files.open_file(&path.file("cgroup.procs"), OFlags::WRONLY);
                Ok(SpawnTarget::Joins(file.map_err(failed)?))
            }
            Backing::Sessions(_) => Ok(SpawnTarget::Recorded),
        }
    }

    /// Files that a new process of a group writes `0` into before it executes its program, beside how it gets into the group
    /// itself: those of hierarchies of cgroup v1. Most often there are none.
    ///
    /// # Errors
    /// A group that was made there is gone, or the kernel refuses.
    pub fn joins(&self, path: &CgroupPath) -> Result<Vec<OwnedFd>, CgroupError> {
        self.legacy.joins(path)
    }

    /// Tells a tree without cgroups of a process that leads a session: after a start, and for every known process after
    /// the manager itself was started again. Elsewhere the kernel knows, and nothing happens.
    pub fn record(&self, path: &CgroupPath, leader: Pid) {
        if let Backing::Sessions(sessions) = &self.backing {
            sessions.record(path, leader);
        }
    }

    /// Moves a process into a group that exists.
    ///
    /// # Errors
    /// The process or the group is gone, or the kernel refuses.
    pub fn attach(&self, path: &CgroupPath, pid: Pid) -> Result<(), CgroupError> {
        match &self.backing {
            Backing::V2(files) | Backing::V1(files) => {
                // Limits first: it is nobody's part to free a process from its unit's because it was fast.
                self.legacy.attach(path, pid)?;
                files
                    .write(&path.file("cgroup.procs"), &pid.to_string())
                    .map_err(|error| CgroupError::new("move a process into", path, error))
            }
            Backing::Sessions(sessions) => {
                sessions.record(path, pid);
                Ok(())
            }
        }
    }

    /// The processes of a group and of all below it; none where the group is gone.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn processes(&self, path: &CgroupPath) -> Result<Vec<Pid>, CgroupError> {
        match &self.backing {
            Backing::V2(files) | Backing::V1(files) => files.all_members(path),
            Backing::Sessions(sessions) => sessions.members(path),
        }
    }

    /// Whether a process is in a group or below it. Zombies do not count.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn is_populated(&self, path: &CgroupPath) -> Result<bool, CgroupError> {
        match &self.backing {
            Backing::V2(files) => event(files, path, "populated"),
            _ => Ok(!self.processes(path)?.is_empty()),
        }
    }

    /// The file to watch for modification: something began or ceased to be populated or frozen.
    #[must_use]
    pub fn events_file(&self, path: &CgroupPath) -> Option<PathBuf> {
        match &self.backing {
            Backing::V2(files) => Some(files.full_path(path).join("cgroup.events")),
            _ => None,
        }
    }

    /// Where a group lies in the file system; `None` without cgroups.
    #[must_use]
    pub fn folder(&self, path: &CgroupPath) -> Option<PathBuf> {
        match &self.backing {
            Backing::V2(files) | Backing::V1(files) => Some(files.full_path(path)),
            Backing::Sessions(_) => None,
        }
    }

    /// Sends a signal to every process of a group and of all below it, but for those that are spared, and says to how many.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn signal(
        &self,
        path: &CgroupPath,
        signal: Signal,
        spared: &[Pid],
    ) -> Result<usize, CgroupError> {
        signal_members(signal, || {
            let mut members = self.processes(path)?;
            members.retain(|pid| !spared.contains(pid));
            Ok(members)
        })
    }

    /// Ends every process of a group and of all below it. Nothing escapes where the kernel has `cgroup.kill`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn kill(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        if let Backing::V2(files) = &self.backing {
            match files.write(&path.file("cgroup.kill"), "1") {
                Ok(()) => return Ok(()),
                // The group is gone, or the kernel is older than 5.14; the root of the hierarchy has no such file.
                Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(CgroupError::new("kill", path, error)),
            }
        }
        self.signal(path, Signal::KILL, &[]).map(|_| ())
    }

    /// Begins to freeze or to thaw a group and all below it. [`Tree::is_frozen`] tells when it is done.
    ///
    /// # Errors
    /// The hierarchy cannot, or the kernel refuses.
    pub fn set_frozen(&self, path: &CgroupPath, frozen: bool) -> Result<(), CgroupError> {
        let operation = if frozen { "freeze" } else { "thaw" };
        match &self.backing {
            Backing::V2(files) => files
                .write(&path.file("cgroup.freeze"), if frozen { "1" } else { "0" })
                .map_err(|error| CgroupError::new(operation, path, error)),
            _ => Err(CgroupError::Unsupported {
                operation: operation.into(),
                path: path.clone(),
            }),
        }
    }

    /// Whether all processes of a group stand still.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn is_frozen(&self, path: &CgroupPath) -> Result<bool, CgroupError> {
        match &self.backing {
            Backing::V2(files) => event(files, path, "frozen"),
            _ => Ok(false),
        }
    }

    /// Waits until a group is frozen, or is not; whether that came in time.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn wait_frozen(
        &self,
        path: &CgroupPath,
        frozen: bool,
        limit: Duration,
    ) -> Result<bool, CgroupError> {
        let Backing::V2(files) = &self.backing else {
            return Ok(!frozen);
        };
        let failed = |error| CgroupError::new("watch", path, error);
        let end = Instant::now() + limit;
        let file = files.open_file(&path.file("cgroup.events"), OFlags::RDONLY);
        let file = file.map_err(failed)?;
        loop {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).map_err(failed)?;
            let text = read_all(&file).map_err(failed)?;
            if (keyed(&text, "frozen") == Some(1)) == frozen {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let left = Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            });
            match poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Removes a group and all below it.
    ///
    /// # Errors
    /// Processes are in it, or the kernel refuses.
    pub fn remove(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        match &self.backing {
            Backing::V2(files) | Backing::V1(files) => {
                files.remove(path)?;
                self.legacy.remove(path);
                Ok(())
            }
            Backing::Sessions(sessions) => sessions.remove(path),
        }
    }

    /// Tells a tree without cgroups that a process has ended and was reaped: its number may be anybody's next. Elsewhere nothing
    /// happens.
    pub fn reaped(&self, pid: Pid) {
        if let Backing::Sessions(sessions) = &self.backing {
            sessions.reaped(pid);
        }
    }

    /// What a group uses.
    ///
    /// # Errors
    /// Its processes cannot be listed.
    pub fn usage(&self, path: &CgroupPath) -> Result<Usage, CgroupError> {
        let mut usage = match &self.backing {
            Backing::V2(files) => of_group(files, path)?,
            _ => of_processes(&self.processes(path)?),
        };
        self.legacy.add_usage(path, &mut usage);
        Ok(usage)
    }

    /// What a group has used up so far, as far as these controllers count it; nothing of what it uses at the moment, so that
    /// nobody has to be looked at.
    #[must_use]
    pub fn consumed(&self, path: &CgroupPath, counted: Controllers) -> Usage {
        let mut usage = match &self.backing {
            Backing::V2(files) => consumed(files, path, self.offered.within(counted)),
            _ => Usage::default(),
        };
        self.legacy.add_usage(path, &mut usage);
        Usage {
            memory: None,
            tasks: None,
            ..usage
        }
    }

    /// How many processes of a group, or below it, the kernel ended for lack of memory; `None` where it does not count.
    #[must_use]
    pub fn oom_kills(&self, path: &CgroupPath) -> Option<u64> {
        if let Backing::V2(files) = &self.backing
            && let Ok(events) = files.read(&path.file("memory.events"))
        {
            return keyed(&events, "oom_kill");
        }
        self.legacy.oom_kills(path)
    }

    /// Writes an attribute, such as `memory.max`.
    ///
    /// # Errors
    /// The hierarchy has no attributes, or the kernel refuses.
    pub fn set(&self, path: &CgroupPath, attribute: &str, value: &str) -> Result<(), CgroupError> {
        let operation = format!("write {attribute} of");
        match &self.backing {
            Backing::V2(files) if !attribute.contains('/') => files
                .write(&path.file(attribute), value)
                .map_err(|error| CgroupError::new(&operation, path, error)),
            _ => Err(CgroupError::Unsupported {
                operation: operation.into(),
                path: path.clone(),
            }),
        }
    }

    /// Every group with processes, but for the manager's own: what an earlier manager left running.
    ///
    /// # Errors
    /// The tree cannot be listed.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, CgroupError> {
        let mut leftovers: Vec<Leftover> = Vec::new();
        let mut add = |path: CgroupPath, processes: Vec<Pid>| {
            if processes.is_empty() || path.is_root() || path.as_str() == OWN_SCOPE {
                return;
            }
            match leftovers.last_mut().filter(|last| last.path == path) {
                Some(last) => last.processes.extend(processes),
                None => leftovers.push(Leftover { path, processes }),
            }
        };
        match &self.backing {
            Backing::V2(files) | Backing::V1(files) => {
                files.each(&CgroupPath::root(), |path, members| {
                    add(path(), members);
                    Ok(())
                })?;
            }
            Backing::Sessions(sessions) => {
                for path in sessions.places() {
                    let members = sessions.members(&path)?;
                    add(path, members);
                }
            }
        }
        Ok(leftovers)
    }
}

/// A flag of `cgroup.events`. A group that is gone has none set; the root of the hierarchy has no such file and is
/// always populated.
fn event(files: &Files, path: &CgroupPath, key: &str) -> Result<bool, CgroupError> {
    match files.read(&path.file("cgroup.events")) {
        Ok(text) => Ok(keyed(&text, key) == Some(1)),
        Err(Errno::NOENT | Errno::NODEV) => Ok(path.is_root() && key == "populated"),
        Err(error) => Err(CgroupError::new("read the events of", path, error)),
    }
}
