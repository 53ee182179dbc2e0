//! What the machine offers.

use std::path::{Path, PathBuf};

use crate::error::HierarchyError;

/// The magic numbers by which file systems are told apart.
const CGROUP2_MAGIC: u64 = 0x6367_7270;
const CGROUP1_MAGIC: u64 = 0x0027_e0eb;

/// Where the manager itself is put, so that its own cgroup can have children with controllers.
pub(crate) const OWN_SCOPE: &str = "init.scope";

/// Which kind of hierarchy is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// cgroup v2 alone, with its controllers.
    Unified,
    /// cgroup v2 for tracking; the controllers are bound to v1 hierarchies.
    Hybrid,
    /// A v1 hierarchy with a name and without controllers.
    Legacy,
    /// No cgroups: processes are told apart by their sessions.
    Sessions,
}

/// The hierarchy in use and the place in it that the manager was born into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Which kind.
    pub mode: Mode,
    /// The folder of the manager's own cgroup; `None` without cgroups.
    pub folder: Option<PathBuf>,
}

impl Hierarchy {
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
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let has_v1_controllers = mounts
            .iter()
            .any(|mount| mount.kind == "cgroup" && !mount.options.contains("name="));
        let v2 = mounts.iter().filter(|mount| mount.kind == "cgroup2");
        let own_v2 = own_path(cgroup, |controllers| controllers.is_empty());
        let named = mounts
            .iter()
            .filter(|mount| mount.has_option("name=systemd"));
        let own_v1 = own_path(cgroup, |controllers| controllers == "name=systemd");
        let v2_mode = if has_v1_controllers {
            Mode::Hybrid
        } else {
            Mode::Unified
        };
        let usable = |mut mounts: Box<dyn Iterator<Item = &Mount<'_>> + '_>, own: Option<&str>| {
            mounts.find_map(|mount| mount.folder_of(own?))
        };
        if let Some(folder) = usable(Box::new(v2), own_v2) {
            return Self::with(v2_mode, folder);
        }
        if let Some(folder) = usable(Box::new(named), own_v1) {
            return Self::with(Mode::Legacy, folder);
        }
        Self {
            mode: Mode::Sessions,
            folder: None,
        }
    }

    /// Takes a folder of a cgroup file system as the manager's place.
    ///
    /// # Errors
    /// It is not such a folder.
    pub fn at(folder: &Path) -> Result<Self, HierarchyError> {
        let not_cgroup = || HierarchyError::NotCgroup {
            path: folder.to_owned(),
        };
        let stat = rustix::fs::statfs(folder).map_err(|source| HierarchyError::Open {
            path: folder.to_owned(),
            source,
        })?;
        let magic = u64::try_from(stat.f_type).map_err(|_| not_cgroup())?;
        let mode = match magic {
            CGROUP2_MAGIC if v2_has_controllers(folder) => Mode::Unified,
            CGROUP2_MAGIC => Mode::Hybrid,
            CGROUP1_MAGIC => Mode::Legacy,
            _ => return Err(not_cgroup()),
        };
        Ok(Self::with(mode, folder.to_owned()))
    }

    /// Without cgroups, whatever the machine has.
    #[must_use]
    pub fn sessions() -> Self {
        Self {
            mode: Mode::Sessions,
            folder: None,
        }
    }

    fn with(mode: Mode, folder: PathBuf) -> Self {
        // A manager that was started again finds itself in the scope that its predecessor made.
        let folder = match folder.file_name() {
            Some(name) if name == OWN_SCOPE => folder.parent().map(Path::to_owned),
            _ => None,
        }
        .unwrap_or(folder);
        Self {
            mode,
            folder: Some(folder),
        }
    }
}

/// A v2 tree whose controllers are all bound to v1 has an empty list.
fn v2_has_controllers(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("cgroup.controllers"))
        .is_ok_and(|list| !list.trim().is_empty())
}

