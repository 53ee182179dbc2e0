//! Kinds of blobs.

use std::fmt;

/// What a blob is, by its media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaType {
    /// An OCI index or a Docker manifest list.
    Index,
    /// An OCI or Docker image manifest.
    Manifest,
    /// An OCI or Docker image configuration.
    ImageConfig,
    /// An item configuration.
    ItemConfig,
    /// One layer of a root file system.
    Layer(LayerFormat),
    /// A component's image, for the runtimes that install components.
    Component(ComponentFormat),
    /// OCI's placeholder for nothing: `{}`.
    Empty,
    /// Anything else, as it was written.
    Other(String),
}

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerFormat {
    /// A plain tar archive.
    Tar,
    /// Compressed with gzip.
    TarGzip,
    /// Compressed with Zstandard.
    TarZstd,
}

/// How a component's image is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentFormat {
    /// All of it, compressed with gzip.
    FullGzip,
    /// All of it, a squashfs file system.
    FullSquashfs,
    /// What changed, a squashfs file system.
    IncrementalSquashfs,
}

/// Every spelling that is read. The first one of a kind is the one that is written.
const NAMES: &[(&str, MediaType)] = &[
    ("application/vnd.oci.image.index.v1+json", MediaType::Index),
    (
        "application/vnd.docker.distribution.manifest.list.v2+json",
        MediaType::Index,
    ),
    (
        "application/vnd.oci.image.manifest.v1+json",
        MediaType::Manifest,
    ),
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        MediaType::Manifest,
    ),
    (
        "application/vnd.oci.image.config.v1+json",
        MediaType::ImageConfig,
    ),
    (
        "application/vnd.docker.container.image.v1+json",
        MediaType::ImageConfig,
    ),
    (
        "application/vnd.aos.item.config.v1+json",
        MediaType::ItemConfig,
    ),
    (
        "application/vnd.oci.image.layer.v1.tar",
        MediaType::Layer(LayerFormat::Tar),
    ),
    (
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        MediaType::Layer(LayerFormat::Tar),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar",
        MediaType::Layer(LayerFormat::Tar),
    ),
    (
        "application/vnd.oci.image.layer.v1.tar+gzip",
        MediaType::Layer(LayerFormat::TarGzip),
    ),
    (
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        MediaType::Layer(LayerFormat::TarGzip),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        MediaType::Layer(LayerFormat::TarGzip),
    ),
    (
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        MediaType::Layer(LayerFormat::TarGzip),
    ),
    (
        "application/vnd.oci.image.layer.v1.tar+zstd",
        MediaType::Layer(LayerFormat::TarZstd),
    ),
    (
        "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
        MediaType::Layer(LayerFormat::TarZstd),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        MediaType::Layer(LayerFormat::TarZstd),
    ),
    (
        "application/vnd.aos.image.component.full.v1+gzip",
        MediaType::Component(ComponentFormat::FullGzip),
    ),
    (
        "application/vnd.aos.image.component.full.v1+squashfs",
        MediaType::Component(ComponentFormat::FullSquashfs),
    ),
    (
        "application/vnd.aos.image.component.inc.v1+squashfs",
        MediaType::Component(ComponentFormat::IncrementalSquashfs),
    ),
    ("application/vnd.oci.empty.v1+json", MediaType::Empty),
];

impl MediaType {
    /// The kind with this name. Media types have no case, and parameters (`; charset=utf-8`) change nothing here.
    pub fn from_name(name: &str) -> Self {
        let essence = name.split(';').next().unwrap_or_default().trim();
        NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(essence))
            .map_or_else(|| Self::Other(name.to_owned()), |(_, kind)| kind.clone())
    }

    /// The name that Muster writes.
    pub fn name(&self) -> &str {
        if let Self::Other(name) = self {
            return name;
        }
        NAMES
            .iter()
            .find(|(_, kind)| kind == self)
            .map_or("", |(name, _)| name)
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => write!(f, "{name:?}"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for (name, kind) in NAMES {
            assert_eq!(&MediaType::from_name(name), kind);
            assert_eq!(&MediaType::from_name(kind.name()), kind);
            assert!(!kind.name().is_empty());
        }
    }

    #[test]
    fn case_and_parameters_do_not_matter_and_other_names_stay() {
        let name = "Application/vnd.OCI.image.index.v1+json; charset=utf-8";
        assert_eq!(MediaType::from_name(name), MediaType::Index);
        let other = MediaType::from_name("text/plain\n");
        assert_eq!(other.name(), "text/plain\n");
        assert_eq!(other.to_string(), r#""text/plain\n""#);
    }
}
