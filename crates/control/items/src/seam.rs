//! Items as updates see them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::AosError;
use muster_desired::seams::{DownloadMeter, Downloads};
use muster_desired::{DesiredStatus, Item};
use muster_image::Progress;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::items::Items;

/// Between two signs of life of a download that waits: for its turn, for the cloud, or before the next try. Each of these ends by
/// itself, so a download that lives is one that goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

impl Downloads for Items {
    fn download(
        &self,
        item: Item,
        desired: Arc<DesiredStatus>,
        meter: DownloadMeter,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            let (sender, mut progress) = watch::channel(Progress::default());
            let mut work =
                std::pin::pin!(Self::download(self, &item, desired.trust(), Some(sender)));
            let mut ticks = tokio::time::interval(SIGN_OF_LIFE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let done = tokio::select! {
                    done = &mut work => Some(done),
                    Ok(()) = progress.changed() => None,
                    _ = ticks.tick() => None,
                };
                let level = *progress.borrow_and_update();
                meter.set(level.received_bytes, level.total_bytes);
                if let Some(done) = done {
                    return done.map(drop).map_err(|error| error.fault());
                }
            }
        })
    }

    fn retain(&self, items: BTreeSet<Item>) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move {
            Self::retain(self, &items)
                .await
                .map_err(|error| error.fault())
        })
    }
}
