//! Carries plans out.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt as _;

use crate::error::{ExecutorError, FailureClass, Operation};
use crate::executor::Answer;
use crate::files::{Change, Files};
use crate::gather::gather;
use crate::local::LocalFiles;

use super::meter::Meter;
use super::path::RelPath;
use super::patience::persist;
use super::plan::{self, Plan, Planned, Wishes, part_of};
use super::tree::{Entry, Kind, Tree};
use super::{Direction, Report, Transfer};

/// How many batches of small files are on their way at once.
const BATCHES: usize = 4;

/// How many changes are asked for at once.
const CHANGES: usize = 512;

/// A file that changed so lately may have been copied and changed again in the same second, in seconds. Whoever compares
/// later than this has to ask for digests himself.
const FRESH: i64 = 120;

/// From which second on times do not show that two files are the same.
fn doubtful_from(now: SystemTime) -> i64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX));
    seconds - FRESH
}

/// Copies what a transfer says; `far` gives the files below a folder of the machine.
pub(crate) async fn copy<'a>(
    transfer: &'a Transfer,
    far: impl Fn(&'a Path) -> Answer<'a, Arc<dyn Files>>,
) -> Result<Report, ExecutorError> {
    let near = |path: &'a Path| -> Answer<'a, Arc<dyn Files>> {
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(path));
        Box::pin(std::future::ready(Ok(files)))
    };
    let (local, remote) = (transfer.local.as_path(), transfer.remote.as_path());
    match transfer.direction {
        Direction::Up => copy_between(transfer, (local, near), (remote, far)).await,
        Direction::Down => copy_between(transfer, (remote, far), (local, near)).await,
    }
}

async fn copy_between<'a>(
    transfer: &'a Transfer,
    (from, source): (&'a Path, impl Fn(&'a Path) -> Answer<'a, Arc<dyn Files>>),
    (to, target): (&'a Path, impl Fn(&'a Path) -> Answer<'a, Arc<dyn Files>>),
) -> Result<Report, ExecutorError> {
    let patience = transfer.patience;
    let refused = |path: &Path, why: &'static str| {
        let (object, class) = (path.display().to_string(), FailureClass::Refused);
        ExecutorError::new(Operation::Copy, object, class, why)
    };
    let files = persist(patience, || source(from)).await?;
    let root = RelPath::root();
    let Some(entry) = persist(patience, || files.look(&root)).await? else {
        let (object, class) = (from.display().to_string(), FailureClass::Io);
        let why = "there is no such file or folder";
        return Err(ExecutorError::new(Operation::Copy, object, class, why));
    };
    let job = match entry.kind {
        Kind::Folder => Job {
            source: files,
            target: persist(patience, || target(to)).await?,
            names: Names::Same,
            transfer,
        },
        Kind::File { .. } => {
            let (from_folder, from_name) =
                parent_of(from).ok_or_else(|| refused(from, "it has no name"))?;
            // A path that ends in a slash names the folder into which the file goes.
            let into = to.as_os_str().as_bytes().ends_with(b"/");
            let (to_folder, to_name) = match into {
                true => (to, from_name.clone()),
                false => parent_of(to).ok_or_else(|| refused(to, "it has no name"))?,
            };
            Job {
                source: persist(patience, || source(from_folder)).await?,
                target: persist(patience, || target(to_folder)).await?,
                names: Names::One {
                    source: from_name,
                    target: to_name,
                },
                transfer,
            }
        }
        Kind::Link { .. } | Kind::Special => {
            return Err(refused(from, "it is neither a file nor a folder"));
        }
    };
    job.run(entry).await
}

/// The folder that something is in, and its name there.
fn parent_of(path: &Path) -> Option<(&Path, RelPath)> {
    let name = RelPath::new(path.file_name()?.as_bytes()).ok()?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    Some((folder.unwrap_or(Path::new(".")), name))
}

/// What things are called on both sides.
enum Names {
    /// The same.
    Same,
    /// One file, that is called differently.
    One { source: RelPath, target: RelPath },
}

struct Job<'a> {
    source: Arc<dyn Files>,
    target: Arc<dyn Files>,
    names: Names,
    transfer: &'a Transfer,
}

