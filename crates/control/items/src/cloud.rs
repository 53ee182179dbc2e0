//! What the cloud says about a blob, and who asks it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use muster_api::domain::{AosError, Digest};
use muster_image::BoxError;
use zeroize::Zeroizing;

/// Whoever asks the cloud about blobs.
pub trait BlobInfos: Send + Sync + fmt::Debug + 'static {
    /// Where a blob is and how it is protected. An answer is asked for anew whenever its URLs have failed.
    fn info(&self, digest: Digest) -> BoxFuture<'_, Result<BlobInfo, BoxError>>;
}

/// Hears of downloads from the cloud. Called from within them, so it only takes note.
pub trait DownloadEvents: Send + Sync + fmt::Debug + 'static {
    /// Something has happened to a download.
    fn happened(&self, event: DownloadEvent);
}

/// The link to the cloud, as far as items need it.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// Says where blobs are.
    pub infos: Arc<dyn BlobInfos>,
    /// Is told how downloads do.
    pub events: Arc<dyn DownloadEvents>,
}

/// What the cloud says about a blob. All of it is claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Where it can be had, the best first.
    pub urls: Vec<String>,
    /// SHA-256 of what stands behind the URLs, encrypted if it is.
    pub sha256: [u8; 32],
    /// How many bytes that has.
    pub size: u64,
    /// How it is encrypted.
    pub decrypt: Option<DecryptInfo>,
    /// Who signed it.
    pub sign: Option<SignInfo>,
}

/// How a blob is encrypted. The key is wiped from memory when this is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DecryptInfo {
    /// With what.
    pub cipher: BlockCipher,
    /// Where the cipher starts.
    pub iv: Vec<u8>,
    /// The key.
    pub key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for DecryptInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecryptInfo")
            .field("cipher", &self.cipher)
            .finish_non_exhaustive()
    }
}

/// A cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCipher {
    /// `AES256/CBC/pkcs7`.
    Aes256Cbc,
    /// `AES256/GCM`: the tag of 16 bytes stands at the end.
    Aes256Gcm,
}

/// Who signed a blob. What is signed is its content without encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInfo {
    /// Which chain of the desired status the signer's certificate heads.
    pub chain: String,
    /// How it was signed.
    pub algorithm: SignatureAlgorithm,
    /// The signature.
    pub value: Vec<u8>,
    /// When it was signed: the certificates must have been valid then.
    pub at: Timestamp,
}

/// How something was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// `RSA/SHA256`: PKCS #1, version 1.5.
    RsaSha256,
    /// `EC/SHA256`: ECDSA on the curve of the certificate, in DER.
    EcSha256,
}

/// The name of a method that is not known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no {kind} that is known here; expected one of {known:?}")]
pub struct UnknownMethod {
    /// What was to be read.
    pub kind: &'static str,
    /// What stands there.
    pub name: String,
    /// What could stand there.
    pub known: &'static [&'static str],
}

/// Longer names are cut where they are shown.
const SHOWN: usize = 64;

fn unknown(kind: &'static str, name: &str, known: &'static [&'static str]) -> UnknownMethod {
    UnknownMethod {
        kind,
        name: name.chars().take(SHOWN).collect(),
        known,
    }
}

/// Parts between slashes in lower case; clouds write an empty one at the end.
fn parts(name: &str) -> Vec<String> {
    let name = name.trim_end_matches('/');
    name.split('/').map(str::to_ascii_lowercase).collect()
}

impl FromStr for BlockCipher {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let parts = parts(name);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["aes256", "cbc", "pkcs7"] | ["aes256", "cbc"] => Ok(Self::Aes256Cbc),
            ["aes256", "gcm"] | ["aes256", "gcm", "nopadding"] => Ok(Self::Aes256Gcm),
            _ => Err(unknown("cipher", name, &["AES256/CBC/pkcs7", "AES256/GCM"])),
        }
    }
}

impl FromStr for SignatureAlgorithm {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let parts = parts(name);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["rsa", "sha256"] | ["rsa", "sha256", "pkcs1v1_5"] => Ok(Self::RsaSha256),
            ["ec", "sha256"] => Ok(Self::EcSha256),
            _ => Err(unknown("signature", name, &["RSA/SHA256", "EC/SHA256"])),
        }
    }
}

/// How a download does.
#[derive(Debug, Clone, PartialEq)]
pub struct DownloadEvent {
    /// Of which blob.
    pub digest: Digest,
    /// From where, without anything secret.
    pub url: String,
    /// What has come, as it stands behind the URL.
    pub downloaded_bytes: u64,
    /// What there is to come.
    pub total_bytes: u64,
    /// What has happened.
    pub state: DownloadState,
}

/// What has happened to a download.
#[derive(Debug, Clone, PartialEq)]
pub enum DownloadState {
    /// Bytes come.
    Started,
    /// Nobody wants it at the moment. What has come is kept for later.
    Paused,
    /// It broke off. It is tried again, here or elsewhere, unless that was the last try.
    Interrupted(AosError),
    /// Everything has come.
    Finished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_spell_methods_in_several_ways() {
        for name in ["AES256/CBC/pkcs7", "aes256/cbc/PKCS7", "AES256/CBC"] {
            assert_eq!(name.parse(), Ok(BlockCipher::Aes256Cbc));
        }
        for name in ["AES256/GCM/", "AES256/GCM"] {
            assert_eq!(name.parse(), Ok(BlockCipher::Aes256Gcm));
        }
        for name in ["RSA/SHA256", "RSA/SHA256/PKCS1v1_5"] {
            assert_eq!(name.parse(), Ok(SignatureAlgorithm::RsaSha256));
        }
        assert_eq!("EC/SHA256".parse(), Ok(SignatureAlgorithm::EcSha256));
        for name in ["", "/", "AES128/CBC/pkcs7", "AES256/ECB"] {
            assert!(name.parse::<BlockCipher>().is_err(), "{name}");
        }
        for name in ["RSA/SHA1", "RSA/SHA256/PSS", "EC", "none"] {
            assert!(name.parse::<SignatureAlgorithm>().is_err(), "{name}");
        }
        let error = "x"
            .repeat(1000)
            .parse::<BlockCipher>()
            .expect_err("too long");
        assert!(error.to_string().len() < 200);
    }

    #[test]
    fn keys_are_not_shown() {
        let info = DecryptInfo {
            cipher: BlockCipher::Aes256Gcm,
            iv: vec![77; 12],
            key: Zeroizing::new(vec![66; 32]),
        };
        let shown = format!("{info:?} {info:#?}");
        assert!(!shown.contains("66") && !shown.contains("77"), "{shown}");
    }
}
