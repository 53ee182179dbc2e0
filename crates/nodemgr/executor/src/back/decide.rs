//! What comes back, what goes, and what stays: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Look, Uploaded};
use crate::files::{Entry, Kind, RelPath, Tree};

/// What has to be done here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Back {
    /// What goes here, and whether it is a folder. What a folder holds comes before it.
    pub removed: Vec<(RelPath, bool)>,
    /// What comes from there, with the folders that are missing here.
    pub brought: Tree,
    /// What changed there and stays as it is here.
    pub kept: Vec<Kept>,
}

/// Something that changed on both sides: what is here was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What.
    pub path: RelPath,
    /// How.
    pub because: KeptBecause,
}

/// What happened to something on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptBecause {
    /// It changed on both.
    ChangedOnBoth,
    /// It changed here and was removed there.
    RemovedThere,
    /// It was removed here and changed there.
    RemovedHere,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.because {
            KeptBecause::ChangedOnBoth => {
                write!(f, "{path} changed here and in the machine: yours is kept")
            }
            KeptBecause::RemovedThere => write!(
                f,
                "{path} changed here and was removed in the machine: yours is kept"
            ),
            KeptBecause::RemovedHere => write!(
                f,
                "{path} was removed here and changed in the machine: it stays removed"
            ),
        }
    }
}

