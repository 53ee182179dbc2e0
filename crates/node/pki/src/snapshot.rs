//! Looking at an authority without changing it.

use std::path::{Path, PathBuf};

use muster_tls::SystemId;

use crate::layout::{Folder, LayoutError};
use crate::ledger::{IssuerName, Ledger};
use crate::record::{self, RecordError};

/// Why an authority cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadSnapshotError {
    /// There is none, or it is not one of this program's.
    #[error(transparent)]
    Layout(LayoutError),
    /// Its record cannot be used.
    #[error(transparent)]
    Record(RecordError),
}

impl ReadSnapshotError {
    /// Whether there is simply no authority.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Layout(LayoutError::NoAuthority { .. }))
    }
}

/// An authority as it is at one moment. Taken without the lock: what another process writes meanwhile is in it or not.
#[derive(Debug, Clone)]
pub struct Snapshot {
    folder: Folder,
    system: SystemId,
    ledger: Ledger,
}

impl Snapshot {
    /// Reads the authority in a folder.
    pub fn read(folder: &Path) -> Result<Self, ReadSnapshotError> {
        let folder = Folder::new(folder);
        let system = folder.read_system().map_err(ReadSnapshotError::Layout)?;
        let ledger = record::read(folder.path()).map_err(ReadSnapshotError::Record)?;
        Ok(Self {
            folder,
            system,
            ledger,
        })
    }

    /// Which system it certifies.
    #[must_use]
    pub fn system(&self) -> &SystemId {
        &self.system
    }

    /// What it has done.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The certificate that everybody has to trust.
    #[must_use]
    pub fn root_file(&self) -> PathBuf {
        self.folder.cert(IssuerName::Root)
    }

    /// The revocation lists that everybody should have.
    #[must_use]
    pub fn lists_file(&self) -> PathBuf {
        self.folder.all_lists()
    }
}
