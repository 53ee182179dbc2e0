//! Whether a certificate chain is what a key of ours was waiting for. Pure: keys, purposes and the time
//! come in, the chain in order goes out.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::KeyPurpose;
use crate::names::KeyId;

/// Longest text that is taken for a chain.
pub(crate) const MAX_PEM: usize = 256 * 1024;
/// Most certificates in a chain, the root included.
pub(crate) const MAX_CERTS: usize = 10;

/// Why a chain was refused. Positions count from 1, in the order of the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckChainError {
    /// More text than any chain has.
    #[error("the certificate chain has {len} bytes, more than {MAX_PEM}")]
    TooLarge {
        /// Length of the text.
        len: usize,
    },
    /// Not PEM.
    #[error("the certificate chain is not well-formed PEM")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// No certificate, or more than a chain has.
    #[error("a chain has 1 to {MAX_CERTS} certificates, this one has {found}")]
    Count {
        /// How many there are.
        found: usize,
    },
    /// Something that is not a certificate.
    #[error("certificate number {position} cannot be read")]
    Certificate {
        /// Which one.
        position: usize,
    },
    /// No certificate has a key of this type.
    #[error(
        "none of the certificates belongs to a key that waits for one; make a key first and have its request signed"
    )]
    ForeignKey,
    /// A certificate is not valid now.
    #[error("certificate number {position} is valid {validity}, and now is {now}")]
    OutsideValidity {
        /// Which one.
        position: usize,
        /// From when to when.
        validity: String,
        /// What the clock says.
        now: String,
    },
    /// The node's own certificate says that it is an authority's.
    #[error("certificate number {position} belongs to the key and says that it is an authority's")]
    LeafIsAuthority {
        /// Which one.
        position: usize,
    },
    /// The node's own certificate is signed by its own key.
    #[error("certificate number {position} is self-signed; its type is for an authority's")]
    SelfSigned {
        /// Which one.
        position: usize,
    },
    /// The certificate is not for what the configuration wants.
    #[error("certificate number {position} does not allow {purpose:?}")]
    Purpose {
        /// Which one.
        position: usize,
        /// What is missing.
        purpose: KeyPurpose,
    },
    /// An issuer is not allowed to issue.
    #[error(
        "certificate number {position} issued another one of the chain without being allowed to"
    )]
    NotAuthority {
        /// Which one.
        position: usize,
    },
    /// An issuer has the right name and not the right key.
    #[error(
        "certificate number {position} is not signed by the one of the chain that has its issuer's name"
    )]
    Signature {
        /// Which one.
        position: usize,
    },
    /// A certificate is no link.
    #[error("certificate number {position} has no place in the chain")]
    Unrelated {
        /// Which one.
        position: usize,
    },
}

/// A chain that can be used with a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckedChain {
    /// The key.
    pub(crate) id: KeyId,
    /// Leaf first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// A certificate with its place in the text.
struct Placed<'a> {
    position: usize,
    cert: X509Certificate<'a>,
}

/// Checks a chain in PEM for one of `keys` (their ids and public halves, as SubjectPublicKeyInfo).
///
/// The order of the text does not matter; what is returned is in order. The root may be there or not.
pub(crate) fn check(
    pem: &str,
    keys: &[(KeyId, Vec<u8>)],
    purposes: &[KeyPurpose],
    now: i64,
) -> Result<CheckedChain, CheckChainError> {
    if pem.len() > MAX_PEM {
        return Err(CheckChainError::TooLarge { len: pem.len() });
    }
    let ders = CertificateDer::pem_slice_iter(pem.as_bytes())
        .take(MAX_CERTS + 1)
        .collect::<Result<Vec<_>, _>>()
        .map_err(CheckChainError::Pem)?;
    if !(1..=MAX_CERTS).contains(&ders.len()) {
        return Err(CheckChainError::Count { found: ders.len() });
    }
    let mut rest = Vec::new();
    for (index, der) in ders.iter().enumerate() {
        let position = index + 1;
        match X509Certificate::from_der(der) {
            Ok(([], cert)) => rest.push(Placed { position, cert }),
            _ => return Err(CheckChainError::Certificate { position }),
        }
    }
    let (id, at) = find_leaf(&rest, keys).ok_or(CheckChainError::ForeignKey)?;
    let leaf = rest.remove(at);
    check_leaf(&leaf, purposes)?;
    let mut ordered = vec![leaf];
    while let Some(issuer) = take_issuer(ordered.last(), &mut rest)? {
        // The leaf is not counted by a path length.
        check_issuer(&issuer, ordered.len() - 1)?;
        ordered.push(issuer);
    }
    if let Some(stranger) = rest.first() {
        return Err(CheckChainError::Unrelated {
            position: stranger.position,
        });
    }
    for placed in &ordered {
        check_validity(placed, now)?;
    }
    let chain = ordered
        .iter()
        .map(|placed| ders[placed.position - 1].clone());
    Ok(CheckedChain {
        id,
        chain: chain.collect(),
    })
}

