//! Conditions and asserts: whether a unit may start on this machine, now.
//!
//! [`ConditionHost::holds`] looks at one condition and gives its verdict, `!` already applied. How verdicts are put
//! together (`|`, asserts) is the engine's business.
//!
//! Everything is read below a root folder, so that tests have machines of their own; what cannot be read from files is in
//! [`ConditionFacts`], which the caller fills in. Nothing is remembered between two questions but what cannot change
//! while the machine is up: the kernel's command line and what the machine is virtualised by.

mod compare;
mod files;
mod hardware;
mod security;
mod system;
#[cfg(test)]
mod tests;
mod virtualization;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use muster_unit_file::config::{Condition, ConditionKind};
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::value::number::parse_boolean;
use thiserror::Error;

pub use virtualization::{Virtualization, VirtualizationKind};

/// Longer than any file that a condition looks at; `/proc/cpuinfo` of a large machine is the largest.
const MAX_FILE: u64 = 8 << 20;

/// A condition that cannot be decided: it does not hold then, negated or not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluateConditionError {
    /// Its parameter is not what this kind takes.
    #[error("Condition{kind}= does not take {parameter:?}, but {expected}")]
    Parameter {
        /// The kind.
        kind: ConditionKind,
        /// The parameter.
        parameter: Box<str>,
        /// What it takes.
        expected: &'static str,
    },
}

/// What conditions ask for and no file tells.
#[derive(Clone, Debug, Default)]
pub struct ConditionFacts {
    /// The machine and the user of the manager.
    pub host: HostFacts,
    /// The manager's own environment.
    pub environment: Vec<(String, String)>,
    /// This is the first start of the machine.
    pub first_boot: bool,
    /// The cgroup tree is the unified one.
    pub unified_cgroups: bool,
    /// Controllers that can be used.
    pub controllers: Vec<Box<str>>,
    /// Where the unified tree is mounted, for the pressure of slices.
    pub cgroup_root: Option<PathBuf>,
}

/// The machine that conditions are about.
#[derive(Debug)]
pub struct ConditionHost {
    root: PathBuf,
    facts: ConditionFacts,
    command_line: OnceCell<String>,
    virtualization: OnceCell<Virtualization>,
}

impl ConditionHost {
    /// A machine whose files lie below `root`.
    #[must_use]
    pub fn new(root: &Path, facts: ConditionFacts) -> Self {
        Self {
            root: root.to_path_buf(),
            facts,
            command_line: OnceCell::new(),
            virtualization: OnceCell::new(),
        }
    }

    /// What was told about the machine, to be changed when it changes.
    pub fn facts_mut(&mut self) -> &mut ConditionFacts {
        &mut self.facts
    }

    /// What this machine runs in.
    pub fn virtualization(&self) -> &Virtualization {
        self.virtualization
            .get_or_init(|| virtualization::detect(self))
    }

    /// Whether a condition holds.
    ///
    /// # Errors
    /// It cannot be decided, because its parameter makes no sense.
    pub fn holds(&self, condition: &Condition) -> Result<bool, EvaluateConditionError> {
        self.test(condition).map(|held| held != condition.negate)
    }

    fn test(&self, condition: &Condition) -> Result<bool, EvaluateConditionError> {
        use ConditionKind as Kind;
        let parameter = &*condition.parameter;
        let check = Check {
            host: self,
            kind: condition.kind,
            parameter,
        };
        let path = || self.below(parameter);
        Ok(match condition.kind {
            Kind::PathExists => path().exists(),
            Kind::PathExistsGlob => crate::glob::anything_matches(&self.root, parameter),
            Kind::PathIsDirectory => path().is_dir(),
            Kind::PathIsSymbolicLink => path().is_symlink(),
            Kind::PathIsMountPoint => files::is_mount_point(&path()),
            Kind::PathIsReadWrite => files::is_writable(&path()),
            Kind::PathIsEncrypted => files::is_encrypted(self, &path()),
            Kind::DirectoryNotEmpty => files::is_filled_directory(&path()),
            Kind::FileNotEmpty => files::is_filled_file(&path()),
            Kind::FileIsExecutable => files::is_executable(&path()),
            Kind::NeedsUpdate => check.needs_update(),
            Kind::FirstBoot => check.first_boot()?,
            Kind::Architecture => check.architecture(),
            Kind::Firmware => check.firmware()?,
            Kind::Virtualization => check.virtualization(),
            Kind::Host => check.host(),
            Kind::KernelCommandLine => check.kernel_command_line(),
            Kind::KernelVersion => check.kernel_version()?,
            Kind::Credential => check.credential(),
            Kind::Security => check.security(),
            Kind::Capability => check.capability()?,
            Kind::AcPower => check.ac_power()?,
            Kind::Memory => check.memory()?,
            Kind::CpuFeature => check.cpu_feature(),
            Kind::Cpus => check.cpus()?,
            Kind::Environment => check.environment(),
            Kind::User => check.user(),
            Kind::Group => check.group(),
            Kind::ControlGroupController => check.controllers(),
            Kind::OsRelease => check.os_release()?,
            Kind::MemoryPressure => check.pressure("memory")?,
            Kind::CpuPressure => check.pressure("cpu")?,
            Kind::IoPressure => check.pressure("io")?,
        })
    }

    fn below(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> Option<String> {
        crate::files::read_text(&self.below(path), MAX_FILE).ok()
    }

    fn command_line(&self) -> &str {
        self.command_line
            .get_or_init(|| self.read("/proc/cmdline").unwrap_or_default())
    }

    /// The value of a boolean word on the kernel's command line, if it is there.
    fn kernel_switch(&self, name: &str) -> Option<bool> {
        let word = self.command_line().split_whitespace().rev().find(|word| {
            word.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })?;
        match word.split_once('=') {
            None => Some(true),
            Some((_, value)) => parse_boolean(value).ok(),
        }
    }
}

/// A condition that is being looked at.
struct Check<'a> {
    host: &'a ConditionHost,
    kind: ConditionKind,
    parameter: &'a str,
}

impl Check<'_> {
    fn bad_parameter(&self, expected: &'static str) -> EvaluateConditionError {
        EvaluateConditionError::Parameter {
            kind: self.kind,
            parameter: self.parameter.into(),
            expected,
        }
    }

    /// The parameter as yes or no.
    fn boolean(&self) -> Result<bool, EvaluateConditionError> {
        parse_boolean(self.parameter).map_err(|_| self.bad_parameter("yes or no"))
    }
}