/// Whether something is as it was. Of folders only what they are and their permissions count: their times change with
/// whatever is in them.
fn is_same(path: &RelPath, first: &Look, now: &Look) -> bool {
    match (first.tree.get(path), now.tree.get(path)) {
        (Some(first), Some(now)) if first.is_folder() && now.is_folder() => first.mode == now.mode,
        (Some(before), Some(after)) => {
            let digest = first.digests.get(path);
            before == after && (digest.is_none() || digest == now.digests.get(path))
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether something is the same on both sides.
fn is_equal(path: &RelPath, here: &Look, there: &Look) -> bool {
    here.tree.get(path) == there.tree.get(path) && here.digests.get(path) == there.digests.get(path)
}

/// Decides what has to be done here, by what both sides held when the folder was brought there and what they hold now.
#[must_use]
pub fn decide(uploaded: &Uploaded, here: &Look, there: &Look) -> Back {
    let mut decision = Decision {
        uploaded,
        here,
        there,
        removed: BTreeSet::new(),
        folders: BTreeSet::new(),
        brought: BTreeMap::new(),
        replacing: Vec::new(),
        closed: None,
        kept: Vec::new(),
    };
    let paths: BTreeSet<&RelPath> = uploaded
        .there
        .tree
        .iter()
        .chain(there.tree.iter())
        .map(|(path, _)| path)
        .collect();
    for path in paths {
        decision.weigh(path);
    }
    decision.end()
}

struct Decision<'a> {
    uploaded: &'a Uploaded,
    here: &'a Look,
    there: &'a Look,
    /// Files and links that go here.
    removed: BTreeSet<RelPath>,
    /// Folders that go here if nothing stays in them.
    folders: BTreeSet<RelPath>,
    brought: BTreeMap<RelPath, Entry>,
    /// What comes in the place of folders, if those go.
    replacing: Vec<(RelPath, Entry)>,
    /// The last thing that stays where there is a folder there: what is in that folder cannot come.
    closed: Option<RelPath>,
    kept: Vec<Kept>,
}

impl Decision<'_> {
    fn weigh(&mut self, path: &RelPath) {
        let below_closed = self.closed.as_ref();
        if below_closed.is_some_and(|closed| path.is_below(closed))
            || is_same(path, &self.uploaded.there, self.there)
            || is_equal(path, self.here, self.there)
        {
            return;
        }
        match self.there.tree.get(path) {
            None => self.gone(path),
            Some(now) => match now.kind {
                // Never copied.
                Kind::Special => {}
                Kind::Folder => self.folder(path, now),
                Kind::File { .. } | Kind::Link { .. } => self.file(path, now),
            },
        }
    }

    fn keep(&mut self, path: &RelPath, because: KeptBecause) {
        let path = path.clone();
        self.kept.push(Kept { path, because });
    }

    /// Whether what is here is not what was brought there.
    fn changed_here(&self, path: &RelPath) -> bool {
        let never_there = self.uploaded.there.tree.get(path).is_none();
        let was_folder = |look: &Look| look.tree.get(path).is_some_and(Entry::is_folder);
        let stayed_folder = was_folder(&self.uploaded.here) && was_folder(self.here);
        never_there || !(stayed_folder || is_same(path, &self.uploaded.here, self.here))
    }

    fn gone(&mut self, path: &RelPath) {
        let first = self.uploaded.here.tree.get(path);
        let (Some(first), Some(now)) = (first, self.here.tree.get(path)) else {
            // It never was here, or is gone here too.
            return;
        };
        if self.changed_here(path) {
            self.keep(path, KeptBecause::RemovedThere);
        } else if first.is_folder() && now.is_folder() {
            self.folders.insert(path.clone());
        } else {
            self.removed.insert(path.clone());
        }
    }

    fn folder(&mut self, path: &RelPath, now: &Entry) {
        let first = self.uploaded.there.tree.get(path);
        let was_folder = first.is_some_and(Entry::is_folder);
        match self.here.tree.get(path) {
            Some(here) if here.is_folder() => {
                if was_folder {
                    self.brought.insert(path.clone(), now.clone());
                }
            }
            // Somebody removed it here; only its permissions changed there.
            None if was_folder => {}
            None => {
                self.brought.insert(path.clone(), now.clone());
            }
            Some(_) if self.changed_here(path) => {
                self.keep(path, KeptBecause::ChangedOnBoth);
                self.closed = Some(path.clone());
            }
            Some(_) => {
                self.removed.insert(path.clone());
                self.brought.insert(path.clone(), now.clone());
            }
        }
    }

    fn file(&mut self, path: &RelPath, now: &Entry) {
        if self.is_obstructed(path) {
            return self.keep(path, KeptBecause::ChangedOnBoth);
        }
        match self.here.tree.get(path) {
            None if self.uploaded.here.tree.get(path).is_some() => {
                self.keep(path, KeptBecause::RemovedHere);
            }
            None => {
                self.brought.insert(path.clone(), now.clone());
            }
            Some(_) if self.changed_here(path) => self.keep(path, KeptBecause::ChangedOnBoth),
            Some(here) if here.is_folder() => {
                self.folders.insert(path.clone());
                self.replacing.push((path.clone(), now.clone()));
            }
            Some(_) => {
                self.brought.insert(path.clone(), now.clone());
            }
        }
    }

    /// Whether something that stays here stands where a folder would have to be.
    fn is_obstructed(&self, path: &RelPath) -> bool {
        let here = &self.here.tree;
        ancestors(path).any(|it| {
            !self.removed.contains(&it) && here.get(&it).is_some_and(|it| !it.is_folder())
        })
    }

    fn end(mut self) -> Back {
        let mut removed = Vec::new();
        // A folder goes if everything in it does; what it holds comes after it, so this goes backwards.
        let mut staying: BTreeSet<RelPath> = BTreeSet::new();
        for (path, entry) in self.here.tree.iter().rev() {
            let goes = match self.folders.contains(path) {
                true => !staying.contains(path),
                false => self.removed.contains(path),
            };
            if goes {
                removed.push((path.clone(), entry.is_folder()));
            } else if let Some((folder, _)) = path.split() {
                staying.insert(folder);
            }
        }
        for (path, entry) in std::mem::take(&mut self.replacing) {
            match staying.contains(&path) {
                true => self.keep(&path, KeptBecause::ChangedOnBoth),
                false => {
                    self.brought.insert(path, entry);
                }
            }
        }
        let mut brought = self.brought;
        let missing: Vec<RelPath> = brought
            .keys()
            .flat_map(ancestors)
            .filter(|it| self.here.tree.get(it).is_none())
            .collect();
        for path in missing {
            if let Some(entry) = self.there.tree.get(&path) {
                brought.entry(path).or_insert_with(|| entry.clone());
            }
        }
        let mut tree = Tree::default();
        for (path, entry) in brought {
            // It is a part of a tree that was not too large.
            let _ = tree.add(path, entry);
        }
        self.kept.sort_by(|a, b| a.path.cmp(&b.path));
        Back {
            removed,
            brought: tree,
            kept: self.kept,
        }
    }
}

/// The folders that something is in, without the one that all is about.
fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> + use<> {
    let folder = |path: &RelPath| {
        let (folder, _) = path.split()?;
        (!folder.is_root()).then_some(folder)
    };
    std::iter::successors(folder(path), folder)
}
