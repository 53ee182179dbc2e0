//! Bringing back what changed in a machine since a folder was brought there, and only that.
//!
//! [`Uploaded::begin`] looks at the folder here, then it is copied, then [`Begun::end`] looks at the folder there. Later
//! [`bring_back`] looks at both again, [`decide`]s what changed on which side, and changes the folder here accordingly: what
//! changed there comes, what was removed there goes, and whatever changed here meanwhile stays as it is. A folder that is not there
//! any more itself, as one in memory after a reboot, says nothing about what was removed in it: then nothing here is touched.
//!
//! Both looks are kept by whoever brought the folder there, so that this works after a crash too.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::{Answer, Executor};
use crate::files::{Change, Content, Digest, Entry, Files, Kind, RelPath, SmallFile, Tree};
use crate::local::LocalFiles;
use crate::transfer::{self, Report, Transfer, persist};

pub use decide::{Back, Kept, KeptBecause, decide};

/// How many changes or digests are asked for at once.
const AT_ONCE: usize = 512;

/// Times are whole seconds, and clocks differ: of files that changed so many seconds before a look, or after it, only a digest
/// shows whether they changed again.
const DOUBTFUL: i64 = 10;

/// What a folder held when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// Everything below it.
    pub tree: Tree,
    /// Digests of files whose time shows too little.
    pub digests: BTreeMap<RelPath, Digest>,
}

/// What both folders held when one had been brought to the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uploaded {
    /// The folder here, before it was read.
    pub here: Look,
    /// The folder in the machine, after it was written.
    pub there: Look,
}

/// A folder here that is about to be brought to a machine.
#[derive(Debug)]
pub struct Begun {
    here: Look,
    doubtful: i64,
}

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brought {
    /// What the copy did.
    pub report: Report,
    /// What was not touched, since it changed here too.
    pub kept: Vec<Kept>,
}

impl Look {
    /// Looks at a folder; nothing if it is not there.
    async fn take(files: &dyn Files, is_asked: impl Fn(&RelPath, &Entry) -> bool) -> Answered {
        let Some(tree) = files.list().await? else {
            return Ok(None);
        };
        let asked: Vec<(RelPath, u64)> = tree
            .iter()
            .filter_map(|(path, entry)| match entry.kind {
                Kind::File { size } if is_asked(path, entry) => Some((path.clone(), size)),
                _ => None,
            })
            .collect();
        let mut digests = BTreeMap::new();
        for asked in asked.chunks(AT_ONCE) {
            let found = files.digests(asked).await?;
            let pairs = asked.iter().zip(found);
            let found = pairs.filter_map(|((path, _), digest)| Some((path.clone(), digest?)));
            digests.extend(found);
        }
        Ok(Some(Self { tree, digests }))
    }

    /// Looks for the first time.
    async fn first(files: &dyn Files, doubtful: i64) -> Answered {
        Self::take(files, |_, entry| entry.mtime >= doubtful).await
    }

    /// Looks again: only what seems to be the same is asked for its digest.
    async fn again(&self, files: &dyn Files) -> Answered {
        let is_asked = |path: &RelPath, entry: &Entry| {
            self.digests.contains_key(path) && self.tree.get(path) == Some(entry)
        };
        Self::take(files, is_asked).await
    }
}

type Answered = Result<Option<Look>, ExecutorError>;

impl Uploaded {
    /// Looks at a folder here, before it is copied: what changes here from now on counts as changed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn begin(local: &Path) -> Result<Begun, ExecutorError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX));
        let doubtful = now.saturating_sub(DOUBTFUL);
        let here = Look::first(&LocalFiles::new(local), doubtful).await?;
        let here = here.unwrap_or_default();
        Ok(Begun { here, doubtful })
    }
}

impl Begun {
    /// Looks at the folder in the machine, after the copy.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn end(
        self,
        executor: &dyn Executor,
        transfer: &Transfer,
    ) -> Result<Uploaded, ExecutorError> {
        let doubtful = self.doubtful;
        let look = || -> Answer<'_, Look> {
            Box::pin(async move {
                let files = executor.files(&transfer.remote).await?;
                let look = Look::first(&*files, doubtful).await?;
                Ok(look.unwrap_or_default())
            })
        };
        let there = persist(transfer.patience, look).await?;
        let here = self.here;
        Ok(Uploaded { here, there })
    }
}

/// Brings back what changed in the machine since the folder was brought there. Whatever changed here too is kept. It may be
/// repeated when it was interrupted.
///
/// # Errors
/// When a folder cannot be read or written, or the one in the machine is not there any more.
pub async fn bring_back(
    executor: &dyn Executor,
    transfer: &Transfer,
    uploaded: &Uploaded,
) -> Result<Brought, ExecutorError> {
    let local = LocalFiles::new(&transfer.local);
    let look = || -> Answer<'_, Look> {
        Box::pin(async move {
            let files = executor.files(&transfer.remote).await?;
            let look = uploaded.there.again(&*files).await?;
            look.ok_or_else(|| gone(&transfer.remote))
        })
    };
    let there = persist(transfer.patience, look).await?;
    let here = uploaded.here.again(&local).await?.unwrap_or_default();
    let back = decide(uploaded, &here, &there);
    let removed = back.removed.len() as u64;
    let removals: Vec<Change> = back
        .removed
        .into_iter()
        .map(|(path, folder)| Change::Remove { path, folder })
        .collect();
    for removals in removals.chunks(AT_ONCE) {
        local.change(removals).await?;
    }
    let mut report = Report::default();
    if !back.brought.is_empty() {
        let transfer = Transfer {
            delete: false,
            // Of some files only their digests show that they changed.
            checksum: transfer.checksum || !there.digests.is_empty(),
            ..transfer.clone()
        };
        let chosen = &Arc::new(back.brought);
        let far = |folder| -> Answer<'_, Arc<dyn Files>> {
            Box::pin(async move {
                let files = executor.files(folder).await?;
                let tree = Arc::clone(chosen);
                Ok(Arc::new(Chosen { files, tree }) as Arc<dyn Files>)
            })
        };
        report = transfer::copy(&transfer, far).await?;
    }
    report.removed += removed;
    Ok(Brought {
        report,
        kept: back.kept,
    })
}

/// Waiting does not bring it back.
fn gone(folder: &Path) -> ExecutorError {
    let (object, class) = (folder.display().to_string(), FailureClass::Io);
    let why = "the folder that was brought there is not there any more, so that nobody can say what changed in it";
    ExecutorError::new(Operation::List, object, class, why)
}

/// Files of which only some are shown.
#[derive(Debug)]
struct Chosen {
    files: Arc<dyn Files>,
    tree: Arc<Tree>,
}

impl Files for Chosen {
    fn list(&self) -> Answer<'_, Option<Tree>> {
        Box::pin(std::future::ready(Ok(Some((*self.tree).clone()))))
    }

    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>> {
        self.files.look(path)
    }

    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content> {
        self.files.read(path, offset)
    }

    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, content: Content) -> Answer<'a, ()> {
        self.files.write(path, offset, content)
    }

    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()> {
        self.files.change(changes)
    }

    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        self.files.digests(files)
    }

    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()> {
        self.files.write_small(files)
    }

    fn read_small<'a>(
        &'a self,
        paths: &'a [RelPath],
        limit: usize,
    ) -> Answer<'a, Vec<bytes::Bytes>> {
        self.files.read_small(paths, limit)
    }
}
