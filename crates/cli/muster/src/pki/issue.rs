//! `init` and `issue`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_pki::files::{self, Access};
use muster_pki::jiff::Timestamp;
use muster_pki::{
    Authority, CertificateRequest, InitOutcome, IssuedCert, Profile, ProfileError, SpiffeId,
    SystemId,
};
use serde::Serialize;

use super::PkiCommandError;
use crate::cli::pki as cli;
use crate::console::{Answer, Console, Table};
use crate::error::CommandError;
use crate::faults;

/// Longest request that is read from standard input; real ones have a few kilobytes.
const MAX_REQUEST: u64 = 1024 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    system_id: String,
    folder: PathBuf,
    created: bool,
    root: PathBuf,
    revocation_lists: PathBuf,
    not_after: Timestamp,
}

impl Answer for Made {
    fn table(&self) -> Table {
        Table::facts([
            ("System", self.system_id.clone()),
            ("Folder", self.folder.display().to_string()),
            ("Root", self.root.display().to_string()),
            (
                "Revocation lists",
                self.revocation_lists.display().to_string(),
            ),
            ("Valid until", self.not_after.to_string()),
        ])
    }
}

pub(super) fn init(
    command: &cli::Init,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let folder = super::folder(&command.authority);
    // An authority that is there says by itself whose it is.
    let existing = || {
        muster_pki::Snapshot::read(&folder)
            .ok()
            .map(|snapshot| snapshot.system().clone())
    };
    let system = match &command.system_id {
        Some(system) => system.clone(),
        None => existing().unwrap_or_else(random_system),
    };
    let made = Authority::init(&folder, &system, now).map_err(PkiCommandError::Init)?;
    let created = made.outcome == InitOutcome::Created;
    console.note(match created {
        true => {
            "A new authority; whoever has its folder can certify anything, so keep it to yourself."
        }
        false => "The authority was there already; nothing has changed.",
    });
    console.answer(&Made {
        system_id: system.to_string(),
        folder,
        created,
        root: made.authority.root_file(),
        revocation_lists: made.authority.lists_file(),
        not_after: made.authority.root_not_after(),
    })?;
    Ok(())
}

fn random_system() -> SystemId {
    let number: u64 = rand::random();
    SystemId::new(format!("system-{number:016x}")).expect("hexadecimal digits are allowed")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    serial: String,
    identity: String,
    not_after: Timestamp,
    certificate: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
    ca: PathBuf,
}

impl Answer for Written {
    fn table(&self) -> Table {
        let key = self.key.as_ref().map(|path| path.display().to_string());
        Table::facts([
            ("Identity", self.identity.clone()),
            ("Serial", self.serial.clone()),
            ("Valid until", self.not_after.to_string()),
            ("Certificate", self.certificate.display().to_string()),
            ("Key", key.unwrap_or_default()),
            ("CA", self.ca.display().to_string()),
        ])
    }
}

/// Adds the names of the command line.
pub(crate) fn with_names(
    mut profile: Profile,
    names: &cli::Names,
) -> Result<Profile, ProfileError> {
    for name in &names.dns {
        profile = profile.with_dns(name)?;
    }
    for &address in &names.ip {
        profile = profile.with_ip(address)?;
    }
    Ok(profile)
}

pub(super) fn issue(
    command: &cli::Issue,
    now: Timestamp,
    console: &mut Console,
) -> Result<(), CommandError> {
    let folder = super::folder(&command.authority);
    let snapshot = super::read(&folder)?;
    let identity = SpiffeId {
        system: snapshot.system().clone(),
        node: command.node.clone(),
        role: command.role.clone(),
    };
    let profile =
        with_names(Profile::new(identity), &command.names).map_err(PkiCommandError::Profile)?;
    let request = command.csr.as_deref().map(read_request).transpose()?;
    let stem = format!("{}-{}", command.node, command.role);
    let cert_path = command.out.join(format!("{stem}.crt.pem"));
    let key_path = command.out.join(format!("{stem}.key.pem"));
    let ca_path = command.out.join("ca.pem");
    let written = [Some(&cert_path), request.is_none().then_some(&key_path)];
    if let Some(path) = written
        .into_iter()
        .flatten()
        .find(|path| path.exists() && !command.force)
    {
        let path = path.clone();
        return Err(PkiCommandError::Exists { path }.into());
    }
    fs::create_dir_all(&command.out).map_err(|source| PkiCommandError::OutFolder {
        folder: command.out.clone(),
        source,
    })?;

    let mut authority = super::open(&folder, now, console)?;
    let (cert, key) = match &request {
        Some(request) => {
            let issued = authority.issue_from_csr(request, &profile, now);
            (issued.map_err(PkiCommandError::Issue)?, None)
        }
        None => {
            let pair = authority
                .issue_with_key(&profile, now)
                .map_err(PkiCommandError::Issue)?;
            (pair.cert, Some(pair.key_pem))
        }
    };
    write(&ca_path, authority.root_pem(), Access::Public)?;
    if let Some(key) = &key {
        write(&key_path, key, Access::Secret)?;
        muster_fault::hit(faults::KEY_FILE_WRITTEN);
    }
    write(&cert_path, &cert.chain_pem, Access::Public)?;
    console.answer(&answer(&cert, cert_path, key.map(|_| key_path), ca_path))?;
    Ok(())
}

fn answer(cert: &IssuedCert, certificate: PathBuf, key: Option<PathBuf>, ca: PathBuf) -> Written {
    Written {
        serial: cert.serial.to_string(),
        identity: cert.profile.identity().to_string(),
        not_after: cert.window.not_after,
        certificate,
        key,
        ca,
    }
}

fn write(path: &Path, text: &str, access: Access) -> Result<(), PkiCommandError> {
    files::write(path, text.as_bytes(), access).map_err(PkiCommandError::File)
}

fn read_request(path: &Path) -> Result<CertificateRequest, PkiCommandError> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin()
            .take(MAX_REQUEST)
            .read_to_string(&mut text)
            .map_err(PkiCommandError::Stdin)?;
        text
    } else {
        files::read_text(path).map_err(PkiCommandError::File)?
    };
    CertificateRequest::from_pem(&text).map_err(|source| PkiCommandError::Request {
        path: path.to_owned(),
        source,
    })
}
