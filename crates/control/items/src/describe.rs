//! What an item is on each platform.

use muster_api::domain::Digest;
use muster_image::MirroredImage;
use muster_item::{Fit, Platform};

/// What an item is.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its index, or its only manifest.
    pub index: Digest,
    /// Its images, in the order of the index. Never empty.
    pub images: Vec<MirroredImage>,
}

impl Described {
    /// The image that suits a node or a runtime best; of several that suit equally the first. One that does not say what it is
    /// for is taken only when none says the right thing.
    pub fn image_for(&self, platform: &Platform) -> Option<&MirroredImage> {
        let fit = |image: &MirroredImage| match &image.platform {
            Some(built_for) => platform.fit(built_for),
            None => Some(Fit::Unsaid),
        };
        let fitting = self
            .images
            .iter()
            .filter_map(|image| Some((fit(image)?, image)));
        // The last of several maxima is taken by `max_by_key`, hence backwards.
        let fitting: Vec<_> = fitting.collect();
        let best = fitting.into_iter().rev().max_by_key(|(fit, _)| *fit);
        best.map(|(_, image)| image)
    }
}
