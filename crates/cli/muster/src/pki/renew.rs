//! `renew`: certificates in files.

use std::path::{Path, PathBuf};

use muster_pki::files::{self, Access};
use muster_pki::jiff::Timestamp;
use muster_pki::{
    Authority, CertDetails, IssuedCert, PemItem, Serial, describe_pem, public_key_of,
};
use serde::Serialize;

use super::PkiCommandError;
use crate::cli::pki as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::faults;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Renewal {
    certificate: PathBuf,
    serial: String,
    renewed: bool,
    not_after: Timestamp,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Renewals(Vec<Renewal>);

impl Answer for Renewals {
    fn table(&self) -> Table {
        let row = |renewal: &Renewal| {
            vec![
                renewal.certificate.display().to_string(),
                if renewal.renewed { "renewed" } else { "kept" }.to_owned(),
                renewal.not_after.to_string(),
                renewal.serial.clone(),
            ]
        };
        Table::list(
            &["FILE", "", "VALID UNTIL", "SERIAL"],
            self.0.iter().map(row).collect(),
        )
    }
}

pub(super) fn renew(
    command: &cli::Renew,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let folder = super::folder(&command.authority);
    let mut authority = super::open(&folder, now, console)?;
    let mut renewals = Vec::new();
    for path in &command.files {
        renewals.push(renew_file(&mut authority, path, command, now)?);
    }
    console.answer(&Renewals(renewals))?;
    Ok(())
}

fn renew_file(
    authority: &mut Authority,
    path: &Path,
    command: &cli::Renew,
    now: Timestamp,
) -> Result<Renewal, PkiCommandError> {
    let old = first_certificate(path)?;
    let serial = own_serial(authority, path, &old)?;
    let window = authority
        .ledger()
        .get(serial)
        .map(|cert| cert.issued.window);
    let is_due = match (command.due, window) {
        (Some(due), Some(window)) => window.ends_within(super::signed(due), now),
        _ => true,
    };
    let key_path = key_beside(path);
    let cert = if command.same_key {
        match is_due {
            true => Some(
                authority
                    .renew(serial, now)
                    .map_err(PkiCommandError::Issue)?,
            ),
            false => None,
        }
    } else {
        renew_pair(authority, serial, &old, &key_path, is_due, now)?
    };
    let Some(cert) = cert else {
        return Ok(Renewal {
            certificate: path.to_owned(),
            serial: serial.to_string(),
            renewed: false,
            not_after: window.map_or(now, |window| window.not_after),
        });
    };
    files::write(path, cert.chain_pem.as_bytes(), Access::Public).map_err(PkiCommandError::File)?;
    Ok(Renewal {
        certificate: path.to_owned(),
        serial: cert.serial.to_string(),
        renewed: true,
        not_after: cert.window.not_after,
    })
}

/// A new key and a certificate for it. If the key there is not the certificate's, an earlier renewal was interrupted between the
/// two files; it is finished, whether it is time or not, since the two are of no use as they are.
fn renew_pair(
    authority: &mut Authority,
    serial: Serial,
    old: &CertDetails,
    key_path: &Path,
    is_due: bool,
    now: Timestamp,
) -> Result<Option<IssuedCert>, PkiCommandError> {
    let key = match files::read_secret(key_path) {
        Ok(key) => key,
        Err(error) if error.is_not_found() => {
            let path = key_path.to_owned();
            return Err(PkiCommandError::NoKey { path });
        }
        Err(error) => return Err(PkiCommandError::File(error)),
    };
    if public_key_of(&key).is_some_and(|found| found != old.public_key) {
        return authority
            .renew_for_key_pem(serial, &key, now)
            .map(Some)
            .map_err(PkiCommandError::Issue);
    }
    if !is_due {
        return Ok(None);
    }
    let pair = authority
        .renew_with_key(serial, now)
        .map_err(PkiCommandError::Issue)?;
    files::write(key_path, pair.key_pem.as_bytes(), Access::Secret)
        .map_err(PkiCommandError::File)?;
    muster_fault::hit(faults::KEY_FILE_WRITTEN);
    Ok(Some(pair.cert))
}

/// `x.crt.pem` has its key in `x.key.pem`, and so has any other `x.pem`.
fn key_beside(cert: &Path) -> PathBuf {
    let name = cert
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = [".crt.pem", ".pem", ".crt"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(&name);
    cert.with_file_name(format!("{stem}.key.pem"))
}

/// The first certificate in a file.
pub(super) fn first_certificate(path: &Path) -> Result<CertDetails, PkiCommandError> {
    let text = files::read_text(path).map_err(PkiCommandError::File)?;
    let items = describe_pem(&text).map_err(|source| PkiCommandError::Describe {
        path: path.to_owned(),
        source,
    })?;
    match items.into_iter().next() {
        Some(PemItem::Certificate(cert)) => Ok(cert),
        _ => Err(PkiCommandError::NotACertificate {
            path: path.to_owned(),
        }),
    }
}

/// Its number, if it is one of this authority's; told by number and key together.
pub(super) fn own_serial(
    authority: &Authority,
    path: &Path,
    cert: &CertDetails,
) -> Result<Serial, PkiCommandError> {
    let foreign = || PkiCommandError::Foreign {
        path: path.to_owned(),
    };
    let serial = cert.serial.ok_or_else(foreign)?;
    let tracked = authority.ledger().get(serial).ok_or_else(foreign)?;
    let same_key = tracked
        .issued
        .public_key()
        .is_some_and(|key| key == cert.public_key);
    if same_key { Ok(serial) } else { Err(foreign()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_looked_for_beside_their_certificates() {
        for (cert, key) in [
            ("a/n1-sm.crt.pem", "a/n1-sm.key.pem"),
            ("sm.pem", "sm.key.pem"),
            ("/x/sm.crt", "/x/sm.key.pem"),
            ("sm", "sm.key.pem"),
        ] {
            assert_eq!(key_beside(Path::new(cert)), Path::new(key));
        }
    }
}
