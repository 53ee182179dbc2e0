//! System calls: from the words of a unit file to what `muster-seccomp` takes.

use muster_seccomp::{CallFilter, CallRule, Refusal};
use muster_unit_file::value::access::SyscallFilter;

/// What `SystemCallErrorNumber=` says; a refused call ends the process where it says nothing.
#[must_use]
pub fn refusal(word: Option<&str>) -> Refusal {
    word.and_then(Refusal::from_text).unwrap_or_default()
}

/// What `SystemCallFilter=` or `SystemCallLog=` says; nothing where the unit has no such line. Groups are not resolved.
#[must_use]
pub fn filter(filter: &SyscallFilter) -> Option<CallFilter> {
    let rules = filter.0.rules.iter().map(|rule| CallRule {
        name: rule.name.clone(),
        removed: rule.removed,
        refusal: rule.action.as_deref().map(|action| refusal(Some(action))),
    });
    Some(CallFilter {
        allow: filter.0.allow?,
        rules: rules.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_unit_file::value::access::{FilterRule, NameFilter};

    #[test]
    fn a_list_is_taken_over_as_it_stands() {
        assert_eq!(filter(&SyscallFilter::default()), None);
        let names = NameFilter {
            allow: Some(true),
            rules: vec![FilterRule {
                name: "@mount".into(),
                removed: true,
                action: Some("ENOSYS".into()),
            }],
        };
        let rule = CallRule {
            name: "@mount".into(),
            removed: true,
            refusal: Some(Refusal::Errno(38)),
        };
        assert_eq!(
            filter(&SyscallFilter(names)),
            Some(CallFilter {
                allow: true,
                rules: vec![rule],
            })
        );
    }

    #[test]
    fn without_an_error_the_process_ends() {
        assert_eq!(refusal(None), Refusal::Kill);
        assert_eq!(refusal(Some("EACCES")), Refusal::Errno(13));
        assert_eq!(refusal(Some("nonsense")), Refusal::Kill);
    }
}
