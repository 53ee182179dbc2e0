//! Base images: found, fetched, looked at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_provider::{FailureClass, Ongoing};
use muster_template::Arch;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Distribution};
use crate::checksum::{Checksum, Kind, NoChecksum};
use crate::download::{DownloadError, Downloads};
use crate::known::KnownSums;
use crate::tool::{self, ToolError};

/// How long a look at an image may take.
const LOOK: Duration = Duration::from_secs(60);
/// How long one call waits for a download; well below what a call may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// What can be booted from.
const FORMATS: [&str; 2] = ["qcow2", "raw"];

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(
        "{name:?} is neither a path nor a URL, and no known distribution: there {known}; providers.libvirt.distributions adds one"
    )]
    Unknown { name: String, known: String },
    #[error("there is no file {0}")]
    Missing(PathBuf),
    #[error("{url} needs a digest, so that what it gives can be checked")]
    NoDigest { url: String },
    #[error("the digest cannot be used")]
    Digest(#[source] NoChecksum),
    #[error("{url} has no checksum of {image}")]
    NotListed { url: String, image: String },
    #[error("the download failed")]
    Download(#[source] DownloadError),
    #[error("the download failed")]
    Fetch(#[source] Arc<DownloadError>),
    #[error("{url} is being downloaded")]
    Underway { url: String },
    #[error("cannot look at {path}")]
    Look {
        path: PathBuf,
        #[source]
        source: ToolError,
    },
    #[error("{path} is not described as an image")]
    Described {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{path} has the format {format}, which is none of {FORMATS:?}")]
    Format { path: PathBuf, format: String },
    #[error("{path} came from elsewhere and refers to the file {other:?} of this host")]
    Refers { path: PathBuf, other: String },
}

impl ImageError {
    /// What it means for whoever ordered.
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::Download(error) => error.class(),
            Self::Fetch(error) => error.class(),
            Self::Underway { .. } => FailureClass::Underway,
            Self::Unknown { .. }
            | Self::Missing(_)
            | Self::NoDigest { .. }
            | Self::Digest(_)
            | Self::NotListed { .. }
            | Self::Described { .. }
            | Self::Format { .. }
            | Self::Refers { .. } => FailureClass::Refused,
            Self::Look { .. } => FailureClass::Retryable,
        }
    }
}

/// An image that can be booted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) format: String,
    /// The size of the disk that it is.
    pub(crate) size: u64,
    /// What it is for ever, if that is known.
    pub(crate) sum: Option<FileSum>,
}

/// The checksum of the file that a machine is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FileSum {
    pub(crate) digest: String,
    /// The file is this host's own.
    pub(crate) local: bool,
}

/// What an order wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) digest: Option<&'a str>,
    pub(crate) arch: Arch,
    /// Whether the checksum is to be found out, which takes a look at the whole file.
    pub(crate) sum: bool,
}

/// A file that was found.
#[derive(Debug)]
struct Found {
    path: PathBuf,
    trust: Trust,
    sum: Option<Checksum>,
}

impl Found {
    fn sum(&self) -> Option<FileSum> {
        let sum = self.sum.as_ref()?;
        Some(FileSum {
            digest: sum.to_string(),
            local: self.trust == Trust::Host,
        })
    }
}

/// What `qemu-img` says of an image.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Info {
    format: String,
    virtual_size: u64,
    backing_filename: Option<String>,
    format_specific: Option<FormatSpecific>,
}

#[derive(Debug, Deserialize)]
struct FormatSpecific {
    data: Option<FormatData>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FormatData {
    data_file: Option<String>,
}

impl Info {
    /// Another file that a guest would read through this one.
    fn refers_to(&self) -> Option<&str> {
        let specific = self.format_specific.as_ref();
        let data = specific.and_then(|it| it.data.as_ref());
        let file = data.and_then(|it| it.data_file.as_deref());
        self.backing_filename.as_deref().or(file)
    }
}

/// Finds images.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) cache: PathBuf,
    pub(crate) catalog: Catalog,
    pub(crate) downloads: Downloads,
    pub(crate) qemu_img: PathBuf,
    pub(crate) known: KnownSums,
    pub(crate) fetches: Fetches,
    /// How long one call waits for a download.
    pub(crate) patience: Duration,
}

