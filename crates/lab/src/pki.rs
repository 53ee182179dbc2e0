//! A certificate authority for tests: identities as the product expects them, and every way they can
//! be wrong.
//!
//! [`Pki::new`] makes a self-signed root for one system id, [`Pki::intermediate`] an authority below
//! it, [`Pki::issue`] a certificate with a fresh P-256 key. What is issued carries its own chain (leaf
//! first, root left out), so a peer that trusts only [`Pki::ca_pem`] can verify it.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, RevocationReason, RevokedCertParams, SerialNumber, date_time_ymd,
};

pub use self::spec::CertSpec;
/// Part of [`CertSpec::extended_key_usage`]'s signature.
pub use rcgen::ExtendedKeyUsagePurpose;

mod spec;

/// Why a certificate or list could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A key pair could not be generated.
    #[error("cannot generate a key for {subject:?}")]
    GenerateKey {
        /// Common name the key was for.
        subject: String,
        /// What the generator reported.
        #[source]
        source: rcgen::Error,
    },
    /// A name in the specification cannot stand in a certificate.
    #[error("{kind} name {value:?} cannot be written into a certificate")]
    Name {
        /// Which sort of name.
        kind: &'static str,
        /// The name.
        value: String,
        /// What the encoder reported.
        #[source]
        source: rcgen::Error,
    },
    /// A signing request cannot be read, or is not signed by its own key.
    #[error("cannot use the signing request for {subject:?}")]
    Request {
        /// Common name the certificate was to have.
        subject: String,
        /// What the parser reported.
        #[source]
        source: rcgen::Error,
    },
    /// A certificate could not be signed.
    #[error("cannot sign the certificate of {subject:?}")]
    Sign {
        /// Common name of the certificate.
        subject: String,
        /// What the signer reported.
        #[source]
        source: rcgen::Error,
    },
    /// A certificate was to be revoked by an authority that did not issue it.
    #[error("certificate {serial} was issued by another authority, which alone can revoke it")]
    ForeignCertificate {
        /// Serial of the certificate, in hexadecimal.
        serial: String,
    },
    /// The revocation list could not be signed.
    #[error("cannot sign the revocation list of {issuer:?}")]
    SignCrl {
        /// Common name of the authority.
        issuer: String,
        /// What the signer reported.
        #[source]
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file that was to be made.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
}

/// One certificate authority of a system: the root, or an intermediate below it.
#[derive(Debug)]
pub struct Pki {
    system_id: String,
    name: String,
    issuer: Issuer<'static, KeyPair>,
    root_pem: String,
    /// Intermediates between a leaf of this authority and the root, nearest first.
    chain_pem: String,
    /// Shared by all authorities of one system, so that a serial names one certificate.
    serials: Arc<AtomicU64>,
    revocations: Mutex<Revocations>,
}

#[derive(Debug, Default)]
struct Revocations {
    revoked: Vec<RevokedCertParams>,
    lists_signed: u64,
}

impl Pki {
    /// Makes a root authority for `system_id`.
    pub fn new(system_id: &str) -> Result<Self, PkiError> {
        let name = format!("{system_id} root");
        let key = generate_key(&name)?;
        let serials = Arc::new(AtomicU64::new(0x1000));
        let params = authority_params(&name, system_id, &serials);
        let cert = params.self_signed(&key).map_err(|source| PkiError::Sign {
            subject: name.clone(),
            source,
        })?;
        Ok(Self {
            system_id: system_id.to_owned(),
            name,
            issuer: Issuer::new(params, key),
            root_pem: cert.pem(),
            chain_pem: String::new(),
            serials,
            revocations: Mutex::default(),
        })
    }

