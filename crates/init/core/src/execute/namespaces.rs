//! Namespaces that outlive the processes in them: `PrivateNetwork=` and `PrivateIPC=` are a run's, not a process's.
//!
//! A run that asks for one has a pair of sockets for it, whose ends are held here and in `muster-init`. The first process of
//! the run puts a descriptor of the namespace that it makes into the pair, and all later ones find it there (see
//! [`muster_exec::ExecContext::network_store`]). A unit that joins another has copies of that one's pair: so a namespace is
//! there as long as any of their runs is, whether it has processes or not, whoever began it, and whichever core is running.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_engine::dep::DepKind;
use muster_engine::ids::UnitId;
use muster_engine::protocol::SpawnError;
use muster_exec::Step;
use muster_unit_file::config::{UnitConfig, UnitKind};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::core::Core;
use crate::recover::Kept;

/// How names in `muster-init` begin: `namespace:UNIT:KIND0` and `namespace:UNIT:KIND1`.
const PREFIX: &str = "namespace:";
const EIO: i32 = 5;

/// A kind of namespace that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `PrivateNetwork=`
    Network,
    /// `PrivateIPC=`
    Ipc,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Network, Self::Ipc];

    /// As in `/proc/PID/ns`.
    fn name(self) -> &'static str {
        match self {
            Self::Network => "net",
            Self::Ipc => "ipc",
        }
    }

    fn step(self) -> Step {
        match self {
            Self::Network => Step::Network,
            Self::Ipc => Step::Namespace,
        }
    }

    /// Whether a unit's processes have one that is not the machine's and not somebody's by name.
    fn is_wanted(self, config: &UnitConfig) -> bool {
        let stated = &config.exec.sandbox;
        let is_private = match self {
            Self::Network => stated.private_network,
            Self::Ipc => stated.private_ipc,
        };
        is_private && self.named_by(config).is_none()
    }

    /// The file that stands for somebody's, which a unit's processes are in.
    fn named_by(self, config: &UnitConfig) -> Option<&str> {
        let stated = &config.exec.sandbox;
        let path = match self {
            Self::Network => &stated.network_namespace_path,
            Self::Ipc => &stated.ipc_namespace_path,
        };
        Some(&path.as_ref()?.0)
    }
}

/// What one namespace is kept in.
#[derive(Debug)]
struct Pair([OwnedFd; 2]);

impl Pair {
    fn new() -> io::Result<Self> {
        let (reads, writes) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Self([reads, writes]))
    }

    fn copy(&self) -> io::Result<Self> {
        let [reads, writes] = &self.0;
        Ok(Self([reads.try_clone()?, writes.try_clone()?]))
    }

    /// Puts the namespace that a file stands for into it, which nobody else has seen yet.
    fn fill(&self, path: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let namespace = rustix::fs::open(path, flags, Mode::empty())?;
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let rights = [namespace.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&rights));
        let [_, writes] = &self.0;
        let data = [IoSlice::new(b"n")];
        rustix::net::sendmsg(writes, &data, &mut control, SendFlags::DONTWAIT)?;
        Ok(())
    }
}

/// What runs keep their namespaces in.
#[derive(Debug, Default)]
pub(crate) struct NamespaceTable {
    pairs: HashMap<(UnitId, Kind), Pair>,
}

impl NamespaceTable {
    /// What a unit's namespace is kept in, if the unit has one of its own.
    pub(crate) fn pair(&self, unit: UnitId, kind: Kind) -> Option<[BorrowedFd<'_>; 2]> {
        let Pair([reads, writes]) = self.pairs.get(&(unit, kind))?;
        Some([reads.as_fd(), writes.as_fd()])
    }
}

fn key(unit: &str, kind: Kind, end: usize) -> String {
    format!("{PREFIX}{unit}:{}{end}", kind.name())
}

impl Core {
    /// Sees to it that what the next process of a unit needs for namespaces of the run's own is there.
    pub(super) fn prepare_namespaces(
        &mut self,
        unit: UnitId,
        config: &UnitConfig,
    ) -> Result<(), SpawnError> {
        // Others do not say when their runs end.
        if !matches!(config.kind, UnitKind::Service(_) | UnitKind::Socket(_)) {
            return Ok(());
        }
        for kind in Kind::ALL {
            if kind.is_wanted(config) && !self.namespaces.pairs.contains_key(&(unit, kind)) {
                self.begin_namespace(unit, config, kind).map_err(|error| {
                    let what = format!("cannot keep the namespace {}: {error}", kind.name());
                    SpawnError {
                        step: what.into(),
                        errno: error.raw_os_error().unwrap_or(EIO),
                        exit_code: kind.step().exit_code(),
                        early: false,
                    }
                })?;
            }
        }
        Ok(())
    }

