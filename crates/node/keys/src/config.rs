//! How the certificates of each type are kept: the `certModules` of the configuration.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use muster_tls::Role;
use serde::Deserialize;

use crate::names::{CertType, KeyAlgorithm};

/// Most certificates kept of one type, whatever is configured.
const MAX_ITEMS: usize = 64;
/// Most alternative names in one signing request.
const MAX_ALTERNATIVE_NAMES: usize = 64;
/// Longest alternative name.
const MAX_NAME_LEN: usize = 253;
/// Longest token label that PKCS#11 knows.
const MAX_TOKEN_LABEL: usize = 32;

/// One entry of `certModules`, as it stands in a configuration file. `ModuleConfig::try_from` checks it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawModuleConfig {
    /// The certificate type.
    pub id: String,
    /// `swmodule` or `file`: keys in files; `pkcs11module` or `pkcs11`: keys in a token.
    pub plugin: String,
    /// `ecc` (the default) or `rsa`.
    pub algorithm: String,
    /// How many certificates are kept; 0 or nothing is 1.
    pub max_items: usize,
    /// `clientAuth`, `serverAuth`: asked for in requests and expected in certificates.
    pub extended_key_usage: Vec<String>,
    /// DNS names and IP addresses for requests.
    pub alternative_names: Vec<String>,
    /// The type is left out.
    pub disabled: bool,
    /// Certificates of this type are made here, not by an authority.
    pub self_signed: bool,
    /// Role in the SPIFFE identity of the certificate. Types named like a role of Muster's have that
    /// one without being told; others have none.
    pub role: Option<String>,
    /// What the plugin needs.
    pub params: RawModuleParams,
}

/// `params` of one entry; which keys are needed depends on the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawModuleParams {
    /// Files: the folder of this type.
    pub storage_path: Option<PathBuf>,
    /// Token: the PKCS#11 library.
    pub library: Option<PathBuf>,
    /// Token: its label. The label that a new token gets, too.
    pub token_label: Option<String>,
    /// Token: its serial number, if the label is not enough to tell it.
    pub token_serial: Option<String>,
    /// Token: the slot by id, if the label is not enough to tell it.
    pub slot_id: Option<u64>,
    /// Token: the slot by position in the library's list.
    pub slot_index: Option<usize>,
    /// Token: the file with the user PIN, made with a new token.
    pub user_pin_path: Option<PathBuf>,
    /// Token: whether URLs name the library; true unless said otherwise.
    pub module_path_in_url: Option<bool>,
    /// Token: who owns the PIN file.
    pub uid: Option<u32>,
    /// Token: whose group the PIN file has.
    pub gid: Option<u32>,
}

/// What a certificate may be used for, as far as Muster asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPurpose {
    /// To be known as a client, `clientAuth`.
    ClientAuth,
    /// To be known as a server, `serverAuth`.
    ServerAuth,
}

/// An alternative name of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlternativeName {
    /// A host name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// Where the keys of a type live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In files of one folder, which belongs to the type alone.
    Files {
        /// The folder.
        folder: PathBuf,
    },
    /// In a PKCS#11 token, which types may share.
    Token(TokenConfig),
}

/// Which token, and how to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// The PKCS#11 library.
    pub library: PathBuf,
    /// The token's label.
    pub label: String,
    /// Further marks that the token must have, or that a free slot must have to become the token.
    pub place: TokenPlace,
    /// The file with the user PIN.
    pub pin_file: PathBuf,
    /// Owner and group that the PIN file gets.
    pub pin_owner: (Option<u32>, Option<u32>),
    /// Whether URLs name the library.
    pub module_path_in_url: bool,
}

/// Where a token is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TokenPlace {
    /// In any slot.
    #[default]
    AnySlot,
    /// In any slot; its serial number is this one.
    Serial(String),
    /// In the slot with this id.
    SlotId(u64),
    /// In the slot at this position of the library's list, from 0.
    SlotIndex(usize),
}

/// How certificates of one type are kept; cannot be invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleConfig {
    /// The type.
    pub cert_type: CertType,
    /// Kind of the keys.
    pub algorithm: KeyAlgorithm,
    /// How many certificates are kept, at least 1.
    pub max_items: usize,
    /// What certificates are for.
    pub purposes: Vec<KeyPurpose>,
    /// Names for requests.
    pub alternative_names: Vec<AlternativeName>,
    /// The type is left out.
    pub disabled: bool,
    /// Certificates are made here.
    pub self_signed: bool,
    /// Role in the certificate's SPIFFE identity.
    pub role: Option<Role>,
    /// Where keys live.
    pub storage: Storage,
}

/// Why an entry of `certModules` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ModuleConfigError {
    /// The key within the entry, as `params.storagePath`.
    pub key: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

fn refuse<T>(key: &'static str, reason: impl Into<String>) -> Result<T, ModuleConfigError> {
    let reason = reason.into();
    Err(ModuleConfigError { key, reason })
}

impl TryFrom<RawModuleConfig> for ModuleConfig {
    type Error = ModuleConfigError;