pub(crate) fn read(path: &str) -> Result<String, HierarchyError> {
    std::fs::read_to_string(path).map_err(|source| HierarchyError::Read {
        path: path.into(),
        source,
    })
}

/// The path of the hierarchy whose controllers fit, from `/proc/self/cgroup`.
fn own_path(cgroup: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        fits(controllers).then_some(path)
    })
}

/// A line of mountinfo, as far as it matters.
pub(crate) struct Mount<'t> {
    /// What of the file system is mounted.
    root: &'t str,
    pub(crate) point: &'t str,
    writable: bool,
    pub(crate) kind: &'t str,
    /// Options of the file system, not of the mount.
    pub(crate) options: &'t str,
}

impl<'t> Mount<'t> {
    pub(crate) fn parse(line: &'t str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let writable = mount.next()?.split(',').any(|option| option == "rw");
        let mut file_system = file_system.split(' ');
        let kind = file_system.next()?;
        let options = file_system.nth(1).unwrap_or("");
        Some(Self {
            root,
            point,
            writable,
            kind,
            options,
        })
    }

    fn has_option(&self, wanted: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == wanted)
    }

    /// Where a cgroup of this hierarchy is seen, if this mount shows it and can be written.
    pub(crate) fn folder_of(&self, own: &str) -> Option<PathBuf> {
        // Blanks in mount points are written as octal escapes; no cgroup mount has them in practice.
        if !self.writable || self.point.contains('\\') {
            return None;
        }
        let inside = if self.root == "/" {
            own
        } else {
            let inside = own.strip_prefix(self.root)?;
            // A group whose name merely begins so is another one.
            (inside.is_empty() || inside.starts_with('/')).then_some(inside)?
        };
        let inside = inside.trim_start_matches('/');
        Some(match inside {
            "" => PathBuf::from(self.point),
            _ => Path::new(self.point).join(inside),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "\
        31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const LEGACY: &str = "\
        31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

    fn found(mountinfo: &str, cgroup: &str) -> (Mode, Option<String>) {
        let hierarchy = Hierarchy::from_tables(mountinfo, cgroup);
        let folder = hierarchy.folder.map(|folder| folder.display().to_string());
        (hierarchy.mode, folder)
    }

    #[test]
    fn each_layout_is_recognised() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found(V2, "0::/a/b\n"),
            (Mode::Unified, some("/sys/fs/cgroup/a/b"))
        );
        assert_eq!(
            found(HYBRID, "1:name=systemd:/x\n0::/\n"),
            (Mode::Hybrid, some("/sys/fs/cgroup/unified"))
        );
        assert_eq!(
            found(LEGACY, "2:cpu:/\n1:name=systemd:/x\n"),
            (Mode::Legacy, some("/sys/fs/cgroup/systemd/x"))
        );
        assert_eq!(found("", "0::/\n"), (Mode::Sessions, None));
    }

    #[test]
    fn a_mount_that_is_read_only_or_shows_another_part_is_no_use() {
        let read_only = V2.replace("rw,nosuid", "ro,nosuid");
        assert_eq!(found(&read_only, "0::/\n").0, Mode::Sessions);
        let part = V2.replace("0:26 / ", "0:26 /box ");
        let inside = Some("/sys/fs/cgroup/x".to_owned());
        assert_eq!(found(&part, "0::/box/x\n"), (Mode::Unified, inside));
        assert_eq!(found(&part, "0::/other\n").0, Mode::Sessions);
        assert_eq!(found(&part, "0::/boxer\n").0, Mode::Sessions);
    }

    #[test]
    fn a_second_start_finds_the_same_root() {
        let inside = Some("/sys/fs/cgroup/m.service".to_owned());
        assert_eq!(found(V2, "0::/m.service/init.scope\n").1, inside);
    }

    #[test]
    fn broken_tables_are_no_reason_to_panic() {
        for text in ["", "-", " - ", "1 2 3 - cgroup2", "::::", "0:"] {
            let _ = Hierarchy::from_tables(text, text);
        }
    }
}
