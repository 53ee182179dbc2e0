//! Files of a machine, by SFTP.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::Mutex;

use super::client::{Client, RequestError};
use super::packet::{Attrs, Malformed, Reply, Status, kind, open};
use crate::error::{BoxError, ExecutorError, FailureClass, Operation};
use crate::executor::Answer;
use crate::files::{
    Change, Content, Digest, Entry, Files, Kind, RelPath, SmallFile, Tree, digest_by_reading,
    read_whole,
};
use crate::gather::gather;
use crate::ssh::SshExecutor;
use crate::ssh::link::Purpose;

mod change;
mod digest;
mod stream_file;

/// How many files, folders or changes are asked for at once.
const AT_ONCE: usize = 64;

/// The files below a folder of a machine that is reached by SSH.
#[derive(Clone)]
pub(crate) struct SftpFiles {
    executor: SshExecutor,
    root: Arc<[u8]>,
    client: Arc<Mutex<Option<Arc<Client>>>>,
}

impl fmt::Debug for SftpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = String::from_utf8_lossy(&self.root);
        f.debug_struct("SftpFiles")
            .field("root", &root)
            .finish_non_exhaustive()
    }
}

impl SftpFiles {
    pub(crate) fn new(executor: SshExecutor, folder: &Path) -> Self {
        let folder = match folder.as_os_str().as_bytes() {
            b"" => b".",
            folder => folder,
        };
        Self {
            executor,
            root: folder.into(),
            client: Arc::default(),
        }
    }

    /// The conversation, begun again if it is over.
    async fn client(&self) -> Result<Arc<Client>, ExecutorError> {
        let mut current = self.client.lock().await;
        if let Some(client) = current.as_ref().filter(|it| !it.is_over()) {
            return Ok(Arc::clone(client));
        }
        let session = self.executor.pool().session(Purpose::Files).await?;
        let client = Client::start(session).await.map_err(|source| {
            let class = match source.downcast_ref::<RequestError>() {
                Some(RequestError::Status(_)) => FailureClass::Refused,
                _ => FailureClass::Interrupted,
            };
            let object = self.executor.pool().object();
            ExecutorError::new(Operation::Connect, object, class, source)
        })?;
        let client = Arc::new(client);
        *current = Some(Arc::clone(&client));
        Ok(client)
    }

    fn path(&self, path: &RelPath) -> Vec<u8> {
        match path.is_root() {
            true => self.root.to_vec(),
            false => [self.root.as_ref(), b"/", path.as_bytes()].concat(),
        }
    }

    fn error(
        &self,
        operation: Operation,
        path: &RelPath,
        source: impl Into<BoxError>,
    ) -> ExecutorError {
        let source = source.into();
        let class = match source.downcast_ref::<RequestError>() {
            Some(RequestError::Lost) => FailureClass::Interrupted,
            Some(RequestError::Status(status)) if status.code == Status::DENIED => {
                FailureClass::Refused
            }
            Some(RequestError::Malformed(_)) => FailureClass::Refused,
            _ => match source.is::<crate::files::InvalidPath>() {
                true => FailureClass::Refused,
                false => FailureClass::Io,
            },
        };
        let object = String::from_utf8_lossy(&self.path(path)).into_owned();
        ExecutorError::new(operation, object, class, source)
    }

    async fn entry(
        &self,
        client: &Client,
        path: &RelPath,
        attrs: Attrs,
    ) -> Result<Entry, RequestError> {
        let mut entry = attrs.entry();
        if let Kind::Link { target } = &mut entry.kind {
            let full = self.path(path);
            let read = client.ask(kind::READLINK, |it| it.text(&full)).await?;
            let Reply::Names(names) = read else {
                return Err(unexpected());
            };
            let (name, _) = names.into_iter().next().ok_or_else(unexpected)?;
            *target = name.to_vec();
        }
        Ok(entry)
    }

