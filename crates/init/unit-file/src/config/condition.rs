//! Conditions and asserts.

use crate::value::path::check_path;
use crate::value::{AssignError, ValueContext, ValueError, word_enum};

word_enum! {
    /// What a condition looks at.
    ConditionKind, "condition",
    PathExists = "PathExists", PathExistsGlob = "PathExistsGlob", PathIsDirectory = "PathIsDirectory",
    PathIsSymbolicLink = "PathIsSymbolicLink", PathIsMountPoint = "PathIsMountPoint",
    PathIsReadWrite = "PathIsReadWrite", PathIsEncrypted = "PathIsEncrypted",
    DirectoryNotEmpty = "DirectoryNotEmpty", FileNotEmpty = "FileNotEmpty",
    FileIsExecutable = "FileIsExecutable", NeedsUpdate = "NeedsUpdate", FirstBoot = "FirstBoot",
    Architecture = "Architecture", Firmware = "Firmware", Virtualization = "Virtualization", Host = "Host",
    KernelCommandLine = "KernelCommandLine", KernelVersion = "KernelVersion", Credential = "Credential",
    Security = "Security", Capability = "Capability", AcPower = "ACPower", Memory = "Memory",
    CpuFeature = "CPUFeature", Cpus = "CPUs", Environment = "Environment", User = "User", Group = "Group",
    ControlGroupController = "ControlGroupController", OsRelease = "OSRelease",
    MemoryPressure = "MemoryPressure", CpuPressure = "CPUPressure", IoPressure = "IOPressure",
}

impl ConditionKind {
    const fn takes_path(self) -> bool {
        matches!(
            self,
            Self::PathExists
                | Self::PathExistsGlob
                | Self::PathIsDirectory
                | Self::PathIsSymbolicLink
                | Self::PathIsMountPoint
                | Self::PathIsReadWrite
                | Self::PathIsEncrypted
                | Self::DirectoryNotEmpty
                | Self::FileNotEmpty
                | Self::FileIsExecutable
                | Self::NeedsUpdate
        )
    }
}

/// Per unit; keeps resetting them cheap.
const MAX_CONDITIONS: usize = 1024;

/// One test that is made when a unit is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it looks at.
    pub kind: ConditionKind,
    /// A failed assert fails the unit, a failed condition skips it.
    pub assert: bool,
    /// `|`: one of these must hold, rather than all.
    pub trigger: bool,
    /// `!`: it must not hold.
    pub negate: bool,
    /// A path, a pattern, a comparison ...
    pub parameter: Box<str>,
}

impl Condition {
    /// Takes a `Condition...=` or `Assert...=` line. An empty value resets all of them.
    ///
    /// # Errors
    /// A path is needed and not given, or a specifier cannot be expanded.
    pub fn assign(
        list: &mut Vec<Self>,
        kind: ConditionKind,
        assert: bool,
        text: &str,
        context: &mut ValueContext<'_>,
    ) -> Result<(), AssignError> {
        if text.is_empty() {
            list.retain(|condition| condition.assert != assert);
            return Ok(());
        }
        if list.len() >= MAX_CONDITIONS {
            return Err(ValueError::range(text, "at most 1024 conditions").into());
        }
        let (trigger, rest) = strip(text, '|');
        let (negate, rest) = strip(rest, '!');
        let parameter = context.expand(rest)?;
        let parameter: Box<str> = if kind.takes_path() {
            check_path(&parameter, false)?.into()
        } else if parameter.is_empty() {
            return Err(ValueError::Empty {
                expected: "what to test for",
            }
            .into());
        } else {
            parameter.into()
        };
        list.push(Self {
            kind,
            assert,
            trigger,
            negate,
            parameter,
        });
        Ok(())
    }
}

fn strip(text: &str, sign: char) -> (bool, &str) {
    match text.strip_prefix(sign) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    }
}
