//! Programs that somebody else loaded and left in the kernel's file system for them.

use std::fmt;

/// A place in the kernel where such a program is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachPoint {
    number: u32,
    name: &'static str,
}

const fn point(number: u32, name: &'static str) -> AttachPoint {
    AttachPoint { number, name }
}

impl AttachPoint {
    /// A packet comes in.
    pub const INGRESS: Self = point(0, "ingress");
    /// A packet goes out.
    pub const EGRESS: Self = point(1, "egress");
    /// All that unit files can name, with the kernel's numbers (`enum bpf_attach_type`).
    pub const ALL: [Self; 18] = [
        Self::INGRESS,
        Self::EGRESS,
        point(2, "sock_create"),
        point(3, "sock_ops"),
        point(6, "device"),
        point(8, "bind4"),
        point(9, "bind6"),
        point(10, "connect4"),
        point(11, "connect6"),
        point(12, "post_bind4"),
        point(13, "post_bind6"),
        point(14, "sendmsg4"),
        point(15, "sendmsg6"),
        point(18, "sysctl"),
        point(19, "recvmsg4"),
        point(20, "recvmsg6"),
        point(21, "getsockopt"),
        point(22, "setsockopt"),
    ];

    /// By its name in unit files, which is also that of the kernel's own tool.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name == name)
    }

    /// The kernel's number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for AttachPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A program by the file that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedProgram {
    /// The setting that it comes from, as in unit files.
    pub setting: &'static str,
    /// Where it decides.
    pub point: AttachPoint,
    /// The file.
    pub path: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_by_names_that_differ_and_numbers_that_differ() {
        for (at, one) in AttachPoint::ALL.into_iter().enumerate() {
            assert_eq!(AttachPoint::named(&one.to_string()), Some(one));
            let others = &AttachPoint::ALL[at + 1..];
            assert!(others.iter().all(|other| other.number > one.number));
        }
        assert_eq!(AttachPoint::named("Egress"), None);
        assert_eq!(AttachPoint::named(""), None);
    }
}
