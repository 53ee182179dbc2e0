//! Revocation lists: one of the root, one of the intermediate that signs, and both in one file.

use jiff::Timestamp;
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _};

use super::error::SignListsError;
use super::signer::Signer;
use super::{Authority, Neglected};
use crate::faults;
use crate::files::{self, Access, FileError};
use crate::ledger::{Entry, IssuerName, ListSigned};
use crate::template;
use crate::window::Window;

impl Authority {
    /// Signs both lists anew, whether they are due or not.
    pub fn refresh_lists(&mut self, now: Timestamp) -> Result<(), SignListsError> {
        self.bring_lists_up_to_date(true, now)
    }

    /// The lists, as they are in [`lists_file`](Self::lists_file).
    pub fn lists_pem(&self) -> Result<String, SignListsError> {
        files::read_text(&self.folder.all_lists()).map_err(SignListsError::File)
    }

    /// Signs the lists that are missing, lag behind the record, or are half over.
    pub(super) fn bring_lists_up_to_date(
        &mut self,
        all: bool,
        now: Timestamp,
    ) -> Result<(), SignListsError> {
        let intermediate = self.signer.name();
        if all || self.is_list_due(intermediate, now) {
            let signer = &self.signer;
            sign(&self.folder, &mut self.record, signer, now)?;
        }
        if all || self.is_list_due(IssuerName::Root, now) {
            match Signer::load(&self.folder, IssuerName::Root) {
                Ok(root) => sign(&self.folder, &mut self.record, &root, now)?,
                // An old list stays in force at the peers; without any they would refuse everybody.
                Err(error)
                    if error.is_key_missing() && self.folder.list(IssuerName::Root).exists() =>
                {
                    self.neglected.push(Neglected::RootList);
                }
                Err(error) => return Err(SignListsError::Key(error)),
            }
        }
        self.join_lists(intermediate)
    }

    fn is_list_due(&self, issuer: IssuerName, now: Timestamp) -> bool {
        let Some(last) = self.ledger().last_list(issuer) else {
            return true;
        };
        // Killed between record and file, the file has an older number or is not there.
        self.ledger().is_list_behind(issuer)
            || last.window.half_over(now)
            || self.number_on_disk(issuer) != Some(last.number)
    }

    fn number_on_disk(&self, issuer: IssuerName) -> Option<u64> {
        let pem = files::read_text(&self.folder.list(issuer)).ok()?;
        let der = CertificateRevocationListDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_, list) = CertificateRevocationList::from_der(&der).ok()?;
        u64::try_from(list.crl_number()?).ok()
    }

    /// Both in one file, rewritten only if that changes it.
    fn join_lists(&self, intermediate: IssuerName) -> Result<(), SignListsError> {
        let read =
            |issuer| files::read_text(&self.folder.list(issuer)).map_err(SignListsError::File);
        let joined = read(IssuerName::Root)? + &read(intermediate)?;
        let path = self.folder.all_lists();
        let same = |found: Result<String, FileError>| found.is_ok_and(|found| found == joined);
        if !same(files::read_text(&path)) {
            files::write(&path, joined.as_bytes(), Access::Public).map_err(SignListsError::File)?;
        }
        Ok(())
    }
}

fn sign(
    folder: &crate::layout::Folder,
    record: &mut crate::record::Record,
    signer: &Signer,
    now: Timestamp,
) -> Result<(), SignListsError> {
    let issuer = signer.name();
    let window = Window::of_list(now).ok_or(SignListsError::Clock { now })?;
    let number = record
        .ledger()
        .last_list(issuer)
        .map_or(0, |last| last.number)
        + 1;
    let signed = ListSigned {
        issuer,
        number,
        window,
    };
    let list = template::list(&signed, record.ledger().to_list(issuer, now))
        .signed_by(signer.issuer())
        .and_then(|list| list.pem())
        .map_err(|source| SignListsError::Sign { issuer, source })?;
    record
        .append(Entry::ListSigned(signed))
        .map_err(SignListsError::Record)?;
    muster_fault::hit(faults::LIST_RECORDED);
    files::write(&folder.list(issuer), list.as_bytes(), Access::Public)
        .map_err(SignListsError::File)?;
    muster_fault::hit(faults::LIST_WRITTEN);
    Ok(())
}
