//! What the store has, and what of it may go. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::Digest;

/// What the store has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Whole blobs, with their sizes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Whole layers, by the digests of their compressed forms.
    pub layers: BTreeMap<Digest, LayerRecord>,
    /// Items, by the digests that they were asked for with.
    pub items: BTreeMap<Digest, ItemRecord>,
    /// Parts of blobs.
    pub partials: BTreeMap<Digest, PartialRecord>,
    /// What was found damaged, with sizes.
    pub quarantined: BTreeMap<Digest, u64>,
    /// What running installations use, and how many of them.
    pub pins: BTreeMap<Digest, usize>,
}

/// An unpacked layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRecord {
    /// Digest of the uncompressed archive.
    pub diff_id: Digest,
    /// Of disk.
    pub bytes: u64,
    /// Checksum of the whole tree.
    pub seal: [u8; 32],
}

/// An item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRecord {
    /// Its image manifest.
    pub manifest: Digest,
    /// Whether everything of it was there at one time.
    pub is_complete: bool,
    /// Since when nobody wants it, in seconds of Unix time.
    pub removed_at: Option<u64>,
    /// Blobs that it needs.
    pub blobs: BTreeSet<Digest>,
    /// Layers that it needs.
    pub layers: BTreeSet<Digest>,
}

/// What has come of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialRecord {
    /// On disk.
    pub bytes: u64,
    /// When the last of it came, in seconds of Unix time.
    pub since: u64,
}

/// When something may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRules {
    /// Seconds of Unix time.
    pub now: u64,
    /// How long removed items stay, in seconds.
    pub item_ttl: u64,
    /// How long parts of blobs stay, in seconds.
    pub partial_ttl: u64,
    /// Bytes that must be freed, if they can be: parts and removed items then go before their time, the oldest first.
    pub need: u64,
}

/// What is to go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcPlan {
    /// Items.
    pub items: BTreeSet<Digest>,
    /// Blobs.
    pub blobs: BTreeSet<Digest>,
    /// Layers.
    pub layers: BTreeSet<Digest>,
    /// Parts of blobs.
    pub partials: BTreeSet<Digest>,
    /// Damaged things.
    pub quarantined: BTreeSet<Digest>,
    /// Bytes that this frees.
    pub freed: u64,
}

impl Inventory {
    /// Bytes of everything.
    pub fn used_bytes(&self) -> u64 {
        let layers = self.layers.values().map(|layer| layer.bytes);
        let partials = self.partials.values().map(|partial| partial.bytes);
        let all = self
            .blobs
            .values()
            .chain(self.quarantined.values())
            .copied();
        all.chain(layers)
            .chain(partials)
            .fold(0, u64::saturating_add)
    }

    /// Whether everything that an item needs is there.
    pub(crate) fn has_parts_of(&self, item: &ItemRecord) -> bool {
        item.blobs.iter().all(|it| self.blobs.contains_key(it))
            && item.layers.iter().all(|it| self.layers.contains_key(it))
    }

    /// Wanted items that were complete and are so no longer.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = Digest> {
        let items = self.items.iter();
        let lacking = items.filter(|(_, item)| {
            item.is_complete && item.removed_at.is_none() && !self.has_parts_of(item)
        });
        lacking.map(|(digest, _)| *digest)
    }

    fn is_pinned(&self, digest: &Digest) -> bool {
        self.pins.contains_key(digest)
    }
}

impl GcPlan {
    /// Whether nothing is to go.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.blobs.is_empty()
            && self.layers.is_empty()
            && self.partials.is_empty()
            && self.quarantined.is_empty()
    }
}

/// What may go. Never what a wanted item needs (running, wanted and needed for a roll-back are all wanted), nor what an
/// installation uses at the moment.
///
/// A clock that was set back makes nothing go early: an age is then zero.
pub fn gc_plan(inventory: &Inventory, rules: &GcRules) -> GcPlan {
    let age = |since: u64| rules.now.saturating_sub(since);
    let removed = |(digest, item): (&Digest, &ItemRecord)| {
        let since = item.removed_at.filter(|_| !inventory.is_pinned(digest))?;
        Some((since, *digest))
    };
    let mut waiting: Vec<(u64, Digest)> = inventory.items.iter().filter_map(removed).collect();
    waiting.sort_unstable();
    let mut items: BTreeSet<Digest> = waiting
        .iter()
        .filter(|(since, _)| age(*since) >= rules.item_ttl)
        .map(|(_, digest)| *digest)
        .collect();
    let free_partials = || {
        let partials = inventory.partials.iter();
        partials.filter(|(digest, _)| !inventory.is_pinned(digest))
    };
    let mut partials: BTreeSet<Digest> = free_partials()
        .filter(|(_, partial)| age(partial.since) >= rules.partial_ttl)
        .map(|(digest, _)| *digest)
        .collect();

    let mut plan = complete(inventory, items.clone(), partials.clone());
    if plan.freed < rules.need {
        partials = free_partials().map(|(digest, _)| *digest).collect();
        plan = complete(inventory, items.clone(), partials.clone());
    }
    for (_, digest) in waiting {
        if plan.freed >= rules.need {
            break;
        }
        if items.insert(digest) {
            plan = complete(inventory, items.clone(), partials.clone());
        }
    }
    plan
}

/// What goes with these items and parts.
fn complete(inventory: &Inventory, items: BTreeSet<Digest>, partials: BTreeSet<Digest>) -> GcPlan {
    let staying = || {
        let staying = inventory.items.iter();
        staying.filter(|(digest, _)| !items.contains(*digest))
    };
    let needed_blobs: BTreeSet<Digest> = staying()
        .flat_map(|(_, item)| item.blobs.iter().copied())
        .collect();
    let needed_layers: BTreeSet<Digest> = staying()
        .flat_map(|(_, item)| item.layers.iter().copied())
        .collect();
    let free = |digest: &&Digest, needed: &BTreeSet<Digest>| {
        !needed.contains(*digest) && !inventory.is_pinned(digest)
    };
    let blobs: BTreeSet<Digest> = inventory
        .blobs
        .keys()
        .filter(|digest| free(digest, &needed_blobs))
        .copied()
        .collect();
    let layers: BTreeSet<Digest> = inventory
        .layers
        .keys()
        .filter(|digest| free(digest, &needed_layers))
        .copied()
        .collect();
    // A damaged layer may be under a running instance: it stays as long as any item needs the good one.
    let quarantined: BTreeSet<Digest> = inventory
        .quarantined
        .keys()
        .filter(|digest| free(digest, &needed_layers) && free(digest, &needed_blobs))
        .copied()
        .collect();
    let freed = [
        sum(&blobs, |digest| inventory.blobs[digest]),
        sum(&layers, |digest| inventory.layers[digest].bytes),
        sum(&partials, |digest| inventory.partials[digest].bytes),
        sum(&quarantined, |digest| inventory.quarantined[digest]),
    ];
    GcPlan {
        items,
        blobs,
        layers,
        partials,
        quarantined,
        freed: freed.into_iter().fold(0, u64::saturating_add),
    }
}

fn sum(digests: &BTreeSet<Digest>, bytes: impl Fn(&Digest) -> u64) -> u64 {
    digests.iter().map(bytes).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
