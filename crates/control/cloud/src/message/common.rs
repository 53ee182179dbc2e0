//! What many messages contain.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use zeroize::Zeroizing;

/// Text that is in no log: passwords, tokens, keys. Its memory is wiped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "(empty)"
        } else {
            "(redacted)"
        })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Bytes that are base 64 on the wire.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Base64(pub Vec<u8>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.trim());
        bytes
            .map(Self)
            .map_err(|_| de::Error::custom("expected base 64"))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

/// A key, as bytes: base 64 on the wire, in no log, and its memory is wiped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// The key itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(redacted)")
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Base64::deserialize(deserializer).map(|it| it.0.into())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Zeroizing::new(STANDARD.encode(&*self.0)).serialize(serializer)
    }
}

/// A checksum: written in hexadecimal, read in that or in base 64, which the published schema says.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Checksum(pub Vec<u8>);

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The base 64 of a checksum ends in a padding character, or else is far from being all hexadecimal digits.
        let bytes = hex::decode(&text).or_else(|_| STANDARD.decode(&text));
        bytes
            .map(Self)
            .map_err(|_| de::Error::custom("expected a checksum in hexadecimal or base 64"))
    }
}

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

/// What an [`Identity`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum IdentityType {
    Service,
    Component,
    Layer,
    Subject,
    Oem,
    Sp,
    Fleet,
    Node,
    NodeSubject,
    Runtime,
}

/// How the cloud names things: items, subjects and owners by `id`; nodes, runtimes, kinds of nodes and what is
/// pre-installed by `codename`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The cloud's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The Unit's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codename: Option<String>,
    /// What it is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<IdentityType>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Identity {
    /// Something known by its id.
    pub fn id(id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..Self::default()
        }
    }

    /// Something known by its codename.
    pub fn codename(codename: impl Into<String>) -> Self {
        Self {
            codename: Some(codename.into()),
            ..Self::default()
        }
    }

    /// The same, said to be of a kind.
    #[must_use]
    pub fn of(mut self, kind: IdentityType) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Its id, else its codename; `None` if it has neither.
    pub fn name(&self) -> Option<&str> {
        let named = |text: &Option<String>| text.as_ref().is_some_and(|it| !it.is_empty());
        [&self.id, &self.codename]
            .into_iter()
            .find(|it| named(it))
            .and_then(|it| it.as_deref())
    }
}

/// What went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorInfo {
    /// What kind of error, as AosCore counts them.
    pub aos_code: i32,
    /// An exit code, or an error number of the system.
    pub exit_code: i32,
    /// In words.
    pub message: String,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum CertType {
    Offline,
    Online,
    Um,
    Sm,
    Cm,
    Iam,
    HostDevice,
    RemoteDevice,
    AzureIot,
}

impl CertType {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Offline,
        Self::Online,
        Self::Um,
        Self::Sm,
        Self::Cm,
        Self::Iam,
        Self::HostDevice,
        Self::RemoteDevice,
        Self::AzureIot,
    ];

    /// What the protocol calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::Online => "online",
            Self::Um => "um",
            Self::Sm => "sm",
            Self::Cm => "cm",
            Self::Iam => "iam",
            Self::HostDevice => "host-device",
            Self::RemoteDevice => "remote-device",
            Self::AzureIot => "azure-iot",
        }
    }
}

/// Takes `null` for what a missing key means.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
