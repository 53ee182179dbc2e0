//! Tells how downloads do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use muster_api::domain::{AosCode, AosError, Digest};
use muster_image::{BlobPlace, BlobStream, OpenBlobError};
use muster_telemetry::ErrorChain;

use crate::cloud::{DownloadEvent, DownloadEvents, DownloadState};

/// A place whose downloads are told of.
pub(crate) struct ReportedPlace {
    place: Box<dyn BlobPlace>,
    teller: Teller,
}

#[derive(Clone)]
struct Teller {
    digest: Digest,
    url: String,
    total: u64,
    events: Arc<dyn DownloadEvents>,
}

impl Teller {
    fn tell(&self, downloaded_bytes: u64, state: DownloadState) {
        self.events.happened(DownloadEvent {
            digest: self.digest,
            url: self.url.clone(),
            downloaded_bytes,
            total_bytes: self.total,
            state,
        });
    }
}

impl ReportedPlace {
    pub(crate) fn new(
        place: Box<dyn BlobPlace>,
        digest: Digest,
        total: u64,
        events: Arc<dyn DownloadEvents>,
    ) -> Self {
        let teller = Teller {
            digest,
            url: place.name().to_owned(),
            total,
            events,
        };
        Self { place, teller }
    }

    async fn read(&self, from: u64) -> Result<BlobStream, OpenBlobError> {
        match self.place.open(from).await {
            Ok(stream) => {
                self.teller.tell(stream.from, DownloadState::Started);
                let reported = Reported {
                    bytes: stream.bytes,
                    position: stream.from,
                    is_told: false,
                    teller: self.teller.clone(),
                };
                Ok(BlobStream {
                    from: stream.from,
                    bytes: reported.boxed(),
                })
            }
            Err(error) => {
                let state = DownloadState::Interrupted(interruption(&error));
                self.teller.tell(from, state);
                Err(error)
            }
        }
    }
}

fn interruption(error: &(dyn std::error::Error + 'static)) -> AosError {
    AosError::new(AosCode::Failed, ErrorChain(error).to_string())
}

impl BlobPlace for ReportedPlace {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(self.read(from))
    }
}

/// A download that is told of once more when it ends, however it does.
struct Reported {
    bytes: BoxStream<'static, io::Result<Bytes>>,
    position: u64,
    is_told: bool,
    teller: Teller,
}

impl Reported {
    fn tell(&mut self, state: DownloadState) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.teller.tell(self.position, state);
        }
    }
}

impl Stream for Reported {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let polled = this.bytes.poll_next_unpin(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(piece))) => {
                this.position = this.position.saturating_add(piece.len() as u64);
                // Who has everything does not ask for the end.
                if this.position >= this.teller.total {
                    this.tell(DownloadState::Finished);
                }
            }
            Poll::Ready(Some(Err(error))) => {
                this.tell(DownloadState::Interrupted(interruption(error)));
            }
            Poll::Ready(None) => {
                let early = io::Error::from(io::ErrorKind::UnexpectedEof);
                this.tell(DownloadState::Interrupted(interruption(&early)));
            }
        }
        polled
    }
}

impl Drop for Reported {
    fn drop(&mut self) {
        self.tell(DownloadState::Paused);
    }
}
