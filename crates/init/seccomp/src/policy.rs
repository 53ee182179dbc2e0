//! What is kept from a process, as a value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::errno;

/// Everything that is kept from a process by looking at its system calls. The default keeps nothing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// `SystemCallFilter=`
    pub calls: Option<CallFilter>,
    /// `SystemCallLog=`
    pub logged: Option<CallFilter>,
    /// `SystemCallErrorNumber=`: what a call that [`calls`](Self::calls) refuses comes to, unless its rule says otherwise.
    pub refusal: Refusal,
    /// `SystemCallArchitectures=`: names as unit files have them (`native`, `x86`, `x86-64` ...); empty allows all.
    pub architectures: Vec<Box<str>>,
    /// `RestrictAddressFamilies=`
    pub families: Option<FamilyFilter>,
    /// `RestrictNamespaces=`: the kinds that may be made or joined; `None` restricts nothing.
    pub namespaces: Option<Kinds>,
    /// `RestrictRealtime=`
    pub restrict_realtime: bool,
    /// `RestrictSUIDSGID=`
    pub restrict_suid_sgid: bool,
    /// `LockPersonality=`: the personality that stays.
    pub lock_personality: Option<u32>,
    /// `MemoryDenyWriteExecute=`
    pub memory_deny_write_execute: bool,
    /// `ProtectKernelModules=`
    pub protect_kernel_modules: bool,
    /// `ProtectKernelLogs=`
    pub protect_kernel_logs: bool,
    /// `ProtectKernelTunables=`
    pub protect_kernel_tunables: bool,
    /// `ProtectClock=`
    pub protect_clock: bool,
    /// `ProtectHostname=`
    pub protect_hostname: bool,
    /// `PrivateDevices=`: no raw input and output.
    pub private_devices: bool,
}

/// Kinds of namespaces, as the kernel's `CLONE_NEW...` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds(pub u32);

/// What a system call that is refused comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The process ends, by SIGSYS.
    #[default]
    Kill,
    /// The call fails with this number.
    Errno(u16),
}

impl Refusal {
    /// What unit files write: `kill`, or the name or the number of an error.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text == "kill" {
            return Some(Self::Kill);
        }
        let number = errno::number(text).or_else(|| text.parse().ok())?;
        (number <= Self::MAX_ERROR).then_some(Self::Errno(number))
    }

    /// The largest error number that the kernel hands to a program.
    pub const MAX_ERROR: u16 = 4095;
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Errno(number) => match errno::name(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "{number}"),
            },
        }
    }
}

/// Names of system calls, allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFilter {
    /// The listed calls are the allowed ones rather than the refused ones.
    pub allow: bool,
    /// The rules in the order of the file.
    pub rules: Vec<CallRule>,
}

/// One name of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRule {
    /// The call; a leading `@` makes it a group.
    pub name: Box<str>,
    /// Taken off the list rather than put on it.
    pub removed: bool,
    /// What a refused call comes to, where that is said beside the name.
    pub refusal: Option<Refusal>,
}

/// Families of sockets, allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyFilter {
    /// The listed families are the allowed ones rather than the refused ones.
    pub allow: bool,
    /// The kernel's numbers.
    pub families: Vec<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        for (text, refusal) in [
            ("kill", Refusal::Kill),
            ("EPERM", Refusal::Errno(1)),
            ("EOPNOTSUPP", Refusal::Errno(95)),
            ("255", Refusal::Errno(255)),
        ] {
            assert_eq!(Refusal::from_text(text), Some(refusal));
            assert_eq!(refusal.to_string(), text);
        }
        assert_eq!(Refusal::from_text("ENOTSUP"), Some(Refusal::Errno(95)));
        for wrong in ["", "eperm", "4096", "-1", "KILL"] {
            assert_eq!(Refusal::from_text(wrong), None, "{wrong}");
        }
    }
}
