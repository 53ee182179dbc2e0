//! Index and manifest: what the digest of an item leads to.

use crate::read::{self, At, DocumentKind, FieldProblem, ReadDocumentError};
use crate::{Descriptor, Fit, Limits, MediaType, Platform};

/// What the digest of an item leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// A choice of manifests, by platform.
    Index(Index),
    /// One image.
    Manifest(Box<Manifest>),
}

/// A choice of manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// In the order of the document.
    pub manifests: Vec<IndexEntry>,
}

/// One of an index's manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// The manifest, or a further index.
    pub descriptor: Descriptor,
    /// What it is built for, if the index says so.
    pub platform: Option<Platform>,
    /// `org.opencontainers.image.ref.name`: how an image layout names it.
    pub name: Option<String>,
    /// `vnd.docker.reference.type`: it says something about another entry (how that was built, what is in it), and is no image.
    pub refers: bool,
}

impl IndexEntry {
    /// Whether some node may choose it: what it leads to is an image, or a choice of such. Builders put statements about images
    /// beside them, with the annotation, or for a platform that nothing has.
    pub fn is_offered(&self) -> bool {
        let is_readable = matches!(
            self.descriptor.media_type,
            MediaType::Manifest | MediaType::Index
        );
        is_readable && !self.refers && !self.platform.as_ref().is_some_and(Platform::is_nobodys)
    }
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The image configuration; [`MediaType::Empty`] for what is no root file system.
    pub config: Descriptor,
    /// The item configuration, if there is one.
    pub item_config: Option<Descriptor>,
    /// The lowest first.
    pub layers: Vec<Descriptor>,
}

/// An index has nothing for a platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no manifest of the index is for {wanted}; it has {}", list(.offered))]
pub struct SelectManifestError {
    /// What was looked for.
    pub wanted: Box<Platform>,
    /// What there is.
    pub offered: Vec<Platform>,
}

/// Builders mark statements about images with it.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";
/// How many platforms an error names.
const NAMED_PLATFORMS: usize = 16;

fn list(platforms: &[Platform]) -> String {
    if platforms.is_empty() {
        return "none".to_owned();
    }
    let names = platforms.iter().take(NAMED_PLATFORMS);
    let mut text = names
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if let more @ 1.. = platforms.len().saturating_sub(NAMED_PLATFORMS) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

impl Document {
    /// Reads an index or a manifest, of OCI or of Docker's second version.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, ReadDocumentError> {
        let tree = read::parse(DocumentKind::IndexOrManifest, bytes, limits)?;
        let root = At::root(DocumentKind::IndexOrManifest, &tree);
        let declared =
            root.optional("mediaType", |at| Ok((MediaType::from_name(at.text()?), at)))?;
        let has_manifests = root.field("manifests")?;
        let has_layers = root.field("layers")?;
        let is_index = match (&declared, &has_manifests, &has_layers) {
            // A reader that trusts the keys and one that trusts the type would see different images.
            (_, Some(manifests), Some(_)) => {
                return Err(manifests.error(FieldProblem::Invalid {
                    value: "the list".to_owned(),
                    reason: "stands beside layers, so that it is open what this is".to_owned(),
                }));
            }
            (Some((MediaType::Index, _)), _, None) => true,
            (Some((MediaType::Manifest, _)), None, _) => false,
            (Some((_, at)), ..) => {
                return Err(
                    at.invalid("is not what the document holds, or no index and no manifest")
                );
            }
            (None, Some(_), None) => true,
            (None, None, _) => false,
        };
        if let Some(at) = root.field("schemaVersion")?
            && at.unsigned()? != 2
        {
            return Err(at.invalid("is no version that is read; expected 2"));
        }
        if is_index {
            Index::read(&root.as_kind(DocumentKind::Index)).map(Self::Index)
        } else {
            Manifest::read(&root.as_kind(DocumentKind::Manifest), limits)
                .map(|manifest| Self::Manifest(Box::new(manifest)))
        }
    }
}

impl Index {
    fn read(root: &At<'_>) -> Result<Self, ReadDocumentError> {
        let manifests = root.each("manifests", |at| {
            let annotations = at.field("annotations")?;
            let name = annotations.as_ref().map(|at| {
                at.optional("org.opencontainers.image.ref.name", |at| {
                    at.text().map(str::to_owned)
                })
            });
            let reference = annotations.as_ref().map(|at| at.field(REFERENCE_TYPE));
            Ok(IndexEntry {
                descriptor: Descriptor::read(&at)?,
                platform: at
                    .optional("platform", |at| Platform::read(&at))?
                    .filter(Platform::is_stated),
                name: name.transpose()?.flatten(),
                refers: reference.transpose()?.flatten().is_some(),
            })
        })?;
        Ok(Self { manifests })
    }

    /// The manifest that suits a node best; of several that suit equally the first. One without a platform is taken only when
    /// none has the right one.
    pub fn select(&self, node: &Platform) -> Result<&Descriptor, SelectManifestError> {
        let fit = |entry: &IndexEntry| match &entry.platform {
            Some(platform) => node.fit(platform),
            None => Some(Fit::Unsaid),
        };
        let offered = || self.manifests.iter().filter(|entry| entry.is_offered());
        offered()
            .filter_map(|entry| Some((fit(entry)?, entry)))
            // The last of several maxima is taken by `max_by_key`, hence backwards.
            .rev()
            .max_by_key(|(fit, _)| *fit)
            .map(|(_, entry)| &entry.descriptor)
            .ok_or_else(|| SelectManifestError {
                wanted: Box::new(node.clone()),
                offered: offered()
                    .filter_map(|entry| entry.platform.clone())
                    .collect(),
            })
    }
}

impl Manifest {
    fn read(root: &At<'_>, limits: &Limits) -> Result<Self, ReadDocumentError> {
        Ok(Self {
            config: Descriptor::read(&root.required("config")?)?,
            item_config: root.optional("aosItemConfig", |at| Descriptor::read(&at))?,
            layers: root.at_most(
                "layers",
                limits.layers,
                root.each("layers", |at| Descriptor::read(&at))?,
            )?,
        })
    }

    /// The blobs that it needs, its own excepted: configuration, item configuration, layers. A blob may stand there twice.
    pub fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        [&self.config]
            .into_iter()
            .chain(&self.item_config)
            .chain(&self.layers)
    }
}

#[cfg(test)]
mod tests;
