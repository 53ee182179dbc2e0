//! Looking at an item that is not here.

use std::time::Duration;

use muster_api::domain::ItemId;
use muster_desired::{Item, Trust};

use super::{Items, content, name};
use crate::describe::Described;
use crate::error::DownloadItemError;

/// Documents are small: a source that takes longer for them is as good as away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why it is not known what an item is.
#[derive(Debug, thiserror::Error)]
pub enum InspectItemError {
    /// Its source cannot be used, or what it gives makes no sense.
    #[error("cannot look at item {id} {version}")]
    Unusable {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// Why.
        #[source]
        source: Box<DownloadItemError>,
    },
    /// Its source does not answer in time.
    #[error("the source of item {id} {version} does not answer within {} s", patience.as_secs())]
    Slow {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// So long was waited.
        patience: Duration,
    },
}

impl Items {
    /// What an item is: from what is here, or else from its source, of which documents are read and nothing is kept. Takes ten
    /// seconds at most.
    pub async fn inspect(&self, item: &Item, trust: &Trust) -> Result<Described, InspectItemError> {
        if let Ok(described) = self.describe(item).await {
            return Ok(described);
        }
        let (id, version) = name(item);
        match tokio::time::timeout(PATIENCE, self.look_at_source(item, trust)).await {
            Ok(Ok(described)) => Ok(described),
            Ok(Err(source)) => Err(InspectItemError::Unusable {
                id,
                version,
                source: Box::new(source),
            }),
            Err(_) => Err(InspectItemError::Slow {
                id,
                version,
                patience: PATIENCE,
            }),
        }
    }

    async fn look_at_source(
        &self,
        item: &Item,
        trust: &Trust,
    ) -> Result<Described, DownloadItemError> {
        let opened = self.inner.open_source(item, Some(trust)).await;
        let opened = opened.map_err(|source| {
            let (id, version) = name(item);
            DownloadItemError::Source {
                id,
                version,
                source,
            }
        })?;
        let images = self.inner.blobs.inspect(opened.index, opened.blobs).await;
        let images = images.map_err(|source| content(item, source))?;
        Ok(Described {
            index: opened.index,
            images,
        })
    }
}
