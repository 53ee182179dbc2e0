//! Whether a blob was signed by somebody who may. Pure.
//!
//! What is signed is the content of a blob, by way of its SHA-256, and that is what its digest is. So nothing of the blob itself is
//! needed, and a blob that nobody signed is not even asked for.
//!
//! Which certificates may sign is said by the chains of the desired status; that they may is said by a configured authority, which
//! every chain must lead to. Extended key usages do not count: the certificates that items are signed with are also those that
//! their owners log in with. Certificates must have been valid when the signature was made, and must not be revoked now.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::domain::{Digest, DigestAlgorithm};
use muster_desired::Trust;
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use p256::pkcs8::DecodePublicKey;
use rsa::traits::PublicKeyParts;
use rsa::{Pkcs1v15Sign, RsaPublicKey};
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeIdIter,
    OwnedCertRevocationList, RevocationOptionsBuilder,
};

use crate::cloud::{SignInfo, SignatureAlgorithm};
use crate::settings::SignaturePolicy;

/// No chain of a real authority is longer.
const LONGEST_CHAIN: usize = 10;
/// No certificate is larger, in base 64.
const LARGEST_CERTIFICATE: usize = 64 << 10;
/// Shorter keys of RSA can be broken.
const SHORTEST_RSA_BYTES: usize = 256;
/// `DigestInfo` of SHA-256, up to the hash itself.
const SHA256_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];

/// Why a blob does not count as signed.
#[derive(Debug, thiserror::Error)]
pub enum VerifySignatureError {
    /// There is no signature, and there must be one.
    #[error("nobody has signed it")]
    Unsigned,
    /// No authority is configured, so no chain can lead to one.
    #[error("no authority is configured that signers could be certified by")]
    NoRoots,
    /// A configured authority is none.
    #[error("a configured authority has no usable certificate")]
    Root(#[source] webpki::Error),
    /// A configured revocation list is none.
    #[error("a configured revocation list cannot be used")]
    RevocationList(#[source] webpki::Error),
    /// The digest is not what is signed.
    #[error("signatures are over SHA-256, and it is known by {algorithm}")]
    Digest {
        /// The digest's algorithm.
        algorithm: &'static str,
    },
    /// The chain is not there.
    #[error("the desired status has no chain {chain:?}")]
    NoChain {
        /// Its name.
        chain: String,
    },
    /// The chain has no certificates, or more than any real one.
    #[error("chain {chain:?} has {length} certificates")]
    ChainLength {
        /// Its name.
        chain: String,
        /// How many.
        length: usize,
    },
    /// A certificate of the chain is not there or cannot be read.
    #[error("the desired status has no usable certificate {fingerprint:?} of chain {chain:?}")]
    NoCertificate {
        /// The chain.
        chain: String,
        /// The certificate.
        fingerprint: String,
    },
    /// The chain leads to no configured authority.
    #[error("chain {chain:?} is not trusted")]
    Chain {
        /// Its name.
        chain: String,
        /// Why.
        #[source]
        source: webpki::Error,
    },
    /// The signer's key is of another kind than the signature, or too weak.
    #[error("the key of the signer of chain {chain:?} cannot be used")]
    Key {
        /// The chain.
        chain: String,
    },
    /// The signature is not the signer's, or not of this blob.
    #[error("the signature by chain {chain:?} is wrong")]
    Signature {
        /// The chain.
        chain: String,
    },
}

/// Every usage will do.
struct AnyUsage;

impl ExtendedKeyUsageValidator for AnyUsage {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}

/// Whether the blob may be used.
pub(crate) fn verify(
    digest: &Digest,
    sign: Option<&SignInfo>,
    trust: &Trust,
    policy: &SignaturePolicy,
) -> Result<(), VerifySignatureError> {
    let Some(sign) = sign else {
        return match policy.accept_unsigned {
            true => Ok(()),
            false => Err(VerifySignatureError::Unsigned),
        };
    };
    let algorithm = digest.algorithm();
    if algorithm != DigestAlgorithm::Sha256 {
        let algorithm = algorithm.as_str();
        return Err(VerifySignatureError::Digest { algorithm });
    }
    let chain = certificates(&sign.chain, trust)?;
    let key = signer_key(sign, &chain, policy)?;
    verify_with(&key, digest.as_bytes(), sign)
}

/// The certificates of a chain, the signer's first.
fn certificates(
    chain: &str,
    trust: &Trust,
) -> Result<Vec<CertificateDer<'static>>, VerifySignatureError> {
    let name = || chain.to_owned();
    let fingerprints = trust.chains.get(chain);
    let fingerprints =
        fingerprints.ok_or_else(|| VerifySignatureError::NoChain { chain: name() })?;
    if fingerprints.is_empty() || fingerprints.len() > LONGEST_CHAIN {
        return Err(VerifySignatureError::ChainLength {
            chain: name(),
            length: fingerprints.len(),
        });
    }
    let certificate = |fingerprint: &String| {
        let text = trust.certificates.get(fingerprint);
        let text = text.filter(|text| text.len() <= LARGEST_CERTIFICATE);
        let der = text.and_then(|text| STANDARD.decode(text.trim()).ok());
        let missing = || VerifySignatureError::NoCertificate {
            chain: name(),
            fingerprint: fingerprint.clone(),
        };
        der.map(CertificateDer::from).ok_or_else(missing)
    };
    fingerprints.iter().map(certificate).collect()
}

/// The public key of the signer, after the way from it to an authority was checked.
fn signer_key(
    sign: &SignInfo,
    chain: &[CertificateDer<'static>],
    policy: &SignaturePolicy,
) -> Result<Vec<u8>, VerifySignatureError> {
    if policy.roots.is_empty() {
        return Err(VerifySignatureError::NoRoots);
    }
    let roots: Vec<CertificateDer<'_>> = policy
        .roots
        .iter()
        .map(|root| CertificateDer::from(root.as_slice()))
        .collect();
    let anchors: Result<Vec<TrustAnchor<'_>>, _> =
        roots.iter().map(webpki::anchor_from_trusted_cert).collect();
    let anchors = anchors.map_err(VerifySignatureError::Root)?;
    let untrusted = |source| VerifySignatureError::Chain {
        chain: sign.chain.clone(),
        source,
    };
    let [signer, others @ ..] = chain else {
        return Err(VerifySignatureError::ChainLength {
            chain: sign.chain.clone(),
            length: 0,
        });
    };
    let lists = revocation_lists(policy)?;
    let lists: Vec<&CertRevocationList<'_>> = lists.iter().collect();
    // Without lists there is nothing to look at.
    let revocation = RevocationOptionsBuilder::new(&lists)
        .ok()
        .map(|it| it.build());
    let signer = EndEntityCert::try_from(signer).map_err(untrusted)?;
    let seconds = u64::try_from(sign.at.as_second()).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    signer
        .verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            others,
            at,
            AnyUsage,
            revocation,
            None,
        )
        .map_err(untrusted)?;
    Ok(signer.subject_public_key_info().to_vec())
}

fn revocation_lists(
    policy: &SignaturePolicy,
) -> Result<Vec<CertRevocationList<'static>>, VerifySignatureError> {
    let read = |der: &Vec<u8>| {
        let list = OwnedCertRevocationList::from_der(der);
        let list = list.map_err(VerifySignatureError::RevocationList)?;
        Ok(CertRevocationList::from(list))
    };
    policy.revocation_lists.iter().map(read).collect()
}

