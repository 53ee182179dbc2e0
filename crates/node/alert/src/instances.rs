//! Which units of the init system are instances.

use std::fmt;

use muster_api::domain::{InstanceFilter, InstanceIdent, Uuid};

/// A unit that runs an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceUnit {
    /// The instance.
    pub ident: InstanceIdent,
    /// The version of its item.
    pub version: String,
    /// The unit's name, such as `muster-container-UUID-7.service`.
    pub unit: String,
}

/// Knows the instances of the node. Called from threads that may block, but not for long.
pub trait InstanceUnits: Send + Sync + fmt::Debug + 'static {
    /// The instance that this unit runs or has run, if the node still has it.
    fn by_unit(&self, unit: &str) -> Option<InstanceUnit>;

    /// The instances that are meant, each once.
    fn find(&self, filter: &InstanceFilter) -> Vec<InstanceUnit>;
}

/// The instance that a unit's name tells, whoever knows it: units are called `RUNTIME-INSTANCE-RUN.service`.
#[must_use]
pub fn instance_of_unit(unit: &str) -> Option<Uuid> {
    const ID_LENGTH: usize = 36;
    let (name, run) = unit.strip_suffix(".service")?.rsplit_once('-')?;
    let is_run = !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit());
    let (runtime, id) = name.split_at_checked(name.len().checked_sub(ID_LENGTH)?)?;
    let runtime = runtime.strip_suffix('-')?;
    let parsed = Uuid::parse_str(id).ok()?;
    // Only one way of writing an id is a name's.
    (is_run && !runtime.is_empty() && parsed.to_string() == id).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_instances_are_told_by_their_names() {
        let id = "33299ef5-ca7c-369d-aa0f-ddf797046b3b";
        let unit = format!("muster-container-{id}-12.service");
        assert_eq!(
            instance_of_unit(&unit).map(|id| id.to_string()).as_deref(),
            Some(id)
        );
        for other in [
            String::new(),
            ".service".into(),
            "ssh.service".into(),
            format!("{id}-1.service"),
            format!("-{id}-1.service"),
            format!("muster-{id}.service"),
            format!("muster-{id}-.service"),
            format!("muster-{id}-x.service"),
            format!("muster-{id}-1.socket"),
            format!("muster-{}-1.service", id.to_uppercase()),
            format!("ü{id}-1.service"),
        ] {
            assert_eq!(instance_of_unit(&other), None, "{other}");
        }
    }
}