    fn begin_namespace(&mut self, unit: UnitId, config: &UnitConfig, kind: Kind) -> io::Result<()> {
        let joined: Vec<UnitId> = self
            .engine
            .unit(unit)
            .deps(DepKind::JoinsNamespaceOf)
            .collect();
        let theirs = joined
            .iter()
            .find_map(|other| self.namespaces.pairs.get(&(*other, kind)));
        let pair = match theirs {
            Some(theirs) => theirs.copy()?,
            None => {
                let pair = Pair::new()?;
                if let Some(path) = self.unkept_namespace(unit, &joined, kind) {
                    pair.fill(&path)?;
                }
                pair
            }
        };
        for (end, fd) in pair.0.iter().enumerate() {
            let key = key(config.name.as_str(), kind, end);
            self.platform.keep(key, fd.try_clone()?);
        }
        self.namespaces.pairs.insert((unit, kind), pair);
        // The process that is about to start may be over before anything else is handed over. A link that is broken is found
        // broken by the loop.
        let _ = self.platform.flush();
        Ok(())
    }

    /// Where a namespace is that nobody keeps: that of a process which a core before this one started when namespaces were not
    /// kept, or one that a joined unit has by name.
    fn unkept_namespace(&mut self, unit: UnitId, joined: &[UnitId], kind: Kind) -> Option<String> {
        let of = |pid: u32| format!("/proc/{pid}/ns/{}", kind.name());
        if let Some(pid) = self.main_that_runs(unit) {
            return Some(of(pid));
        }
        joined.iter().find_map(|other| {
            let config = self.config_of(*other)?;
            if let Some(path) = kind.named_by(&config) {
                let is_down = self.engine.unit(*other).active().is_down();
                return (!is_down).then(|| path.to_owned());
            }
            let pid = self.main_that_runs(*other)?;
            kind.is_wanted(&config).then(|| of(pid))
        })
    }

    /// A run is over, and has no namespaces any more. Those that others share stay theirs.
    pub(super) fn end_namespaces(&mut self, unit: UnitId, config: &UnitConfig) {
        for kind in Kind::ALL {
            if self.namespaces.pairs.remove(&(unit, kind)).is_some() {
                for end in 0..2 {
                    let key = key(config.name.as_str(), kind, end);
                    self.platform.release(&key);
                }
            }
        }
    }

    /// Takes over what `muster-init` kept for the runs that are not over.
    pub(crate) fn restore_namespaces(&mut self, kept: &mut Kept) {
        let mut ends: HashMap<(UnitId, Kind), [Option<OwnedFd>; 2]> = HashMap::new();
        for (key, fd) in kept.take_all(PREFIX) {
            let found = self.unit_in_key(&key, PREFIX);
            let found = found.filter(|(unit, _)| !self.engine.unit(*unit).active().is_down());
            let place = found.and_then(|(unit, last)| {
                let (name, end) = last.split_at_checked(last.len().checked_sub(1)?)?;
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
                let ends = ends.entry((unit, kind)).or_default();
                ends.get_mut(end.parse::<usize>().ok()?)
            });
            match place {
                Some(place) => *place = Some(fd),
                None => self.platform.release(&key),
            }
        }
        for (at, ends) in ends {
            if let [Some(reads), Some(writes)] = ends {
                self.namespaces.pairs.insert(at, Pair([reads, writes]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_unit_kind_and_end() {
        let name = key("a:b@c.service", Kind::Network, 1);
        assert_eq!(name, "namespace:a:b@c.service:net1");
        assert_ne!(
            key("x.service", Kind::Ipc, 0),
            key("x.service", Kind::Ipc, 1)
        );
    }

    #[test]
    fn what_is_put_into_a_pair_is_found_through_its_copies() {
        let pair = Pair::new().unwrap();
        let copy = pair.copy().unwrap();
        pair.fill("/proc/self/ns/ipc").unwrap();
        drop(pair);
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut room);
        let mut byte = [0u8; 1];
        let mut data = [io::IoSliceMut::new(&mut byte)];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recvmsg(&copy.0[0], &mut data, &mut control, flags).unwrap();
        let found = control.drain().find_map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        let inode = |stat: rustix::fs::Stat| stat.st_ino;
        let own = rustix::fs::stat("/proc/self/ns/ipc").unwrap();
        assert_eq!(
            inode(rustix::fs::fstat(found.unwrap()).unwrap()),
            inode(own)
        );
        assert!(copy.fill("/proc/0/ns/net").is_err());
    }
}
