//! What a service can do, and how much of it a break-in would expose.
//!
//! An [`Assessment`] has a [`Finding`] for every topic that a unit file can say something about: what the service can do,
//! how much that weighs, and how much of the overall [`Exposure`] it makes up. Topics, weights and the overall figure
//! are those of `systemd-analyze security` of systemd 252, so that figures can be compared; the words are not.
//!
//! The assessment is about what the unit asks for. Which of it a machine could not give is known to its manager only.

mod capabilities;
mod checks;
mod own;
mod verdict;

use std::borrow::Cow;
use std::fmt;

use muster_unit_file::config::UnitConfig;

use checks::Check;
use verdict::Verdict;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Who it is.
    User,
    /// What it is allowed although others are not.
    Capabilities,
    /// Which files it sees and changes.
    FileSystem,
    /// Which devices it uses.
    Devices,
    /// Whom it talks to.
    Network,
    /// What of the kernel it sees and changes.
    Kernel,
    /// What it sees of other processes, and what they see of it.
    Processes,
    /// Which namespaces it makes.
    Namespaces,
    /// Which system calls it makes.
    SystemCalls,
}

impl Topic {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Capabilities => "capabilities",
            Self::FileSystem => "file system",
            Self::Devices => "devices",
            Self::Network => "network",
            Self::Kernel => "kernel",
            Self::Processes => "processes",
            Self::Namespaces => "namespaces",
            Self::SystemCalls => "system calls",
        }
    }
}

/// How much is exposed: tenths, from none at all to a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exposure(u8);

impl Exposure {
    /// Everything is.
    pub const MAX: Self = Self(100);

    /// Of so much in all, rounded up: what is exposed a little is not shown as nothing.
    fn part(of: u64, all: u64) -> Self {
        let tenths = (of * 100).div_ceil(all.max(1));
        Self(u8::try_from(tenths).map_or(Self::MAX.0, |tenths| tenths.min(Self::MAX.0)))
    }

    /// In tenths.
    #[must_use]
    pub const fn tenths(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// An exposure in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing is exposed.
    Perfect,
    /// Next to nothing.
    Safe,
    /// Less than half.
    Ok,
    /// About half.
    Medium,
    /// Much.
    Exposed,
    /// Nearly everything.
    Unsafe,
    /// Everything.
    Dangerous,
}

impl Level {
    /// Of an exposure.
    #[must_use]
    pub const fn of(exposure: Exposure) -> Self {
        match exposure.0 {
            0 => Self::Perfect,
            1..10 => Self::Safe,
            10..50 => Self::Ok,
            50..75 => Self::Medium,
            75..90 => Self::Exposed,
            90..100 => Self::Unsafe,
            _ => Self::Dangerous,
        }
    }

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Perfect => "PERFECT",
            Self::Safe => "SAFE",
            Self::Ok => "OK",
            Self::Medium => "MEDIUM",
            Self::Exposed => "EXPOSED",
            Self::Unsafe => "UNSAFE",
            Self::Dangerous => "DANGEROUS",
        }
    }
}

/// One thing that a service can or cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The setting that decides, as it would be written.
    pub setting: &'static str,
    /// What it is about.
    pub topic: Topic,
    /// What it weighs among the others.
    pub weight: u16,
    /// Its part of the overall exposure; nothing where the setting does not matter to the service.
    pub exposure: Option<Exposure>,
    /// What the service can do.
    pub text: Cow<'static, str>,
}

/// What a service can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Overall.
    pub exposure: Exposure,
    /// One for each setting, what exposes most first.
    pub findings: Vec<Finding>,
}

impl Assessment {
    /// The overall exposure in a word.
    #[must_use]
    pub const fn level(&self) -> Level {
        Level::of(self.exposure)
    }
}

/// What a service can do, as its unit file has it.
#[must_use]
pub fn assess(config: &UnitConfig) -> Assessment {
    let verdicts: Vec<(&Check, Verdict)> = checks::CHECKS
        .iter()
        .map(|check| (check, check.judge(config)))
        .collect();
    let weighed = verdicts.iter().filter_map(|(check, verdict)| {
        let exposed = verdict.exposed(check.weight)?;
        Some((exposed, u64::from(check.weight)))
    });
    let (exposed, all) = weighed.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let findings = verdicts.into_iter().map(|(check, verdict)| Finding {
        setting: check.setting,
        topic: check.topic,
        weight: check.weight,
        exposure: verdict
            .exposed(check.weight)
            .map(|exposed| Exposure::part(exposed, all)),
        text: verdict.text,
    });
    let mut findings: Vec<Finding> = findings.collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.exposure));
    Assessment {
        exposure: Exposure::part(exposed, all),
        findings,
    }
}

#[cfg(test)]
mod tests;
