//! TLS signatures made inside a token.

use std::fmt;
use std::sync::Arc;

use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::ObjectClass;
use rustls::sign::{Signer, SigningKey};
use rustls::{OtherError, SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::objects::{ObjectName, push_der, push_unsigned};
use super::token::Token;
use crate::names::KeyAlgorithm;

/// Best first.
const RSA_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];
const EC_SCHEMES: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP384_SHA384];

/// What stands before a digest in an RSA PKCS#1 signature, by hash.
const SHA256_INFO: &[u8] = &[
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];
const SHA384_INFO: &[u8] = &[
    0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05,
    0x00, 0x04, 0x30,
];
const SHA512_INFO: &[u8] = &[
    0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03, 0x05,
    0x00, 0x04, 0x40,
];

/// A private key in a token, for rustls servers and clients.
///
/// Messages are hashed here and only the digest goes to the token. Signing blocks the calling thread
/// for as long as the token takes: with SoftHSM about a millisecond. Each signature is a use of the
/// session pool, so a token that was away in between does no harm.
#[derive(Debug, Clone)]
pub struct TokenSigningKey {
    key: Arc<Key>,
}

#[derive(Debug)]
struct Key {
    token: Arc<Token>,
    name: ObjectName,
    algorithm: KeyAlgorithm,
    spki: Vec<u8>,
}

impl TokenSigningKey {
    pub(super) fn new(
        token: Arc<Token>,
        name: ObjectName,
        algorithm: KeyAlgorithm,
        spki: Vec<u8>,
    ) -> Self {
        let key = Arc::new(Key {
            token,
            name,
            algorithm,
            spki,
        });
        Self { key }
    }
}

impl SigningKey for TokenSigningKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let schemes = match self.key.algorithm {
            KeyAlgorithm::EcP384 => EC_SCHEMES,
            KeyAlgorithm::Rsa2048 => RSA_SCHEMES,
        };
        let scheme = *schemes.iter().find(|scheme| offered.contains(scheme))?;
        let key = Arc::clone(&self.key);
        Some(Box::new(TokenSigner { key, scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.key.spki.as_slice()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.key.algorithm {
            KeyAlgorithm::EcP384 => SignatureAlgorithm::ECDSA,
            KeyAlgorithm::Rsa2048 => SignatureAlgorithm::RSA,
        }
    }
}

struct TokenSigner {
    key: Arc<Key>,
    scheme: SignatureScheme,
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner")
            .field("name", &self.key.name)
            .field("scheme", &self.scheme)
            .finish()
    }
}

impl Signer for TokenSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let Some((mechanism, input)) = prepare(self.scheme, message) else {
            return Err(rustls::Error::General(format!(
                "a key in a token does not sign with {:?}",
                self.scheme
            )));
        };
        let Key { token, name, .. } = &*self.key;
        let signed = token.with("sign with", name, |session| {
            let keys = name.find(session, ObjectClass::PRIVATE_KEY)?;
            let key = keys.first().copied();
            // Logged in and not there: the key was removed, or the token is another one.
            let gone = Error::Pkcs11(RvError::KeyHandleInvalid, cryptoki::context::Function::Sign);
            session.sign(&mechanism, key.ok_or(gone)?, &input)
        });
        let signature =
            signed.map_err(|error| rustls::Error::Other(OtherError(Arc::new(error))))?;
        match self.key.algorithm {
            KeyAlgorithm::Rsa2048 => Ok(signature),
            KeyAlgorithm::EcP384 => ecdsa_to_der(&signature).ok_or_else(|| {
                rustls::Error::General("the token made a signature of odd length".to_owned())
            }),
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// What the token is told to do, and with which bytes.
fn prepare(scheme: SignatureScheme, message: &[u8]) -> Option<(Mechanism<'static>, Vec<u8>)> {
    use SignatureScheme as Scheme;
    let digest = match scheme {
        Scheme::RSA_PSS_SHA256 | Scheme::RSA_PKCS1_SHA256 => Sha256::digest(message).to_vec(),
        Scheme::RSA_PSS_SHA384 | Scheme::RSA_PKCS1_SHA384 | Scheme::ECDSA_NISTP384_SHA384 => {
            Sha384::digest(message).to_vec()
        }
        Scheme::RSA_PSS_SHA512 | Scheme::RSA_PKCS1_SHA512 => Sha512::digest(message).to_vec(),
        _ => return None,
    };
    let pss = |hash_alg, mgf, salt: u64| {
        Mechanism::RsaPkcsPss(PkcsPssParams {
            hash_alg,
            mgf,
            s_len: cryptoki::types::Ulong::from(salt),
        })
    };
    let mechanism = match scheme {
        Scheme::ECDSA_NISTP384_SHA384 => Mechanism::Ecdsa,
        Scheme::RSA_PSS_SHA256 => pss(MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, 32),
        Scheme::RSA_PSS_SHA384 => pss(MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, 48),
        Scheme::RSA_PSS_SHA512 => pss(MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, 64),
        _ => Mechanism::RsaPkcs,
    };
    let info = match scheme {
        Scheme::RSA_PKCS1_SHA256 => SHA256_INFO,
        Scheme::RSA_PKCS1_SHA384 => SHA384_INFO,
        Scheme::RSA_PKCS1_SHA512 => SHA512_INFO,
        _ => &[],
    };
    Some((mechanism, [info, &digest].concat()))
}

/// Tokens give the two numbers of an ECDSA signature side by side, TLS wants them in DER.
fn ecdsa_to_der(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.is_empty() || !raw.len().is_multiple_of(2) {
        return None;
    }
    let (r, s) = raw.split_at(raw.len() / 2);
    let mut numbers = Vec::with_capacity(raw.len() + 8);
    push_unsigned(&mut numbers, r);
    push_unsigned(&mut numbers, s);
    let mut der = Vec::with_capacity(numbers.len() + 4);
    push_der(&mut der, 0x30, &numbers);
    Some(der)
}