impl Job<'_> {
    async fn run(&self, root: Entry) -> Result<Report, ExecutorError> {
        let patience = self.transfer.patience;
        let (source, there) = self.trees(&root).await?;
        let is_new = there.is_none();
        let there = there.unwrap_or_default();
        let wishes = Wishes {
            // Whatever else is in the folder of a single file is not part of the copy.
            delete: self.transfer.delete && matches!(self.names, Names::Same),
            checksum: self.transfer.checksum,
            doubtful_from: Some(doubtful_from(SystemTime::now())),
        };
        let different = self.different(&source, &there, wishes).await?;
        let plan = plan::plan(&source, &there, wishes, &different).map_err(|conflict| {
            let object = self.transfer.remote.display().to_string();
            let class = FailureClass::Refused;
            ExecutorError::new(Operation::Copy, object, class, conflict)
        })?;
        let meter = Meter::new(self.transfer.progress.as_ref(), &plan);
        self.prepare(&plan).await?;
        // What is left of earlier copies is nobody's file.
        let removed = plan.removals.iter();
        let removed = removed.filter(|(path, _)| !plan::is_part(path));
        let mut report = Report {
            files: plan.links.len() as u64,
            unchanged: plan.unchanged,
            removed: removed.count() as u64,
            ..Report::default()
        };
        let batches = plan.batches.iter().map(|batch| {
            let meter = &meter;
            let copied = async move {
                let moved = persist(patience, || self.copy_batch(batch).boxed()).await?;
                meter.add_batch(batch.len(), moved);
                Ok((batch.len() as u64, moved))
            };
            copied.boxed()
        });
        for (files, bytes) in gather(BATCHES, batches.collect()).await? {
            report.files += files;
            report.bytes += bytes;
        }
        for planned in &plan.large {
            let moved = self.copy_large(planned, &meter).await?;
            report.files += 1;
            report.bytes += moved.bytes;
            report.resumed += moved.resumed;
        }
        let mut settled: Vec<Change> = plan.settled.into_iter().map(Change::from).collect();
        if is_new && matches!(self.names, Names::Same) {
            settled.push(Change::Settle {
                path: RelPath::root(),
                mode: root.mode,
                mtime: root.mtime,
            });
        }
        self.change(&settled).await?;
        meter.end();
        report.skipped = plan.skipped;
        Ok(report)
    }

    /// What is on both sides, under the names of the target; nothing if the target is not there.
    async fn trees(&self, root: &Entry) -> Result<(Tree, Option<Tree>), ExecutorError> {
        let patience = self.transfer.patience;
        let Names::One { target, .. } = &self.names else {
            let source = persist(patience, || self.source.list()).await?;
            let target = persist(patience, || self.target.list()).await?;
            let mut source = source.unwrap_or_default();
            // What an earlier copy to there has left is not part of this one.
            source.retain(|path| !plan::is_part(path));
            return Ok((source, target));
        };
        let one = |entry: Entry| {
            let mut tree = Tree::default();
            // One entry is not too many.
            let _ = tree.add(target.clone(), entry);
            tree
        };
        let there = persist(patience, || self.target.look(target)).await?;
        Ok((one(root.clone()), there.map(one)))
    }

    fn source_of(&self, path: &RelPath) -> RelPath {
        match &self.names {
            Names::Same => path.clone(),
            Names::One { source, .. } => source.clone(),
        }
    }

    async fn different(
        &self,
        source: &Tree,
        target: &Tree,
        wishes: Wishes,
    ) -> Result<BTreeSet<RelPath>, ExecutorError> {
        let patience = self.transfer.patience;
        let mut different = BTreeSet::new();
        for questions in plan::questions(source, target, wishes).chunks(CHANGES) {
            let there = persist(patience, || self.target.digests(questions)).await?;
            let here: Vec<(RelPath, u64)> = questions
                .iter()
                .map(|(path, size)| (self.source_of(path), *size))
                .collect();
            let here = persist(patience, || self.source.digests(&here)).await?;
            let pairs = questions.iter().zip(here.iter().zip(&there));
            let differ = pairs.filter(|(_, (here, there))| here.is_none() || here != there);
            different.extend(differ.map(|((path, _), _)| path.clone()));
        }
        Ok(different)
    }

    async fn change(&self, changes: &[Change]) -> Result<(), ExecutorError> {
        for changes in changes.chunks(CHANGES) {
            persist(self.transfer.patience, || self.target.change(changes)).await?;
        }
        Ok(())
    }

    /// Removes what is in the way and makes folders and links.
    async fn prepare(&self, plan: &Plan) -> Result<(), ExecutorError> {
        let removals = plan.removals.iter().map(|(path, folder)| Change::Remove {
            path: path.clone(),
            folder: *folder,
        });
        let root = std::iter::once(RelPath::root());
        let folders = plan.folders.iter().cloned();
        let links = plan.links.iter().map(|(path, target)| Change::Link {
            path: path.clone(),
            target: target.clone(),
        });
        // Closed folders are open before anything in them is changed.
        let opened = plan.opened.iter().cloned().map(Change::Folder);
        self.change(&opened.collect::<Vec<_>>()).await?;
        let changes: Vec<Change> = removals
            .chain(root.chain(folders).map(Change::Folder))
            .chain(links)
            .collect();
        self.change(&changes).await
    }
}

/// What was moved for a large file.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    bytes: u64,
    resumed: u64,
}

mod content;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_doubted_for_two_minutes() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(doubtful_from(now), 880);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(doubtful_from(before), -FRESH);
    }
}
