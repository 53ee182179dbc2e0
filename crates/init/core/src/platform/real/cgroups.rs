//! Cgroups, and how their emptiness is heard of.

mod alarms;
mod limits;

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use muster_cgroup::{CgroupPath, Controller, Mode, Pid, Signal, SpawnTarget};
use rustix::fs::inotify;

use super::{RealPlatform, process};
use crate::platform::Usage;

/// How long freezing may take before it is given up.
const FREEZE_PATIENCE: Duration = Duration::from_secs(2);

/// A path as the tree takes it.
pub(super) fn path(text: &str) -> io::Result<CgroupPath> {
    CgroupPath::parse(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// A signal by its number.
pub(super) fn signal(number: u8) -> io::Result<Signal> {
    process::known_signal(number).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no signal {number}"),
        )
    })
}

/// What users call the kinds of hierarchies.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Unified => "unified",
        Mode::Hybrid => "hybrid",
        Mode::Legacy => "legacy",
        Mode::Sessions => "none",
    }
}

/// What is watched of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Watch {
    /// Whether anybody is in it.
    Emptiness,
    /// Whether the kernel ends processes of it for lack of memory.
    Memory,
}

/// Cgroups that somebody wants to hear of.
#[derive(Debug)]
pub(super) struct Watched {
    inotify: OwnedFd,
    by_watch: HashMap<i32, (Box<str>, Watch)>,
    by_path: HashMap<(Box<str>, Watch), i32>,
    /// Of cgroups whose memory is counted by the first version.
    pub(super) alarms: alarms::Alarms,
}

