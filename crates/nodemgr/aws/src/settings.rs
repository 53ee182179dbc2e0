//! How the provider is set up.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::kinds::{Kind, default_kinds};

/// A region of AWS. It becomes a part of host names, so it is checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(String);

/// A text that is no region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no region of AWS: it has lower-case letters, digits and dashes, such as eu-central-1"
)]
pub struct InvalidRegion(pub String);

impl Region {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What its hosts end in.
    pub(crate) fn domain(&self) -> &'static str {
        match self.0.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        }
    }
}

impl FromStr for Region {
    type Err = InvalidRegion;

    fn from_str(text: &str) -> Result<Self, InvalidRegion> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=40).contains(&text.len()) && text.chars().all(plain);
        let dashes = text.starts_with('-') || text.ends_with('-');
        match fits && !dashes {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidRegion(muster_config::printable(text, 40))),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Which of its addresses a machine is reached at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressChoice {
    /// The public one, or the private one where it has no other.
    #[default]
    Public,
    /// The private one: the manager is in the same network.
    Private,
}

/// How the provider is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsSettings {
    /// Where machines may be made and are looked for; the first is where they are made when nobody says. None: the one that the
    /// environment or the profile names.
    pub regions: Vec<Region>,
    /// A profile of the configuration files that `aws configure` writes. None: what the environment names.
    pub profile: Option<String>,
    /// Where all services answer, for something that is like AWS. None: AWS itself.
    pub endpoint_url: Option<String>,
    /// Which of its addresses a machine is reached at.
    pub address: AddressChoice,
    /// Whether machines are hibernated at all. A template still says which are made so that they can be.
    pub hibernation: bool,
    /// The types that are chosen among where a template names none.
    pub instance_types: Vec<Kind>,
    /// How long a request may take.
    pub call_timeout: Duration,
    /// How long EC2 may take until everybody sees what was made. Until then, what is not seen is not believed to be gone.
    pub settle: Duration,
    /// How often a request that EC2 throttles is made again.
    pub throttle_attempts: u32,
}

impl Default for AwsSettings {
    fn default() -> Self {
        Self {
            regions: Vec::new(),
            profile: None,
            endpoint_url: None,
            address: AddressChoice::Public,
            hibernation: true,
            instance_types: default_kinds(),
            call_timeout: Duration::from_secs(60),
            settle: Duration::from_secs(30),
            throttle_attempts: 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_what_may_stand_in_a_host_name() {
        assert!("eu-central-1".parse::<Region>().is_ok());
        for wrong in [
            "",
            "-eu",
            "eu-",
            "EU",
            "eu.evil",
            "eu/x",
            "eu@x",
            &"e".repeat(41),
        ] {
            assert!(wrong.parse::<Region>().is_err(), "{wrong}");
        }
    }
}
