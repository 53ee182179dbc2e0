//! Watching the file system on one inotify descriptor: for path units, PID files, cgroups, the time zone.
//!
//! [`PathWatches`] owns the descriptor, which the caller's event loop waits on. A watch is made of the paths of one unit
//! ([`PathWatches::add`]) or of one file ([`PathWatches::watch_file`]); [`PathWatches::dispatch`] says which watches have
//! something to tell.
//!
//! # How nothing is missed
//!
//! A path is walked from the root. Every component that exists, symbolic links included, is watched for being moved or
//! deleted; where one is missing, its folder is watched for new names and the component is looked for once more. So
//! whatever happens to the path after the walk leaves an event, and the condition is looked at only after the walk. An
//! event about the way to the path leads to another walk, which takes over the kernel's watches that it still needs
//! before it gives up the others: events that are queued for them keep their meaning.
//!
//! A descriptor that was kept while the manager was replaced ([`PathWatches::adopt`]) has its kernel watches and its
//! queue. Walking the same paths again gives the same kernel watches, by which the queued events are understood.
//!
//! # What counts as a change
//!
//! For `PathChanged=` and `PathModified=`: an event of the file or folder itself, or that the path now leads to another
//! file than at the last look. While a unit is disarmed, because what it triggers runs, only appearing and vanishing
//! count, as with systemd: a service that writes to the file that triggers it must not start itself for ever.

mod check;
mod folders;
mod pid_file;
mod place;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use muster_unit_file::config::{PathKind, PathSpec};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags};
use rustix::io::Errno;
use thiserror::Error;

use check::{Identity, condition_holds, identity};
pub use folders::{MakeDirectoryError, make_directories};
pub use pid_file::{PidFile, ReadPidFileError, read_pid_file};

/// Events taken in one [`PathWatches::dispatch`]; the rest waits for the next, so that other work gets its turn.
const EVENTS_AT_ONCE: usize = 8192;

/// Why something cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WatchPathError {
    /// There is no inotify descriptor to be had.
    #[error("cannot make an inotify descriptor")]
    Create {
        /// Why.
        #[source]
        source: Errno,
    },
    /// The kernel does not watch it: too many watches, or no right to.
    #[error("cannot watch {path}")]
    Watch {
        /// What.
        path: Box<str>,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A pattern leads into more folders than are watched for one unit.
    #[error("{path} leads into more than {} folders", place::MAX_FOLDERS)]
    TooManyFolders {
        /// The pattern.
        path: Box<str>,
    },
    /// Events cannot be read.
    #[error("cannot read inotify events")]
    Read {
        /// Why.
        #[source]
        source: Errno,
    },
}

/// A watch of a [`PathWatches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u32);

/// What a watch has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathNotice {
    /// A condition of a unit's paths holds, or its file changed.
    Triggered {
        /// The watch.
        watch: WatchId,
        /// Which of its paths.
        index: u16,
    },
    /// A path cannot be watched any longer as it should be.
    Unwatchable {
        /// The watch.
        watch: WatchId,
        /// Which of its paths.
        index: u16,
        /// Why.
        error: WatchPathError,
    },
    /// The file of [`PathWatches::watch_file`] was written to.
    Modified {
        /// The watch.
        watch: WatchId,
    },
    /// The file of [`PathWatches::watch_file`] is gone, and the watch with it.
    Gone {
        /// The watch.
        watch: WatchId,
    },
}

/// All watches, on one descriptor.
#[derive(Debug)]
pub struct PathWatches {
    inotify: OwnedFd,
    /// The descriptor was kept: its queue may tell of what happened before the paths were walked.
    adopted: bool,
    kernel: HashMap<i32, Vec<Subscriber>>,
    watches: BTreeMap<WatchId, Watch>,
    last_id: u32,
}

#[derive(Debug)]
enum Watch {
    Paths(Vec<Spec>),
    File { wd: i32 },
}

/// One path of a watch.
#[derive(Debug)]
struct Spec {
    kind: PathKind,
    path: Box<str>,
    armed: bool,
    /// What the path led to at the last look; `None` before the first.
    last: Option<Option<Identity>>,
    /// The kernel's watches that it uses.
    wds: Vec<i32>,
}

/// Who wants to know about a kernel watch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subscriber {
    watch: WatchId,
    index: u16,
    events: ReadFlags,
    /// Only events about this name in the folder.
    name: Option<Box<OsStr>>,
    effect: Effect,
}

/// What an event means for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The way to it, or its condition, may be another now.
    Look,
    /// It changed.
    Change,
    /// The one file was written to.
    Modified,
}