fn find_leaf(certs: &[Placed<'_>], keys: &[(KeyId, Vec<u8>)]) -> Option<(KeyId, usize)> {
    certs.iter().enumerate().find_map(|(at, placed)| {
        let public = placed.cert.public_key().raw;
        let (id, _) = keys.iter().find(|(_, key)| key == public)?;
        Some((*id, at))
    })
}

fn check_leaf(leaf: &Placed<'_>, purposes: &[KeyPurpose]) -> Result<(), CheckChainError> {
    let position = leaf.position;
    if leaf.cert.is_ca() {
        return Err(CheckChainError::LeafIsAuthority { position });
    }
    if leaf.cert.verify_signature(None).is_ok() {
        return Err(CheckChainError::SelfSigned { position });
    }
    let usage = leaf
        .cert
        .extended_key_usage()
        .map_err(|_| CheckChainError::Certificate { position })?;
    let Some(usage) = usage.map(|extension| extension.value) else {
        // A certificate without the extension is good for everything.
        return Ok(());
    };
    for &purpose in purposes {
        let allowed = usage.any
            || match purpose {
                KeyPurpose::ClientAuth => usage.client_auth,
                KeyPurpose::ServerAuth => usage.server_auth,
            };
        if !allowed {
            return Err(CheckChainError::Purpose { position, purpose });
        }
    }
    Ok(())
}

/// Takes the issuer of `of` out of `rest`. None when it is not there, or when `of` is a root.
fn take_issuer<'a>(
    of: Option<&Placed<'a>>,
    rest: &mut Vec<Placed<'a>>,
) -> Result<Option<Placed<'a>>, CheckChainError> {
    let Some(Placed { position, cert }) = of else {
        return Ok(None);
    };
    let named = |placed: &Placed<'_>| placed.cert.subject().as_raw() == cert.issuer().as_raw();
    let signed = |placed: &Placed<'_>| {
        cert.verify_signature(Some(placed.cert.public_key()))
            .is_ok()
    };
    if let Some(at) = rest
        .iter()
        .position(|placed| named(placed) && signed(placed))
    {
        return Ok(Some(rest.remove(at)));
    }
    if rest.iter().any(named) {
        let position = *position;
        return Err(CheckChainError::Signature { position });
    }
    Ok(None)
}

/// `below` counts the authorities between this one and the leaf.
fn check_issuer(issuer: &Placed<'_>, below: usize) -> Result<(), CheckChainError> {
    let refuse = || CheckChainError::NotAuthority {
        position: issuer.position,
    };
    let constraints = issuer.cert.basic_constraints().map_err(|_| refuse())?;
    let constraints = constraints.ok_or_else(refuse)?.value;
    let deep_enough = constraints
        .path_len_constraint
        .is_none_or(|allowed| usize::try_from(allowed).is_ok_and(|allowed| below <= allowed));
    let usage = issuer.cert.key_usage().map_err(|_| refuse())?;
    let may_sign = usage.is_none_or(|usage| usage.value.key_cert_sign());
    if constraints.ca && deep_enough && may_sign {
        Ok(())
    } else {
        Err(refuse())
    }
}

fn check_validity(placed: &Placed<'_>, now: i64) -> Result<(), CheckChainError> {
    let validity = placed.cert.validity();
    let (from, until) = (&validity.not_before, &validity.not_after);
    if (from.timestamp()..=until.timestamp()).contains(&now) {
        return Ok(());
    }
    let now = x509_parser::time::ASN1Time::from_timestamp(now);
    Err(CheckChainError::OutsideValidity {
        position: placed.position,
        validity: format!("{from} to {until}"),
        now: now.map_or_else(|_| "unknown".to_owned(), |now| now.to_string()),
    })
}

/// A chain as text.
pub(crate) fn to_pem(chain: &[CertificateDer<'_>]) -> String {
    const LINE: usize = 64;
    let mut text = String::new();
    for der in chain {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = BASE64_STANDARD.encode(der);
        while rest.len() > LINE {
            let next = rest.split_off(LINE);
            text.push_str(&rest);
            text.push('\n');
            rest = next;
        }
        text.push_str(&rest);
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests;
