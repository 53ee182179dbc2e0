//! Items, and how updates go.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{AosError, Digest, InstanceIdent, ItemId, ItemState, ItemType, OwnerId};
use muster_desired::{Bytes, DesiredStatus, ImageSource, InstanceProgress, ItemProgress, Progress};

use super::instance::Wanted;
use super::{Notes, UnitState};
use crate::facts::{Note, NoteKind};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemKey {
    pub(crate) id: ItemId,
    pub(crate) version: String,
}

/// What the desired status says about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemFacts {
    version: String,
    pub(crate) kind: ItemType,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) index: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemRecord {
    pub(crate) facts: Option<ItemFacts>,
    pub(crate) state: ItemState,
    pub(crate) bytes: Bytes,
    pub(crate) error: Option<AosError>,
}

/// What differs between two snapshots of an update.
#[derive(Debug, Default)]
pub(crate) struct ProgressChanges {
    /// None for those that are not there any more.
    pub(crate) items: Vec<(ItemId, Option<ItemProgress>)>,
    pub(crate) instances: Vec<(InstanceIdent, Option<InstanceProgress>)>,
}

impl ProgressChanges {
    /// Costs what differs, and a look at each item and node.
    pub(crate) fn between(old: &Progress, new: &Progress) -> Self {
        Self {
            items: changes(&old.items, &new.items),
            instances: new.instances.changes_since(&old.instances),
        }
    }
}

fn changes<K: Ord + Clone, V: PartialEq + Clone>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let mut found = Vec::new();
    let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = olds.next_if(|_| order.is_le());
        match (old, news.next_if(|_| order.is_ge())) {
            (Some((_, old)), Some((_, new))) if old == new => {}
            (_, Some((key, new))) => found.push((key.clone(), Some(new.clone()))),
            (Some((key, _)), None) => found.push((key.clone(), None)),
            (None, None) => {}
        }
    }
}

impl UnitState {
    /// What is wanted from now on.
    pub(crate) fn wanted(&mut self, desired: &DesiredStatus) {
        let facts = |(id, item): (&ItemId, &muster_desired::Item)| {
            let index = match &item.image {
                ImageSource::Cloud { index } => Some(*index),
                ImageSource::Layout { index, .. } | ImageSource::Registry { index, .. } => *index,
            };
            let facts = ItemFacts {
                version: item.version.clone(),
                kind: item.kind,
                owner: item.owner.clone(),
                index,
            };
            (id.clone(), facts)
        };
        self.item_facts = desired.items().iter().map(facts).collect();
        let keys: Vec<ItemKey> = self.items.after(None).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let facts = self.facts_of(&key);
            if let Some(item) = self.items.get_mut(&key)
                && item.facts != facts
            {
                item.facts = facts;
                self.items.touch(&key, &mut self.revision);
            }
        }
    }

    fn facts_of(&self, key: &ItemKey) -> Option<ItemFacts> {
        let facts = self.item_facts.get(&key.id);
        facts.filter(|facts| facts.version == key.version).cloned()
    }

    /// How the newest update goes: what has changed since the last time. `failures` are the first few.
    pub(crate) fn progressed(
        &mut self,
        progress: &Arc<Progress>,
        changes: ProgressChanges,
        failures: Vec<String>,
        now: SystemTime,
        notes: &mut Notes,
    ) {
        let before = std::mem::replace(&mut self.progress, Arc::clone(progress));
        self.overview_stale |= self.failures != failures;
        self.failures = failures;
        self.tally.update = progress.update;
        self.tally.step = progress.step;
        self.tally.done = progress.done;
        self.note_update(&before, progress, notes);
        for (id, item) in changes.items {
            let version = before.items.get(&id).map(|item| item.version.clone());
            self.item_progressed(id, version, item, notes);
        }
        for (ident, wanted) in changes.instances {
            let wanted = wanted.as_ref().map(Wanted::from);
            if wanted.is_some() || self.instances.get(&ident).is_some() {
                self.change_instance(&ident, now, notes, |record| record.want(wanted));
            }
        }
    }

    fn item_progressed(
        &mut self,
        id: ItemId,
        old_version: Option<String>,
        item: Option<ItemProgress>,
        notes: &mut Notes,
    ) {
        let revision = &mut self.revision;
        if let Some(version) = old_version
            && item.as_ref().is_none_or(|item| item.version != version)
        {
            let id = id.clone();
            self.items.remove(&ItemKey { id, version }, revision);
        }
        let Some(item) = item else { return };
        let key = ItemKey {
            id,
            version: item.version,
        };
        let facts = self.facts_of(&key);
        let new = ItemRecord {
            facts,
            state: item.state,
            bytes: item.bytes,
            error: item.error,
        };
        let known = self.items.get(&key);
        if known == Some(&new) {
            return;
        }
        if known.is_some_and(|known| known.state != new.state) {
            let name = format!("{} {}", key.id, key.version);
            match (new.state, &new.error) {
                (ItemState::Failed, Some(error)) => {
                    notes.add(Note::warning(
                        NoteKind::Item,
                        name,
                        format!("cannot be had: {error}"),
                    ));
                }
                (ItemState::Failed, None) => {
                    notes.add(Note::warning(NoteKind::Item, name, "cannot be had"));
                }
                (ItemState::Installed, _) => {
                    notes.add(Note::plain(NoteKind::Item, name, "is there"))
                }
                _ => {}
            }
        }
        self.items.put(&key, new, &mut self.revision);
    }

    fn note_update(&mut self, before: &Progress, after: &Progress, notes: &mut Notes) {
        // The first that is heard of after a start was there before.
        let is_first = !std::mem::replace(&mut self.heard_of_updates, true);
        let Some(update) = after.update.filter(|_| !is_first) else {
            return;
        };
        let is_new = before.update != after.update;
        if is_new {
            notes.add(Note::plain(NoteKind::Update, update.to_string(), "begins"));
        }
        if after.done && (is_new || !before.done) {
            notes.add(match self.failures.first() {
                None => Note::plain(NoteKind::Update, update.to_string(), "is done"),
                Some(first) => {
                    let text = format!("is done, but not all is well: {first}");
                    Note::warning(NoteKind::Update, update.to_string(), text)
                }
            });
        }
    }
}
