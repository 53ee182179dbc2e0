//! Opening: what is recorded and what is there are brought together.

use std::fs;
use std::time::SystemTime;

use muster_api::domain::Digest;
use muster_store::Store;

use crate::db;
use crate::error::OpenImagesError;
use crate::folders::{DiskError, Folders, OnDisk};
use crate::inventory::{GcPlan, Inventory, PartialRecord};
use crate::seal::{self, Unhurried};
use crate::store::unix_seconds;

/// What was found when a store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Blobs and layers that were recorded, and are gone or have another size. They will be fetched again.
    pub lost: Vec<Digest>,
    /// Blobs that were there without a record: parts now, to be verified when they are wanted.
    pub demoted: Vec<Digest>,
    /// Layers that were there without a record, and went.
    pub dropped: Vec<Digest>,
}

/// Believes what is both recorded and there.
///
/// A blob without a record is whole (it was verified before it got its name) but for the power cut that might have come in
/// between, so it becomes a part again: to be hashed, not to be downloaded. A layer without a record goes.
pub(crate) fn reconcile(
    folders: &Folders,
    db: &Store,
) -> Result<(Inventory, OpenReport), OpenImagesError> {
    let mut report = OpenReport::default();
    let mut inventory = db
        .read(db::load)
        .wait()
        .map_err(OpenImagesError::Database)?;
    let lost = compare(folders, &mut inventory, &mut report).map_err(OpenImagesError::Disk)?;
    if !lost.is_empty() {
        db.write(move |db| db::forget(db, &lost))
            .wait()
            .map_err(OpenImagesError::Database)?;
    }
    Ok((inventory, report))
}

fn compare(
    folders: &Folders,
    inventory: &mut Inventory,
    report: &mut OpenReport,
) -> Result<GcPlan, DiskError> {
    folders.sweep()?;
    let mut lost = GcPlan::default();
    let found: std::collections::BTreeMap<Digest, u64> =
        folders.found_blobs()?.into_iter().collect();
    for (digest, size) in &inventory.blobs {
        if found.get(digest) != Some(size) {
            lost.blobs.insert(*digest);
        }
    }
    inventory
        .blobs
        .retain(|digest, _| !lost.blobs.contains(digest));
    for digest in found.keys() {
        if !inventory.blobs.contains_key(digest) {
            let path = folders.blob(digest);
            fs::rename(&path, folders.partial(digest)).on_disk("move to the parts", &path)?;
            report.demoted.push(*digest);
        }
    }
    let found: std::collections::BTreeSet<Digest> = folders.found_layers()?.into_iter().collect();
    lost.layers = inventory
        .layers
        .keys()
        .filter(|digest| !found.contains(digest))
        .copied()
        .collect();
    inventory.layers.retain(|digest, _| found.contains(digest));
    for digest in found {
        if !inventory.layers.contains_key(&digest) {
            folders.discard(&folders.layer(&digest))?;
            report.dropped.push(digest);
        }
    }
    for (digest, bytes) in folders.found_flat("partial")? {
        let path = folders.partial(&digest);
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let since = unix_seconds(modified.unwrap_or_else(|_| SystemTime::now()));
        let partial = PartialRecord { bytes, since };
        inventory.partials.insert(digest, partial);
    }
    for (digest, bytes) in folders.found_flat("quarantine")? {
        // A damaged tree may not even be readable; it then counts with what its name says.
        let tree = seal::seal(&folders.quarantine(&digest), &mut Unhurried);
        let bytes = tree.map_or(bytes, |tree| tree.bytes);
        inventory.quarantined.insert(digest, bytes);
    }
    report.lost.extend(lost.blobs.iter().chain(&lost.layers));
    Ok(lost)
}
