//! Digests of what streams by.

use muster_api::domain::{Digest, DigestAlgorithm};
use sha2::{Digest as _, Sha256, Sha512};

/// Computes the digest that a blob is to have.
#[derive(Debug, Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn like(digest: &Digest) -> Self {
        match digest.algorithm() {
            DigestAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
            DigestAlgorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest::from_sha256(hasher.finalize().into()),
            Self::Sha512(hasher) => Digest::from_sha512(hasher.finalize().into()),
        }
    }
}

/// Whether bytes are what a digest says.
pub(crate) fn is_of(digest: &Digest, bytes: &[u8]) -> bool {
    let mut hasher = Hasher::like(digest);
    hasher.update(bytes);
    hasher.finish() == *digest
}

/// The SHA-256 digest of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest::from_sha256(Sha256::digest(bytes).into())
}
