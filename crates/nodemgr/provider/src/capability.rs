//! How a machine can be used: `<transport>:<verb>`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What carries commands and files to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// The machine is this one.
    Local,
    /// Docker's API.
    Docker,
    /// SSH.
    Ssh,
}

/// What a transport does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Means {
    /// Runs commands.
    Exec,
    /// Opens terminals.
    Attach,
    /// Copies files in its own way.
    Copy,
    /// Copies files by SFTP.
    Sftp,
    /// Copies by rsync: only what changed.
    Rsync,
    /// Forwards ports.
    Forward,
}

impl Transport {
    const ALL: [Self; 3] = [Self::Local, Self::Docker, Self::Ssh];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Docker => "docker",
            Self::Ssh => "ssh",
        }
    }
}

impl Means {
    const ALL: [Self; 6] = [
        Self::Exec,
        Self::Attach,
        Self::Copy,
        Self::Sftp,
        Self::Rsync,
        Self::Forward,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::Copy => "copy",
            Self::Sftp => "sftp",
            Self::Rsync => "rsync",
            Self::Forward => "forward",
        }
    }
}

/// One way to use a machine, written `ssh:exec`. `exec:ssh` is read as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Capability {
    /// By what.
    pub transport: Transport,
    /// To do what.
    pub means: Means,
}

/// The ways to use a machine.
pub type Capabilities = BTreeSet<Capability>;

impl Capability {
    /// One of them.
    #[must_use]
    pub const fn new(transport: Transport, means: Means) -> Self {
        Self { transport, means }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport.as_str(), self.means.as_str())
    }
}

/// A text that names no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no capability: write it as transport:verb, such as ssh:exec")]
pub struct UnknownCapability(pub String);

impl FromStr for Capability {
    type Err = UnknownCapability;

    fn from_str(text: &str) -> Result<Self, UnknownCapability> {
        let find = |transport: &str, means: &str| {
            let mut transports = Transport::ALL.into_iter();
            let mut all_means = Means::ALL.into_iter();
            Some(Self {
                transport: transports.find(|it| it.as_str() == transport)?,
                means: all_means.find(|it| it.as_str() == means)?,
            })
        };
        let (one, two) = text
            .split_once(':')
            .ok_or_else(|| UnknownCapability(text.to_owned()))?;
        find(one, two)
            .or_else(|| find(two, one))
            .ok_or_else(|| UnknownCapability(text.to_owned()))
    }
}

impl TryFrom<String> for Capability {
    type Error = UnknownCapability;

    fn try_from(text: String) -> Result<Self, UnknownCapability> {
        text.parse()
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> Self {
        capability.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_are_read_and_one_is_written() {
        for transport in Transport::ALL {
            for means in Means::ALL {
                let capability = Capability::new(transport, means);
                assert_eq!(capability.to_string().parse(), Ok(capability));
                let reversed = format!("{}:{}", means.as_str(), transport.as_str());
                assert_eq!(reversed.parse(), Ok(capability));
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "",
            "ssh",
            "ssh:",
            ":exec",
            "ssh:ssh",
            "ssh:exec:sftp",
            "telnet:exec",
        ] {
            assert!(wrong.parse::<Capability>().is_err(), "{wrong}");
        }
    }
}
