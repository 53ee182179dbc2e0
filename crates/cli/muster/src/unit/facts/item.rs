//! An item in one version.

use jiff::Timestamp;
use muster_control_api::v1;
use serde::Serialize;

use super::{Described, ErrorFacts, Listed, error_words, given, or_dash};
use crate::text::{shown, size};

/// An item in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemFacts {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) r#type: String,
    pub(crate) owner: Option<String>,
    pub(crate) state: String,
    pub(crate) error: Option<ErrorFacts>,
    pub(crate) index_digest: Option<String>,
    /// 0 while not known.
    pub(crate) total_size: u64,
    pub(crate) downloaded: u64,
}

impl From<v1::Item> for ItemFacts {
    fn from(item: v1::Item) -> Self {
        Self {
            id: item.item_id,
            version: item.version,
            r#type: item.r#type,
            owner: given(item.owner_id),
            state: item.state,
            error: item.error.map(ErrorFacts::from),
            index_digest: given(item.index_digest),
            total_size: item.total_size,
            downloaded: item.downloaded,
        }
    }
}

impl ItemFacts {
    /// How much of it is there.
    fn size(&self) -> String {
        match (self.downloaded, self.total_size) {
            (_, 0) => "-".to_owned(),
            (done, all) if done < all && self.state == "downloading" => {
                format!("{} of {}", size(done), size(all))
            }
            (_, all) => size(all),
        }
    }
}

/// The key under which an item in a version is told to be gone.
pub(crate) fn item_key(item: &str, version: &str) -> String {
    format!("{item}@{version}")
}

impl Listed for ItemFacts {
    const KIND: &'static str = "item";
    const COLUMNS: &'static [&'static str] = &["ITEM", "VERSION", "TYPE", "STATE", "SIZE", "ERROR"];
    const FURTHER: &'static [&'static str] = &["OWNER", "DIGEST"];

    fn key(&self) -> String {
        item_key(&self.id, &self.version)
    }

    fn name(&self) -> String {
        self.id.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        vec![
            shown(&self.id),
            shown(&self.version),
            shown(&self.r#type),
            shown(&self.state),
            self.size(),
            error_words(self.error.as_ref()),
        ]
    }

    fn further(&self) -> Vec<String> {
        vec![
            or_dash(self.owner.as_deref()),
            or_dash(self.index_digest.as_deref()),
        ]
    }
}

impl Described for ItemFacts {
    fn facts(&self, _: Timestamp) -> Vec<(&'static str, String)> {
        vec![
            ("Item", shown(&self.id)),
            ("Version", shown(&self.version)),
            ("Type", shown(&self.r#type)),
            ("State", shown(&self.state)),
            ("Error", error_words(self.error.as_ref())),
            ("Owner", shown(self.owner.as_deref().unwrap_or_default())),
            ("Size", self.size()),
            (
                "Digest",
                shown(self.index_digest.as_deref().unwrap_or_default()),
            ),
        ]
    }
}
