//! Downloads, also from this host: resumed where they were interrupted, checked before they have a name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use muster_provider::{BoxError, FailureClass};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode, Url};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::checksum::{Checksum, Hasher, LARGEST_LIST};

const CONNECT: Duration = Duration::from_secs(30);
/// How much is read at once of what an earlier attempt has left.
const PIECE: usize = 1 << 20;

/// Why a download gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error("cannot ask for {url}")]
    Ask {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} answers {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url} is larger than the {most} bytes that are allowed")]
    TooLarge { url: String, most: u64 },
    #[error("{url} is not the text that was expected")]
    Text { url: String },
    #[error("{url} has the checksum {found}, not {expected}")]
    Checksum {
        url: String,
        expected: Checksum,
        found: Checksum,
    },
    #[error("cannot read or write {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl DownloadError {
    /// What it means for whoever ordered.
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::TooLarge { .. } => FailureClass::Refused,
            Self::Status { status, .. } if status.is_client_error() => FailureClass::Refused,
            _ => FailureClass::Retryable,
        }
    }
}

/// A list of checksums proves nothing that came over an open line.
#[derive(Debug, thiserror::Error)]
#[error("it leads from an encrypted line to an open one")]
struct OpenLine;

/// How often a place may lead to another.
const MOST_REDIRECTS: usize = 10;

fn stays_encrypted(from: &Url, to: &Url) -> bool {
    from.scheme() != "https" || to.scheme() == "https"
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let from = attempt.previous().last();
    match from.is_none_or(|from| stays_encrypted(from, attempt.url())) {
        false => attempt.error(OpenLine),
        true if attempt.previous().len() > MOST_REDIRECTS => attempt.stop(),
        true => attempt.follow(),
    }
}

/// Asks for files.
#[derive(Debug, Clone)]
pub(crate) struct Downloads {
    client: Client,
    largest: u64,
}

/// What has been got of a file so far.
struct Partial {
    file: File,
    hasher: Hasher,
    length: u64,
}

impl Downloads {
    /// Trusts whoever the file of certificates trusts; nobody, if there is none.
    pub(crate) fn new(ca_bundle: &Path, stall: Duration, largest: u64) -> Result<Self, BoxError> {
        let mut roots = rustls::RootCertStore::empty();
        if let Ok(found) = CertificateDer::pem_file_iter(ca_bundle) {
            roots.add_parsable_certificates(found.flatten());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT)
            .read_timeout(stall)
            .pool_max_idle_per_host(0)
            .redirect(Policy::custom(follow))
            .build()?;
        Ok(Self { client, largest })
    }

    async fn ask(&self, url: &str, from: u64) -> Result<Response, DownloadError> {
        let mut request = self.client.get(url);
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let answer = request.send().await;
        answer.map_err(|source| DownloadError::Ask {
            url: url.to_owned(),
            source: source.without_url(),
        })
    }

    /// A small text.
    pub(crate) async fn text(&self, url: &str) -> Result<String, DownloadError> {
        let text = match local(url) {
            Some(path) => read(path).await?,
            None => self.download_text(url).await?,
        };
        if text.len() > LARGEST_LIST {
            return Err(DownloadError::TooLarge {
                url: url.to_owned(),
                most: LARGEST_LIST as u64,
            });
        }
        String::from_utf8(text).map_err(|_| DownloadError::Text {
            url: url.to_owned(),
        })
    }

