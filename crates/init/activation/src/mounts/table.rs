//! The table of mounts and how it differs from the one before.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::line::{MountLine, ParseMountLineError, number, unescape};

/// What is mounted at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// What.
    pub what: Box<str>,
    /// The type of the file system.
    pub fs_type: Box<str>,
    /// The options of the mount and of its file system, each once.
    pub options: Box<str>,
}

/// A place whose mounts changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountChange {
    /// Where.
    pub place: Arc<str>,
    /// What is on top there now; `None` if nothing is mounted there any more.
    pub now: Option<MountEntry>,
}

/// All mounts, by number and by place.
#[derive(Debug, Default)]
pub struct MountTable {
    hasher: RandomState,
    generation: u64,
    mounts: HashMap<u64, Mount>,
    /// The mounts of each place; the last in the kernel's order lies on top.
    places: BTreeMap<Arc<str>, Vec<u64>>,
    skipped: usize,
}

#[derive(Debug)]
struct Mount {
    /// Of the whole line: what has the same is the same.
    hash: u64,
    seen: u64,
    place: Arc<str>,
    entry: MountEntry,
}

impl MountTable {
    /// Takes the kernel's text in and says which places changed, in their order.
    pub fn update(&mut self, text: &[u8]) -> Vec<MountChange> {
        self.generation += 1;
        self.skipped = 0;
        let mut changed = BTreeSet::new();
        let lines = text.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            if self.take_line(line, &mut changed).is_err() {
                self.skipped += 1;
            }
        }
        self.drop_unseen(&mut changed);
        changed
            .into_iter()
            .map(|place| MountChange {
                now: self.at(&place).cloned(),
                place,
            })
            .collect()
    }

    fn take_line(
        &mut self,
        line: &[u8],
        changed: &mut BTreeSet<Arc<str>>,
    ) -> Result<(), ParseMountLineError> {
        let end = line.iter().position(|byte| *byte == b' ');
        let id = number(&line[..end.unwrap_or(line.len())], "id")?;
        let hash = self.hasher.hash_one(line);
        match self.mounts.entry(id) {
            Entry::Occupied(mut known) if known.get().hash == hash => {
                known.get_mut().seen = self.generation;
                Ok(())
            }
            // Another line under the same number: remounted, or the number was given again.
            Entry::Occupied(mut known) => {
                let mount = Mount::parse(line, hash, self.generation)?;
                let old = known.insert(mount);
                let new = known.get();
                if old.place != new.place {
                    forget(&mut self.places, &old.place, id);
                    remember(&mut self.places, &new.place, id);
                    changed.insert(old.place);
                }
                changed.insert(new.place.clone());
                Ok(())
            }
            Entry::Vacant(free) => {
                let mount = Mount::parse(line, hash, self.generation)?;
                remember(&mut self.places, &mount.place, id);
                changed.insert(mount.place.clone());
                free.insert(mount);
                Ok(())
            }
        }
    }

    fn drop_unseen(&mut self, changed: &mut BTreeSet<Arc<str>>) {
        let (generation, places) = (self.generation, &mut self.places);
        self.mounts.retain(|id, mount| {
            if mount.seen == generation {
                return true;
            }
            forget(places, &mount.place, *id);
            changed.insert(mount.place.clone());
            false
        });
        if self.mounts.capacity() > 4 * self.mounts.len().max(64) {
            self.mounts.shrink_to_fit();
        }
    }

    /// What lies on top at a place.
    #[must_use]
    pub fn at(&self, place: &str) -> Option<&MountEntry> {
        let top = self.places.get(place)?.last()?;
        self.mounts.get(top).map(|mount| &mount.entry)
    }

    /// How many mounts lie on top of each other at a place.
    #[must_use]
    pub fn depth(&self, place: &str) -> usize {
        self.places.get(place).map_or(0, Vec::len)
    }

    /// All places and what lies on top there, in the order of the places.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MountEntry)> {
        self.places.iter().filter_map(|(place, mounts)| {
            let mount = self.mounts.get(mounts.last()?)?;
            Some((&**place, &mount.entry))
        })
    }

    /// Lines of the last text that could not be read.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

fn remember(places: &mut BTreeMap<Arc<str>, Vec<u64>>, place: &Arc<str>, id: u64) {
    places.entry(place.clone()).or_default().push(id);
}

fn forget(places: &mut BTreeMap<Arc<str>, Vec<u64>>, place: &Arc<str>, id: u64) {
    if let Some(mounts) = places.get_mut(place) {
        mounts.retain(|known| *known != id);
        if mounts.is_empty() {
            places.remove(place);
        }
    }
}

impl Mount {
    fn parse(line: &[u8], hash: u64, seen: u64) -> Result<Self, ParseMountLineError> {
        let line = MountLine::parse(line)?;
        let own = unescape(line.options, "options")?;
        let of_fs = unescape(line.fs_options, "options of the file system")?;
        Ok(Self {
            hash,
            seen,
            place: unescape(line.place, "place")?.into(),
            entry: MountEntry {
                what: unescape(line.source, "source")?.into(),
                fs_type: unescape(line.fs_type, "type")?.into(),
                options: join_options(&own, &of_fs).into(),
            },
        })
    }
}

/// The options of a mount and of its file system as one list. Either being read-only makes the mount read-only.
fn join_options(own: &str, of_fs: &str) -> String {
    let is = |word: &str| own.split(',').chain(of_fs.split(',')).any(|o| o == word);
    let mut joined = String::with_capacity(own.len() + of_fs.len() + 1);
    joined.push_str(if is("ro") { "ro" } else { "rw" });
    let others = own.split(',').chain(
        of_fs
            .split(',')
            .filter(|option| !own.split(',').any(|o| o == *option)),
    );
    for option in others.filter(|option| !matches!(*option, "" | "ro" | "rw")) {
        joined.push(',');
        joined.push_str(option);
    }
    joined
}