/// The files that are being fetched, by where they go. A download takes as long as it takes: it outlives the calls that wait for it,
/// because not every server goes on where it was interrupted.
pub(crate) type Fetches = Ongoing<PathBuf, Result<(), Arc<DownloadError>>>;

/// Where a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Whoever runs this host put it there.
    Host,
    Elsewhere,
}

impl Images {
    /// The image of an order, ready to be read.
    pub(crate) async fn image(&self, wanted: Wanted<'_>) -> Result<Image, ImageError> {
        let found = self.file(wanted).await?;
        self.look(found).await
    }

    /// The disc of an order.
    pub(crate) async fn disc(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<(PathBuf, Option<FileSum>), ImageError> {
        let found = self.file(wanted).await?;
        let sum = found.sum();
        Ok((found.path, sum))
    }

    async fn file(&self, wanted: Wanted<'_>) -> Result<Found, ImageError> {
        let Wanted { name, arch, .. } = wanted;
        let digest = wanted.digest.map(str::parse).transpose();
        let digest: Option<Checksum> = digest.map_err(ImageError::Digest)?;
        if name.starts_with('/') {
            return self.own(PathBuf::from(name), digest, wanted.sum).await;
        }
        let elsewhere = |(path, sum)| Found {
            path,
            trust: Trust::Elsewhere,
            sum: Some(sum),
        };
        if name.starts_with("https://") || name.starts_with("http://") {
            let no_digest = || ImageError::NoDigest {
                url: name.to_owned(),
            };
            let digest = digest.ok_or_else(no_digest)?;
            let path = self.fetch(name, &digest).await?;
            return Ok(elsewhere((path, digest)));
        }
        let Some(distribution) = self.catalog.get(name) else {
            return Err(self.unknown(name));
        };
        Ok(elsewhere(match digest {
            Some(digest) => {
                let url = distribution.image.url(arch);
                (self.fetch(&url, &digest).await?, digest)
            }
            None => self.newest(name, distribution, arch).await?,
        }))
    }

    /// A file that whoever runs this host has put there.
    async fn own(
        &self,
        path: PathBuf,
        expected: Option<Checksum>,
        wants_sum: bool,
    ) -> Result<Found, ImageError> {
        if !path.is_file() {
            return Err(ImageError::Missing(path));
        }
        let mut found = Found {
            path,
            trust: Trust::Host,
            sum: None,
        };
        if expected.is_some() || wants_sum {
            let kind = expected.as_ref().map_or(Kind::Sha256, Checksum::kind);
            let sum = self.known.of(&found.path, kind).await;
            let sum = sum.map_err(|source| {
                let path = found.path.clone();
                ImageError::Download(DownloadError::File { path, source })
            })?;
            if let Some(expected) = expected.filter(|it| *it != sum) {
                return Err(ImageError::Download(DownloadError::Checksum {
                    url: found.path.display().to_string(),
                    expected,
                    found: sum,
                }));
            }
            found.sum = Some(sum);
        }
        Ok(found)
    }

    fn unknown(&self, name: &str) -> ImageError {
        let known: Vec<&str> = self.catalog.names().collect();
        ImageError::Unknown {
            name: name.chars().take(100).collect(),
            known: match known.as_slice() {
                [] => "is none".to_owned(),
                known => format!("are {}", known.join(", ")),
            },
        }
    }

    /// The image that a distribution offers now; the one it offered last, while it cannot be asked.
    async fn newest(
        &self,
        name: &str,
        distribution: &Distribution,
        arch: Arch,
    ) -> Result<(PathBuf, Checksum), ImageError> {
        let url = distribution.checksums.url(arch);
        let remembered = self
            .cache
            .join(format!("{name}-{}.checksum", arch.as_str()));
        let list = match self.downloads.text(&url).await {
            Ok(list) => list,
            Err(error) => {
                let kept = tokio::fs::read_to_string(&remembered).await.ok();
                let kept = kept.and_then(|text| text.trim().parse::<Checksum>().ok());
                let kept = kept.map(|checksum| (self.path(&checksum), checksum));
                return match kept.filter(|(path, _)| path.is_file()) {
                    Some(kept) => {
                        tracing::warn!(
                            distribution = name,
                            error = %error,
                            "a distribution cannot be asked for its newest image; the last one is used"
                        );
                        Ok(kept)
                    }
                    None => Err(ImageError::Download(error)),
                };
            }
        };
        let image = distribution.image.file_name(arch);
        let Some(checksum) = Checksum::find(&list, &image) else {
            return Err(ImageError::NotListed { url, image });
        };
        let path = self.fetch(&distribution.image.url(arch), &checksum).await?;
        // What is not remembered costs a machine while the distribution is away, and nothing else.
        if let Err(error) = tokio::fs::write(&remembered, checksum.to_string()).await {
            tracing::warn!(path = %remembered.display(), %error, "cannot remember a checksum");
        }
        Ok((path, checksum))
    }

    fn path(&self, checksum: &Checksum) -> PathBuf {
        self.cache.join(format!("{}.img", checksum.file_name()))
    }

    async fn fetch(&self, url: &str, checksum: &Checksum) -> Result<PathBuf, ImageError> {
        let path = self.path(checksum);
        if path.is_file() {
            return Ok(path);
        }
        let fetched = self.fetches.wait(path.clone(), self.patience, || {
            let (downloads, to) = (self.downloads.clone(), path.clone());
            let (url, checksum) = (url.to_owned(), checksum.clone());
            async move {
                let fetched = downloads.fetch(&url, &checksum, &to).await;
                fetched.map_err(Arc::new)
            }
        });
        match fetched.await {
            Some(fetched) => fetched.map_err(ImageError::Fetch)?,
            None => {
                let url = url.to_owned();
                return Err(ImageError::Underway { url });
            }
        }
        Ok(path)
    }

    async fn look(&self, found: Found) -> Result<Image, ImageError> {
        let sum = found.sum();
        let Found { path, trust, .. } = found;
        // A machine may have it open; a look does not disturb it.
        let arguments = ["info", "--force-share", "--output=json", "--"].map(OsStr::new);
        let arguments = [&arguments[..], &[path.as_os_str()]].concat();
        let said = tool::run(&self.qemu_img, &arguments, LOOK).await;
        let said = said.map_err(|source| ImageError::Look {
            path: path.clone(),
            source,
        })?;
        Ok(Image {
            sum,
            ..examine(path, trust, &said)?
        })
    }
}

fn examine(path: PathBuf, trust: Trust, said: &[u8]) -> Result<Image, ImageError> {
    let info: Info = match serde_json::from_slice(said) {
        Ok(info) => info,
        Err(source) => return Err(ImageError::Described { path, source }),
    };
    if !FORMATS.contains(&info.format.as_str()) {
        let format = info.format;
        return Err(ImageError::Format { path, format });
    }
    match info.refers_to() {
        Some(other) if trust == Trust::Elsewhere => Err(ImageError::Refers {
            other: other.chars().take(200).collect(),
            path,
        }),
        _ => Ok(Image {
            path,
            size: info.virtual_size,
            format: info.format,
            sum: None,
        }),
    }
}

/// Whether a path can be given to programs and descriptions.
pub(crate) fn is_plain(path: &Path) -> bool {
    let text = path.to_str();
    path.is_absolute() && text.is_some_and(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests;