    async fn look_now(
        &self,
        client: &Client,
        path: &RelPath,
    ) -> Result<Option<Entry>, RequestError> {
        // The folder itself is what the caller named, so that a link to it is followed.
        let by = if path.is_root() {
            kind::STAT
        } else {
            kind::LSTAT
        };
        let full = self.path(path);
        match client.ask(by, |it| it.text(&full)).await {
            Ok(Reply::Attrs(attrs)) => Ok(Some(self.entry(client, path, attrs).await?)),
            Ok(_) => Err(unexpected()),
            Err(error) if is(&error, Status::MISSING) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in one folder; nothing if it is not there.
    async fn list_one(
        &self,
        client: &Client,
        folder: &RelPath,
    ) -> Result<Option<Vec<(RelPath, Entry)>>, ExecutorError> {
        let failed = |source: BoxError| self.error(Operation::List, folder, source);
        let full = self.path(folder);
        let opened = client.ask(kind::OPENDIR, |it| it.text(&full)).await;
        let handle = match opened {
            Ok(Reply::Handle(handle)) => handle,
            Ok(_) => return Err(failed(unexpected().into())),
            Err(error) if is(&error, Status::MISSING) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut children = Vec::new();
        loop {
            match client.ask(kind::READDIR, |it| it.text(&handle)).await {
                Ok(Reply::Names(names)) => {
                    let named = names.iter().filter(|(name, _)| name != "." && name != "..");
                    for (name, attrs) in named {
                        let child = folder.child(name);
                        let child = child.map_err(|source| failed(source.into()))?;
                        children.push((child, *attrs));
                    }
                    if children.len() > Tree::MOST {
                        return Err(failed(crate::files::TreeTooLarge::Entries.into()));
                    }
                }
                Ok(_) => return Err(failed(unexpected().into())),
                Err(error) if is(&error, Status::END) => break,
                Err(error) => return Err(failed(error.into())),
            }
        }
        let closed = client.ask(kind::CLOSE, |it| it.text(&handle)).await;
        closed.map_err(|source| failed(source.into()))?;
        // Only links have to be asked about.
        let is_link = |attrs: &Attrs| matches!(attrs.entry().kind, Kind::Link { .. });
        let (links, others): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|(_, attrs)| is_link(attrs));
        let links = links.into_iter().map(|(path, attrs)| {
            let read = async move {
                let entry = self.entry(client, &path, attrs).await;
                let entry = entry.map_err(|source| self.error(Operation::List, &path, source))?;
                Ok((path, entry))
            };
            read.boxed()
        });
        let mut entries = gather(AT_ONCE, links.collect()).await?;
        let others = others.into_iter();
        entries.extend(others.map(|(path, attrs)| (path, attrs.entry())));
        Ok(Some(entries))
    }

    async fn list_now(&self) -> Result<Option<Tree>, ExecutorError> {
        let client = self.client().await?;
        let mut tree = Tree::default();
        let mut level = vec![RelPath::root()];
        while !level.is_empty() {
            let listed = level.iter().map(|folder| {
                let client = &client;
                async move { Ok((folder, self.list_one(client, folder).await?)) }.boxed()
            });
            let mut below = Vec::new();
            for (folder, entries) in gather(AT_ONCE, listed.collect()).await? {
                // A folder may go while others are listed; the one that was asked for is the answer.
                if entries.is_none() && folder.is_root() {
                    return Ok(None);
                }
                for (path, entry) in entries.unwrap_or_default() {
                    if entry.is_folder() {
                        below.push(path.clone());
                    }
                    let added = tree.add(path, entry);
                    added.map_err(|source| self.error(Operation::List, folder, source))?;
                }
            }
            level = below;
        }
        Ok(Some(tree))
    }
}

fn unexpected() -> RequestError {
    RequestError::Malformed(Malformed("it is not what was asked for"))
}

fn is(error: &RequestError, code: u32) -> bool {
    matches!(error, RequestError::Status(status) if status.code == code)
}

impl Files for SftpFiles {
    fn list(&self) -> Answer<'_, Option<Tree>> {
        Box::pin(self.list_now())
    }

    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>> {
        Box::pin(async move {
            let client = self.client().await?;
            let looked = self.look_now(&client, path).await;
            looked.map_err(|source| self.error(Operation::List, path, source))
        })
    }

    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content> {
        Box::pin(self.read_stream(path, offset))
    }

    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, content: Content) -> Answer<'a, ()> {
        Box::pin(self.write_stream(path, offset, content))
    }

    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()> {
        Box::pin(async move {
            let client = self.client().await?;
            // They are sent in this order, and the server does them in the order in which they come; only the folder itself
            // takes several requests, which the others have to wait for.
            let is_root = |change: &Change| *change == Change::Folder(RelPath::root());
            for changes in changes.split_inclusive(is_root) {
                let changes = changes.iter().map(|change| {
                    let client = &client;
                    async move {
                        let changed = self.change_one(client, change).await;
                        changed
                            .map_err(|source| self.error(Operation::Change, change.path(), source))
                    }
                    .boxed()
                });
                gather(AT_ONCE, changes.collect()).await?;
            }
            Ok(())
        })
    }

    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        Box::pin(async move {
            match self.digest_there(files).await? {
                Some(digests) => Ok(digests),
                None => digest_by_reading(self, files).await,
            }
        })
    }

    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()> {
        Box::pin(async move {
            let client = self.client().await?;
            let written = files.iter().map(|file| {
                let client = &client;
                async move {
                    let written = self.write_one(client, file).await;
                    written.map_err(|source| self.error(Operation::Write, &file.path, source))
                }
                .boxed()
            });
            gather(AT_ONCE, written.collect()).await.map(drop)
        })
    }

    fn read_small<'a>(&'a self, paths: &'a [RelPath], limit: usize) -> Answer<'a, Vec<Bytes>> {
        Box::pin(async move {
            let read = paths
                .iter()
                .map(|path| read_whole(self, path, limit).boxed());
            gather(AT_ONCE, read.collect()).await
        })
    }
}
