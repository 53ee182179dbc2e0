//! The lock file: what was found at run time, kept so that it is found again.
//!
//! An image's name means another image tomorrow. When a provider has found which image a name means today (a digest, an AMI), the
//! answer is pinned under the template, the provider, the architecture and the region, together with a hash of everything that
//! the answer depends on. While the hash is the same the pin is used; when it is not, the pin is stale and never used.
//!
//! What only this host has, such as an image that was built here, is pinned too. Whoever changes it means it: such a pin is used only
//! where nothing may change, and otherwise follows.
//!
//! The text is YAML in one form only, sorted and with one value on a line, so that version control shows what changed.

mod pins;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use muster_config::{Format, Problem};
use muster_template::field::{AMI, AMI_LOOKUP, ARCH, DIGEST, IMAGE, IMAGE_TYPE, ISO, REGION};
use muster_template::{Arch, Limits, ProviderId, TemplateName, Value};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::pins::{BadPin, Pin, Pins};
use crate::resolve::{Provenance, Resolved};

/// The fields that decide which image a machine has: a change of any other leaves a pin as it is.
const INPUTS: [&str; 8] = [
    IMAGE, IMAGE_TYPE, AMI, AMI_LOOKUP, ISO, DIGEST, ARCH, REGION,
];

/// For what a pin holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LockKey {
    /// The template.
    pub template: TemplateName,
    /// The provider.
    pub provider: ProviderId,
    /// The architecture, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// The region, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template {} for {}", self.template, self.provider)?;
        if let Some(arch) = self.arch {
            write!(f, ", {arch}")?;
        }
        match &self.region {
            Some(region) => write!(f, ", in {region}"),
            None => Ok(()),
        }
    }
}

/// A hash of what a pin depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Inputs([u8; 32]);

/// For what and from what an image is found, so that what is found later can be pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinFor {
    /// For what.
    pub key: LockKey,
    /// From what.
    pub inputs: Inputs,
}

impl FromStr for Inputs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or_default();
        let mut hash = [0; 32];
        match hex::decode_to_slice(digits, &mut hash) {
            Ok(()) => Ok(Self(hash)),
            Err(_) => Err("is not a hash: `sha256:` and 64 hexadecimal digits".to_owned()),
        }
    }
}

impl TryFrom<String> for Inputs {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Inputs> for String {
    fn from(inputs: Inputs) -> Self {
        inputs.to_string()
    }
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

/// For what and from what a resolved template's image is found. What a pin itself says does not count.
#[must_use]
pub fn pin_for(resolved: &Resolved) -> PinFor {
    let written = |field: &str| {
        let history = resolved.history().find(|(name, _)| *name == field)?.1;
        let spoken = history
            .iter()
            .rev()
            .find(|it| it.provenance != Provenance::Lock);
        spoken.map(|it| &it.value).filter(|it| **it != Value::Null)
    };
    let text = |field: &str| written(field).and_then(Value::as_str);
    let key = LockKey {
        template: resolved.template().clone(),
        provider: resolved.provider(),
        arch: text(ARCH).and_then(|arch| arch.parse().ok()),
        region: text(REGION).map(str::to_owned),
    };
    let set: BTreeMap<&str, &Value> = (INPUTS.into_iter())
        .filter_map(|field| Some((field, written(field)?)))
        .collect();
    // Sorted at every level, and there is no value that JSON cannot write.
    let canonical = serde_json::to_vec(&set).unwrap_or_default();
    let inputs = Inputs(Sha256::digest(canonical).into());
    PinFor { key, inputs }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    inputs: Inputs,
    pins: Pins,
}

/// How a lock file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockUse {
    /// Pins hold; what is not pinned, stale, or only this host's is found and pinned.
    #[default]
    Keep,
    /// Everything is found anew and pinned: `--update`.
    Update,
    /// Only what is pinned is used: for builds that must come out the same.
    Frozen,
}

/// What is to be done about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Use these.
    Use(Pins),
    /// Find out, and [pin](LockFile::pin) what was found.
    Find,
}

/// What a lock file says, with its entries by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockFile {
    entries: BTreeMap<LockKey, Entry>,
}

