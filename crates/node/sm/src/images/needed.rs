//! The one task that tells the image store what is needed, and has it remove what nobody has needed for long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::Digest;
use muster_image::ImageStore;
use muster_telemetry::ErrorChain;
use tokio::sync::{Mutex, watch};

/// What has been said.
type Said = watch::Receiver<Option<BTreeSet<Digest>>>;

/// Notes what is needed: one at a time, and always what was said last.
#[derive(Debug)]
pub(super) struct Notes {
    store: ImageStore,
    turn: Mutex<()>,
}

impl Notes {
    pub(super) fn new(store: ImageStore) -> Self {
        let turn = Mutex::default();
        Self { store, turn }
    }

    /// Returns when what was last said is noted. What could not be noted is noted the next time. Until somebody has said
    /// something, everything is needed.
    pub(super) async fn take(&self, said: &Said) -> bool {
        let _in_turn = self.turn.lock().await;
        let Some(needed) = said.borrow().clone() else {
            return true;
        };
        let kept = self.store.keep(&needed, SystemTime::now()).await;
        if let Err(error) = &kept {
            tracing::warn!(error = %ErrorChain(error), "cannot note which images are needed");
        }
        kept.is_ok()
    }
}

/// Notes it whenever it is said, and removes what nobody needs any more, then and every so often.
pub(super) async fn look_after(notes: Arc<Notes>, mut said: Said, every: Option<Duration>) {
    let every = every.unwrap_or(Duration::MAX);
    // Until somebody has said what is needed, nothing is removed.
    while said.borrow().is_none() {
        if said.changed().await.is_err() {
            return;
        }
    }
    loop {
        said.mark_unchanged();
        if notes.take(&said).await {
            collect(&notes.store).await;
        }
        tokio::select! {
            changed = said.changed() => if changed.is_err() {
                return;
            },
            () = tokio::time::sleep(every) => {}
        }
    }
}

async fn collect(store: &ImageStore) {
    match store.collect(SystemTime::now()).await {
        Ok(plan) if plan.is_empty() => {}
        Ok(_) => tracing::info!("removed images that nobody needs"),
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "cannot remove old images");
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_image::{BlobSource, LayoutSource, SCHEMA, StoreSettings};
    use muster_item::Platform;
    use muster_lab::oci::{Compression, Image, LayerBuilder, Layout};
    use muster_launcher::seams::Images as _;
    use muster_store::{OnDamage, Store, StoreConfig};

    use super::*;
    use crate::images::NodeImages;

    const TIME: Duration = Duration::from_secs(20);

    async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let look = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(TIME, look).await.is_ok(), "{what}");
    }

    #[tokio::test]
    async fn images_go_when_their_time_is_over_although_nothing_else_happens() {
        muster_lab::require!(Root);
        let folder = tempfile::tempdir().unwrap();
        let mut layout = Layout::create(folder.path().join("layout")).unwrap();
        let file = LayerBuilder::new().file("file", b"text".to_vec(), 0o644);
        let image = Image::new().layer(file.build(Compression::None).unwrap());
        let manifest = layout.add("one", image.build()).unwrap();
        let digest: Digest = manifest.as_str().parse().unwrap();
        let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
        let db = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let mut settings =
            StoreSettings::new(folder.path().join("images"), Platform::of_this_program());
        // Seconds are what it counts in: it is not over when it is noted.
        settings.item_ttl = Duration::from_secs(1);
        let (store, _) = ImageStore::open(settings, db).await.unwrap();
        let source = LayoutSource::open(folder.path().join("layout")).unwrap();
        let source: Arc<dyn BlobSource> = Arc::new(source);
        let every = Some(Duration::from_millis(50));
        let images = NodeImages::new(store.clone(), source, every);
        images.install(digest).await.expect("an image");
        images.keep(BTreeSet::from([digest]));
        images.keep(BTreeSet::new());
        until("it is removed in the end", || {
            store.inventory().items.is_empty()
        })
        .await;
        // Of many sets in a row, the last counts.
        images.install(digest).await.expect("an image");
        for _ in 0..50 {
            images.keep(BTreeSet::new());
            images.keep(BTreeSet::from([digest]));
        }
        until("it is noted as needed", || {
            let inventory = store.inventory();
            inventory.items[&digest].removed_at.is_none()
        })
        .await;
    }

    #[tokio::test]
    async fn what_is_needed_again_makes_no_room_for_what_comes_with_it() {
        muster_lab::require!(Root);
        let folder = tempfile::tempdir().unwrap();
        let mut layout = Layout::create(folder.path().join("layout")).unwrap();
        let mut image = |name: &str| -> Digest {
            let content = name.as_bytes().repeat(400_000);
            let file = LayerBuilder::new().file("file", content, 0o644);
            let image = Image::new().layer(file.build(Compression::None).unwrap());
            let manifest = layout.add(name, image.build()).unwrap();
            manifest.as_str().parse().unwrap()
        };
        let [old, other, new] = ["a", "b", "c"].map(&mut image);
        let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
        let db = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let mut settings =
            StoreSettings::new(folder.path().join("images"), Platform::of_this_program());
        settings.documents.document_bytes = 64 << 10;
        // Two are there, and a third one only instead of one of them: it needs its bytes twice while it comes.
        settings.max_bytes = Some(1_500_000);
        let (store, _) = ImageStore::open(settings, db).await.unwrap();
        let source = LayoutSource::open(folder.path().join("layout")).unwrap();
        // Nobody else notes what is needed: whoever gets an image has to.
        let images = NodeImages {
            notes: Arc::new(Notes::new(store.clone())),
            store: store.clone(),
            source: Arc::new(source),
            needed: watch::channel(None).0,
        };
        images.install(old).await.expect("an image");
        images.keep(BTreeSet::new());
        images.install(other).await.expect("an image");
        assert!(store.inventory().items[&old].removed_at.is_some());
        images.keep(BTreeSet::from([old, new]));
        images.install(new).await.expect("an image");
        assert!(images.installed(old).await.is_some());
        assert!(images.installed(other).await.is_none(), "it made room");
    }
}
