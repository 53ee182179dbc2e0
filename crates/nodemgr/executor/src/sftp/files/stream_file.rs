//! Reads and writes, pipelined.

use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};

use super::{
    Arc, Attrs, Bytes, Client, Content, ExecutorError, Operation, RelPath, Reply, RequestError,
    SftpFiles, SmallFile, Status, is, kind, open, unexpected,
};
use crate::error::BoxError;
use crate::transfer::plan::part_of;

/// How much of a file is on its way at once.
const AHEAD: u64 = 4 * 1024 * 1024;

/// Who may use a file while it is written.
const PRIVATE: Attrs = Attrs {
    size: None,
    mode: Some(0o600),
    mtime: None,
};

/// How many requests of this length are on their way at once.
fn in_flight(length: u32) -> usize {
    usize::try_from(AHEAD / u64::from(length.max(1)))
        .unwrap_or(1)
        .clamp(4, 128)
}

/// A file that is read: it is closed when nobody reads it any more.
struct Reading {
    files: SftpFiles,
    client: Arc<Client>,
    path: RelPath,
    handle: Bytes,
}

impl Reading {
    /// One piece; nothing at the end.
    async fn piece(&self, offset: u64, length: u32) -> Result<Bytes, ExecutorError> {
        let read = self.client.ask(kind::READ, |it| {
            it.text(&self.handle).u64(offset).u32(length)
        });
        let failed = |source: BoxError| self.files.error(Operation::Read, &self.path, source);
        match read.await {
            Ok(Reply::Data(data)) if data.len() as u64 <= u64::from(length) => Ok(data),
            Ok(_) => Err(failed(unexpected().into())),
            Err(error) if is(&error, Status::END) => Ok(Bytes::new()),
            Err(error) => Err(failed(error.into())),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let (client, handle) = (Arc::clone(&self.client), self.handle.clone());
        // Nobody waits for it, and a lost connection has closed it.
        tokio::spawn(async move { client.ask(kind::CLOSE, |it| it.text(&handle)).await });
    }
}

impl SftpFiles {
    async fn open_file(
        &self,
        client: &Client,
        path: &RelPath,
        how: u32,
        attrs: Attrs,
    ) -> Result<Bytes, RequestError> {
        let full = self.path(path);
        let opened = client.ask(kind::OPEN, |it| it.text(&full).u32(how).attrs(attrs));
        match opened.await? {
            Reply::Handle(handle) => Ok(handle),
            _ => Err(unexpected()),
        }
    }

    pub(super) async fn read_stream(
        &self,
        path: &RelPath,
        offset: u64,
    ) -> Result<Content, ExecutorError> {
        let client = self.client().await?;
        let opened = self.open_file(&client, path, open::READ, Attrs::default());
        let handle = opened.await;
        let handle = handle.map_err(|source| self.error(Operation::Read, path, source))?;
        let length = client.read_length;
        let most = in_flight(length);
        let reading = Arc::new(Reading {
            files: self.clone(),
            client,
            path: path.clone(),
            handle,
        });
        let state = Some((reading, FuturesOrdered::new(), offset, 1));
        let pieces = futures_util::stream::unfold(state, move |state| async move {
            // A small file needs few requests, so that the first are few and more follow.
            let (reading, mut pieces, mut next, allowed): (
                Arc<Reading>,
                FuturesOrdered<_>,
                _,
                usize,
            ) = state?;
            while pieces.len() < allowed {
                let (from, this) = (next, Arc::clone(&reading));
                pieces.push_back(async move { this.piece(from, length).await }.boxed());
                next += u64::from(length);
            }
            match pieces.next().await? {
                Ok(piece) if piece.is_empty() => None,
                // Less than was asked for is the end of the file.
                Ok(piece) if piece.len() < length as usize => Some((Ok(piece), None)),
                Ok(piece) => {
                    let allowed = (allowed * 2).min(most);
                    Some((Ok(piece), Some((reading, pieces, next, allowed))))
                }
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(pieces.boxed())
    }

    pub(super) async fn write_stream(
        &self,
        path: &RelPath,
        offset: u64,
        mut content: Content,
    ) -> Result<(), ExecutorError> {
        let failed = |source: BoxError| self.error(Operation::Write, path, source);
        let client = self.client().await?;
        let how = open::WRITE | open::CREATE | if offset == 0 { open::TRUNCATE } else { 0 };
        let handle = self.open_file(&client, path, how, PRIVATE).await;
        let handle = handle.map_err(|source| failed(source.into()))?;
        if offset > 0 {
            let size = Attrs {
                size: Some(offset),
                ..Attrs::default()
            };
            let cut = client.ask(kind::FSETSTAT, |it| it.text(&handle).attrs(size));
            cut.await.map_err(|source| failed(source.into()))?;
        }
        let length = client.write_length as usize;
        let most = in_flight(client.write_length);
        let mut writes = FuturesOrdered::new();
        let mut at = offset;
        while let Some(piece) = content.next().await {
            let mut piece = piece?;
            while !piece.is_empty() {
                let part = piece.split_to(piece.len().min(length));
                let (client, handle) = (&client, &handle);
                let from = at;
                at += part.len() as u64;
                writes.push_back(async move {
                    let write =
                        |it: super::super::packet::Request| it.text(handle).u64(from).text(&part);
                    client.ask(kind::WRITE, write).await
                });
                if writes.len() >= most
                    && let Some(written) = writes.next().await
                {
                    written.map_err(|source| failed(source.into()))?;
                }
            }
        }
        while let Some(written) = writes.next().await {
            written.map_err(|source| failed(source.into()))?;
        }
        let closed = client.ask(kind::CLOSE, |it| it.text(&handle)).await;
        closed.map_err(|source| failed(source.into()))?;
        Ok(())
    }

    /// Writes a small file beside its place and renames it.
    pub(super) async fn write_one(
        &self,
        client: &Client,
        file: &SmallFile,
    ) -> Result<(), RequestError> {
        let part = part_of(&file.path);
        let how = open::WRITE | open::CREATE | open::TRUNCATE;
        let handle = self.open_file(client, &part, how, PRIVATE).await?;
        let settled = Attrs::settled(file.mode, file.mtime);
        // Sent one after the other without waiting: the server does them in this order.
        let write = async {
            let length = client.write_length as usize;
            let mut at = 0;
            for piece in file.content.chunks(length) {
                let write = client.ask(kind::WRITE, |it| it.text(&handle).u64(at).text(piece));
                write.await?;
                at += piece.len() as u64;
            }
            Ok::<_, RequestError>(())
        };
        if file.content.len() <= client.write_length as usize {
            let settle = client.ask(kind::FSETSTAT, |it| it.text(&handle).attrs(settled));
            let close = client.ask(kind::CLOSE, |it| it.text(&handle));
            let settle = settle.map_ok(drop);
            tokio::try_join!(biased; write, settle, close.map_ok(drop))?;
        } else {
            write.await?;
            client
                .ask(kind::FSETSTAT, |it| it.text(&handle).attrs(settled))
                .await?;
            client.ask(kind::CLOSE, |it| it.text(&handle)).await?;
        }
        self.rename(client, &part, &file.path).await
    }
}