    fn try_from(raw: RawModuleConfig) -> Result<Self, Self::Error> {
        let cert_type = match CertType::new(raw.id) {
            Ok(cert_type) => cert_type,
            Err(error) => return refuse("id", error.to_string()),
        };
        let algorithm = match raw.algorithm.as_str() {
            "" | "ecc" => KeyAlgorithm::EcP384,
            "rsa" => KeyAlgorithm::Rsa2048,
            other => {
                return refuse("algorithm", format!("expected ecc or rsa, found {other:?}"));
            }
        };
        let max_items = raw.max_items.max(1);
        if max_items > MAX_ITEMS {
            return refuse("maxItems", format!("at most {MAX_ITEMS}"));
        }
        let storage = match raw.plugin.as_str() {
            "swmodule" | "file" => files(&raw.params, algorithm)?,
            "pkcs11module" | "pkcs11" => Storage::Token(token(&raw.params)?),
            other => {
                return refuse(
                    "plugin",
                    format!("expected swmodule or pkcs11module, found {other:?}"),
                );
            }
        };
        let role = match &raw.role {
            Some(name) => match Role::new(name) {
                Ok(role) => Some(role),
                Err(error) => return refuse("role", error.to_string()),
            },
            None => match Role::new(cert_type.as_str()) {
                Ok(Role::Custom(_)) | Err(_) => None,
                Ok(role) => Some(role),
            },
        };
        Ok(Self {
            algorithm,
            max_items,
            purposes: purposes(&raw.extended_key_usage)?,
            alternative_names: alternative_names(&raw.alternative_names)?,
            disabled: raw.disabled,
            self_signed: raw.self_signed,
            role,
            storage,
            cert_type,
        })
    }
}

fn purposes(words: &[String]) -> Result<Vec<KeyPurpose>, ModuleConfigError> {
    let mut purposes = Vec::new();
    for word in words {
        let purpose = match word.as_str() {
            "clientAuth" => KeyPurpose::ClientAuth,
            "serverAuth" => KeyPurpose::ServerAuth,
            other => {
                return refuse(
                    "extendedKeyUsage",
                    format!("expected clientAuth or serverAuth, found {other:?}"),
                );
            }
        };
        if !purposes.contains(&purpose) {
            purposes.push(purpose);
        }
    }
    Ok(purposes)
}

fn alternative_names(names: &[String]) -> Result<Vec<AlternativeName>, ModuleConfigError> {
    const KEY: &str = "alternativeNames";
    if names.len() > MAX_ALTERNATIVE_NAMES {
        return refuse(KEY, format!("at most {MAX_ALTERNATIVE_NAMES} names"));
    }
    let mut checked = Vec::new();
    for name in names {
        if let Ok(address) = name.parse() {
            checked.push(AlternativeName::Ip(address));
            continue;
        }
        let allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'*' | b'_');
        if !(1..=MAX_NAME_LEN).contains(&name.len()) || !name.bytes().all(allowed) {
            return refuse(
                KEY,
                format!("{name:?} is neither a host name nor an address"),
            );
        }
        checked.push(AlternativeName::Dns(name.clone()));
    }
    Ok(checked)
}

fn files(params: &RawModuleParams, algorithm: KeyAlgorithm) -> Result<Storage, ModuleConfigError> {
    if algorithm != KeyAlgorithm::EcP384 {
        return refuse(
            "algorithm",
            "keys in files are EC P-384 (ecc); RSA keys are made in a token (pkcs11module)",
        );
    }
    let folder = absolute(params.storage_path.as_deref(), "params.storagePath")?;
    Ok(Storage::Files { folder })
}

fn token(params: &RawModuleParams) -> Result<TokenConfig, ModuleConfigError> {
    let label = params.token_label.clone().unwrap_or_default();
    if !(1..=MAX_TOKEN_LABEL).contains(&label.len()) || label.ends_with(' ') {
        return refuse(
            "params.tokenLabel",
            format!("expected 1 to {MAX_TOKEN_LABEL} bytes without a space at the end"),
        );
    }
    let place = match (&params.token_serial, params.slot_id, params.slot_index) {
        (None, None, None) => TokenPlace::AnySlot,
        (Some(serial), None, None) => TokenPlace::Serial(serial.clone()),
        (None, Some(id), None) => TokenPlace::SlotId(id),
        (None, None, Some(index)) => TokenPlace::SlotIndex(index),
        _ => {
            return refuse(
                "params.slotId",
                "give at most one of tokenSerial, slotId and slotIndex",
            );
        }
    };
    Ok(TokenConfig {
        library: absolute(params.library.as_deref(), "params.library")?,
        label,
        place,
        pin_file: absolute(params.user_pin_path.as_deref(), "params.userPinPath")?,
        pin_owner: (params.uid, params.gid),
        module_path_in_url: params.module_path_in_url.unwrap_or(true),
    })
}

/// URLs carry the path to other processes, which have other working folders.
fn absolute(path: Option<&Path>, key: &'static str) -> Result<PathBuf, ModuleConfigError> {
    match path {
        Some(path) if path.is_absolute() => Ok(path.to_owned()),
        Some(path) => refuse(key, format!("{} is not an absolute path", path.display())),
        None => refuse(key, "is missing"),
    }
}

#[cfg(test)]
mod tests;
