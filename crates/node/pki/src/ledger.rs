//! What an authority has done: the pure state behind the record.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use muster_tls::{NodeId, SpiffeId};
use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::serial::Serial;
use crate::window::{Window, is_listed};

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Entry {
    /// A certificate was signed.
    Issued(Box<Issued>),
    /// A certificate was revoked.
    Revoked(Revocation),
    /// A revocation list was signed.
    ListSigned(ListSigned),
}

/// Which certificate of the authority signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IssuerName {
    /// The root: it signs intermediates.
    Root,
    /// The n-th intermediate: it signs everything else.
    Intermediate(u32),
}

impl IssuerName {
    pub(crate) fn file_stem(self) -> String {
        match self {
            Self::Root => "root".to_owned(),
            Self::Intermediate(number) => format!("intermediate-{number}"),
        }
    }
}

impl fmt::Display for IssuerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Intermediate(number) => write!(f, "intermediate {number}"),
        }
    }
}

/// A certificate as it was signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Its number.
    pub serial: Serial,
    /// Who signed it.
    pub issuer: IssuerName,
    /// Whose it is.
    pub holder: Holder,
    /// When it is valid.
    #[serde(flatten)]
    pub window: Window,
    /// The public key: a SubjectPublicKeyInfo in DER, in hexadecimal.
    pub key: String,
}

impl Issued {
    /// The public key, as [`CertDetails::public_key`](crate::CertDetails) has it.
    #[must_use]
    pub fn public_key(&self) -> Option<Vec<u8>> {
        hex::decode(&self.key).ok()
    }
}

/// Whose certificate it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// A process of a node, or a person.
    Peer(Profile),
    /// An intermediate of this authority.
    Intermediate(u32),
}

/// The end of a certificate before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Which certificate.
    pub serial: Serial,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
}

/// Why a certificate was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Not said.
    Unspecified,
    /// Others may know the private key.
    KeyCompromise,
    /// There is a newer one.
    Superseded,
    /// The node or person is gone.
    CessationOfOperation,
    /// The node or person may no longer do what the certificate allows.
    PrivilegeWithdrawn,
}

impl Reason {
    /// All of them, for command lines.
    pub const ALL: [Self; 5] = [
        Self::Unspecified,
        Self::KeyCompromise,
        Self::Superseded,
        Self::CessationOfOperation,
        Self::PrivilegeWithdrawn,
    ];

    /// The word for it, as in the record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::KeyCompromise => "key-compromise",
            Self::Superseded => "superseded",
            Self::CessationOfOperation => "cessation-of-operation",
            Self::PrivilegeWithdrawn => "privilege-withdrawn",
        }
    }
}

/// A revocation list was signed under this number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSigned {
    /// By whom.
    pub issuer: IssuerName,
    /// Each list has a higher one than the list before.
    pub number: u64,
    /// When it is valid.
    #[serde(flatten)]
    pub window: Window,
}

/// A certificate and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedCert {
    /// As it was signed.
    pub issued: Issued,
    /// Whether and why it was revoked.
    pub revocation: Option<Revocation>,
    /// Position among all: later ones are higher.
    order: usize,
}

/// How a certificate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In use, as far as the authority knows.
    Valid,
    /// Past its end.
    Expired,
    /// Ended before that.
    Revoked,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        })
    }
}

impl TrackedCert {
    /// How it stands now.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> Status {
        if self.revocation.is_some() {
            Status::Revoked
        } else if self.issued.window.not_after < now {
            Status::Expired
        } else {
            Status::Valid
        }
    }

    /// Names and identity, unless it is an intermediate's.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        match &self.issued.holder {
            Holder::Peer(profile) => Some(profile),
            Holder::Intermediate(_) => None,
        }
    }
}

/// Why an entry does not follow from those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Two certificates with one number.
    #[error("serial number {serial} is taken")]
    Taken {
        /// The number.
        serial: Serial,
    },
    /// There is no such certificate.
    #[error("no certificate with serial number {serial} was issued here")]
    Unknown {
        /// The number.
        serial: Serial,
    },
    /// It was revoked before; the first time and reason stay.
    #[error("certificate {serial} is revoked already")]
    Revoked {
        /// The number.
        serial: Serial,
    },
    /// List numbers only grow.
    #[error("list {number} of {issuer} is not newer than list {last}")]
    ListNumber {
        /// Whose list.
        issuer: IssuerName,
        /// Its number.
        number: u64,
        /// The one before.
        last: u64,
    },
}

/// Everything an authority has signed and revoked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    certs: BTreeMap<Serial, TrackedCert>,
    lists: BTreeMap<IssuerName, ListSigned>,
    /// Whose list does not yet name all that it has to.
    unlisted: BTreeSet<IssuerName>,
}

impl Ledger {
    /// Whether an entry follows from those before it.
    pub fn check(&self, entry: &Entry) -> Result<(), LedgerError> {
        match entry {
            Entry::Issued(issued) => {
                let serial = issued.serial;
                match self.certs.contains_key(&serial) {
                    true => Err(LedgerError::Taken { serial }),
                    false => Ok(()),
                }
            }
            Entry::Revoked(Revocation { serial, .. }) => match self.certs.get(serial) {
                None => Err(LedgerError::Unknown { serial: *serial }),
                Some(cert) if cert.revocation.is_some() => {
                    Err(LedgerError::Revoked { serial: *serial })
                }
                Some(_) => Ok(()),
            },
            Entry::ListSigned(ListSigned { issuer, number, .. }) => {
                let last = self.last_list(*issuer).map_or(0, |last| last.number);
                match *number > last {
                    true => Ok(()),
                    false => Err(LedgerError::ListNumber {
                        issuer: *issuer,
                        number: *number,
                        last,
                    }),
                }
            }
        }
    }

