//! Names: system calls with their numbers, groups, and what the rules of a filter come to.

mod families;
mod groups;
mod numbers;

use std::collections::BTreeMap;

use crate::arch::{Abi, Arch};
use crate::policy::{CallFilter, Refusal};
pub use families::family;
use groups::GROUPS;
pub use groups::NEWER_CALLS;
use numbers::CALLS;

/// One call of `x86` that stands for several others, which its first argument chooses from.
pub(crate) struct Multiplexer {
    pub(crate) name: &'static str,
    /// The bits of the argument that the kernel looks at.
    pub(crate) mask: u32,
    /// What it chooses from, by number.
    pub(crate) calls: &'static [(u32, &'static str)],
}

/// The multiplexers of `x86`; no other table has one.
pub(crate) static MULTIPLEXERS: [Multiplexer; 2] = [
    Multiplexer {
        name: "socketcall",
        mask: u32::MAX,
        calls: &[
            (1, "socket"),
            (2, "bind"),
            (3, "connect"),
            (4, "listen"),
            (5, "accept"),
            (6, "getsockname"),
            (7, "getpeername"),
            (8, "socketpair"),
            (9, "send"),
            (10, "recv"),
            (11, "sendto"),
            (12, "recvfrom"),
            (13, "shutdown"),
            (14, "setsockopt"),
            (15, "getsockopt"),
            (16, "sendmsg"),
            (17, "recvmsg"),
            (18, "accept4"),
            (19, "recvmmsg"),
            (20, "sendmmsg"),
        ],
    },
    Multiplexer {
        name: "ipc",
        // A version of the call stands in the upper half.
        mask: 0xffff,
        calls: &[
            (1, "semop"),
            (2, "semget"),
            (3, "semctl"),
            (4, "semtimedop"),
            (11, "msgsnd"),
            (12, "msgrcv"),
            (13, "msgget"),
            (14, "msgctl"),
            (21, "shmat"),
            (22, "shmdt"),
            (23, "shmget"),
            (24, "shmctl"),
        ],
    },
];

/// The number of a call in a table, if it is there.
pub(crate) fn number(name: &str, abi: Abi) -> Option<u32> {
    let place = CALLS.binary_search_by_key(&name, |(known, _)| known).ok()?;
    let number = CALLS[place].1[abi.column()]?;
    Some(match abi {
        Abi::X32 => number | Abi::X32_NUMBERS.start(),
        _ => number,
    })
}

/// What is in a group of system calls, such as `@mount`; members may be groups.
#[must_use]
pub fn group(name: &str) -> Option<impl Iterator<Item = &'static str> + use<>> {
    let found = GROUPS.iter().find(|(known, _)| *known == name);
    found.map(|(_, members)| members.split_ascii_whitespace())
}

/// The names of all groups.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

/// The calls of a group, also of the groups in it; none where there is no such group.
#[must_use]
pub fn members(group: &str) -> Vec<&'static str> {
    let mut calls = Vec::new();
    if self::group(group).is_some() {
        each(group, &mut |call| calls.push(call));
    }
    calls
}

/// Whether a name is a system call of some architecture, or a group of them.
#[must_use]
pub fn is_known(name: &str) -> bool {
    group(name).is_some() || call(name).is_some()
}

/// Whether a machine's own programs can make a call.
#[must_use]
pub fn has_call(name: &str, arch: Arch) -> bool {
    number(name, arch.own()).is_some()
}

/// Every call that some table has.
#[cfg(test)]
pub(crate) fn every() -> Vec<&'static str> {
    CALLS.iter().map(|(name, _)| *name).collect()
}

/// A call that some architecture has, if the name is one.
fn call(name: &str) -> Option<&'static str> {
    if let Ok(place) = CALLS.binary_search_by_key(&name, |(known, _)| known) {
        return Some(CALLS[place].0);
    }
    let mut members = GROUPS
        .iter()
        .flat_map(|(_, members)| members.split_ascii_whitespace());
    members.find(|member| *member == name && !member.starts_with('@'))
}

/// Calls `take` for a system call or for every member of a group, and says whether the name means anything.
pub(crate) fn each(name: &str, take: &mut dyn FnMut(&'static str)) -> bool {
    if let Some(members) = group(name) {
        for member in members {
            if member.starts_with('@') {
                each(member, take);
            } else {
                take(member);
            }
        }
        return true;
    }
    let found = call(name);
    found.into_iter().for_each(take);
    found.is_some()
}

/// What a list of system calls is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To refuse calls. What is needed to start a program at all is on every list of allowed calls.
    Refuse,
    /// To log calls.
    Log,
}

/// A filter with its groups resolved and its rules carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The calls on the list, and what a refused one comes to where that was said beside it.
    pub calls: BTreeMap<&'static str, Option<Refusal>>,
    /// Names that are neither a call nor a group.
    pub unknown: Vec<Box<str>>,
}

impl CallFilter {
    /// The calls that are on the list in the end.
    #[must_use]
    pub fn listed(&self, purpose: Purpose) -> Listed {
        let mut listed = Listed::default();
        let refuses = purpose == Purpose::Refuse;
        if self.allow && refuses {
            each("@default", &mut |call| {
                listed.calls.insert(call, None);
            });
        }
        for rule in &self.rules {
            let known = each(&rule.name, &mut |call| {
                // With an error of its own a call is refused with that, also by a list of what is allowed.
                let is_refused = self.allow && refuses && rule.refusal.is_some();
                if rule.removed && !is_refused {
                    listed.calls.remove(call);
                } else {
                    listed.calls.insert(call, rule.refusal);
                }
            });
            if !known {
                listed.unknown.push(rule.name.clone());
            }
        }
        listed
    }
}

#[cfg(test)]
mod tests;
