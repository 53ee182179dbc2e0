//! What a unit is to be, in the words that both init systems have.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The name of a service: letters, digits and `-`, then `.service`.
///
/// That is less than the init systems allow. What is made of it (paths of cgroups, object paths, globs) needs no escaping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(Box<str>);

/// A text that is not the name of a unit of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the name of a service: letters, digits and '-', at most 200, then \".service\""
)]
pub struct InvalidUnitName(pub String);

/// As long as the kernel lets a file name be, with room for what is put around it.
const MAX_STEM: usize = 200;
const SUFFIX: &str = ".service";

impl UnitName {
    /// Takes a whole name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidUnitName> {
        let name = name.into();
        let stem = name.strip_suffix(SUFFIX).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if stem.is_empty() || stem.len() > MAX_STEM || !stem.bytes().all(plain) {
            return Err(InvalidUnitName(name));
        }
        Ok(Self(name.into()))
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without `.service`.
    #[must_use]
    pub fn stem(&self) -> &str {
        self.0.strip_suffix(SUFFIX).unwrap_or(&self.0)
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A service that has no file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSpec {
    /// Its name. One name is one start: a second start under the same name is the same one.
    pub name: UnitName,
    /// For people.
    pub description: String,
    /// How its main process is known.
    pub main: MainProcess,
    /// The command that starts it. Words are passed on as they are.
    pub start: Vec<String>,
    /// The command that runs after each end, with `EXIT_CODE`, `EXIT_STATUS` and `SERVICE_RESULT` in its environment.
    pub after_end: Vec<String>,
    /// When it is started again.
    pub restart: Restart,
    /// How long its start may take.
    pub start_timeout: Duration,
    /// How long it may take to end when the machine goes down and nobody says otherwise.
    pub stop_timeout: Duration,
}

/// How the init system knows the process whose end is the service's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MainProcess {
    /// The command becomes it.
    Command,
    /// The command becomes it, and says when it is up (`READY=1` to `$NOTIFY_SOCKET`).
    Notifies,
    /// The command ends when all is up, and has then written the process's number into this file. How that process ends is
    /// known to [`UnitSpec::after_end`]; an observer may learn only that it did.
    Named {
        /// The file.
        pid_file: PathBuf,
    },
}

/// When a service that failed is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// So long after its end.
    pub delay: Duration,
    /// So many starts within [`interval`](Self::interval), and it is left down.
    pub burst: u32,
    /// The time in which starts are counted.
    pub interval: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_no_escaping_anywhere() {
        assert_eq!(UnitName::new("a-1.service").unwrap().stem(), "a-1");
        for bad in [
            "",
            "a",
            ".service",
            "a@b.service",
            "a/b.service",
            "a.b.service",
            "a%n.service",
            "*.service",
        ] {
            assert_eq!(UnitName::new(bad), Err(InvalidUnitName(bad.to_owned())));
        }
        assert!(UnitName::new(format!("{}.service", "a".repeat(201))).is_err());
    }
}
