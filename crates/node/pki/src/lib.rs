//! A small certificate authority for systems that have no cloud to certify their nodes.
//!
//! One folder is one authority: a root that nodes trust, an intermediate below it that signs, a record
//! of everything signed, and revocation lists. `muster pki` is the command line of it, and
//! `muster node provision` signs the requests of nodes with it.
//!
//! # Entry points
//! * [`Authority::init`] makes a folder into an authority, [`Authority::open`] opens it for signing.
//! * [`Authority::issue_from_csr`] certifies a key that stays where it is,
//!   [`Authority::issue_with_key`] makes one for a person, [`Authority::renew`] certifies the same key again.
//! * [`Authority::revoke`] ends certificates before their time; [`Authority::refresh_lists`] signs the lists anew.
//! * [`Snapshot::read`] is for looking only: it takes no lock and changes nothing.
//! * [`CertificateRequest`] is a checked CSR, [`Profile`] what a certificate will say, [`Ledger`] the pure
//!   state of the record, [`CertDetails`] what any certificate says.
//!
//! ```
//! use jiff::Timestamp;
//! use muster_pki::{Authority, Profile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().join("pki");
//! let now = Timestamp::now();
//! let mut authority = Authority::init(&folder, &"plant-7".parse()?, now)?.authority;
//! let identity = "spiffe://plant-7/node/desk/operator".parse()?;
//! let issued = authority.issue_with_key(&Profile::new(identity), now)?;
//! assert_eq!(authority.ledger().newest().count(), 1);
//! # drop(issued);
//! # Ok(())
//! # }
//! ```
//!
//! # The folder
//! | file | mode | content |
//! |---|---|---|
//! | `authority.json` | 0644 | system id and format; written last, so an authority is there or not |
//! | `root.crt.pem`, `root.key.pem` | 0644, 0600 | 20 years; the key may be kept elsewhere, see below |
//! | `intermediate-N.crt.pem`, `.key.pem` | 0644, 0600 | 5 years; the highest N signs |
//! | `record.jsonl` | 0644 | one line for each certificate, revocation and list |
//! | `root.crl.pem`, `intermediate-N.crl.pem` | 0644 | the lists, valid for 30 days |
//! | `crl.pem` | 0644 | both together: what servers and clients are given |
//! | `lock` | 0644 | held by the one process that signs |
//!
//! # What is signed
//! | | valid | says |
//! |---|---|---|
//! | root, intermediate | 20, 5 years | CA; the intermediate may not sign other CAs |
//! | node roles | 1 year | SPIFFE URI, DNS and IP names of the [`Profile`]; serverAuth and clientAuth |
//! | operator | 1 year | the same; clientAuth only |
//!
//! No certificate outlives the one above it. All keys made here are EC P-256: 128 bits of strength are beyond attack as
//! much as the 192 of P-384 are, every TLS stack has it, and a chain has two signatures which each handshake of each small
//! device verifies, several times faster than on P-384. Keys that nodes bring may be P-256, P-384, Ed25519 or RSA of 2048 to
//! 8192 bits. Serial numbers are 127 random bits. Start of validity is an hour ago, for clocks that are behind.
//!
//! # Invariants
//! * **The authority decides.** Of a CSR only the public key is used, after its signature has proved that the
//!   sender has the private one. What it asks for is shown to the caller and otherwise ignored.
//! * **Recorded, then handed out.** A serial number is in the record, on disk, before anybody gets the certificate; so every
//!   certificate in the world can be revoked. A line too many (killed in between) does no harm.
//! * **Revoked stays revoked.** A revocation is in the record before the list is signed, and opening the authority signs
//!   a list that lags behind. List numbers only grow.
//! * **Killed anywhere, consistent.** Files appear whole or not at all; the last line of the record is cut if it is torn. Opening
//!   finishes what was begun: a missing intermediate, a list that lags behind.
//! * **One writer.** The lock is the kernel's and cannot be stale. Others wait up to ten seconds for it.
//! * **Keys stay secret.** They are 0600 before the first byte is in them, a key that others can read is refused, and none
//!   is in any log, error or `Debug` output.
//! * Deciding code is pure: the ledger, validity windows and what is due take the time as an argument, and so does every operation.
//!
//! # Where the root key is kept
//! Only two things need it: an intermediate every four years, and the root's list. `root.key.pem` can therefore live on a
//! medium in a drawer. Without it everything else works, and [`Authority::neglected`] says what waits for it.
//!
//! # Renewal of the intermediate
//! When less than a leaf's year is left, the next opening certifies the intermediate's key for five more years. Leaves
//! issued before stay valid with the chain that they carry, and one revocation list serves both.
//! [`Authority::replace_intermediate`] is for a key that may be known to others: it revokes the old one, with
//! everything signed by it, and makes a new key.
//!
//! # Tasks and channels
//! None. All calls block on the disk.
//!
//! # What this crate does not do
//! It serves nothing on the network, answers no OCSP, keeps no copies of certificates and no keys of others, and does
//! not decide who may have which name: whoever calls it says so with a [`Profile`].

#![forbid(unsafe_code)]

mod authority;
mod describe;
pub mod faults;
pub mod files;
mod layout;
mod ledger;
mod lock;
mod profile;
mod record;
mod request;
mod serial;
mod snapshot;
mod template;
mod window;

pub use authority::{
    Authority, InitAuthorityError, InitOutcome, Initialised, IssueCertError, IssuedCert,
    IssuedKeyPair, Neglected, OpenAuthorityError, RevokeCertError, RevokeOutcome, SignError,
    SignListsError,
};
pub use describe::{CertDetails, DescribeError, ListDetails, PemItem, describe_pem, public_key_of};
pub use faults::FAULT_POINTS;
pub use layout::LayoutError;
pub use ledger::{
    Entry, Holder, Issued, IssuerName, Ledger, LedgerError, ListSigned, Reason, Revocation, Status,
    TrackedCert,
};
pub use lock::LockError;
pub use profile::{Profile, ProfileError, Purpose};
pub use record::RecordError;
pub use request::{CertificateRequest, ReadRequestError};
pub use serial::{ParseSerialError, Serial};
pub use snapshot::{ReadSnapshotError, Snapshot};
pub use window::Window;

// Identities and times are part of the public interface.
pub use jiff;
pub use muster_tls::{NodeId, Role, SpiffeId, SystemId};
