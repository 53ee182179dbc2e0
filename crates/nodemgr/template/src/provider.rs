//! Who can make machines, and for whom an override is meant.

use std::fmt;
use std::str::FromStr;

use muster_config::{nearest, printable};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One of the providers that there are.
///
/// The set is closed: a provider is called the same in templates, in mappings, on the command line and in the database, so an
/// override cannot miss the provider that it is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderId {
    /// Virtual machines of EC2.
    Aws,
    /// Containers of a Docker daemon.
    Docker,
    /// Virtual machines of libvirt.
    Libvirt,
    /// This machine itself.
    Local,
    /// Machines that are only simulated.
    Sim,
}

impl ProviderId {
    /// All of them, by name.
    pub const ALL: [Self; 5] = [
        Self::Aws,
        Self::Docker,
        Self::Libvirt,
        Self::Local,
        Self::Sim,
    ];

    /// What it is called everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Docker => "docker",
            Self::Libvirt => "libvirt",
            Self::Local => "local",
            Self::Sim => "sim",
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ProviderId {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        let found = Self::ALL.into_iter().find(|id| id.as_str() == text);
        found.ok_or_else(|| UnknownProvider::new(text, &Self::ALL.map(Self::as_str)))
    }
}

impl Serialize for ProviderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProviderId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A word that stands where a provider must stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {known}{}", suggestion.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default())]
pub struct UnknownProvider {
    word: String,
    known: String,
    suggestion: Option<&'static str>,
}

/// What the providers' own worlds call them, and people with them.
const NICKNAMES: &[(&str, &str)] = &[
    ("amazon", "aws"),
    ("ec2", "aws"),
    ("container", "docker"),
    ("kvm", "libvirt"),
    ("qemu", "libvirt"),
    ("vm", "libvirt"),
    ("host", "local"),
    ("fake", "sim"),
];

impl UnknownProvider {
    fn new(word: &str, known: &[&'static str]) -> Self {
        let lower = word.to_ascii_lowercase();
        // `docker-pulumi` and `aws_spot` name their provider, and something else beside it.
        let part = |name: &str| lower.split(['-', '_', '.', ':', '/']).any(|it| it == name);
        let nickname = || NICKNAMES.iter().find(|(name, _)| part(name));
        let suggestion = (known.iter().copied())
            .find(|name| part(name))
            .or_else(|| nickname().map(|(_, name)| *name))
            .or_else(|| nearest(word, known));
        Self {
            word: printable(word, 40),
            known: known.join(", "),
            suggestion,
        }
    }
}

/// For whom overrides are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// For every provider: `all`.
    All,
    /// For one.
    Provider(ProviderId),
}

impl Target {
    const WORDS: [&'static str; 6] = ["all", "aws", "docker", "libvirt", "local", "sim"];

    /// The key of the overrides.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Provider(id) => id.as_str(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Target {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        match text {
            "all" => Ok(Self::All),
            _ => match ProviderId::from_str(text) {
                Ok(id) => Ok(Self::Provider(id)),
                Err(_) => Err(UnknownProvider::new(text, &Self::WORDS)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_is_read_back_from_its_name_also_as_a_target() {
        let mut words = vec!["all"];
        for id in ProviderId::ALL {
            assert_eq!(id.as_str().parse(), Ok(id));
            assert_eq!(id.as_str().parse(), Ok(Target::Provider(id)));
            words.push(id.as_str());
        }
        assert_eq!(words, Target::WORDS);
    }

    #[test]
    fn an_unknown_provider_is_answered_with_the_one_that_was_meant() {
        for (word, meant) in [
            ("docker-pulumi", Some("docker")),
            ("Docker", Some("docker")),
            ("dokcer", Some("docker")),
            ("ec2", Some("aws")),
            ("AWS", Some("aws")),
            ("qemu", Some("libvirt")),
            ("zzz", None),
        ] {
            let error = word.parse::<ProviderId>().expect_err(word);
            assert_eq!(error.suggestion, meant, "{word}");
            assert!(
                error
                    .to_string()
                    .contains("aws, docker, libvirt, local, sim")
            );
        }
        let error = "al".parse::<Target>().expect_err("it is `all`");
        assert_eq!(
            error.to_string(),
            "`al` is not one of all, aws, docker, libvirt, local, sim; did you mean `all`?"
        );
    }
}
