//! What a group may use at the moment, by its own limits and by those of the groups above it.

use super::{Backing, Tree};
use crate::legacy::Subsystem;
use crate::path::CgroupPath;

/// What a group may use at the moment, as far as the machine's controllers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allotted {
    /// Bytes of memory that are left of the tightest limit; `None` without a limit.
    pub memory: Option<u64>,
    /// Processors, as the kernel lists them; empty where nobody limits them.
    pub processors: Box<str>,
    /// Nodes of memory, as the kernel lists them; empty where nobody limits them.
    pub memory_nodes: Box<str>,
}

impl Tree {
    /// What a group may use at the moment.
    #[must_use]
    pub fn allotted(&self, path: &CgroupPath) -> Allotted {
        let mut memory = None;
        let mut at = path.clone();
        while !at.is_root() {
            memory = [memory, self.memory_left(&at)].into_iter().flatten().min();
            at = at.parent();
        }
        let list = |file| {
            let text = self.own_text(path, file).unwrap_or_default();
            Box::from(text.trim())
        };
        Allotted {
            memory,
            processors: list("cpuset.cpus.effective"),
            memory_nodes: list("cpuset.mems.effective"),
        }
    }

    /// What is left of one group's own limit.
    fn memory_left(&self, path: &CgroupPath) -> Option<u64> {
        let number = |file| self.own_text(path, file)?.trim().parse::<u64>().ok();
        let limit = [number("memory.high"), number("memory.max")];
        match (limit.into_iter().flatten().min(), number("memory.current")) {
            (Some(limit), Some(used)) => Some(limit.saturating_sub(used)),
            _ => self.legacy.memory_left(path),
        }
    }

    fn own_text(&self, path: &CgroupPath, file: &str) -> Option<String> {
        match &self.backing {
            Backing::V2(files) => files.read(&path.file(file)).ok(),
            _ => None,
        }
    }
}

/// The first version writes the largest number of pages there can be where there is no limit.
const NO_LIMIT: u64 = 1 << 62;

impl super::legacy::LegacyTrees {
    fn memory_left(&self, path: &CgroupPath) -> Option<u64> {
        let number = |file| {
            let text = self.text(Subsystem::Memory, path, file)?;
            text.trim().parse::<u64>().ok()
        };
        let limit = number("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT)?;
        Some(limit.saturating_sub(number("memory.usage_in_bytes")?))
    }
}
