//! Where a process finds the pressure on its memory.

use std::borrow::Cow;

use muster_unit_file::config::UnitConfig;

/// The same for all: a process that sees no groups but its own has that one's files here.
const OWN: &str = "/sys/fs/cgroup/memory.pressure";
/// The name of such a file, whatever its group.
const NAME: &str = "/memory.pressure";

/// The variables as they hold for a process of the unit. `privileged` is whether it is outside of everything.
pub(super) fn as_seen<'a>(
    config: &UnitConfig,
    privileged: bool,
    variables: &'a [(&'static str, String)],
) -> Cow<'a, [(&'static str, String)]> {
    let sees_own = config.exec.sandbox.protect_control_groups.is_own() && !privileged;
    if !sees_own {
        return Cow::Borrowed(variables);
    }
    let seen = variables.iter().map(|(name, value)| {
        let value = if value.ends_with(NAME) { OWN } else { value };
        (*name, value.to_owned())
    });
    Cow::Owned(seen.collect())
}
