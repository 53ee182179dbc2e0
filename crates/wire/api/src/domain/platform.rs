//! What a program must have been built for.

use crate::common::v2 as wire;

use super::error::{ConvertError, InvalidValue, Problem};

/// Processor architecture, in the words of the OCI image specification.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchInfo {
    architecture: String,
    variant: String,
}

impl ArchInfo {
    /// `architecture` must not be empty; an empty `variant` is none.
    pub fn new(
        architecture: impl Into<String>,
        variant: impl Into<String>,
    ) -> Result<Self, InvalidValue> {
        let (architecture, variant) = (architecture.into(), variant.into());
        if architecture.is_empty() {
            return Err(InvalidValue::new("architecture", Problem::Missing));
        }
        Ok(Self {
            architecture,
            variant,
        })
    }

    /// For example `amd64`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// For example `v8`.
    pub fn variant(&self) -> Option<&str> {
        Some(self.variant.as_str()).filter(|variant| !variant.is_empty())
    }
}

impl TryFrom<wire::ArchInfo> for ArchInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::ArchInfo) -> Result<Self, ConvertError> {
        Self::new(wire.architecture, wire.variant)
            .map_err(|error| error.at("ArchInfo", "architecture"))
    }
}

impl From<ArchInfo> for wire::ArchInfo {
    fn from(arch: ArchInfo) -> Self {
        Self {
            architecture: arch.architecture,
            variant: arch.variant,
        }
    }
}

/// Operating system, in the words of the OCI image specification.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsInfo {
    os: String,
    version: String,
    features: Vec<String>,
}

impl OsInfo {
    /// `os` must not be empty; an empty `version` is none.
    pub fn new(
        os: impl Into<String>,
        version: impl Into<String>,
        features: Vec<String>,
    ) -> Result<Self, InvalidValue> {
        let (os, version) = (os.into(), version.into());
        if os.is_empty() {
            return Err(InvalidValue::new("operating system", Problem::Missing));
        }
        Ok(Self {
            os,
            version,
            features,
        })
    }

    /// For example `linux`.
    pub fn os(&self) -> &str {
        &self.os
    }

    /// Of the operating system.
    pub fn version(&self) -> Option<&str> {
        Some(self.version.as_str()).filter(|version| !version.is_empty())
    }

    /// What it offers beyond its version.
    pub fn features(&self) -> &[String] {
        &self.features
    }
}

impl TryFrom<wire::OsInfo> for OsInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::OsInfo) -> Result<Self, ConvertError> {
        Self::new(wire.os, wire.version, wire.features).map_err(|error| error.at("OSInfo", "os"))
    }
}

impl From<OsInfo> for wire::OsInfo {
    fn from(info: OsInfo) -> Self {
        Self {
            os: info.os,
            version: info.version,
            features: info.features,
        }
    }
}
