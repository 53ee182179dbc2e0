//! What was found damaged, and how long it is set aside.
//!
//! A damaged layer may be under a running instance, so it keeps its content until no item needs it or the machine has booted anew:
//! then nothing runs on it any more. A blob is used by opening its file, so a damaged one goes as soon as there is a good one.

use std::fs;
use std::io;

use muster_api::domain::Digest;
use muster_telemetry::ErrorChain;

use crate::folders::{DiskError, Folders, OnDisk};
use crate::store::Inner;

/// The kernel's name for the time since it was started; empty where it does not say.
pub(crate) fn this_boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

impl Folders {
    /// Empties the quarantine if what is in it was set aside before the machine was booted, and notes this boot.
    pub(crate) fn end_quarantine_of_earlier_boots(&self, this_boot: &str) -> Result<(), DiskError> {
        let note = self.root().join("boot");
        let noted = match fs::read(&note) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            noted => Some(noted.on_disk("read", &note)?),
        };
        if this_boot.is_empty() || noted.as_deref() == Some(this_boot.as_bytes()) {
            return Ok(());
        }
        // Without a note nobody knows: it stays until the next boot.
        if noted.is_some() {
            for (digest, _) in self.found_flat("quarantine")? {
                self.discard(&self.quarantine(&digest))?;
            }
        }
        // In one step, so that a kill leaves no note of another boot.
        let new = self.root().join("boot.new");
        fs::write(&new, this_boot)
            .and_then(|()| fs::rename(&new, &note))
            .on_disk("write", &note)
    }
}

impl Inner {
    /// A blob is there again: the damaged one is of no more use.
    pub(crate) fn end_quarantine_of_blob(&self, digest: &Digest) {
        let path = self.folders.quarantine(digest);
        // A layer of the same digest stays: it is a folder, and may be in use.
        if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
            return;
        }
        match self.folders.discard(&path) {
            Ok(()) => {
                self.ledger.lock().inventory.quarantined.remove(digest);
            }
            Err(error) => {
                tracing::warn!(%digest, error = %ErrorChain(&error), "cannot remove a damaged blob that was repaired");
            }
        }
    }
}
