//! Controllers that are bound to hierarchies of cgroup v1, and where this process is in each of them.

use std::path::{Path, PathBuf};

use crate::controllers::Controller;
use crate::error::HierarchyError;
use crate::hierarchy::{Mount, read};
use crate::path::CgroupPath;
use crate::set::{Member, Set};

/// A controller of the first version. Those that nothing is asked of are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subsystem {
    /// Shares of processor time.
    Cpu,
    /// Counts processor time.
    Cpuacct,
    /// Which processors and memory nodes.
    Cpuset,
    /// Block devices.
    Blkio,
    /// Memory and swap.
    Memory,
    /// Number of tasks.
    Pids,
    /// Which devices may be used.
    Devices,
}

impl Subsystem {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Cpu,
        Self::Cpuacct,
        Self::Cpuset,
        Self::Blkio,
        Self::Memory,
        Self::Pids,
        Self::Devices,
    ];

    /// As the kernel names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Blkio => "blkio",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Devices => "devices",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// What takes its place in the second version; there devices are a matter of programs.
    #[must_use]
    pub fn controller(self) -> Option<Controller> {
        match self {
            Self::Cpu | Self::Cpuacct => Some(Controller::Cpu),
            Self::Cpuset => Some(Controller::Cpuset),
            Self::Blkio => Some(Controller::Io),
            Self::Memory => Some(Controller::Memory),
            Self::Pids => Some(Controller::Pids),
            Self::Devices => None,
        }
    }

    /// Whether a group is held against its siblings, which then have to be groups too.
    pub(crate) fn is_relative(self) -> bool {
        matches!(self, Self::Cpu | Self::Blkio)
    }
}

impl Member for Subsystem {
    const MEMBERS: &'static [Self] = &Self::ALL;

    fn number(self) -> u8 {
        self as u8
    }
}

/// A set of them.
pub type Subsystems = Set<Subsystem>;

impl Subsystems {
    /// Reads a list such as `cpu,cpuacct`; what is not known is left out.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        list.split(',').filter_map(Subsystem::named).collect()
    }
}

/// One hierarchy, and the place in it that the manager was born into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyPlace {
    /// What is bound to it; distributions bind several to one.
    pub subsystems: Subsystems,
    /// The folder of the manager's own group in it.
    pub folder: PathBuf,
    /// The same group as the kernel names it.
    pub own: Box<str>,
    /// How the hierarchy is called in `/proc/PID/cgroup`, as in `cpu,cpuacct`.
    pub name: Box<str>,
}

/// All hierarchies of cgroup v1 with controllers that limit or count something and that can be written to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legacy {
    /// Each hierarchy once.
    pub places: Vec<LegacyPlace>,
}

impl Legacy {
    /// Looks at this process's mounts and cgroups.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub fn detect() -> Result<Self, HierarchyError> {
        Ok(Self::from_tables(
            &read("/proc/self/mountinfo")?,
            &read("/proc/self/cgroup")?,
        ))
    }

    /// Decides by the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    #[must_use]
    pub fn from_tables(mountinfo: &str, cgroup: &str) -> Self {
        let mounts: Vec<Mount<'_>> = mountinfo
            .lines()
            .filter_map(Mount::parse)
            .filter(|mount| mount.kind == "cgroup")
            .collect();
        let mut places = Vec::new();
        for line in cgroup.lines() {
            let Some((name, own)) = legacy_line(line) else {
                continue;
            };
            let subsystems = Subsystems::parse(name);
            if subsystems.is_empty() {
                continue;
            }
            // The same controllers are one hierarchy, however often it is mounted.
            let folder = mounts
                .iter()
                .filter(|mount| Subsystems::parse(mount.options) == subsystems)
                .find_map(|mount| mount.folder_of(own));
            places.extend(folder.map(|folder| LegacyPlace {
                subsystems,
                folder,
                own: own.trim_end_matches('/').into(),
                name: name.into(),
            }));
        }
        Self { places }
    }

    /// What there is to be used.
    #[must_use]
    pub fn subsystems(&self) -> Subsystems {
        let sets = self.places.iter().map(|place| place.subsystems);
        sets.fold(Subsystems::NONE, std::ops::BitOr::bitor)
    }

    /// How far below its own groups a manager has its tree that is told its place in the hierarchy which it tracks processes in:
    /// as far as that place is below the hierarchy's root, so that it is the same for whoever comes after it. `None` if no mount
    /// of the text of `/proc/self/mountinfo` shows it.
    #[must_use]
    pub fn below(mountinfo: &str, place: &Path) -> Option<CgroupPath> {
        let mounts = mountinfo.lines().filter_map(Mount::parse);
        let mounts = mounts.filter(|mount| matches!(mount.kind, "cgroup" | "cgroup2"));
        let inside = mounts.filter_map(|mount| place.strip_prefix(mount.point).ok());
        // The nearest mount leaves the shortest way.
        let inside = inside.min_by_key(|inside| inside.as_os_str().len())?;
        CgroupPath::parse(inside.to_str()?).ok()
    }

    /// The same with the mounts of this process.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub fn below_own(place: &Path) -> Result<Option<CgroupPath>, HierarchyError> {
        Ok(Self::below(&read("/proc/self/mountinfo")?, place))
    }
}

/// Controllers and path of a line of `/proc/PID/cgroup` about a hierarchy of the first version with controllers.
pub(crate) fn legacy_line(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.splitn(3, ':');
    let (_number, name, path) = (fields.next()?, fields.next()?, fields.next()?);
    (!name.is_empty() && !name.contains('=')).then_some((name, path))
}

#[cfg(test)]
mod tests;
