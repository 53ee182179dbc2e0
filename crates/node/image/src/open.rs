//! Opening: what is recorded and what is there are brought together.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use muster_api::domain::Digest;
use muster_store::Store;

use crate::db;
use crate::error::OpenImagesError;
use crate::folders::{DiskError, Folders, OnDisk};
use crate::imprint;
use crate::inventory::{GcPlan, Inventory, LayerRecord, PartialRecord};
use crate::quarantine;
use crate::seal::{self, Unhurried};
use crate::store::unix_seconds;

/// What was found when a store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Blobs and layers that were recorded, and are gone or have another size. They will be fetched again.
    pub lost: Vec<Digest>,
    /// Blobs that were there without a record: parts now, to be verified when they are wanted.
    pub demoted: Vec<Digest>,
    /// Layers that were there without a record in the database, and are what is written on them.
    pub recovered: Vec<Digest>,
    /// Layers that were there without a record, and went.
    pub dropped: Vec<Digest>,
}

/// Believes what is both recorded and there.
///
/// A blob without a record is whole (it was verified before it got its name) but for the power cut that might have come in
/// between, so it becomes a part again: to be hashed, not to be downloaded. A layer without a record in the database is compared
/// with the record that is written on it: instances may be running on it. If it is something else, it goes.
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
    let recovered: Vec<(Digest, LayerRecord)> = report
        .recovered
        .iter()
        .map(|digest| (*digest, inventory.layers[digest].clone()))
        .collect();
    if !lost.is_empty() || !recovered.is_empty() {
        let write = move |db: &_| {
            db::forget(db, &lost)?;
            recovered
                .iter()
                .try_for_each(|(digest, layer)| db::put_layer(db, digest, layer))
        };
        db.write(write).wait().map_err(OpenImagesError::Database)?;
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
        let path = folders.layer(&digest);
        if let Some(known) = inventory.layers.get(&digest) {
            // One that was unpacked by a version that did not write on them.
            if imprint::read(&path).is_none() {
                imprint::write(&path, known).on_disk("write on", &path)?;
            }
        } else if let Some(layer) = recover(&path) {
            folders.flush_layer_name(&digest)?;
            inventory.layers.insert(digest, layer);
            if inventory.items.is_empty() {
                // The items that need it are forgotten, too. Until they are wanted again, it is not for the collector.
                inventory.pins.insert(digest, 1);
            }
            report.recovered.push(digest);
        } else {
            folders.discard(&path)?;
            report.dropped.push(digest);
        }
    }
    for (digest, bytes) in folders.found_flat("partial")? {
        let path = folders.partial(&digest);
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let modified = match report.demoted.contains(&digest) {
            // Its time as a part begins now.
            true => SystemTime::now(),
            false => modified.unwrap_or_else(|_| SystemTime::now()),
        };
        let since = unix_seconds(modified);
        let partial = PartialRecord { bytes, since };
        inventory.partials.insert(digest, partial);
    }
    folders.end_quarantine_of_earlier_boots(&quarantine::this_boot())?;
    for (digest, bytes) in folders.found_flat("quarantine")? {
        // A damaged tree may not even be readable; it then counts with what its name says.
        let tree = seal::seal(&folders.quarantine(&digest), &mut Unhurried);
        let bytes = tree.map_or(bytes, |tree| tree.bytes);
        inventory.quarantined.insert(digest, bytes);
    }
    report.lost.extend(lost.blobs.iter().chain(&lost.layers));
    Ok(lost)
}

/// What is written on a layer, if it is that.
fn recover(layer: &Path) -> Option<LayerRecord> {
    let written = imprint::read(layer)?;
    let found = seal::seal(layer, &mut Unhurried).ok()?;
    (found.seal == written.seal).then_some(written)
}

#[cfg(test)]
mod tests {
    use muster_store::{OnDamage, StoreConfig};

    use super::*;
    use crate::folders::tests::FLUSHED;

    #[test]
    fn a_layer_that_is_found_has_its_name_flushed_before_it_is_believed() {
        muster_lab::require!(Root);
        let outside = tempfile::tempdir().unwrap();
        let folders = Folders::create(&outside.path().join("images"), None).unwrap();
        let digest = Digest::from_sha256([1; 32]);
        let layer = folders.layer(&digest);
        fs::create_dir(&layer).unwrap();
        fs::write(layer.join("file"), "content").unwrap();
        let sealed = seal::seal(&layer, &mut Unhurried).unwrap();
        let written = LayerRecord {
            diff_id: digest,
            bytes: sealed.bytes,
            seal: sealed.seal,
        };
        imprint::write(&layer, &written).unwrap();
        let open_db = || {
            let config =
                StoreConfig::new(outside.path().join("db/sm.db"), "open 1", OnDamage::Refuse);
            Store::open(&config.schema(&crate::SCHEMA)).unwrap().store
        };
        FLUSHED.take();
        let (inventory, report) = reconcile(&folders, &open_db()).unwrap();
        assert_eq!(report.recovered, [digest]);
        assert_eq!(inventory.layers.get(&digest), Some(&written));
        assert_eq!(FLUSHED.take(), [layer.parent().unwrap()]);
        // What is in the database was flushed by whoever wrote it there.
        let (_, report) = reconcile(&folders, &open_db()).unwrap();
        assert_eq!((report, FLUSHED.take()), (OpenReport::default(), vec![]));
    }
}
