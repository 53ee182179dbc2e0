//! What makes a URL good: a keyed hash over the blob's digest and the end of the URL's time.

use std::path::Path;

use muster_api::domain::Digest;
use muster_durable::key_file::{KeyFileError, open_or_make};
use ring::hmac;

const KEY_BYTES: usize = 32;

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
        let key = open_or_make::<KEY_BYTES>(path, |_| {})?;
        Ok(Self::from_bytes(key.as_slice()))
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

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn the_key_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        let digest = Digest::from_sha256([1; 32]);
        let token = TokenKey::open(&path).unwrap().sign(&digest, 5);
        assert!(TokenKey::open(&path).unwrap().is_good(&digest, 5, &token));
    }

    #[test]
    fn a_key_that_was_half_made_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url.key");
        fs::write(muster_durable::temporary(&path), "half").unwrap();
        TokenKey::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), KEY_BYTES);
    }
}