    /// Makes an authority signed by this one; what it issues chains up to the same root.
    pub fn intermediate(&self) -> Result<Self, PkiError> {
        let number = self.serials.load(Ordering::Relaxed);
        let name = format!("{} intermediate {number:x}", self.system_id);
        let key = generate_key(&name)?;
        let params = authority_params(&name, &self.system_id, &self.serials);
        let cert = params
            .signed_by(&key, &self.issuer)
            .map_err(|source| PkiError::Sign {
                subject: name.clone(),
                source,
            })?;
        Ok(Self {
            system_id: self.system_id.clone(),
            name,
            issuer: Issuer::new(params, key),
            root_pem: self.root_pem.clone(),
            chain_pem: cert.pem() + &self.chain_pem,
            serials: Arc::clone(&self.serials),
            revocations: Mutex::default(),
        })
    }

    /// Issues a certificate with a fresh key.
    pub fn issue(&self, spec: &CertSpec) -> Result<IssuedCert, PkiError> {
        let subject = spec.subject();
        let key = generate_key(subject)?;
        let serial = next_serial(&self.serials);
        let mut params = spec.params(&self.system_id)?;
        params.serial_number = Some(serial.clone());
        let cert = params
            .signed_by(&key, &self.issuer)
            .map_err(|source| PkiError::Sign {
                subject: subject.to_owned(),
                source,
            })?;
        Ok(IssuedCert {
            cert_pem: cert.pem() + &self.chain_pem,
            key_pem: key.serialize_pem(),
            serial: hex::encode(serial.as_ref()),
            der: cert.der().to_vec(),
            issuer_key: self.issuer.key().subject_public_key_info(),
        })
    }

    /// Issues a certificate for the key of a signing request. The request gives nothing but the key: what
    /// the certificate says is up to `spec`. Leaf first, root left out, as in [`IssuedCert::cert_pem`].
    pub fn sign_request(&self, csr_pem: &str, spec: &CertSpec) -> Result<String, PkiError> {
        let subject = spec.subject().to_owned();
        let request = CertificateSigningRequestParams::from_pem(csr_pem);
        let request = match request {
            Ok(request) => request,
            Err(source) => return Err(PkiError::Request { subject, source }),
        };
        let mut params = spec.params(&self.system_id)?;
        params.serial_number = Some(next_serial(&self.serials));
        match params.signed_by(&request.public_key, &self.issuer) {
            Ok(cert) => Ok(cert.pem() + &self.chain_pem),
            Err(source) => Err(PkiError::Sign { subject, source }),
        }
    }

    /// Puts a certificate of this authority on its revocation list. Doing so twice changes nothing.
    pub fn revoke(&self, cert: &IssuedCert) -> Result<(), PkiError> {
        let foreign = || PkiError::ForeignCertificate {
            serial: cert.serial.clone(),
        };
        if cert.issuer_key != self.issuer.key().subject_public_key_info() {
            return Err(foreign());
        }
        let serial_number = SerialNumber::from(hex::decode(&cert.serial).map_err(|_| foreign())?);
        let mut revocations = self
            .revocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if revocations
            .revoked
            .iter()
            .all(|entry| entry.serial_number != serial_number)
        {
            revocations.revoked.push(RevokedCertParams {
                serial_number,
                revocation_time: date_time_ymd(1970, 1, 1) + since_epoch(SystemTime::now()),
                reason_code: Some(RevocationReason::KeyCompromise),
                invalidity_date: None,
            });
        }
        Ok(())
    }

