//! What images must be, as newer versions of systemd let units say it: `RootImagePolicy=` and its siblings.

use super::{AssignError, Setting, ValueContext, ValueError};

/// What a policy can say of a partition.
const USES: &[&str] = &[
    "unprotected",
    "verity",
    "signed",
    "encrypted",
    "unused",
    "absent",
    "open",
    "ignore",
];

/// Partitions of images that nothing is mounted from.
const NEVER_MOUNTED: &[&str] = &[
    "esp",
    "xbootldr",
    "swap",
    "root-verity",
    "root-verity-sig",
    "usr-verity",
    "usr-verity-sig",
];

/// A policy, as far as it matters to whoever mounts images as they are: whether it lets that be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePolicy {
    demand: Option<Box<str>>,
}

impl ImagePolicy {
    /// The first part that images cannot meet if nobody checks or decrypts them.
    #[must_use]
    pub fn demand(&self) -> Option<&str> {
        self.demand.as_deref()
    }
}

impl Setting for ImagePolicy {
    const KIND: &'static str = "image policy";

    /// A policy that makes no sense is one that nothing is known to meet.
    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        self.demand = demand(text).map(Into::into);
        if let Some(demand) = self.demand() {
            let expected = "a policy that images meet which nobody checks";
            context.warn(ValueError::invalid(demand, expected));
        }
        Ok(())
    }
}

/// `*` lets images have anything and `-` or `~` nothing. Otherwise there are parts with `:` between them, a partition and what
/// it may be; a part without a name is about all others.
fn demand(text: &str) -> Option<&str> {
    match text {
        "" | "*" => None,
        "-" | "~" => Some(text),
        _ => text.split(':').find(|part| !lets_anything_pass(part)),
    }
}

/// Whether a partition may be one that nobody checks, or is none that is ever mounted.
fn lets_anything_pass(part: &str) -> bool {
    let Some((partition, uses)) = part.split_once('=') else {
        return false;
    };
    if NEVER_MOUNTED.contains(&partition) {
        return true;
    }
    let (mut passes, mut is_known) = (false, true);
    for used in uses.split('+') {
        passes |= matches!(used, "unprotected" | "open");
        is_known &= USES.contains(&used);
    }
    passes && is_known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::assign;

    #[test]
    fn a_policy_passes_where_it_lets_images_be_as_they_are() {
        for text in [
            "",
            "*",
            "root=unprotected",
            "root=verity+signed+encrypted+unprotected+absent:usr=unprotected+absent",
            "root=open:swap=absent:=unprotected+unused+absent",
        ] {
            let mut policy = ImagePolicy::default();
            assert!(assign(&mut policy, &[text]).is_empty(), "{text}");
            assert_eq!(policy.demand(), None, "{text}");
        }
    }

    #[test]
    fn a_policy_that_needs_somebody_to_look_is_a_demand() {
        for (text, demand) in [
            ("-", "-"),
            ("~", "~"),
            ("root=verity", "root=verity"),
            ("root=unprotected:usr=signed+verity", "usr=signed+verity"),
            ("root=encrypted", "root=encrypted"),
            ("root=unprotected:home=absent", "home=absent"),
            ("root=unprotected:=ignore", "=ignore"),
            (
                "root=unprotected+read-only-on",
                "root=unprotected+read-only-on",
            ),
            ("root=unprotcted", "root=unprotcted"),
            ("nonsense", "nonsense"),
        ] {
            let mut policy = ImagePolicy::default();
            assert_eq!(assign(&mut policy, &[text]).len(), 1, "{text}");
            assert_eq!(policy.demand(), Some(demand), "{text}");
            // The last one counts.
            assert!(assign(&mut policy, &["*"]).is_empty());
            assert_eq!(policy.demand(), None);
        }
    }
}
