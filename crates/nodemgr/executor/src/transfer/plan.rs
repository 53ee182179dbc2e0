//! What has to be done so that a folder becomes like another. Pure: no I/O, no clock.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::path::RelPath;
use super::tree::{Entry, Kind, Tree};
use crate::files::Change;

/// A file of at most this many bytes goes in a batch with others, in one step.
pub const SMALL: u64 = 256 * 1024;

/// How much a batch of small files holds at most.
const BATCH_FILES: usize = 256;
const BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// What is wanted beside the copy itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wishes {
    /// What is only in the target is removed.
    pub delete: bool,
    /// Size and time do not show that two files are the same: their digests do.
    pub checksum: bool,
    /// Times are whole seconds, and a file may change twice in one: from this second on they do not show that two files are
    /// the same either.
    pub doubtful_from: Option<i64>,
}

impl Wishes {
    /// Whether the digests of two files of the same size have to be compared.
    fn asks(self, entry: &Entry, there: &Entry) -> bool {
        let is_doubtful = || self.doubtful_from.is_some_and(|it| entry.mtime >= it);
        self.checksum || (entry.mtime == there.mtime && is_doubtful())
    }
}

/// A file that has to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub path: RelPath,
    /// How many bytes it had when it was listed.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed.
    pub mtime: i64,
}

/// A folder or file whose permissions and time have to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Which.
    pub path: RelPath,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed.
    pub mtime: i64,
}

impl From<Settled> for Change {
    fn from(settled: Settled) -> Self {
        Self::Settle {
            path: settled.path,
            mode: settled.mode,
            mtime: settled.mtime,
        }
    }
}

/// What has to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What is in the way or no longer wanted, and whether it is a folder. What a folder holds comes before it.
    pub removals: Vec<(RelPath, bool)>,
    /// Folders that are missing. A folder comes before what it holds.
    pub folders: Vec<RelPath>,
    /// Folders that are there, but closed to their owner: they are opened while the copy lasts.
    pub opened: Vec<RelPath>,
    /// Links that are missing or lead elsewhere.
    pub links: Vec<(RelPath, Vec<u8>)>,
    /// Small files, in batches.
    pub batches: Vec<Vec<Planned>>,
    /// Large files.
    pub large: Vec<Planned>,
    /// Files that hold what they should, with other permissions or another time; then folders, what they hold before them.
    pub settled: Vec<Settled>,
    /// What is not copied: devices, pipes, sockets.
    pub skipped: Vec<RelPath>,
    /// How many files and links are the same already.
    pub unchanged: u64,
}

/// A folder of the target stands where something else is to be, and nothing may be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is a folder in the target and not in the source; it is replaced only if deletion is allowed"
)]
pub struct Conflict(pub RelPath);

/// The name under which a large file is written before it is whole.
#[must_use]
pub fn part_of(path: &RelPath) -> RelPath {
    let (folder, name) = path.split().unwrap_or((RelPath::root(), b""));
    let digest = Sha256::digest(name);
    let part = format!("{PART}{}", hex::encode(&digest[..8]));
    // A path that is as long as paths can be has no room for a part beside it; its own name is as good.
    folder
        .child(part.as_bytes())
        .unwrap_or_else(|_| path.clone())
}

/// How the names of parts begin. What follows is half a digest.
pub(crate) const PART: &str = ".muster-part-";

/// How many digits follow.
pub(crate) const PART_DIGITS: usize = 16;

/// The folder in which rsync keeps what it could not finish.
pub(crate) const RSYNC_PARTS: &str = ".muster-part-rsync";

/// Whether something is what a copy that was cut has left, or is in a folder of that. It is nobody's file.
#[must_use]
pub fn is_part(path: &RelPath) -> bool {
    let names = path.as_bytes().split(|&byte| byte == b'/');
    names.into_iter().any(|name| {
        let rest = name.strip_prefix(PART.as_bytes());
        name == RSYNC_PARTS.as_bytes()
            || rest.is_some_and(|it| {
                it.len() == PART_DIGITS
                    && it.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
            })
    })
}

/// The files whose digests have to be compared before a plan can be made.
#[must_use]
pub fn questions(source: &Tree, target: &Tree, wishes: Wishes) -> Vec<(RelPath, u64)> {
    let same_size = source.iter().filter_map(|(path, entry)| {
        let Kind::File { size } = entry.kind else {
            return None;
        };
        let there = target.get(path)?;
        let asked = there.kind == entry.kind && wishes.asks(entry, there);
        asked.then(|| (path.clone(), size))
    });
    same_size.collect()
}

