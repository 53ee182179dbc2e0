//! System calls: what a filter comes to, in the words of `systemctl show`.

use muster_seccomp::{Purpose, Refusal};
use muster_unit_file::value::access::SyscallFilter;

use crate::calls;

/// Stands for ending the process rather than answering with an error.
const KILL: i32 = i32::MAX - 1;

/// The number of an error, or the one that stands for ending the process.
pub(super) fn error_number(name: Option<&str>) -> i32 {
    match calls::refusal(name) {
        Refusal::Kill => KILL,
        Refusal::Errno(number) => i32::from(number),
    }
}

/// The system calls of a filter, sorted, groups resolved.
pub(super) fn filter(filter: &SyscallFilter, purpose: Purpose) -> String {
    let Some(filter) = calls::filter(filter) else {
        return String::new();
    };
    let listed = filter.listed(purpose).calls.into_iter();
    let words = listed.filter_map(|(call, refusal)| match refusal {
        // It is refused, by a list of what is allowed.
        Some(_) if filter.allow => None,
        Some(refusal) => Some(format!("{call}:{refusal}")),
        None => Some(call.to_owned()),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_unit_file::value::access::{FilterRule, NameFilter};

    #[test]
    fn groups_are_resolved_and_errors_are_named() {
        let rules = [("@swap", None), ("mount", Some("1")), ("nonsense", None)];
        let rules = rules.map(|(name, action)| FilterRule {
            name: name.into(),
            removed: false,
            action: action.map(Into::into),
        });
        let names = NameFilter {
            allow: Some(false),
            rules: rules.into(),
        };
        assert_eq!(
            filter(&SyscallFilter(names), Purpose::Refuse),
            "mount:EPERM swapoff swapon"
        );
        assert_eq!(filter(&SyscallFilter::default(), Purpose::Refuse), "");
    }

    #[test]
    fn errors_have_numbers() {
        assert_eq!(error_number(Some("EPERM")), 1);
        assert_eq!(error_number(Some("38")), 38);
        assert_eq!(error_number(None), 2_147_483_646);
    }
}
