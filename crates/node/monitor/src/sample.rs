//! Reading the kernel's counters.
//!
//! Everything is opened, read and closed again at every poll. That is a few microseconds per file, and in return there is no
//! descriptor per instance, and a group that was made anew under its old name is read like any other.

mod groups;
mod machine;
mod trees;

use std::path::Path;

use muster_cgroup::CgroupPath;
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::cpu::{CpuTimes, GroupTime};

use self::groups::GroupReader;
pub(crate) use self::trees::Trees;

/// The most that is read of any file; the longest is `/proc/meminfo`.
const MAX_FILE: usize = 4096;

/// Something that was to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading<T> {
    /// It was.
    Value(T),
    /// This machine does not count it.
    NotCounted,
    /// It should be there, and could not be read.
    Lost,
}

impl<T> Reading<T> {
    pub(crate) fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotCounted | Self::Lost => None,
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }
}

/// Counters of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupSample {
    pub(crate) cpu: Reading<GroupTime>,
    pub(crate) memory: Reading<u64>,
    pub(crate) pids: Reading<u64>,
}

impl GroupSample {
    /// Of what is in no group.
    const NONE: Self = Self {
        cpu: Reading::NotCounted,
        memory: Reading::NotCounted,
        pids: Reading::NotCounted,
    };
}

/// Counters of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineSample {
    pub(crate) cpu: Reading<CpuTimes>,
    /// Bytes in use.
    pub(crate) memory: Reading<u64>,
}

/// Counters of the machine and of groups, in the order they were asked for.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) machine: MachineSample,
    pub(crate) groups: Vec<GroupSample>,
}

/// Reads counters.
#[derive(Debug)]
pub(crate) struct Sampler {
    proc: std::path::PathBuf,
    groups: GroupReader,
}

impl Sampler {
    /// Of the machine whose files are below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            proc: root.join("proc"),
            groups: GroupReader::new(&Trees::find(root)),
        }
    }

    /// What nobody counts on this machine.
    pub(crate) fn not_counted(&self) -> Vec<&'static str> {
        self.groups.not_counted()
    }

    /// Reads everything. Takes some microseconds per group, so not for a thread that has other work.
    pub(crate) fn sample<'a>(
        &self,
        groups: impl IntoIterator<Item = &'a Option<CgroupPath>>,
        clock: &dyn Clock,
    ) -> Sample {
        let mut name = String::new();
        Sample {
            machine: machine::read(&self.proc),
            groups: groups
                .into_iter()
                .map(|group| match group {
                    Some(group) => self.groups.read(group, clock, &mut name),
                    None => GroupSample::NONE,
                })
                .collect(),
        }
    }
}

/// The first bytes of a file, which for all files here are enough.
fn read_start<'b>(
    folder: impl AsFd,
    file: &str,
    buffer: &'b mut [u8; MAX_FILE],
) -> Result<&'b str, Errno> {
    let file = openat(
        folder,
        file,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut filled = 0;
    loop {
        match rustix::io::read(&file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    std::str::from_utf8(&buffer[..filled]).map_err(|_| Errno::ILSEQ)
}

fn read_path<'b>(path: &Path, buffer: &'b mut [u8; MAX_FILE]) -> Result<&'b str, Errno> {
    read_start(CWD, path.to_str().ok_or(Errno::ILSEQ)?, buffer)
}
