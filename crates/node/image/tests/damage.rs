//! Documents that the disk damages are got anew, and what was set aside goes when nobody can be using it.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{TestLayout, image, open_with, settings};
use muster_api::domain::Digest;
use muster_image::{ImageStore, InstallError, InstalledImage, MirrorState};

struct Rig {
    folder: tempfile::TempDir,
    layout: TestLayout,
    store: ImageStore,
    digest: Digest,
    installed: InstalledImage,
}

async fn rig() -> Rig {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 20_000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let installed = store.install(digest, layout.source(), None).await.unwrap();
    Rig {
        folder,
        layout,
        store,
        digest,
        installed,
    }
}

impl Rig {
    fn documents(&self) -> [Digest; 3] {
        let manifest = &self.installed.manifest;
        let item = manifest.item_config.as_ref().unwrap().digest;
        [self.installed.manifest_digest, manifest.config.digest, item]
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        let folder = self.folder.path().join("images/blobs/sha256");
        folder.join(digest.to_hex())
    }

    fn quarantined(&self) -> usize {
        let folder = self.folder.path().join("images/quarantine");
        let found = fs::read_dir(folder).unwrap().count();
        assert_eq!(self.store.inventory().quarantined.len(), found);
        found
    }
}

/// Valid JSON with other values, nonsense, nothing, more than documents may have, and no file at all.
fn spoil(path: &Path, way: usize) {
    let text = fs::read_to_string(path).unwrap();
    match way {
        0 => fs::write(path, text.replace("host-1", "host-2").replace("A=1", "A=2")).unwrap(),
        1 => fs::write(path, "damage").unwrap(),
        2 => fs::write(path, "").unwrap(),
        3 => fs::write(path, vec![b' '; 5 << 20]).unwrap(),
        _ => fs::remove_file(path).unwrap(),
    }
}

#[tokio::test]
async fn a_damaged_document_is_got_anew_and_never_believed() {
    let rig = rig().await;
    for document in rig.documents() {
        let path = rig.blob(&document);
        let good = fs::read(&path).unwrap();
        for way in 0..5 {
            // First it is found by whoever installs, then by whoever looks what is there.
            for is_looked_at in [false, true] {
                spoil(&path, way);
                let is_damaged = fs::read(&path).ok().as_ref() != Some(&good);
                if is_looked_at && is_damaged {
                    let found = rig.store.installed(rig.digest).await.unwrap();
                    assert_eq!(found, None, "{document}, way {way}");
                }
                let again = rig.store.install(rig.digest, rig.layout.source(), None);
                assert_eq!(again.await.unwrap(), rig.installed, "{document}, way {way}");
                assert_eq!(fs::read(&path).unwrap(), good);
                assert_eq!(rig.quarantined(), 0, "what is repaired is not kept");
            }
        }
    }
    let before = rig.store.usage();
    assert_eq!(rig.store.check(u64::MAX).await.unwrap().damaged, []);
    assert_eq!(rig.store.usage(), before);
}

#[tokio::test]
async fn without_a_source_a_damaged_document_is_missing_and_nothing_else_is_said() {
    let rig = rig().await;
    let [manifest, ..] = rig.documents();
    fs::write(rig.blob(&manifest), "{}").unwrap();
    let empty = TestLayout::new();
    let refused = rig.store.install(rig.digest, empty.source(), None).await;
    assert!(
        matches!(refused, Err(InstallError::Fetch { .. })),
        "{refused:?}"
    );
    assert_eq!(rig.store.installed(rig.digest).await.unwrap(), None);
    assert_eq!(rig.quarantined(), 1);
}

#[tokio::test]
async fn mirrored_documents_are_compared_too() {
    let mut layout = TestLayout::new();
    let digest = layout.add("web", &image(1, 20_000));
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_with(settings(folder.path())).await;
    let mirrored = store.mirror(digest, layout.source(), None).await.unwrap();
    let config = mirrored[0].manifest.config.digest;
    for document in [digest, config] {
        let path = store.blob_folder().join("sha256").join(document.to_hex());
        fs::write(&path, "{}").unwrap();
        let again = store.mirror(digest, layout.source(), None).await.unwrap();
        assert_eq!(again, mirrored);
        fs::write(&path, "{}").unwrap();
        assert_eq!(store.mirrored(digest).await.unwrap(), None);
        assert_eq!(store.mirror_state(&digest), MirrorState::Absent);
        let inspected = store.inspect(digest, layout.source()).await.unwrap();
        assert_eq!(inspected, mirrored);
        store.mirror(digest, layout.source(), None).await.unwrap();
        assert_eq!(
            store.mirrored(digest).await.unwrap(),
            Some(mirrored.clone())
        );
    }
}

#[tokio::test]
async fn what_was_set_aside_stays_for_this_boot_and_no_longer() {
    let rig = rig().await;
    fs::write(rig.installed.layers[0].join("opt/data-1"), "damage").unwrap();
    assert_eq!(rig.store.check(u64::MAX).await.unwrap().damaged.len(), 1);
    let source: Arc<_> = rig.layout.source();
    rig.store.install(rig.digest, source, None).await.unwrap();
    // An instance may still be running on the damaged one.
    assert_eq!(rig.quarantined(), 1);
    let used = rig.store.usage().used_bytes;
    let Rig {
        folder,
        store,
        digest,
        installed,
        ..
    } = rig;
    drop(store);
    let (store, _) = open_with(settings(folder.path())).await;
    assert_eq!(store.inventory().quarantined.len(), 1);
    drop(store);
    fs::write(folder.path().join("images/boot"), "another boot").unwrap();
    let (store, report) = open_with(settings(folder.path())).await;
    assert_eq!(report, Default::default());
    assert_eq!(store.inventory().quarantined.len(), 0);
    assert!(store.usage().used_bytes < used);
    let quarantine = fs::read_dir(folder.path().join("images/quarantine")).unwrap();
    assert_eq!(quarantine.count(), 0);
    assert_eq!(store.installed(digest).await.unwrap(), Some(installed));
    // What is set aside from now on is of this boot again.
    drop(store);
    let (store, _) = open_with(settings(folder.path())).await;
    assert_eq!(store.check(u64::MAX).await.unwrap().damaged, []);
}
