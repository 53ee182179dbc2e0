//! Parts of the kernel that hand resources out by groups.

use crate::set::{Member, Set};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Shares of processor time.
    Cpu,
    /// Which processors and memory nodes.
    Cpuset,
    /// Block devices.
    Io,
    /// Memory and swap.
    Memory,
    /// Number of tasks.
    Pids,
}

impl Controller {
    /// All, in the order that the kernel lists them in.
    pub const ALL: [Self; 5] = [Self::Cpuset, Self::Cpu, Self::Io, Self::Memory, Self::Pids];

    /// As the kernel names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuset => "cpuset",
            Self::Io => "io",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }

    /// By a name of the kernel's, or of its first version of control groups.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cpuacct" => Some(Self::Cpu),
            "blkio" => Some(Self::Io),
            _ => Self::ALL
                .into_iter()
                .find(|controller| controller.name() == name),
        }
    }
}

impl Member for Controller {
    const MEMBERS: &'static [Self] = &Self::ALL;

    fn number(self) -> u8 {
        self as u8
    }
}

/// A set of controllers.
pub type Controllers = Set<Controller>;

impl Controllers {
    /// All that are known.
    pub const ALL: Self = Self::of(0b1_1111);

    /// Reads a list such as `cpu memory`; what is not known is left out.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        list.split_whitespace()
            .filter_map(Controller::named)
            .collect()
    }

    /// `+cpu +memory` or `-cpu -memory`, as `cgroup.subtree_control` takes it.
    #[must_use]
    pub fn signed(self, sign: char) -> String {
        let words: Vec<String> = self
            .iter()
            .map(|controller| format!("{sign}{}", controller.name()))
            .collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let set = Controllers::parse("cpuset cpu io memory hugetlb pids misc\n");
        assert_eq!(set, Controllers::ALL);
        let two = Controllers::parse("memory blkio");
        assert_eq!(two.signed('+'), "+io +memory");
        assert_eq!(
            set.without(two),
            Controllers::parse("cpu cpuset pids cpuacct")
        );
        assert!(Controllers::parse("devices").is_empty());
        assert_eq!(Controllers::NONE.signed('-'), "");
    }
}
