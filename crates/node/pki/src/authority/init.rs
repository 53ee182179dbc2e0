//! Making an authority.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use muster_tls::SystemId;
use rcgen::KeyPair;
use zeroize::Zeroizing;

use super::Authority;
use super::error::{InitAuthorityError, OpenAuthorityError};
use crate::faults;
use crate::files::{self, Access};
use crate::layout::{Folder, LayoutError};
use crate::ledger::IssuerName;
use crate::lock::FolderLock;
use crate::serial::Serial;
use crate::template;
use crate::window::{ROOT_YEARS, Window};

/// What [`Authority::init`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitOutcome {
    /// It is new.
    Created,
    /// It was there, for the same system; nothing was changed.
    Existing,
}

/// An authority that is there now.
#[derive(Debug)]
pub struct Initialised {
    /// Open for signing.
    pub authority: Authority,
    /// Whether it is new.
    pub outcome: InitOutcome,
}

impl Authority {
    /// Makes a folder into the authority of a system, or opens it if it is that already. What an interrupted attempt left is
    /// made anew: nobody has seen it.
    pub fn init(
        folder: &Path,
        system: &SystemId,
        now: Timestamp,
    ) -> Result<Initialised, InitAuthorityError> {
        let failed = |source| InitAuthorityError::Folder {
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        check_content(folder)?;
        let lock = FolderLock::take(folder)
            .map_err(|error| InitAuthorityError::Open(OpenAuthorityError::Lock(error)))?;
        let folder = Folder::new(folder);
        let outcome = match folder.read_system() {
            Ok(found) if found == *system => InitOutcome::Existing,
            Ok(found) => {
                return Err(InitAuthorityError::OtherSystem {
                    folder: folder.path().to_owned(),
                    found,
                    wanted: system.clone(),
                });
            }
            Err(LayoutError::NoAuthority { .. }) => {
                make_root(&folder, system, now)?;
                InitOutcome::Created
            }
            Err(error) => return Err(InitAuthorityError::Open(OpenAuthorityError::Layout(error))),
        };
        let authority = Self::open_locked(folder, lock, now).map_err(InitAuthorityError::Open)?;
        Ok(Initialised { authority, outcome })
    }
}

/// An authority's folder is its own: an existing one, one that was begun, or an empty one.
fn check_content(folder: &Path) -> Result<(), InitAuthorityError> {
    if !matches!(
        Folder::new(folder).read_system(),
        Err(LayoutError::NoAuthority { .. })
    ) {
        return Ok(());
    }
    let names = || -> io::Result<Vec<String>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    let names = names().map_err(|source| InitAuthorityError::Folder {
        folder: folder.to_owned(),
        source,
    })?;
    match names.into_iter().find(|name| !Folder::is_own_name(name)) {
        // Looked at without the lock: another process may have finished the authority meanwhile.
        Some(_) if Folder::new(folder).read_system().is_ok() => Ok(()),
        Some(name) => Err(InitAuthorityError::NotEmpty {
            folder: folder.to_owned(),
            name,
        }),
        None => Ok(()),
    }
}

fn make_root(folder: &Folder, system: &SystemId, now: Timestamp) -> Result<(), InitAuthorityError> {
    let window = Window::below(now, ROOT_YEARS, None).ok_or(InitAuthorityError::Clock { now })?;
    let failed = |source| InitAuthorityError::Sign { source };
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let cert = template::authority(system, IssuerName::Root, Serial::random(), window)
        .self_signed(&key)
        .map_err(failed)?;
    let write = |path: &Path, text: &str, access| {
        files::write(path, text.as_bytes(), access).map_err(InitAuthorityError::File)
    };
    write(
        &folder.key(IssuerName::Root),
        &Zeroizing::new(key.serialize_pem()),
        Access::Secret,
    )?;
    muster_fault::hit(faults::ROOT_KEY_WRITTEN);
    write(&folder.cert(IssuerName::Root), &cert.pem(), Access::Public)?;
    muster_fault::hit(faults::ROOT_WRITTEN);
    folder
        .write_system(system)
        .map_err(InitAuthorityError::File)?;
    muster_fault::hit(faults::INITIALISED);
    Ok(())
}
