//! A blob in a file, or in a part of one.

use std::io::{self, SeekFrom};
use std::path::PathBuf;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::{BlobPlace, BlobStream, OpenBlobError};

const BUFFER: usize = 64 << 10;

/// A file, or some bytes of it.
pub(super) struct FilePlace {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Start and length, for a part.
    pub(super) part: Option<(u64, u64)>,
}

impl FilePlace {
    async fn read(&self, from: u64) -> io::Result<BlobStream> {
        let mut file = tokio::fs::File::open(&self.path).await?;
        if !file.metadata().await?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let (start, length) = self.part.unwrap_or((0, u64::MAX));
        file.seek(SeekFrom::Start(start.saturating_add(from)))
            .await?;
        let rest = file.take(length.saturating_sub(from));
        Ok(BlobStream {
            from,
            bytes: ReaderStream::with_capacity(rest, BUFFER).boxed(),
        })
    }
}

impl BlobPlace for FilePlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(async move {
            self.read(from).await.map_err(|error| {
                let place = self.name.clone();
                match error.kind() {
                    io::ErrorKind::NotFound => OpenBlobError::Missing { place },
                    _ => OpenBlobError::Failed {
                        place,
                        source: error.into(),
                    },
                }
            })
        })
    }
}
