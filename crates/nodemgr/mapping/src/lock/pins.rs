//! What is pinned.

use std::collections::BTreeMap;

use muster_template::field::{AMI, DIGEST, IMAGE};

use crate::spec;

/// What is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// An image of EC2.
    Ami,
    /// The checksum of what is downloaded.
    Digest,
    /// An image of a registry, by its digest.
    Image,
    /// The checksum of a file that only this host has.
    LocalDigest,
    /// An image of a container that only this host has, by its id.
    LocalImage,
}

impl Pin {
    pub(super) const ALL: [Self; 5] = [
        Self::Ami,
        Self::Digest,
        Self::Image,
        Self::LocalDigest,
        Self::LocalImage,
    ];

    /// Its word in a lock file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ami | Self::Digest | Self::Image => self.field(),
            Self::LocalDigest => "local_digest",
            Self::LocalImage => "local_image",
        }
    }

    /// The field that it stands for.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Ami => AMI,
            Self::Digest | Self::LocalDigest => DIGEST,
            Self::Image | Self::LocalImage => IMAGE,
        }
    }

    /// Whether a value names one thing for ever.
    fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Ami => spec::ami(value).map(drop),
            Self::Digest | Self::LocalDigest => spec::digest(value).map(drop),
            Self::Image | Self::LocalImage => {
                let (name, digest) = value.rsplit_once('@').unwrap_or_default();
                let spaces = name.chars().any(|c| c.is_whitespace() || c.is_control());
                if name.is_empty() || spaces || value.len() > 1024 {
                    return Err("is not an image with its digest: `NAME@sha256:...`".to_owned());
                }
                spec::digest(digest).map(drop)
            }
        }
    }
}

/// What was found for one machine: at least one thing, and each names one thing for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    values: BTreeMap<Pin, String>,
}

impl Pins {
    /// Takes what was found.
    ///
    /// # Errors
    /// Nothing was, or what was found could mean something else tomorrow.
    pub fn new(values: impl IntoIterator<Item = (Pin, String)>) -> Result<Self, BadPin> {
        let values: BTreeMap<Pin, String> = values.into_iter().collect();
        if values.is_empty() {
            return Err(BadPin::Nothing);
        }
        for (pin, value) in &values {
            pin.check(value).map_err(|message| BadPin::Value {
                field: pin.as_str(),
                message,
            })?;
        }
        Ok(Self { values })
    }

    /// Whether anything of it is only this host's.
    #[must_use]
    pub fn are_local(&self) -> bool {
        let local = |pin: &Pin| matches!(pin, Pin::LocalDigest | Pin::LocalImage);
        self.values.keys().any(local)
    }

    /// What was found, by field.
    pub fn iter(&self) -> impl Iterator<Item = (Pin, &str)> {
        self.values
            .iter()
            .map(|(pin, value)| (*pin, value.as_str()))
    }
}

/// Why something cannot be pinned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPin {
    /// There is nothing to pin.
    #[error("nothing was found that could be pinned")]
    Nothing,
    /// A value does not name one thing for ever.
    #[error("{field} {message}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong.
        message: String,
    },
}
