//! Processor architectures, which every world spells in its own way.

use std::fmt;
use std::str::FromStr;

use muster_config::{nearest, printable};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The architecture of a machine. Its name is OCI's; the names that kernels and clouds use are read as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

/// All spellings, of each architecture its own first.
const SPELLINGS: &[(&str, Arch)] = &[
    ("amd64", Arch::Amd64),
    ("arm64", Arch::Arm64),
    ("arm", Arch::Arm),
    ("riscv64", Arch::Riscv64),
    ("x86_64", Arch::Amd64),
    ("x86-64", Arch::Amd64),
    ("aarch64", Arch::Arm64),
    ("armv7", Arch::Arm),
    ("armv7l", Arch::Arm),
    ("armhf", Arch::Arm),
];

impl Arch {
    /// Its name in resolved fields, which is what mappings match: `amd64`, `arm64`, `arm`, `riscv64`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Arm => "arm",
            Self::Riscv64 => "riscv64",
        }
    }

    /// Its name in EC2's interface, where EC2 has it.
    #[must_use]
    pub fn ec2_name(self) -> Option<&'static str> {
        match self {
            Self::Amd64 => Some("x86_64"),
            Self::Arm64 => Some("arm64"),
            Self::Arm | Self::Riscv64 => None,
        }
    }

    /// Its name in the kernel and in libvirt's descriptions.
    #[must_use]
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
            Self::Arm => "armv7l",
            Self::Riscv64 => "riscv64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let spelling = SPELLINGS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        spelling.map(|(_, arch)| *arch).ok_or_else(|| {
            let names: Vec<&'static str> = SPELLINGS.iter().map(|(name, _)| *name).collect();
            UnknownArch {
                word: printable(text, 40),
                suggestion: nearest(text, &names),
            }
        })
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A word that names no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of amd64 (x86_64), arm64 (aarch64), arm, riscv64{}", suggestion.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default())]
pub struct UnknownArch {
    word: String,
    suggestion: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_one_architecture_and_each_knows_its_own_name() {
        for (name, arch) in SPELLINGS {
            assert_eq!(name.parse(), Ok(*arch));
            assert_eq!(arch.as_str().parse(), Ok(*arch));
            assert_eq!(arch.kernel_name().parse(), Ok(*arch));
            assert!(arch.ec2_name().is_none_or(|name| name.parse() == Ok(*arch)));
        }
        let error = "aarch46".parse::<Arch>().expect_err("no such spelling");
        assert!(
            error.to_string().ends_with("did you mean `aarch64`?"),
            "{error}"
        );
    }
}