impl PathWatches {
    /// Makes a descriptor without watches.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new() -> Result<Self, WatchPathError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|source| WatchPathError::Create { source })?;
        Ok(Self::on(inotify, false))
    }

    /// Goes on with a descriptor that was kept. The watches must be added and armed again before the first
    /// [`PathWatches::dispatch`]; what was queued meanwhile is then understood.
    #[must_use]
    pub fn adopt(inotify: OwnedFd) -> Self {
        Self::on(inotify, true)
    }

    fn on(inotify: OwnedFd, adopted: bool) -> Self {
        Self {
            inotify,
            adopted,
            kernel: HashMap::new(),
            watches: BTreeMap::new(),
            last_id: 0,
        }
    }

    /// Takes the paths of a unit in, without watching them yet.
    pub fn add(&mut self, paths: &[PathSpec]) -> WatchId {
        let spec = |path: &PathSpec| Spec {
            kind: path.kind,
            path: path.path.clone(),
            armed: false,
            last: None,
            wds: Vec::new(),
        };
        let limit = usize::from(u16::MAX);
        self.insert(Watch::Paths(paths.iter().take(limit).map(spec).collect()))
    }

    /// Watches one file, wherever the path leads, for being written to. Meant for files that the kernel changes
    /// (`cgroup.events`): there is one kernel watch, and it ends with the file.
    ///
    /// # Errors
    /// The file does not exist or the kernel refuses.
    pub fn watch_file(&mut self, path: &str) -> Result<WatchId, WatchPathError> {
        let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::MASK_ADD;
        let wd = inotify::add_watch(&self.inotify, path, flags).map_err(|source| {
            WatchPathError::Watch {
                path: path.into(),
                source,
            }
        })?;
        let watch = self.insert(Watch::File { wd });
        self.kernel.entry(wd).or_default().push(Subscriber {
            watch,
            index: 0,
            events: ReadFlags::MODIFY,
            name: None,
            effect: Effect::Modified,
        });
        Ok(watch)
    }

    /// Watches everything that happens to one path, through folders that come and go: any change is reported as
    /// [`PathNotice::Triggered`], until the watch is removed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn watch_changes(&mut self, path: &str) -> Result<WatchId, WatchPathError> {
        let watch = self.add(&[PathSpec {
            kind: PathKind::Modified,
            path: path.into(),
        }]);
        match self.arm(watch) {
            Ok(_) => Ok(watch),
            Err(error) => {
                self.remove(watch);
                Err(error)
            }
        }
    }

    /// Watches the paths of a unit, and says at once which condition holds. Paths that are watched already are looked at
    /// again.
    ///
    /// # Errors
    /// A path cannot be watched; none is then.
    pub fn arm(&mut self, watch: WatchId) -> Result<Option<u16>, WatchPathError> {
        let mut first = None;
        for index in 0..self.spec_count(watch) {
            if let Err(error) = self.walk(watch, index) {
                self.disarm(watch);
                return Err(error);
            }
            if self.look_at_arming(watch, index) && first.is_none() {
                first = Some(index);
            }
        }
        Ok(first)
    }

    /// Stops watching the paths of a unit; what they led to is remembered.
    pub fn disarm(&mut self, watch: WatchId) {
        for index in 0..self.spec_count(watch) {
            if let Some(spec) = self.spec_mut(watch, index) {
                spec.armed = false;
                let wds = std::mem::take(&mut spec.wds);
                self.unsubscribe(watch, index, &wds);
            }
        }
    }

    /// Forgets a watch.
    pub fn remove(&mut self, watch: WatchId) {
        self.disarm(watch);
        if let Some(Watch::File { wd }) = self.watches.remove(&watch) {
            self.unsubscribe(watch, 0, &[wd]);
        }
    }

    /// Takes what the kernel has to tell, without waiting for it. Each path is reported at most once.
    ///
    /// # Errors
    /// Events cannot be read.
    pub fn dispatch(&mut self) -> Result<Vec<PathNotice>, WatchPathError> {
        let mut affected = Affected::default();
        self.read_events(&mut affected)?;
        self.adopted = false;
        let mut notices = Vec::new();
        for (watch, gone) in affected.files {
            if gone {
                self.remove(watch);
                notices.push(PathNotice::Gone { watch });
            } else {
                notices.push(PathNotice::Modified { watch });
            }
        }
        for ((watch, index), changed) in affected.paths {
            // A notice of the same batch may have led to the removal of the watch.
            if self.spec_mut(watch, index).is_none_or(|spec| !spec.armed) {
                continue;
            }
            if let Err(error) = self.walk(watch, index) {
                notices.push(PathNotice::Unwatchable {
                    watch,
                    index,
                    error,
                });
            }
            if self.look_after_event(watch, index, changed) {
                notices.push(PathNotice::Triggered { watch, index });
            }
        }
        Ok(notices)
    }

    fn read_events(&mut self, affected: &mut Affected) -> Result<(), WatchPathError> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut overflowed = false;
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        for _ in 0..EVENTS_AT_ONCE {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(source) => return Err(WatchPathError::Read { source }),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                overflowed = true;
                continue;
            }
            let Some(subscribers) = self.kernel.get(&event.wd()) else {
                continue;
            };
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()));
            for subscriber in subscribers {
                affected.take(subscriber, event.events(), name);
            }
            if event.events().contains(ReadFlags::IGNORED) {
                self.kernel.remove(&event.wd());
            }
        }
        if overflowed {
            // The kernel dropped events, so anything may have happened.
            for (watch, content) in &self.watches {
                match content {
                    Watch::File { .. } => drop(affected.files.insert(*watch, false)),
                    Watch::Paths(specs) => {
                        for index in 0..u16::try_from(specs.len()).unwrap_or(u16::MAX) {
                            affected.paths.insert((*watch, index), true);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn look_at_arming(&mut self, watch: WatchId, index: u16) -> bool {
        let Some(spec) = self.spec_mut(watch, index) else {
            return false;
        };
        let first = !spec.armed && spec.last.is_none();
        spec.armed = true;
        match spec.kind {
            PathKind::Changed | PathKind::Modified => {
                let now = identity(&spec.path);
                let before = spec.last.replace(now);
                !first && before.is_some_and(|before| before.is_some() != now.is_some())
            }
            kind => condition_holds(kind, &spec.path),
        }
    }

    fn look_after_event(&mut self, watch: WatchId, index: u16, changed: bool) -> bool {
        let Some(spec) = self.spec_mut(watch, index) else {
            return false;
        };
        match spec.kind {
            PathKind::Changed | PathKind::Modified => {
                let now = identity(&spec.path);
                let before = spec.last.replace(now);
                changed || before != Some(now)
            }
            kind => condition_holds(kind, &spec.path),
        }
    }

    fn insert(&mut self, watch: Watch) -> WatchId {
        self.last_id = self.last_id.wrapping_add(1);
        let id = WatchId(self.last_id);
        self.watches.insert(id, watch);
        id
    }

    fn spec_count(&self, watch: WatchId) -> u16 {
        match self.watches.get(&watch) {
            Some(Watch::Paths(specs)) => u16::try_from(specs.len()).unwrap_or(u16::MAX),
            _ => 0,
        }
    }

    fn spec_mut(&mut self, watch: WatchId, index: u16) -> Option<&mut Spec> {
        match self.watches.get_mut(&watch)? {
            Watch::Paths(specs) => specs.get_mut(usize::from(index)),
            Watch::File { .. } => None,
        }
    }

    fn unsubscribe(&mut self, watch: WatchId, index: u16, wds: &[i32]) {
        for wd in wds {
            let Some(subscribers) = self.kernel.get_mut(wd) else {
                continue;
            };
            subscribers.retain(|subscriber| (subscriber.watch, subscriber.index) != (watch, index));
            if subscribers.is_empty() {
                self.kernel.remove(wd);
                // Fails if the file went away by itself, which is as good.
                let _ = inotify::remove_watch(&self.inotify, *wd);
            }
        }
    }
}

impl AsFd for PathWatches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// What a batch of events is about.
#[derive(Debug, Default)]
struct Affected {
    /// Paths, and whether they changed or only may have.
    paths: BTreeMap<(WatchId, u16), bool>,
    /// Single files, and whether they are gone.
    files: BTreeMap<WatchId, bool>,
}

impl Affected {
    fn take(&mut self, subscriber: &Subscriber, events: ReadFlags, name: Option<&OsStr>) {
        let gone = events.contains(ReadFlags::IGNORED);
        if subscriber.effect == Effect::Modified {
            if gone || events.intersects(subscriber.events) {
                *self.files.entry(subscriber.watch).or_default() |= gone;
            }
            return;
        }
        let named = subscriber.name.as_deref();
        let other_name = named.is_some() && named != name;
        if gone || (events.intersects(subscriber.events) && !other_name) {
            let changed = subscriber.effect == Effect::Change && !gone;
            let key = (subscriber.watch, subscriber.index);
            *self.paths.entry(key).or_default() |= changed;
        }
    }
}