fn verify_with(key: &[u8], hash: &[u8], sign: &SignInfo) -> Result<(), VerifySignatureError> {
    let unusable = || VerifySignatureError::Key {
        chain: sign.chain.clone(),
    };
    let is_right = match sign.algorithm {
        SignatureAlgorithm::RsaSha256 => {
            let key = RsaPublicKey::from_public_key_der(key).map_err(|_| unusable())?;
            if key.size() < SHORTEST_RSA_BYTES {
                return Err(unusable());
            }
            let scheme = Pkcs1v15Sign {
                hash_len: Some(hash.len()),
                prefix: Box::new(SHA256_INFO),
            };
            key.verify(scheme, hash, &sign.value).is_ok()
        }
        SignatureAlgorithm::EcSha256 => {
            if let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_der(key) {
                let value = p256::ecdsa::Signature::from_der(&sign.value);
                value.is_ok_and(|value| key.verify_prehash(hash, &value).is_ok())
            } else if let Ok(key) = p384::ecdsa::VerifyingKey::from_public_key_der(key) {
                let value = p384::ecdsa::Signature::from_der(&sign.value);
                value.is_ok_and(|value| key.verify_prehash(hash, &value).is_ok())
            } else {
                return Err(unusable());
            }
        }
    };
    match is_right {
        true => Ok(()),
        false => Err(VerifySignatureError::Signature {
            chain: sign.chain.clone(),
        }),
    }
}

#[cfg(test)]
mod tests;
