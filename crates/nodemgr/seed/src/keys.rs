//! A manager's keys, all from one secret.

use std::fmt;
use std::path::Path;

use muster_durable::key_file::{self, KeyFileError};
use muster_mapping::MachineSpec;
use muster_provider::{ClientToken, Secret, SshSeed};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use zeroize::Zeroizing;

use crate::documents::DEFAULT_USER;
use crate::openssh::Pair;

/// Changing it changes every key of every machine.
const SALT: &[u8] = b"muster machine keys, first edition";
const HOST: &[u8] = b"host";
const CLIENT: &[u8] = b"client";

/// Why a manager has no keys.
#[derive(Debug, thiserror::Error)]
#[error("the manager's secret cannot be used")]
pub struct OpenKeysError(#[source] KeyFileError);

/// The keys of a manager and of all its machines.
pub struct ManagerKeys(Prk);

impl fmt::Debug for ManagerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagerKeys")
    }
}

/// The key that a manager logs in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientKey {
    /// OpenSSH's PEM.
    pub private: Secret,
    /// A line of OpenSSH's.
    pub public: String,
}

/// How long a key is.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

impl ManagerKeys {
    /// Reads the manager's secret, or draws and keeps one if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or made, or others may read it.
    pub fn open(path: &Path) -> Result<Self, OpenKeysError> {
        let secret = key_file::open_or_make::<32>(path, |_| {}).map_err(OpenKeysError)?;
        Ok(Self::from_secret(&secret))
    }

    /// The keys that follow from a secret.
    #[must_use]
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        Self(Salt::new(HKDF_SHA256, SALT).extract(secret))
    }

    fn pair(&self, purpose: &[&[u8]]) -> Pair {
        let mut seed = Zeroizing::new([0; 32]);
        self.0
            .expand(purpose, Length)
            .and_then(|key| key.fill(seed.as_mut_slice()))
            .expect("one block of a hash is not too long");
        Pair::from_seed(seed)
    }

    /// The key to log in with.
    #[must_use]
    pub fn client(&self) -> ClientKey {
        let pair = self.pair(&[CLIENT]);
        ClientKey {
            private: Secret::new(pair.private_pem().to_string()),
            public: pair.public_line(),
        }
    }

    /// What the machine of an order is known by.
    #[must_use]
    pub fn host_public(&self, token: &ClientToken) -> String {
        self.host(token).public_line()
    }

    fn host(&self, token: &ClientToken) -> Pair {
        self.pair(&[HOST, token.as_str().as_bytes()])
    }

    /// The keys of the machine of an order. The manager may log in, and whoever the specification names.
    #[must_use]
    pub fn seed(&self, token: &ClientToken, spec: &MachineSpec) -> SshSeed {
        let host = self.host(token);
        let manager = self.pair(&[CLIENT]).public_line();
        SshSeed {
            user: spec.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned()),
            authorized_keys: [manager].into_iter().chain(spec.ssh_keys.clone()).collect(),
            host_private: Secret::new(host.private_pem().to_string()),
            host_public: host.public_line(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn token(text: &str) -> ClientToken {
        ClientToken::new(text).unwrap()
    }

    #[test]
    fn keys_follow_from_the_secret_and_differ_by_order_and_purpose() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let first = ManagerKeys::open(&path).unwrap();
        let again = ManagerKeys::open(&path).unwrap();
        assert_eq!(first.client(), again.client());
        assert_eq!(
            first.host_public(&token("a")),
            again.host_public(&token("a"))
        );
        let other = ManagerKeys::from_secret(&[1; 32]);
        let publics = BTreeSet::from([
            first.client().public,
            first.host_public(&token("a")),
            first.host_public(&token("b")),
            other.client().public,
            other.host_public(&token("a")),
        ]);
        assert_eq!(publics.len(), 5);
    }

    #[test]
    fn the_manager_and_those_it_names_may_log_in() {
        let keys = ManagerKeys::from_secret(&[2; 32]);
        let spec = MachineSpec {
            user: Some("builder".to_owned()),
            ssh_keys: vec!["ssh-ed25519 AAAA anna".to_owned()],
            ..MachineSpec::default()
        };
        let seed = keys.seed(&token("a"), &spec);
        assert_eq!(seed.user, "builder");
        let lines = [keys.client().public, "ssh-ed25519 AAAA anna".to_owned()];
        assert_eq!(seed.authorized_keys, lines);
        assert_eq!(seed.host_public, keys.host_public(&token("a")));
        let shown = format!("{seed:?} {keys:?} {:?}", keys.client());
        assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    }

    /// A change of the derivation would lock every manager out of its machines.
    #[test]
    fn keys_stay_what_they_are() {
        let keys = ManagerKeys::from_secret(&[3; 32]);
        assert_eq!(keys.client().public, CLIENT_OF_THREES);
        assert_eq!(keys.host_public(&token("order")), HOST_OF_THREES);
    }

    const CLIENT_OF_THREES: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGq8HDcazRsd8UuyrMXrLceglAHJxwTZFonQxJTBZNIU";
    const HOST_OF_THREES: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBrzT6VRTEef8t0AWB9dPPhRxccFdx+ZulMOIWASbyBJ";
}