    /// Signs this authority's revocation list as it stands now, with a number above all earlier ones.
    ///
    /// The list speaks for certificates of this authority only: a verifier that checks the whole
    /// chain needs the list of every authority in it.
    pub fn crl_pem(&self) -> Result<String, PkiError> {
        let mut revocations = self
            .revocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        revocations.lists_signed += 1;
        let now = SystemTime::now();
        let failed = |source| PkiError::SignCrl {
            issuer: self.name.clone(),
            source,
        };
        CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1) + since_epoch(now - Duration::from_mins(1)),
            next_update: date_time_ymd(1970, 1, 1) + since_epoch(now + Duration::from_hours(24)),
            crl_number: SerialNumber::from(revocations.lists_signed),
            issuing_distribution_point: None,
            revoked_certs: revocations.revoked.clone(),
            key_identifier_method: KeyIdMethod::Sha256,
        }
        .signed_by(&self.issuer)
        .and_then(|list| list.pem())
        .map_err(failed)
    }

    /// The root certificate: what peers are told to trust.
    pub fn ca_pem(&self) -> &str {
        &self.root_pem
    }

    /// The system id in every SPIFFE name issued here.
    pub fn system_id(&self) -> &str {
        &self.system_id
    }

    /// Writes the root certificate to `<dir>/<stem>.pem`, atomically.
    pub fn write_ca(&self, dir: &Path, stem: &str) -> Result<PathBuf, PkiError> {
        write_atomically(dir, &format!("{stem}.pem"), self.ca_pem(), PUBLIC_MODE)
    }

    /// Writes [`crl_pem`](Self::crl_pem) to `<dir>/<stem>.crl.pem`, atomically.
    pub fn write_crl(&self, dir: &Path, stem: &str) -> Result<PathBuf, PkiError> {
        write_atomically(
            dir,
            &format!("{stem}.crl.pem"),
            &self.crl_pem()?,
            PUBLIC_MODE,
        )
    }
}

/// A certificate with its key.
#[derive(Clone)]
pub struct IssuedCert {
    /// Leaf first, then the intermediates up to, but without, the root.
    pub cert_pem: String,
    /// The private key, PKCS#8.
    pub key_pem: String,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// The leaf alone.
    pub der: Vec<u8>,
    issuer_key: Vec<u8>,
}

impl fmt::Debug for IssuedCert {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IssuedCert")
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

/// Where [`IssuedCert::write_to`] put the two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertFiles {
    /// The certificate with its chain.
    pub cert: PathBuf,
    /// The private key, readable by its owner only.
    pub key: PathBuf,
}

impl IssuedCert {
    /// Writes `<stem>.crt.pem` and `<stem>.key.pem` into `dir`.
    ///
    /// Each file appears whole or not at all; a rotation replaces the key first, so a reader that sees
    /// the new certificate also finds its key.
    pub fn write_to(&self, dir: &Path, stem: &str) -> Result<CertFiles, PkiError> {
        let key = write_atomically(dir, &format!("{stem}.key.pem"), &self.key_pem, SECRET_MODE)?;
        let cert = write_atomically(dir, &format!("{stem}.crt.pem"), &self.cert_pem, PUBLIC_MODE)?;
        Ok(CertFiles { cert, key })
    }
}

const PUBLIC_MODE: u32 = 0o644;
const SECRET_MODE: u32 = 0o600;

fn write_atomically(dir: &Path, name: &str, text: &str, mode: u32) -> Result<PathBuf, PkiError> {
    let path = dir.join(name);
    let write = || {
        let mut file = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(SECRET_MODE))
            .tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        // Set last and explicitly: the creation mode is subject to the umask.
        file.as_file()
            .set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.persist(&path).map_err(std::io::Error::from).map(drop)
    };
    match write() {
        Ok(()) => Ok(path),
        Err(source) => Err(PkiError::Write { path, source }),
    }
}

fn generate_key(subject: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|source| PkiError::GenerateKey {
        subject: subject.to_owned(),
        source,
    })
}

fn next_serial(serials: &AtomicU64) -> SerialNumber {
    let bytes = serials.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let significant = bytes
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(bytes.len() - 1);
    SerialNumber::from_slice(&bytes[significant..])
}

fn authority_params(name: &str, system_id: &str, serials: &AtomicU64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = SystemTime::now();
    params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(now - Duration::from_hours(24));
    params.not_after =
        date_time_ymd(1970, 1, 1) + since_epoch(now + Duration::from_hours(24 * 365));
    params.serial_number = Some(next_serial(serials));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
        .distinguished_name
        .push(DnType::OrganizationName, system_id);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    params
}

/// To be added to the epoch as rcgen has it, whose type belongs to a crate not depended on here.
fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .expect("certificates are not issued before 1970")
}

#[cfg(test)]
mod tests;
