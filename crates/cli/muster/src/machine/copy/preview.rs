//! What a copy would do, without doing it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use muster_executor::files::{Entry, Files, Kind, RelPath, Tree};
use muster_executor::local::LocalFiles;
use muster_executor::transfer::plan::{self, Plan, Wishes};
use muster_executor::{Direction, Executor, ExecutorError, FailureClass, Operation, Transfer};
use serde::Serialize;

use crate::text::{shown, size};
use crate::unit::facts::Listed;

/// How many digests are asked for at once.
const AT_ONCE: usize = 512;

/// Of files that changed so lately, in seconds, times show too little: as for a copy.
const FRESH: u64 = 120;

/// Something that would be done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepFacts {
    /// copy, link, make, remove or leave-out
    action: &'static str,
    path: String,
    /// Of a file that is copied.
    bytes: Option<u64>,
}

impl Listed for StepFacts {
    const KIND: &'static str = "change";
    const COLUMNS: &'static [&'static str] = &["ACTION", "PATH", "SIZE"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.path.clone()
    }

    fn row(&self, _: Timestamp) -> Vec<String> {
        let bytes = self.bytes.map_or_else(String::new, size);
        vec![self.action.to_owned(), shown(&self.path), bytes]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What would be done, and how many files are the same already.
pub(super) struct Preview {
    pub(super) steps: Vec<StepFacts>,
    pub(super) unchanged: u64,
}

/// One side of a copy: a folder, and what is copied in it.
struct Side {
    files: Arc<dyn Files>,
    /// The one file that it is about; none where it is the folder.
    file: Option<RelPath>,
}

impl Side {
    async fn open(
        executor: &dyn Executor,
        is_far: bool,
        path: &Path,
        is_folder: bool,
    ) -> Result<Self, ExecutorError> {
        let (folder, file) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if !is_folder => {
                let name = RelPath::new(name.as_encoded_bytes());
                let name = name.map_err(|source| {
                    let (object, class) = (path.display().to_string(), FailureClass::Refused);
                    ExecutorError::new(Operation::Copy, object, class, source)
                })?;
                let folder = match folder.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => folder,
                };
                (folder, Some(name))
            }
            _ => (path, None),
        };
        let files: Arc<dyn Files> = match is_far {
            true => executor.files(folder).await?,
            false => Arc::new(LocalFiles::new(folder)),
        };
        Ok(Self { files, file })
    }

    /// What there is, under a file's name at the target.
    async fn tree(&self, name: Option<&RelPath>) -> Result<Option<Tree>, ExecutorError> {
        let Some(file) = &self.file else {
            return self.files.list().await;
        };
        let entry = self.files.look(file).await?;
        let tree = |entry: Entry| {
            let mut tree = Tree::default();
            // One is not too much.
            let _ = tree.add(name.unwrap_or(file).clone(), entry);
            tree
        };
        Ok(entry.map(tree))
    }

    async fn digests(
        &self,
        asked: &[(RelPath, u64)],
    ) -> Result<Vec<Option<[u8; 32]>>, ExecutorError> {
        let asked: Vec<(RelPath, u64)> = asked
            .iter()
            .map(|(path, size)| (self.file.as_ref().unwrap_or(path).clone(), *size))
            .collect();
        self.files.digests(&asked).await
    }
}

/// Looks at both sides and says what would be done.
pub(super) async fn preview(
    machine: &str,
    executor: &dyn Executor,
    transfer: &Transfer,
) -> Result<Preview, ExecutorError> {
    let up = transfer.direction == Direction::Up;
    let (from, to) = match up {
        true => (&transfer.local, &transfer.remote),
        false => (&transfer.remote, &transfer.local),
    };
    let whole = Side::open(executor, !up, from, true).await?;
    let root = whole.files.look(&RelPath::root()).await?;
    let Some(root) = root else {
        let (object, class) = (from.display().to_string(), FailureClass::Io);
        let why = "there is no such file or folder";
        return Err(ExecutorError::new(Operation::Copy, object, class, why));
    };
    let is_folder = root.kind == Kind::Folder;
    let source = match is_folder {
        true => whole,
        false => Side::open(executor, !up, from, false).await?,
    };
    let target = Side::open(executor, up, to, is_folder).await?;
    let here = source.tree(target.file.as_ref()).await?.unwrap_or_default();
    let here = without_parts(here, is_folder);
    let there = target.tree(None).await?;
    let is_new = there.is_none() && is_folder;
    let there = there.unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let fresh = now.map_or(0, |it| it.as_secs().saturating_sub(FRESH));
    let wishes = Wishes {
        delete: transfer.delete && is_folder,
        checksum: transfer.checksum,
        doubtful_from: i64::try_from(fresh).ok(),
    };
    let mut different = BTreeSet::new();
    for asked in plan::questions(&here, &there, wishes).chunks(AT_ONCE) {
        let (ours, theirs) = (source.digests(asked).await?, target.digests(asked).await?);
        let pairs = asked.iter().zip(ours.iter().zip(&theirs));
        let differ = pairs.filter(|(_, (ours, theirs))| ours.is_none() || ours != theirs);
        different.extend(differ.map(|((path, _), _)| path.clone()));
    }
    let plan = plan::plan(&here, &there, wishes, &different);
    let plan = plan.map_err(|conflict| {
        let (object, class) = (to.display().to_string(), FailureClass::Refused);
        ExecutorError::new(Operation::Copy, object, class, conflict)
    })?;
    let folder = match is_folder {
        true => to.as_path(),
        false => to.parent().unwrap_or(Path::new("")),
    };
    let name = |path: &RelPath| {
        let path = match path.is_root() {
            true => folder.to_owned(),
            false => folder.join(path.as_path()),
        };
        match up {
            true => format!("{machine}:{}", path.display()),
            false => path.display().to_string(),
        }
    };
    Ok(Preview {
        unchanged: plan.unchanged,
        steps: steps(&plan, is_new, name),
    })
}

/// What an earlier copy has left is nobody's file.
fn without_parts(tree: Tree, is_folder: bool) -> Tree {
    if !is_folder {
        return tree;
    }
    let mut kept = Tree::default();
    for (path, entry) in tree.iter().filter(|(path, _)| !plan::is_part(path)) {
        // It is no more than there was.
        let _ = kept.add(path.clone(), entry.clone());
    }
    kept
}

fn steps(plan: &Plan, is_new: bool, name: impl Fn(&RelPath) -> String) -> Vec<StepFacts> {
    let step = |action, path: &RelPath, bytes| StepFacts {
        action,
        path: name(path),
        bytes,
    };
    let root = is_new.then(RelPath::root);
    let removals = plan
        .removals
        .iter()
        .filter(|(path, _)| !plan::is_part(path));
    let removals = removals.map(|(path, _)| step("remove", path, None));
    let folders = root.iter().chain(&plan.folders);
    let folders = folders.map(|path| step("make", path, None));
    let links = plan.links.iter().map(|(path, _)| step("link", path, None));
    let files = plan.batches.iter().flatten().chain(&plan.large);
    let files = files.map(|it| step("copy", &it.path, Some(it.size)));
    let left_out = plan.skipped.iter();
    let left_out = left_out.map(|path| step("leave-out", path, None));
    removals
        .chain(folders)
        .chain(links)
        .chain(files)
        .chain(left_out)
        .collect()
}
