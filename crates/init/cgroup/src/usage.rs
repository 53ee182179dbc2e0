//! What the processes of a group use.

use rustix::process::Pid;

use crate::controllers::{Controller, Controllers};
use crate::error::CgroupError;
use crate::files::{Files, keyed};
use crate::path::CgroupPath;

/// Memory in use, and how it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The kernel's account of the group, in bytes.
    Charged(u64),
    /// Without a memory controller: the sum of what each process has resident. Shared pages count once per process.
    Resident(u64),
}

impl Memory {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Charged(bytes) | Self::Resident(bytes) => bytes,
        }
    }
}

/// What a group uses. Absent is what the machine's controllers do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since the group was made, in microseconds.
    pub cpu_usec: Option<u64>,
    /// Memory at the moment.
    pub memory: Option<Memory>,
    /// The most memory there ever was, in bytes.
    pub memory_peak: Option<u64>,
    /// Threads at the moment.
    pub tasks: Option<u64>,
    /// Bytes read from devices.
    pub io_read: Option<u64>,
    /// Bytes written to devices.
    pub io_write: Option<u64>,
    /// Reads from devices.
    pub io_reads: Option<u64>,
    /// Writes to devices.
    pub io_writes: Option<u64>,
}

/// What adds up over the life of a v2 group, as far as these controllers count it.
pub(crate) fn consumed(files: &Files, path: &CgroupPath, counted: Controllers) -> Usage {
    let text = |name: &str| files.read(&path.file(name)).ok();
    let of = |controller, name: &str| {
        let is_counted = counted.contains(controller);
        is_counted.then(|| text(name)).flatten()
    };
    let io = of(Controller::Io, "io.stat");
    let summed = |key: &str| io.as_deref().map(|io| sum_of(io, key));
    let peak = of(Controller::Memory, "memory.peak");
    Usage {
        // That one the kernel counts without a controller.
        cpu_usec: text("cpu.stat").and_then(|stat| keyed(&stat, "usage_usec")),
        memory_peak: peak.and_then(|peak| peak.trim().parse().ok()),
        io_read: summed("rbytes="),
        io_write: summed("wbytes="),
        io_reads: summed("rios="),
        io_writes: summed("wios="),
        ..Usage::default()
    }
}

/// The account of a v2 group.
pub(crate) fn of_group(files: &Files, path: &CgroupPath) -> Result<Usage, CgroupError> {
    let number = |name: &str| -> Option<u64> {
        let text = files.read(&path.file(name)).ok()?;
        text.trim().parse().ok()
    };
    let mut usage = Usage {
        memory: number("memory.current").map(Memory::Charged),
        tasks: number("pids.current"),
        ..consumed(files, path, Controllers::ALL)
    };
    if usage.memory.is_none() || usage.tasks.is_none() {
        let counted = of_processes(&files.all_members(path)?);
        usage.memory = usage.memory.or(counted.memory);
        usage.tasks = usage.tasks.or(counted.tasks);
    }
    Ok(usage)
}

/// What can be said of processes one by one. Their processor time is of no use: it goes down when one ends.
pub(crate) fn of_processes(pids: &[Pid]) -> Usage {
    let (mut resident, mut tasks) = (0u64, 0u64);
    for pid in pids {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        resident = resident.saturating_add(field("VmRSS:").unwrap_or(0).saturating_mul(1024));
        tasks = tasks.saturating_add(field("Threads:").unwrap_or(0));
    }
    Usage {
        memory: Some(Memory::Resident(resident)),
        tasks: Some(tasks),
        ..Usage::default()
    }
}

/// The sum over all devices, from lines such as `8:0 rbytes=1 wbytes=2`.
fn sum_of(stat: &str, key: &str) -> u64 {
    let values = stat
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
    values.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_summed() {
        let stat = "8:0 rbytes=1 wbytes=20 rios=3\n8:16 rbytes=4 wbytes=x\n";
        assert_eq!((sum_of(stat, "rbytes="), sum_of(stat, "wbytes=")), (5, 20));
        assert_eq!(sum_of("", "rbytes="), 0);
    }

    #[test]
    fn keys_are_whole_words() {
        let text = "usage_usec_all 9\nusage_usec 7\n";
        assert_eq!(keyed(text, "usage_usec"), Some(7));
        assert_eq!(keyed(text, "usage"), None);
    }
}