    /// Takes one entry, or refuses it and stays as it is.
    pub fn apply(&mut self, entry: Entry) -> Result<(), LedgerError> {
        self.check(&entry)?;
        match entry {
            Entry::Issued(issued) => {
                let cert = TrackedCert {
                    issued: *issued,
                    revocation: None,
                    order: self.certs.len(),
                };
                self.certs.insert(cert.issued.serial, cert);
            }
            Entry::Revoked(revocation) => {
                if let Some(cert) = self.certs.get_mut(&revocation.serial) {
                    self.unlisted.insert(cert.issued.issuer);
                    cert.revocation = Some(revocation);
                }
            }
            Entry::ListSigned(list) => {
                self.unlisted.remove(&list.issuer);
                self.lists.insert(list.issuer, list);
            }
        }
        Ok(())
    }

    /// One certificate.
    #[must_use]
    pub fn get(&self, serial: Serial) -> Option<&TrackedCert> {
        self.certs.get(&serial)
    }

    /// All certificates, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<&TrackedCert> {
        let mut all: Vec<_> = self.certs.values().collect();
        all.sort_unstable_by_key(|cert| cert.order);
        all
    }

    /// For each identity and certificate type the certificate that was issued last and not revoked.
    pub fn newest(&self) -> impl Iterator<Item = &TrackedCert> {
        let mut newest: BTreeMap<(&SpiffeId, Option<&str>), &TrackedCert> = BTreeMap::new();
        for cert in self.certs.values() {
            let Some(profile) = cert.profile().filter(|_| cert.revocation.is_none()) else {
                continue;
            };
            match newest.entry((profile.identity(), profile.cert_type())) {
                MapEntry::Vacant(vacant) => {
                    vacant.insert(cert);
                }
                MapEntry::Occupied(mut best) if best.get().order < cert.order => {
                    best.insert(cert);
                }
                MapEntry::Occupied(_) => {}
            }
        }
        newest.into_values()
    }

    /// The newest certificate of one type of a node.
    #[must_use]
    pub fn newest_of_type(&self, node: &NodeId, cert_type: &str) -> Option<&TrackedCert> {
        let is_it = |profile: &Profile| {
            profile.identity().node == *node && profile.cert_type() == Some(cert_type)
        };
        self.newest()
            .filter(|cert| cert.profile().is_some_and(is_it))
            .max_by_key(|cert| cert.order)
    }

    /// Of the newest certificates those that end within this time, or have ended; the most urgent first.
    #[must_use]
    pub fn due(&self, within: SignedDuration, now: Timestamp) -> Vec<&TrackedCert> {
        let mut due: Vec<_> = self
            .newest()
            .filter(|cert| cert.issued.window.ends_within(within, now))
            .collect();
        due.sort_by_key(|cert| cert.issued.window.not_after);
        due
    }

    /// What can still be revoked of a node: everything issued for it that is valid, oldest first.
    #[must_use]
    pub fn valid_of_node(&self, node: &NodeId, now: Timestamp) -> Vec<&TrackedCert> {
        let of_node = |cert: &&TrackedCert| {
            cert.profile()
                .is_some_and(|profile| profile.identity().node == *node)
        };
        self.all()
            .into_iter()
            .filter(of_node)
            .filter(|cert| cert.status(now) == Status::Valid)
            .collect()
    }

    /// The revocations that a list of this issuer names now: those that are over for long are left out.
    pub(crate) fn to_list(
        &self,
        issuer: IssuerName,
        now: Timestamp,
    ) -> impl Iterator<Item = &Revocation> {
        self.certs
            .values()
            .filter(move |cert| {
                cert.issued.issuer == issuer && is_listed(cert.issued.window.not_after, now)
            })
            .filter_map(|cert| cert.revocation.as_ref())
    }

    /// How many certificates the issuer's current list names.
    #[must_use]
    pub fn listed(&self, issuer: IssuerName, now: Timestamp) -> usize {
        self.to_list(issuer, now).count()
    }

    /// The last list of this issuer.
    #[must_use]
    pub fn last_list(&self, issuer: IssuerName) -> Option<&ListSigned> {
        self.lists.get(&issuer)
    }

    /// Whether something was revoked since the last list.
    pub(crate) fn is_list_behind(&self, issuer: IssuerName) -> bool {
        self.unlisted.contains(&issuer)
    }

    /// The number of the intermediate that signs, and its newest certificate, if there is one that is not revoked.
    #[must_use]
    pub fn intermediate(&self) -> Option<(u32, &TrackedCert)> {
        self.certs
            .values()
            .filter(|cert| cert.revocation.is_none())
            .filter_map(|cert| match cert.issued.holder {
                Holder::Intermediate(number) => Some((number, cert)),
                Holder::Peer(_) => None,
            })
            .max_by_key(|(number, cert)| (*number, cert.order))
    }

    /// The highest number that an intermediate ever had; zero if there was none.
    pub(crate) fn highest_intermediate(&self) -> u32 {
        let number = |cert: &TrackedCert| match cert.issued.holder {
            Holder::Intermediate(number) => number,
            Holder::Peer(_) => 0,
        };
        self.certs.values().map(number).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