impl Watched {
    pub(super) fn new() -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self {
            inotify: inotify::init(flags)?,
            by_watch: HashMap::new(),
            by_path: HashMap::new(),
            alarms: alarms::Alarms::default(),
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    pub(super) fn add(&mut self, path: &str, what: Watch, file: Option<PathBuf>) -> io::Result<()> {
        let file = file.ok_or(io::ErrorKind::Unsupported)?;
        let watch = inotify::add_watch(&self.inotify, file, inotify::WatchFlags::MODIFY)?;
        self.by_watch.insert(watch, (path.into(), what));
        self.by_path.insert((path.into(), what), watch);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str, what: Watch) {
        if let Some(watch) = self.by_path.remove(&(path.into(), what)) {
            self.by_watch.remove(&watch);
            // The file is gone where the cgroup is.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    pub(super) fn changed(&mut self, emptied: &mut Vec<Box<str>>, starved: &mut Vec<Box<str>>) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut space);
        while let Ok(event) = events.next() {
            let Some((path, what)) = self.by_watch.get(&event.wd()) else {
                continue;
            };
            let changed = match what {
                Watch::Emptiness => &mut *emptied,
                Watch::Memory => &mut *starved,
            };
            if !changed.contains(path) {
                changed.push(path.clone());
            }
        }
    }
}

fn number(pid: Pid) -> u32 {
    u32::try_from(pid.as_raw_nonzero().get()).unwrap_or_default()
}

impl RealPlatform {
    pub(super) fn make_group(&mut self, text: &str) -> io::Result<bool> {
        let path = path(text)?;
        let new = self.tree.make(&path).map_err(io::Error::other)?;
        self.fresh = new.then_some(path);
        Ok(new)
    }

    /// How a process gets into a group, which is made if it is not there.
    pub(super) fn target_of(&mut self, path: &CgroupPath) -> io::Result<SpawnTarget> {
        let target = match self.fresh.take() {
            Some(fresh) if fresh == *path => self.tree.target_of(path, true),
            _ => self.tree.target(path),
        };
        target.map_err(io::Error::other)
    }

    pub(super) fn attach_all(&mut self, text: &str, pids: &[u32]) -> io::Result<()> {
        let path = path(text)?;
        for pid in pids {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
            self.tree.attach(&path, pid).map_err(io::Error::other)?;
        }
        Ok(())
    }

    pub(super) fn signal_all(
        &mut self,
        text: &str,
        number: u8,
        spared: &[u32],
    ) -> io::Result<bool> {
        let path = path(text)?;
        let signal = signal(number)?;
        if signal == Signal::KILL {
            let populated = self.tree.is_populated(&path).map_err(io::Error::other)?;
            if populated {
                self.tree.kill(&path).map_err(io::Error::other)?;
            }
            return Ok(populated);
        }
        let spared: Vec<Pid> = spared
            .iter()
            .filter_map(|pid| i32::try_from(*pid).ok().and_then(Pid::from_raw))
            .collect();
        let told = self.tree.signal(&path, signal, &spared);
        let told = told.map_err(io::Error::other)?;
        Ok(told > 0)
    }

    pub(super) fn members(&self, text: &str) -> Vec<(u32, String)> {
        let Ok(path) = path(text) else {
            return Vec::new();
        };
        let pids = self.tree.processes(&path).unwrap_or_default();
        pids.into_iter()
            .map(number)
            .map(|pid| {
                let below = self.cgroup_of(pid).unwrap_or_default();
                let below = below.strip_prefix(text).unwrap_or_default();
                (pid, below.trim_start_matches('/').to_owned())
            })
            .collect()
    }

    pub(super) fn leftovers(&self) -> Vec<(String, Vec<u32>)> {
        let found = self.tree.leftovers().unwrap_or_default();
        found
            .into_iter()
            .map(|one| {
                let pids = one.processes.into_iter().map(number).collect();
                (one.path.as_str().to_owned(), pids)
            })
            .collect()
    }

    pub(super) fn set_frozen(&mut self, text: &str, frozen: bool) -> io::Result<()> {
        let path = path(text)?;
        let changed = self.tree.change_frozen(&path, frozen, FREEZE_PATIENCE);
        if changed.map_err(io::Error::other)? {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    pub(super) fn thaw_one(&mut self, text: &str) -> io::Result<Option<Box<str>>> {
        let above = self.tree.thaw(&path(text)?).map_err(io::Error::other)?;
        Ok(above.map(|above| above.unit().unwrap_or_default().into()))
    }

    pub(super) fn usage_of(&self, text: &str) -> Usage {
        let Ok(path) = path(text) else {
            return Usage::default();
        };
        let used = self.tree.usage(&path).unwrap_or_default();
        Usage {
            network: self.traffic_of(&path),
            refusals: self.tree.refusals(&path),
            ..as_usage(used)
        }
    }

    pub(super) fn consumed_by(&self, text: &str, disks: bool, network: bool) -> Usage {
        let Ok(path) = path(text) else {
            return Usage::default();
        };
        let io = disks.then_some(Controller::Io);
        let counted = io.into_iter().chain([Controller::Memory]).collect();
        Usage {
            network: match network {
                true => self.traffic_of(&path),
                false => [None; 4],
            },
            ..as_usage(self.tree.consumed(&path, counted))
        }
    }

    /// The cgroup of a process, below the root of the tree.
    pub(super) fn cgroup_of(&self, pid: u32) -> Option<Box<str>> {
        let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let path = own_line(&table, self.tree.mode())?.strip_prefix(&*self.root)?;
        Some(path.trim_start_matches('/').into())
    }
}

fn as_usage(used: muster_cgroup::Usage) -> Usage {
    Usage {
        tasks: used.tasks,
        memory: used.memory.map(|memory| memory.bytes()),
        memory_peak: used.memory_peak,
        cpu: used.cpu_usec,
        disks: [used.io_read, used.io_reads, used.io_write, used.io_writes],
        ..Usage::default()
    }
}

/// The line of `/proc/PID/cgroup` that is about the hierarchy which processes are tracked in.
fn own_line(table: &str, mode: Mode) -> Option<&str> {
    table.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let tracks = match mode {
            Mode::Unified | Mode::Hybrid => controllers.is_empty(),
            Mode::Legacy => controllers.starts_with("name="),
            Mode::Sessions => false,
        };
        tracks.then_some(path)
    })
}

/// The root of the tree as the kernel names it: where this process is, less the scope that it has for itself.
pub(super) fn kernel_root(mode: Mode) -> Box<str> {
    let table = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own_line(&table, mode).unwrap_or_default();
    let root = own.strip_suffix("/init.scope").unwrap_or(own);
    root.trim_end_matches('/').into()
}
