//! Requests about images.

use super::action::{Action, ReadAnswerError};
use super::model::{Filter, Image, push_filters};
use super::query::Query;
use super::xml::Element;

/// Tells about images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribeImages {
    /// These; none are all that fit.
    pub ids: Vec<String>,
    /// Of these owners: accounts, or aliases such as `amazon`.
    pub owners: Vec<String>,
    /// Those that fit all of these.
    pub filters: Vec<Filter>,
}

impl DescribeImages {
    /// All images of an owner whose name fits a pattern of EC2's, for an architecture.
    #[must_use]
    pub fn by_name(owner: &str, name: &str, arch: &str) -> Self {
        Self {
            ids: Vec::new(),
            owners: vec![owner.to_owned()],
            filters: vec![
                Filter::new("name", name),
                Filter::new("architecture", arch),
                Filter::new("state", "available"),
            ],
        }
    }

    /// One image.
    #[must_use]
    pub fn one(id: &str) -> Self {
        Self {
            ids: vec![id.to_owned()],
            ..Self::default()
        }
    }
}

impl Action for DescribeImages {
    const NAME: &'static str = "DescribeImages";
    type Answer = Vec<Image>;

    fn parameters(&self, query: &mut Query) {
        query.push_list("ImageId", &self.ids);
        query.push_list("Owner", &self.owners);
        push_filters(query, &self.filters);
    }

    fn read(answer: &Element) -> Result<Vec<Image>, ReadAnswerError> {
        answer.items("imagesSet").map(Image::read).collect()
    }
}

/// The newest image; of two that are as old, the one whose name sorts last, so that everybody finds the same.
#[must_use]
pub fn newest(images: Vec<Image>) -> Option<Image> {
    let key = |image: &Image| (image.created.clone(), image.id.clone());
    images.into_iter().max_by_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_image_wins_whatever_the_order() {
        let image = |id: &str, created: &str| Image {
            id: id.to_owned(),
            arch: "x86_64".to_owned(),
            created: created.to_owned(),
            root_device: None,
        };
        let mut images = vec![
            image("ami-2", "2026-01-02T00:00:00.000Z"),
            image("ami-3", "2026-01-02T00:00:00.000Z"),
            image("ami-1", "2025-12-31T00:00:00.000Z"),
        ];
        for _ in 0..images.len() {
            images.rotate_left(1);
            assert_eq!(newest(images.clone()).unwrap().id, "ami-3");
        }
        assert_eq!(newest(Vec::new()), None);
    }
}