    /// As much as a text may have, and a piece more.
    async fn download_text(&self, url: &str) -> Result<Vec<u8>, DownloadError> {
        let answer = self.ask(url, 0).await?;
        if answer.status() != StatusCode::OK {
            return Err(DownloadError::Status {
                url: url.to_owned(),
                status: answer.status(),
            });
        }
        let mut text = Vec::new();
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.map_err(|source| DownloadError::Ask {
                url: url.to_owned(),
                source: source.without_url(),
            })?);
            if text.len() > LARGEST_LIST {
                break;
            }
        }
        Ok(text)
    }

    /// A file with this checksum, under a name that it has only when it is whole and right.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        expected: &Checksum,
        path: &Path,
    ) -> Result<(), DownloadError> {
        let part = with_suffix(path, ".part");
        let failed = |source| DownloadError::File {
            path: part.clone(),
            source,
        };
        // Whoever else wants the same waits, and finds it.
        let lock = lock(with_suffix(path, ".lock")).await.map_err(failed)?;
        if path.exists() {
            return Ok(());
        }
        let (kept, hasher) = (part.clone(), expected.hasher());
        let partial = blocking(move || Partial::open(&kept, hasher)).await;
        let mut partial = partial.map_err(failed)?;
        match local(url) {
            Some(source) => partial = self.copy(source, partial).await?,
            None => self.fill(url, &mut partial, &part).await?,
        }
        let found = partial.hasher.clone().finish();
        if found != *expected {
            let wrong = part.clone();
            blocking(move || std::fs::remove_file(wrong))
                .await
                .map_err(failed)?;
            return Err(DownloadError::Checksum {
                url: url.to_owned(),
                expected: expected.clone(),
                found,
            });
        }
        let (from, to) = (part.clone(), path.to_owned());
        let named = blocking(move || {
            partial.file.sync_all()?;
            std::fs::rename(&from, &to)?;
            muster_durable::sync_folder_of(&to)
        });
        named.await.map_err(failed)?;
        drop(lock);
        Ok(())
    }

    /// Takes a file of this host, from its beginning.
    async fn copy(&self, source: PathBuf, mut partial: Partial) -> Result<Partial, DownloadError> {
        let (from, most) = (source.clone(), self.largest);
        let copied = blocking(move || {
            partial.restart()?;
            let mut file = open_file(&from)?.take(most.saturating_add(1));
            let mut piece = vec![0; PIECE];
            loop {
                match file.read(&mut piece)? {
                    0 => return Ok(partial),
                    read => partial.add(&piece[..read])?,
                }
            }
        });
        let partial = copied.await.map_err(|error| DownloadError::File {
            path: source.clone(),
            source: error,
        })?;
        match partial.length > most {
            true => Err(DownloadError::TooLarge {
                url: source.display().to_string(),
                most,
            }),
            false => Ok(partial),
        }
    }

    async fn fill(
        &self,
        url: &str,
        partial: &mut Partial,
        part: &Path,
    ) -> Result<(), DownloadError> {
        let failed = |source| DownloadError::File {
            path: part.to_owned(),
            source,
        };
        let mut answer = self.ask(url, partial.length).await?;
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if begins_at(&answer) == Some(partial.length) => {}
            StatusCode::OK => partial.restart().map_err(failed)?,
            // Nothing is left to get, or what is here does not belong to it: the checksum tells which.
            StatusCode::RANGE_NOT_SATISFIABLE => return Ok(()),
            StatusCode::PARTIAL_CONTENT => {
                partial.restart().map_err(failed)?;
                answer = self.ask(url, 0).await?;
            }
            _ => {}
        }
        if !matches!(
            answer.status(),
            StatusCode::OK | StatusCode::PARTIAL_CONTENT
        ) {
            return Err(DownloadError::Status {
                url: url.to_owned(),
                status: answer.status(),
            });
        }
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|source| DownloadError::Ask {
                url: url.to_owned(),
                source: source.without_url(),
            })?;
            if partial.length + piece.len() as u64 > self.largest {
                return Err(DownloadError::TooLarge {
                    url: url.to_owned(),
                    most: self.largest,
                });
            }
            // A piece is what a socket gave at once: it is copied to the page cache in well under a millisecond.
            partial.add(&piece).map_err(failed)?;
        }
        Ok(())
    }
}

/// The file of this host that a URL names.
fn local(url: &str) -> Option<PathBuf> {
    url.strip_prefix("file://").map(PathBuf::from)
}

/// A pipe or a device would never end.
fn open_file(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no file")),
    }
}

/// As much of a file of this host as a text may have, and a byte more.
async fn read(path: PathBuf) -> Result<Vec<u8>, DownloadError> {
    let at = path.clone();
    let read = blocking(move || {
        let mut text = Vec::new();
        let file = open_file(&at)?;
        file.take(LARGEST_LIST as u64 + 1).read_to_end(&mut text)?;
        Ok(text)
    });
    read.await
        .map_err(|source| DownloadError::File { path, source })
}

/// Reads a file to its end.
pub(crate) fn hash(file: &mut File, mut hasher: Hasher) -> io::Result<(Hasher, u64)> {
    let mut piece = vec![0; PIECE];
    let mut length = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((hasher, length));
        }
        hasher.update(&piece[..read]);
        length += read as u64;
    }
}

impl Partial {
    /// What an earlier attempt left, read again for its checksum.
    fn open(path: &Path, hasher: Hasher) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let (hasher, length) = hash(&mut file, hasher)?;
        Ok(Self {
            file,
            hasher,
            length,
        })
    }

    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.hasher = self.hasher.clone().finish().hasher();
        self.length = 0;
        Ok(())
    }

    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.hasher.update(piece);
        self.length += piece.len() as u64;
        Ok(())
    }
}

/// Where a part of a file begins.
fn begins_at(answer: &Response) -> Option<u64> {
    let range = answer.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let range = range.strip_prefix("bytes ")?;
    range.split_once('-')?.0.parse().ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

async fn lock(path: PathBuf) -> io::Result<File> {
    blocking(move || {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.lock()?;
        Ok(file)
    })
    .await
}

/// Work with files that may take longer than a look.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

#[cfg(test)]
pub(crate) mod tests;
