//! Fields that only one kind of provider knows: which, and what is said of others.
//!
//! They have no type here: whoever knows them reads them. But who sets a field for a provider that does not know it means
//! something, which would silently not be so.

use muster_config::{nearest, printable};
use muster_template::{ProviderId, Target, field};

use crate::resolve::Provenance;

/// What EC2 knows.
const AWS: &[&str] = &[
    "encrypted",
    "hibernation",
    "iam_profile",
    "instance_type",
    "key_name",
    "security_groups",
    "subnet",
    "tenancy",
    "volume_type",
    "zone",
];

/// What Docker knows.
const DOCKER: &[&str] = &[
    "apparmor",
    "capabilities",
    "command",
    "dropCapabilities",
    "init",
    "mounts",
    "privileged",
    "seccomp",
];

/// Fields that every provider is told, beside the common ones.
const TYPED: [&str; 7] = [
    field::AMI,
    field::AMI_LOOKUP,
    field::DIGEST,
    field::ENV,
    field::IMAGE_TYPE,
    field::ISO,
    field::NETWORK,
];

/// The fields that a provider alone knows.
#[must_use]
pub const fn own_fields(provider: ProviderId) -> &'static [&'static str] {
    match provider {
        ProviderId::Aws => AWS,
        ProviderId::Docker => DOCKER,
        ProviderId::Libvirt | ProviderId::Local | ProviderId::Sim => &[],
    }
}

/// Why a provider is not given environment variables. They would be in no command's environment, and nobody would say so.
pub(crate) fn no_variables(provider: ProviderId) -> Option<String> {
    match provider {
        // What is only simulated runs no commands.
        ProviderId::Docker | ProviderId::Sim => None,
        ProviderId::Aws | ProviderId::Libvirt | ProviderId::Local => Some(format!(
            "{provider} sets no variables in its machines ({} does): write them under `overrides.docker`, and give others' with each \
             command or in the user data",
            ProviderId::Docker
        )),
    }
}

/// Whether a field is a provider's own.
fn knows(provider: ProviderId, field: &str) -> bool {
    own_fields(provider).contains(&field)
}

/// What becomes of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The provider is given it.
    Given,
    /// It is for others, and was not meant for this one.
    ForOthers,
    /// Nobody would do anything with it. Why.
    Refused(String),
}

/// Decides what becomes of a field that has no meaning of its own.
pub(crate) fn fate(provider: ProviderId, field: &str, set_by: &Provenance) -> Fate {
    let meant = match set_by {
        Provenance::Overrides { target, .. } | Provenance::Mapping { target, .. } => {
            *target == Target::Provider(provider)
        }
        _ => false,
    };
    match () {
        () if knows(provider, field) => Fate::Given,
        () if !meant && others(provider, field).next().is_some() => Fate::ForOthers,
        () => Fate::Refused(refusal(provider, field)),
    }
}

fn others(provider: ProviderId, field: &str) -> impl Iterator<Item = ProviderId> {
    let all = ProviderId::ALL.into_iter();
    all.filter(move |&it| it != provider && knows(it, field))
}

/// Why a provider is not given a field that it does not know.
#[must_use]
pub fn refusal(provider: ProviderId, field: &str) -> String {
    let own = own_fields(provider);
    let mut said = match own {
        [] => format!("{provider} does not know this field (it has none of its own)"),
        own => format!(
            "{provider} does not know this field (it knows {})",
            own.join(", ")
        ),
    };
    let known: Vec<&str> = own.iter().copied().chain(TYPED).collect();
    if let Some(other) = others(provider, field).next() {
        said += &format!("; {other} does");
    } else if let Some(near) = nearest(&printable(field, 80), &known) {
        said += &format!("; did you mean `{near}`?");
    }
    said
}