/// Whether a file or link of the target holds what that of the source does.
fn is_same(entry: &Entry, there: &Entry, differs: bool, wishes: Wishes) -> bool {
    match entry.kind {
        Kind::File { .. } if wishes.checksum => entry.kind == there.kind && !differs,
        Kind::File { .. } => entry.kind == there.kind && entry.mtime == there.mtime && !differs,
        Kind::Folder | Kind::Link { .. } => entry.kind == there.kind,
        Kind::Special => false,
    }
}

/// What has to be done. `different` are those of the [`questions`] whose digests differ.
///
/// # Errors
/// When something of the target is in the way and may not be removed.
pub fn plan(
    source: &Tree,
    target: &Tree,
    wishes: Wishes,
    different: &BTreeSet<RelPath>,
) -> Result<Plan, Conflict> {
    let mut plan = Plan::default();
    let mut parts = Parts::default();
    let mut small = Vec::new();
    let mut folders = Vec::new();
    for (path, entry) in source.iter() {
        let there = target.get(path);
        let same = there.filter(|there| is_same(entry, there, different.contains(path), wishes));
        let settled = Settled {
            path: path.clone(),
            mode: entry.mode,
            mtime: entry.mtime,
        };
        match (&entry.kind, same) {
            (Kind::Special, _) => plan.skipped.push(path.clone()),
            (Kind::Folder, None) => {
                plan.folders.push(path.clone());
                folders.push(settled);
            }
            (Kind::Folder, Some(there)) => {
                if there.mode & 0o700 != 0o700 {
                    plan.opened.push(path.clone());
                }
                folders.push(settled);
            }
            (Kind::Link { target }, None) => plan.links.push((path.clone(), target.clone())),
            (Kind::File { size }, None) => {
                let planned = Planned {
                    path: path.clone(),
                    size: *size,
                    mode: entry.mode,
                    mtime: entry.mtime,
                };
                match *size <= SMALL {
                    true => small.push(planned),
                    false => {
                        parts.used.insert(part_of(path));
                        plan.large.push(planned);
                    }
                }
            }
            (Kind::File { .. }, Some(there)) => {
                plan.unchanged += 1;
                parts.left.insert(part_of(path));
                if (there.mode, there.mtime) != (entry.mode, entry.mtime) {
                    plan.settled.push(settled);
                }
            }
            (Kind::Link { .. }, Some(_)) => plan.unchanged += 1,
        }
    }
    plan.removals = removals(source, target, wishes, &parts)?;
    plan.batches = batches(small);
    plan.settled.extend(folders.into_iter().rev());
    Ok(plan)
}

/// The parts of files of the source, whether or not they are there.
#[derive(Debug, Default)]
struct Parts {
    /// Copies of these files go on with them.
    used: BTreeSet<RelPath>,
    /// These files are there wholly.
    left: BTreeSet<RelPath>,
}

/// What is in the way of the source, and what is not in it if that is not wanted, deepest first.
fn removals(
    source: &Tree,
    target: &Tree,
    wishes: Wishes,
    parts: &Parts,
) -> Result<Vec<(RelPath, bool)>, Conflict> {
    let mut removals = Vec::new();
    // What replaces a folder replaces all that it holds.
    let mut replaced: Option<RelPath> = None;
    for (path, there) in target.iter() {
        if replaced
            .as_ref()
            .is_some_and(|folder| path.is_below(folder))
        {
            removals.push((path.clone(), there.is_folder()));
            continue;
        }
        let goes = match source.get(path) {
            Some(entry) if entry.kind == Kind::Special => false,
            Some(entry) => match (entry.is_folder(), there.is_folder()) {
                (false, true) if !wishes.delete => return Err(Conflict(path.clone())),
                (false, true) => {
                    replaced = Some(path.clone());
                    true
                }
                (true, false) => true,
                // A link or special file would be written through; a file in the place of a link is replaced by a rename.
                (false, false) => there.kind == Kind::Special || is_link(there) != is_link(entry),
                (true, true) => false,
            },
            // Parts of files that this copy is not about may be those of another that goes on.
            None if parts.left.contains(path) => !there.is_folder(),
            None => wishes.delete && !parts.used.contains(path),
        };
        if goes {
            removals.push((path.clone(), there.is_folder()));
        }
    }
    removals.reverse();
    Ok(removals)
}

fn is_link(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Link { .. })
}

fn batches(small: Vec<Planned>) -> Vec<Vec<Planned>> {
    let mut batches: Vec<Vec<Planned>> = Vec::new();
    let mut bytes = 0;
    for planned in small {
        let full = batches
            .last()
            .is_none_or(|batch| batch.len() >= BATCH_FILES || bytes + planned.size > BATCH_BYTES);
        if full {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += planned.size;
        if let Some(batch) = batches.last_mut() {
            batch.push(planned);
        }
    }
    batches
}

#[cfg(test)]
mod tests;
