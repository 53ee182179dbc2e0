//! Issuing, renewing and revoking.

use std::fmt;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData, SubjectPublicKeyInfo};
use zeroize::Zeroizing;

use super::Authority;
use super::error::{IssueCertError, RevokeCertError};
use super::signer::public_key_hex;
use crate::faults;
use crate::ledger::{Entry, Holder, Issued, Reason, Revocation};
use crate::profile::Profile;
use crate::request::{CertificateRequest, read_key};
use crate::serial::Serial;
use crate::template;
use crate::window::{LEAF_YEARS, Window};

/// A certificate that is recorded and can be handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCert {
    /// Its number.
    pub serial: Serial,
    /// The certificate, then the intermediate's; the root is left out, since peers have it.
    pub chain_pem: String,
    /// What it says.
    pub profile: Profile,
    /// When it is valid.
    pub window: Window,
}

/// A certificate with a key that was made for it.
#[derive(Clone)]
pub struct IssuedKeyPair {
    /// The certificate.
    pub cert: IssuedCert,
    /// The private key, PKCS#8. Wiped when it is dropped; the authority keeps no copy.
    pub key_pem: Zeroizing<String>,
}

impl fmt::Debug for IssuedKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKeyPair")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}

/// What [`Authority::revoke`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// It is revoked now.
    Revoked,
    /// It was; time and reason stay.
    Already,
}

impl Authority {
    /// Certifies the key of a request. The certificate says what the profile says; what the request asks for is ignored.
    pub fn issue_from_csr(
        &mut self,
        request: &CertificateRequest,
        profile: &Profile,
        now: Timestamp,
    ) -> Result<IssuedCert, IssueCertError> {
        self.issue(request.key(), hex::encode(request.key_der()), profile, now)
    }

    /// Makes a key and certifies it, for somebody who has no way to make a request.
    pub fn issue_with_key(
        &mut self,
        profile: &Profile,
        now: Timestamp,
    ) -> Result<IssuedKeyPair, IssueCertError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|source| {
            IssueCertError::MakeKey {
                holder: profile.identity().to_string(),
                source,
            }
        })?;
        let cert = self.issue(&key, public_key_hex(&key), profile, now)?;
        let key_pem = Zeroizing::new(key.serialize_pem());
        Ok(IssuedKeyPair { cert, key_pem })
    }

    /// Certifies the key of an earlier certificate for another year, with the same names. The earlier one stays valid
    /// to its end.
    pub fn renew(&mut self, serial: Serial, now: Timestamp) -> Result<IssuedCert, IssueCertError> {
        let profile = self.renewable(serial)?;
        let recorded = self
            .ledger()
            .get(serial)
            .map(|cert| cert.issued.key.clone())
            .unwrap_or_default();
        let der = hex::decode(&recorded).map_err(|_| IssueCertError::RecordedKey { serial })?;
        let key: SubjectPublicKeyInfo =
            read_key(&der).map_err(|_| IssueCertError::RecordedKey { serial })?;
        self.issue(&key, recorded, &profile, now)
    }

    /// The same with a new key.
    pub fn renew_with_key(
        &mut self,
        serial: Serial,
        now: Timestamp,
    ) -> Result<IssuedKeyPair, IssueCertError> {
        let profile = self.renewable(serial)?;
        self.issue_with_key(&profile, now)
    }

    /// The same for a key that is there already, for instance because a renewal was interrupted.
    pub fn renew_for_key_pem(
        &mut self,
        serial: Serial,
        key_pem: &str,
        now: Timestamp,
    ) -> Result<IssuedCert, IssueCertError> {
        let profile = self.renewable(serial)?;
        let key = KeyPair::from_pem(key_pem).map_err(|source| IssueCertError::MakeKey {
            holder: profile.identity().to_string(),
            source,
        })?;
        self.issue(&key, public_key_hex(&key), &profile, now)
    }

    fn renewable(&self, serial: Serial) -> Result<Profile, IssueCertError> {
        let cert = self
            .ledger()
            .get(serial)
            .ok_or(IssueCertError::Unknown { serial })?;
        if cert.revocation.is_some() {
            return Err(IssueCertError::Revoked { serial });
        }
        cert.profile()
            .cloned()
            .ok_or(IssueCertError::NotAPeer { serial })
    }

    fn issue(
        &mut self,
        key: &impl PublicKeyData,
        key_hex: String,
        profile: &Profile,
        now: Timestamp,
    ) -> Result<IssuedCert, IssueCertError> {
        let holder = || profile.identity().to_string();
        if profile.identity().system != self.system {
            return Err(IssueCertError::OtherSystem {
                authority: self.system.clone(),
                asked: profile.identity().system.clone(),
            });
        }
        let above = self.signer.not_after();
        let window =
            Window::below(now, LEAF_YEARS, Some(above)).ok_or_else(|| IssueCertError::TooLate {
                holder: holder(),
                not_after: above,
            })?;
        let serial = Serial::random();
        let cert = template::peer(profile, serial, window)
            .and_then(|params| params.signed_by(key, self.signer.issuer()))
            .map_err(|source| IssueCertError::Sign {
                holder: holder(),
                source,
            })?;
        muster_fault::hit(faults::SIGNED);
        let issued = Issued {
            serial,
            issuer: self.signer.name(),
            holder: Holder::Peer(profile.clone()),
            window,
            key: key_hex,
        };
        self.record
            .append(Entry::Issued(Box::new(issued)))
            .map_err(IssueCertError::Record)?;
        muster_fault::hit(faults::RECORDED);
        Ok(IssuedCert {
            serial,
            chain_pem: cert.pem() + self.signer.pem(),
            profile: profile.clone(),
            window,
        })
    }

    /// Revokes certificates and signs the list that says so. Nothing is revoked if one of them is not this authority's.
    pub fn revoke(
        &mut self,
        serials: &[Serial],
        reason: Reason,
        now: Timestamp,
    ) -> Result<Vec<RevokeOutcome>, RevokeCertError> {
        for &serial in serials {
            let cert = self
                .ledger()
                .get(serial)
                .ok_or(RevokeCertError::Unknown { serial })?;
            if cert.profile().is_none() {
                return Err(RevokeCertError::IsIntermediate { serial });
            }
        }
        let mut outcomes = Vec::with_capacity(serials.len());
        for &serial in serials {
            if self
                .ledger()
                .get(serial)
                .is_some_and(|cert| cert.revocation.is_some())
            {
                outcomes.push(RevokeOutcome::Already);
                continue;
            }
            let revocation = Revocation {
                serial,
                at: now,
                reason,
            };
            self.record
                .append(Entry::Revoked(revocation))
                .map_err(RevokeCertError::Record)?;
            muster_fault::hit(faults::REVOKED);
            outcomes.push(RevokeOutcome::Revoked);
        }
        self.bring_lists_up_to_date(false, now)
            .map_err(RevokeCertError::Lists)?;
        Ok(outcomes)
    }
}
