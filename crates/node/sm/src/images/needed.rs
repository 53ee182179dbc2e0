//! The one task that tells the image store what is needed, and has it remove what nobody has needed for long.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use muster_api::domain::Digest;
use muster_image::ImageStore;
use muster_telemetry::ErrorChain;
use tokio::sync::watch;

/// One at a time, and always what was said last. What could not be noted is noted the next time.
pub(super) async fn look_after(
    store: ImageStore,
    mut said: watch::Receiver<Option<BTreeSet<Digest>>>,
    every: Option<Duration>,
) {
    let every = every.unwrap_or(Duration::MAX);
    // Until somebody has said what is needed, nothing is removed.
    while said.borrow().is_none() {
        if said.changed().await.is_err() {
            return;
        }
    }
    loop {
        let needed = said.borrow_and_update().clone().unwrap_or_default();
        note(&store, &needed).await;
        tokio::select! {
            changed = said.changed() => if changed.is_err() {
                return;
            },
            () = tokio::time::sleep(every) => {}
        }
    }
}

async fn note(store: &ImageStore, needed: &BTreeSet<Digest>) {
    let kept = store.keep(needed, SystemTime::now()).await;
    if let Err(error) = kept {
        tracing::warn!(error = %ErrorChain(&error), "cannot note which images are needed");
        return;
    }
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
    use std::sync::Arc;

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
}
