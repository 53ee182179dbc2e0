//! Secrets: how they are made, and what is kept of them.

use std::fmt;

use muster_api::domain::InstanceIdent;
use ring::rand::SecureRandom;
use ring::{digest, hmac};
use zeroize::Zeroizing;

/// 256 bits.
pub(crate) const BYTES: usize = 32;

/// Keeps this use of the key apart from any other that may ever come.
const CONTEXT: &[u8] = b"muster instance secret 1\0";

/// What an instance proves itself with. Shown only by [`expose`](Self::expose).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text: 64 hexadecimal digits.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(self.expose())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// What is kept of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SecretHash([u8; BYTES]);

impl SecretHash {
    /// Of whatever somebody shows.
    pub(crate) fn of(shown: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, shown.as_bytes());
        let mut hash = [0; BYTES];
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The key that all secrets of a node are made with.
pub(crate) struct NodeKey(hmac::Key);

impl NodeKey {
    pub(crate) fn new(bytes: &[u8; BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    pub(crate) fn secret(&self, nonce: &[u8], instance: &InstanceIdent) -> Secret {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(CONTEXT);
        // The length first: no nonce and name can be read as another nonce and name.
        context.update(&(nonce.len() as u64).to_le_bytes());
        context.update(nonce);
        context.update(instance.to_string().as_bytes());
        Secret(Zeroizing::new(hex::encode(context.sign())))
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(redacted)")
    }
}

/// The system's generator of randomness failed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the kernel gives no random numbers")]
pub struct NoRandomness;

/// 256 bits from the kernel's generator.
pub(crate) fn random() -> Result<Zeroizing<[u8; BYTES]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    ring::rand::SystemRandom::new()
        .fill(bytes.as_mut_slice())
        .map_err(|_| NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use muster_api::domain::{ItemId, ItemType, SubjectId};
    use proptest::prelude::*;

    use super::*;

    fn ident(item: &str, subject: &str, instance: u64) -> InstanceIdent {
        InstanceIdent {
            item_id: ItemId::new(item).unwrap(),
            subject_id: SubjectId::new(subject).unwrap(),
            instance,
            item_type: ItemType::Service,
            preinstalled: false,
        }
    }

    #[test]
    fn a_secret_shows_only_when_asked() {
        let secret = NodeKey::new(&[7; BYTES]).secret(&[1; BYTES], &ident("i", "s", 0));
        assert_eq!(secret.expose().len(), 64);
        assert!(!format!("{secret:?}").contains(secret.expose()));
        assert!(!format!("{:?}", NodeKey::new(&[7; BYTES])).contains('7'));
    }

    /// Written down so that an upgrade which would make running instances strangers is noticed.
    #[test]
    fn the_derivation_never_changes() {
        let secret = NodeKey::new(&[7; BYTES]).secret(&[1; BYTES], &ident("i", "s", 0));
        assert_eq!(
            secret.expose(),
            "b7c3f9bd69fd9394f629e06010930eded4bc78ed8a5be005aae78dc00469c083"
        );
    }

    #[test]
    fn randomness_differs() {
        assert_ne!(*random().unwrap(), *random().unwrap());
    }

    proptest! {
        #[test]
        fn everything_that_goes_in_changes_the_secret(
            key in any::<[u8; BYTES]>(), nonce in any::<[u8; BYTES]>(), flip in 0..BYTES, instance in any::<u64>(),
        ) {
            let make = |key: &[u8; BYTES], nonce: &[u8], instance| {
                NodeKey::new(key).secret(nonce, &ident("i", "s", instance))
            };
            let secret = make(&key, &nonce, instance);
            prop_assert_eq!(&make(&key, &nonce, instance), &secret);
            let (mut other_key, mut other_nonce) = (key, nonce);
            other_key[flip] ^= 1;
            other_nonce[flip] ^= 1;
            prop_assert_ne!(&make(&other_key, &nonce, instance), &secret);
            prop_assert_ne!(&make(&key, &other_nonce, instance), &secret);
            prop_assert_ne!(&make(&key, &nonce, instance ^ 1), &secret);
            prop_assert_ne!(&make(&key, &nonce[1..], instance), &secret);
        }
    }
}
