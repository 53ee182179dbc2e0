//! Memory or disk.

use std::path::{Path, PathBuf};

use muster_journal::Id128;

use super::folder::Folder;
use crate::config::Storage;

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In `/run`: gone with the machine.
    Memory,
    /// In `/var`.
    Disk,
}

impl Medium {
    /// The word for status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "volatile",
            Self::Disk => "persistent",
        }
    }
}

/// The two folders of a machine.
#[derive(Clone, Debug)]
pub struct Places {
    memory: Folder,
    disk: Folder,
    /// Its being there says that the disk is wanted.
    disk_root: PathBuf,
}

impl Places {
    /// The folders of a machine below `/run/log/journal` and `/var/log/journal`, or what stands for them.
    #[must_use]
    pub fn new(memory_root: &Path, disk_root: &Path, machine: Id128) -> Self {
        let machine = machine.to_string();
        Self {
            memory: Folder::new(memory_root.join(&machine)),
            disk: Folder::new(disk_root.join(&machine)),
            disk_root: disk_root.to_owned(),
        }
    }

    /// The folder of a medium.
    #[must_use]
    pub fn folder(&self, medium: Medium) -> &Folder {
        match medium {
            Medium::Memory => &self.memory,
            Medium::Disk => &self.disk,
        }
    }

    /// Whether the disk is to be used, by configuration and by what is there.
    #[must_use]
    pub fn disk_is_wanted(&self, storage: Storage) -> bool {
        match storage {
            Storage::Persistent => true,
            Storage::Auto => self.disk_root.is_dir(),
            Storage::Volatile | Storage::None => false,
        }
    }
}