/// Why a lock file forbids to go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrozenError {
    /// Nothing is pinned.
    #[error("nothing is pinned for {0}, and the lock file must not change")]
    NotPinned(LockKey),
    /// What is pinned was found from something else.
    #[error(
        "what is pinned for {0} is stale, because its template or a mapping changed, and the lock file must not change"
    )]
    Stale(LockKey),
}

/// An entry whose inputs are no longer what they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// The template or a mapping changed.
    Changed(LockKey),
    /// There is nothing any more that it is for.
    Unused(LockKey),
}

impl LockFile {
    /// What is to be done about the image of a resolved template.
    ///
    /// # Errors
    /// Under [`LockUse::Frozen`], when there is no pin that holds.
    pub fn plan(&self, lock_use: LockUse, resolved: &Resolved) -> Result<Plan, FrozenError> {
        if lock_use == LockUse::Update {
            return Ok(Plan::Find);
        }
        let PinFor { key, inputs } = pin_for(resolved);
        let frozen = lock_use == LockUse::Frozen;
        match self.entries.get(&key) {
            Some(entry) if entry.inputs == inputs && (frozen || !entry.pins.are_local()) => {
                Ok(Plan::Use(entry.pins.clone()))
            }
            Some(_) if frozen => Err(FrozenError::Stale(key)),
            None if frozen => Err(FrozenError::NotPinned(key)),
            Some(_) | None => Ok(Plan::Find),
        }
    }

    /// Whether something is pinned that holds wherever it is found again.
    #[must_use]
    pub fn holds(&self, found_for: &PinFor) -> bool {
        let entry = self.entries.get(&found_for.key);
        entry.is_some_and(|it| it.inputs == found_for.inputs && !it.pins.are_local())
    }

    /// Pins what was found, in place of what was pinned before. Says whether that changed anything.
    pub fn pin(&mut self, found_for: PinFor, pins: Pins) -> bool {
        let PinFor { key, inputs } = found_for;
        let entry = Entry { inputs, pins };
        let before = self.entries.insert(key, entry.clone());
        before.as_ref() != Some(&entry)
    }

    /// Entries that no longer fit any of what is resolved now.
    #[must_use]
    pub fn stale<'a>(&self, resolved: impl IntoIterator<Item = &'a Resolved>) -> Vec<Stale> {
        let now = resolved.into_iter().map(pin_for);
        let now: BTreeMap<LockKey, Inputs> = now.map(|it| (it.key, it.inputs)).collect();
        let entries = self.entries.iter();
        let stale = entries.filter_map(|(key, entry)| match now.get(key) {
            Some(inputs) if *inputs == entry.inputs => None,
            Some(_) => Some(Stale::Changed(key.clone())),
            None => Some(Stale::Unused(key.clone())),
        });
        stale.collect()
    }

    /// For what something is pinned, in order.
    pub fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.entries.keys()
    }

    /// Removes an entry. Says whether there was one.
    pub fn remove(&mut self, key: &LockKey) -> bool {
        self.entries.remove(key).is_some()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The text; the same entries are always the same text.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// Reads a text that is called `name` in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(name: &Path, bytes: &[u8], limits: &Limits) -> Result<Self, Vec<Problem>> {
        text::read(name, Format::Yaml, bytes, limits)
    }

    /// Reads a file; one that is not there is empty.
    ///
    /// # Errors
    /// When it cannot be read, or is not valid.
    pub fn load(path: &Path, limits: &Limits) -> Result<Self, LockError> {
        match muster_durable::read(path, limits.file_bytes) {
            Ok(bytes) => Self::parse(path, &bytes, limits).map_err(|problems| LockError::Invalid {
                path: path.to_owned(),
                problems,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(LockError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Replaces a file: whole, or it is as it was.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), LockError> {
        muster_durable::write(path, self.to_text().as_bytes(), 0o644).map_err(|source| {
            LockError::Write {
                path: path.to_owned(),
                source,
            }
        })
    }
}

/// Why a lock file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It could not be read.
    #[error("cannot read the lock file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no lock file; one line per problem.
    #[error("the lock file {} is not valid:{}", path.display(), problems.iter().map(|it| format!("\n{it}")).collect::<String>())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything found.
        problems: Vec<Problem>,
    },
    /// It could not be written.
    #[error("cannot write the lock file {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
