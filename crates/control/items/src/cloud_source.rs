//! Blobs of the cloud: signed, encrypted, behind URLs.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use muster_api::domain::Digest;
use muster_desired::Trust;
use muster_image::{BlobPlace, BlobSource, BlobStream, BoxError, OpenBlobError, UrlClient};
use sha2::{Digest as _, Sha256};

use crate::cloud::{BlobInfo, Cloud, DecryptInfo};
use crate::decrypt::{DecryptBlobError, Decryptor};
use crate::report::ReportedPlace;
use crate::settings::{ItemsSettings, SignaturePolicy};
use crate::signature::{self, VerifySignatureError};

/// URLs of one blob that are tried.
const MAX_URLS: usize = 16;

/// Why the cloud's word about a blob is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BlobInfoError {
    /// The cloud did not say where it is.
    #[error("the cloud did not say where blob {digest} is")]
    Ask {
        /// Which blob.
        digest: Digest,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The cloud took too long.
    #[error("the cloud did not say within {} s where blob {digest} is", limit.as_secs())]
    Timeout {
        /// Which blob.
        digest: Digest,
        /// How long it was waited for.
        limit: Duration,
    },
    /// It is not signed by anybody who may.
    #[error("blob {digest} is not signed as it must be")]
    Signature {
        /// Which blob.
        digest: Digest,
        /// Why.
        #[source]
        source: VerifySignatureError,
    },
    /// It is not encrypted, and what stands behind its URLs cannot have its digest.
    #[error("blob {digest} is not encrypted, and its URLs lead to something with another digest")]
    Contradiction {
        /// Which blob.
        digest: Digest,
    },
    /// None of its URLs may be asked.
    #[error("none of the {count} URLs of blob {digest} may be asked: only https is")]
    Urls {
        /// Which blob.
        digest: Digest,
        /// How many there are.
        count: usize,
    },
    /// It cannot be decrypted.
    #[error("blob {digest} cannot be decrypted")]
    Decrypt {
        /// Which blob.
        digest: Digest,
        /// Why.
        #[source]
        source: DecryptBlobError,
    },
}

/// Whom signatures must be from.
#[derive(Debug, Clone)]
pub(crate) enum Signatures {
    /// From one of these, by these rules.
    From(Trust, SignaturePolicy),
    /// The digests were verified when the item first came.
    Verified,
}

/// The blobs of one item.
pub(crate) struct CloudSource {
    cloud: Cloud,
    client: UrlClient,
    signatures: Signatures,
    answer: Duration,
    plain_http: bool,
}

impl fmt::Debug for CloudSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudSource").finish_non_exhaustive()
    }
}

impl CloudSource {
    pub(crate) fn new(
        cloud: Cloud,
        client: UrlClient,
        signatures: Signatures,
        settings: &ItemsSettings,
    ) -> Self {
        Self {
            cloud,
            client,
            signatures,
            answer: settings.answer,
            plain_http: settings.plain_http,
        }
    }

    async fn info(&self, digest: Digest) -> Result<BlobInfo, BlobInfoError> {
        let limit = self.answer;
        match tokio::time::timeout(limit, self.cloud.infos.info(digest)).await {
            Ok(Ok(info)) => Ok(info),
            Ok(Err(source)) => Err(BlobInfoError::Ask { digest, source }),
            Err(_) => Err(BlobInfoError::Timeout { digest, limit }),
        }
    }

