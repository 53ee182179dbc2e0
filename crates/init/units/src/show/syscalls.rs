//! System calls: groups, and what a filter comes to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use muster_unit_file::value::access::SyscallFilter;

/// Ends the process rather than answering with an error.
const KILL: i32 = i32::MAX - 1;

type Groups = HashMap<&'static str, Vec<&'static str>>;

static GROUPS: LazyLock<Groups> = LazyLock::new(|| {
    let mut groups = Groups::new();
    let mut group = "";
    for line in include_str!("data/syscall-groups.txt").lines() {
        if line.starts_with('@') {
            group = line;
        } else if line.starts_with(' ') {
            groups
                .entry(group)
                .or_default()
                .extend(line.split_whitespace());
        }
    }
    groups
});

static KNOWN: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| GROUPS.values().flatten().copied().collect());

static ERRORS: LazyLock<HashMap<&'static str, i32>> = LazyLock::new(|| {
    let lines = include_str!("data/errno.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
        .collect()
});

/// The number of an error, or the one that stands for ending the process.
pub(super) fn error_number(name: Option<&str>) -> i32 {
    match name {
        None | Some("" | "kill") => KILL,
        Some(name) => ERRORS
            .get(name)
            .copied()
            .or_else(|| name.parse().ok())
            .unwrap_or(KILL),
    }
}

/// The system calls of a filter, sorted, groups resolved. What is needed to start a program at all is
/// always allowed.
pub(super) fn filter(filter: &SyscallFilter, with_defaults: bool) -> String {
    let Some(allow) = filter.0.allow else {
        return String::new();
    };
    let mut calls: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    if allow && with_defaults {
        each("@default", &mut |call| {
            calls.insert(call, None);
        });
    }
    for rule in &filter.0.rules {
        each(&rule.name, &mut |call| {
            // With an error of its own a call is refused, also by a list of what is allowed.
            if rule.removed || (allow && rule.action.is_some()) {
                calls.remove(call);
            } else {
                calls.insert(call, rule.action.as_deref());
            }
        });
    }
    let words: Vec<String> = calls
        .into_iter()
        .map(|(call, action)| match action {
            Some(action) => format!("{call}:{action}"),
            None => call.to_owned(),
        })
        .collect();
    words.join(" ")
}

/// Calls `take` for a system call or for every member of a group. The groups are fixed and have no
/// cycles; names that no architecture knows are left out.
fn each<'n>(name: &'n str, take: &mut impl FnMut(&'n str)) {
    match GROUPS.get(name) {
        Some(members) => {
            for member in members {
                each(member, take);
            }
        }
        None if KNOWN.contains(name) => take(name),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_unit_file::value::access::{FilterRule, NameFilter};

    fn of(allow: bool, rules: &[(&str, bool)]) -> String {
        let rules = rules.iter().map(|(name, removed)| FilterRule {
            name: (*name).into(),
            removed: *removed,
            action: None,
        });
        let names = NameFilter {
            allow: Some(allow),
            rules: rules.collect(),
        };
        filter(&SyscallFilter(names), true)
    }

    #[test]
    fn groups_are_resolved_and_lines_take_away() {
        assert_eq!(of(false, &[("@swap", false)]), "swapoff swapon");
        let allowed = of(true, &[("@system-service", false), ("@privileged", true)]);
        let has = |call: &str| allowed.split(' ').any(|known| known == call);
        assert!(has("openat") && has("execve"));
        assert!(!has("chown") && !has("reboot"));
    }

    #[test]
    fn errors_have_numbers() {
        assert_eq!(error_number(Some("EPERM")), 1);
        assert_eq!(error_number(Some("38")), 38);
        assert_eq!(error_number(None), 2_147_483_646);
    }

    #[test]
    fn every_group_ends_in_system_calls() {
        for group in GROUPS.keys() {
            let mut count = 0;
            each(group, &mut |call| {
                assert!(!call.starts_with('@'), "{group} has {call}");
                count += 1;
            });
            assert!(count > 0, "{group}");
        }
    }
}
