use super::*;
use crate::policy::CallRule;

fn filter(allow: bool, rules: &[(&str, bool)]) -> CallFilter {
    let rules = rules.iter().map(|(name, removed)| CallRule {
        name: (*name).into(),
        removed: *removed,
        refusal: None,
    });
    CallFilter {
        allow,
        rules: rules.collect(),
    }
}

#[test]
fn calls_are_sorted_by_name_and_no_table_has_a_number_twice() {
    assert!(CALLS.is_sorted_by(|(a, _), (b, _)| a < b));
    for abi in [Abi::X86_64, Abi::X32, Abi::X86, Abi::Arm64, Abi::Arm] {
        let mut numbers: Vec<u32> = CALLS
            .iter()
            .filter_map(|(name, _)| number(name, abi))
            .collect();
        let all = numbers.len();
        assert!(all > 300, "{abi:?} has {all}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all, "{abi:?}");
    }
}

#[test]
fn numbers_are_those_of_the_kernel() {
    assert_eq!(number("execve", Abi::X86_64), Some(59));
    assert_eq!(number("execve", Abi::X32), Some(0x4000_0000 + 520));
    assert_eq!(number("execve", Abi::X86), Some(11));
    assert_eq!(number("execve", Abi::Arm64), Some(221));
    assert_eq!(number("execve", Abi::Arm), Some(11));
    assert_eq!(number("open", Abi::Arm64), None);
    assert_eq!(number("openat", Abi::Arm64), Some(56));
}

#[test]
fn every_group_ends_in_system_calls() {
    for group in groups() {
        let mut count = 0;
        each(group, &mut |call| {
            assert!(!call.starts_with('@'), "{group} has {call}");
            count += 1;
        });
        assert!(count > 0, "{group}");
        for member in super::group(group).into_iter().flatten() {
            let known = each(member, &mut |_| {});
            assert!(known, "{group} has {member}");
        }
    }
}

#[test]
fn groups_are_resolved_and_rules_take_away() {
    let swap = filter(false, &[("@swap", false)]).listed(Purpose::Refuse);
    assert_eq!(
        swap.calls.into_keys().collect::<Vec<_>>(),
        ["swapoff", "swapon"]
    );
    let rules = [("@system-service", false), ("@privileged", true)];
    let listed = filter(true, &rules).listed(Purpose::Refuse).calls;
    assert!(listed.contains_key("openat") && listed.contains_key("execve"));
    assert!(!listed.contains_key("chown") && !listed.contains_key("reboot"));
}

/// A list of what is refused that leaves out a newer group lets its calls pass.
#[test]
fn a_newer_group_is_refused_too() {
    let sandbox = filter(false, &[("@sandbox", false)]).listed(Purpose::Refuse);
    let refused: Vec<&str> = sandbox.calls.into_keys().collect();
    let expected = [
        "landlock_add_rule",
        "landlock_create_ruleset",
        "landlock_restrict_self",
        "seccomp",
    ];
    assert_eq!(refused, expected);
    assert!(sandbox.unknown.is_empty());
}

/// A newer call for what an older one does is allowed and refused with it.
#[test]
fn newer_calls_are_in_the_groups_of_their_kin() {
    for (group, newer) in [
        (
            "@file-system",
            &[
                "file_getattr",
                "file_setattr",
                "getxattrat",
                "listmount",
                "listxattrat",
                "removexattrat",
                "setxattrat",
                "statmount",
            ][..],
        ),
        ("@mount", &["open_tree", "open_tree_attr"]),
        ("@default", &["mseal"]),
        (
            "@known",
            &["cachestat", "lsm_get_self_attr", "lsm_set_self_attr"],
        ),
    ] {
        for name in newer {
            let listed = |group: &str| {
                let mut found = false;
                each(group, &mut |call| found |= call == *name);
                found
            };
            assert!(listed(group), "{name} is in {group}");
            assert!(listed("@known"), "{name} is known");
        }
    }
}

#[test]
fn a_list_of_allowed_calls_starts_programs_and_one_of_logged_calls_is_as_it_says() {
    let nothing = filter(true, &[]);
    assert!(nothing.listed(Purpose::Refuse).calls.contains_key("execve"));
    assert_eq!(nothing.listed(Purpose::Log), Listed::default());
}

#[test]
fn a_name_that_means_nothing_is_told() {
    let rules = [("@nonsense", false), ("nonsense", true), ("mount", false)];
    let listed = filter(false, &rules).listed(Purpose::Refuse);
    assert_eq!(listed.unknown, ["@nonsense".into(), "nonsense".into()]);
    assert_eq!(listed.calls.len(), 1);
}

/// Every call of `x86` behind a multiplexer is a call that filters can name.
#[test]
fn multiplexers_choose_from_calls() {
    for multiplexer in &MULTIPLEXERS {
        assert!(number(multiplexer.name, Abi::X86).is_some());
        for (_, name) in multiplexer.calls {
            assert!(call(name).is_some(), "{name}");
        }
    }
}

#[test]
fn names_mean_something_or_not() {
    for name in ["mount", "@mount", "socketcall", "arm_fadvise64_64"] {
        assert!(is_known(name), "{name}");
    }
    for name in ["moutn", "@mout", "", "@", "Mount"] {
        assert!(!is_known(name), "{name}");
    }
    assert_eq!(family("AF_PACKET"), Some(17));
    assert_eq!(family("AF_ROUTE"), family("AF_NETLINK"));
    assert_eq!(family("AF_PACKT"), None);
}

/// As systemd does it: a call with an error of its own is never allowed, whichever way it got onto the list.
#[test]
fn an_error_of_its_own_stays_with_a_call_also_among_allowed_ones() {
    let errno = |name: &str, removed| CallRule {
        name: name.into(),
        removed,
        refusal: Some(Refusal::Errno(13)),
    };
    let mut allowed = filter(true, &[("@file-system", false)]);
    allowed.rules.push(errno("open", false));
    allowed.rules.push(errno("@mount", true));
    let listed = allowed.listed(Purpose::Refuse).calls;
    assert_eq!(listed.get("open"), Some(&Some(Refusal::Errno(13))));
    assert_eq!(listed.get("mount"), Some(&Some(Refusal::Errno(13))));
    assert_eq!(listed.get("openat"), Some(&None));
    let logged = allowed.listed(Purpose::Log).calls;
    assert!(logged.contains_key("open") && !logged.contains_key("mount"));
    let mut denied = filter(false, &[("@mount", false)]);
    denied.rules.push(errno("mount", true));
    assert!(!denied.listed(Purpose::Refuse).calls.contains_key("mount"));
}