    async fn find(&self, digest: Digest) -> Result<Vec<Box<dyn BlobPlace>>, BlobInfoError> {
        let info = self.info(digest).await?;
        if let Signatures::From(trust, policy) = &self.signatures {
            signature::verify(&digest, info.sign.as_ref(), trust, policy)
                .map_err(|source| BlobInfoError::Signature { digest, source })?;
        }
        match &info.decrypt {
            None if digest.as_bytes() != info.sha256 => {
                return Err(BlobInfoError::Contradiction { digest });
            }
            None => {}
            // Said before anything is downloaded.
            Some(decrypt) => {
                Decryptor::start(decrypt, info.size, 0)
                    .map_err(|source| BlobInfoError::Decrypt { digest, source })?;
            }
        }
        let places: Vec<_> = info
            .urls
            .iter()
            .filter(|url| self.may_ask(url))
            .take(MAX_URLS)
            .map(|url| self.place(digest, url, &info))
            .collect();
        match places.is_empty() {
            true => Err(BlobInfoError::Urls {
                digest,
                count: info.urls.len(),
            }),
            false => Ok(places),
        }
    }

    /// The cloud has no business with files of this machine.
    fn may_ask(&self, url: &str) -> bool {
        url.starts_with("https://") || (self.plain_http && url.starts_with("http://"))
    }

    fn place(&self, digest: Digest, url: &str, info: &BlobInfo) -> Box<dyn BlobPlace> {
        let events = self.cloud.events.clone();
        let place = ReportedPlace::new(self.client.place(url), digest, info.size, events);
        match &info.decrypt {
            None => Box::new(place),
            Some(decrypt) => Box::new(EncryptedPlace {
                place,
                decrypt: decrypt.clone(),
                sha256: info.sha256,
                size: info.size,
            }),
        }
    }
}

impl BlobSource for CloudSource {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move { self.find(digest).await.map_err(BoxError::from) })
    }
}

/// A place that has the blob encrypted.
struct EncryptedPlace {
    place: ReportedPlace,
    decrypt: DecryptInfo,
    sha256: [u8; 32],
    size: u64,
}

impl EncryptedPlace {
    async fn read(&self, from: u64) -> Result<BlobStream, OpenBlobError> {
        let started = Decryptor::start(&self.decrypt, self.size, from);
        let (decryptor, position) = started.map_err(|error| OpenBlobError::Failed {
            place: self.place.name().to_owned(),
            source: error.into(),
        })?;
        let encrypted = self.place.open(position).await?;
        let passage = Passage {
            skip: position.saturating_sub(encrypted.from),
            encrypted: encrypted.bytes,
            // Only of everything is known what its hash must be.
            hash: (position == 0).then(|| (Sha256::new(), self.sha256)),
            decryptor,
        };
        let bytes = stream::unfold(Some(passage), Passage::next).boxed();
        Ok(BlobStream { from, bytes })
    }
}

impl BlobPlace for EncryptedPlace {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(self.read(from))
    }
}

/// A blob on its way through decryption.
struct Passage {
    encrypted: BoxStream<'static, io::Result<Bytes>>,
    /// What comes before the bytes that were asked for, from a place that cannot start there.
    skip: u64,
    hash: Option<(Sha256, [u8; 32])>,
    decryptor: Decryptor,
}

impl Passage {
    async fn next(passage: Option<Self>) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let mut passage = passage?;
        match passage.encrypted.next().await {
            Some(Ok(piece)) => match passage.take(piece) {
                Ok(plain) => Some((Ok(plain), Some(passage))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            },
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((passage.finish(), None)),
        }
    }

    fn take(&mut self, mut piece: Bytes) -> Result<Bytes, DecryptBlobError> {
        let skipped = usize::try_from(self.skip).map_or(piece.len(), |it| it.min(piece.len()));
        let _ = piece.split_to(skipped);
        self.skip -= skipped as u64;
        if let Some((hash, _)) = &mut self.hash {
            hash.update(&piece);
        }
        self.decryptor.push(&piece).map(Bytes::from)
    }

    fn finish(self) -> io::Result<Bytes> {
        if let Some((hash, expected)) = self.hash
            && hash.finalize()[..] != expected
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "what came is not what the cloud said",
            ));
        }
        let rest = self.decryptor.finish();
        rest.map(Bytes::from).map_err(io::Error::other)
    }
}
