//! What makes a URL good: a keyed hash over the blob's digest and the end of the URL's time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use muster_api::domain::Digest;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;

/// The key's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("cannot use the key file {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read it.
    #[error("the key file {} has mode {mode:04o}: others must not read it", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It holds something else.
    #[error("the key file {} does not hold {KEY_BYTES} bytes", path.display())]
    Length {
        /// The file.
        path: PathBuf,
    },
    /// The system has no randomness.
    #[error("cannot make a key: the system gives no random bytes")]
    Random,
}

/// Signs URLs.
pub struct TokenKey(hmac::Key);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

impl TokenKey {
    /// Reads the key, or makes one where there is none.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        match fs::read(path).map(Zeroizing::new) {
            Ok(bytes) => Self::checked(path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(source) => Err(io_error(path, source)),
        }
    }

    fn checked(path: &Path, bytes: &[u8]) -> Result<Self, KeyFileError> {
        let facts = fs::metadata(path).map_err(|source| io_error(path, source))?;
        let mode = facts.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Readable {
                path: path.to_owned(),
                mode,
            });
        }
        if bytes.len() != KEY_BYTES {
            return Err(KeyFileError::Length {
                path: path.to_owned(),
            });
        }
        Ok(Self::from_bytes(bytes))
    }

    /// Whole or not at all: a key that was cut short would be refused at the next start.
    fn make(path: &Path) -> Result<Self, KeyFileError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new()
            .fill(&mut *bytes)
            .map_err(|_| KeyFileError::Random)?;
        let new = path.with_extension("new");
        let write = || {
            let _ = fs::remove_file(&new);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&*bytes)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|source| io_error(path, source))?;
        Ok(Self::from_bytes(&*bytes))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The token for a blob until `expires`, in seconds since 1970.
    pub(crate) fn sign(&self, digest: &Digest, expires: u64) -> String {
        hex::encode(hmac::sign(&self.0, message(digest, expires).as_bytes()))
    }

    /// Whether a token is the one for this blob and time, found out in constant time.
    pub(crate) fn is_good(&self, digest: &Digest, expires: u64, token: &str) -> bool {
        let Ok(token) = hex::decode(token) else {
            return false;
        };
        hmac::verify(&self.0, message(digest, expires).as_bytes(), &token).is_ok()
    }
}

fn message(digest: &Digest, expires: u64) -> String {
    format!("muster blob {digest} until {expires}")
}

fn io_error(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_blob_and_time_only() {
        let key = TokenKey::from_bytes(&[7; KEY_BYTES]);
        let (one, other) = (Digest::from_sha256([1; 32]), Digest::from_sha256([2; 32]));
        let token = key.sign(&one, 100);
        assert!(key.is_good(&one, 100, &token));
        assert!(!key.is_good(&other, 100, &token));
        assert!(!key.is_good(&one, 101, &token));
        assert!(!key.is_good(&one, 100, &token[2..]));
        assert!(!key.is_good(&one, 100, "no hex"));
        let foreign = TokenKey::from_bytes(&[8; KEY_BYTES]);
        assert!(!foreign.is_good(&one, 100, &token));
    }

    #[test]
    fn the_key_outlives_a_restart_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        let digest = Digest::from_sha256([1; 32]);
        let token = TokenKey::open(&path).unwrap().sign(&digest, 5);
        assert!(TokenKey::open(&path).unwrap().is_good(&digest, 5, &token));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = TokenKey::open(&path).unwrap_err();
        assert!(matches!(
            refused,
            KeyFileError::Readable { mode: 0o640, .. }
        ));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        let refused = TokenKey::open(&path).unwrap_err();
        assert!(matches!(refused, KeyFileError::Length { .. }));
    }

    #[test]
    fn a_key_that_was_half_made_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        fs::write(path.with_extension("new"), "half").unwrap();
        TokenKey::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), KEY_BYTES);
    }
}
