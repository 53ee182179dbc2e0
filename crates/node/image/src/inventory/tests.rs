use proptest::prelude::*;

use super::*;

fn digest(number: u8) -> Digest {
    Digest::from_sha256([number; 32])
}

fn digests(numbers: &[u8]) -> BTreeSet<Digest> {
    numbers.iter().copied().map(digest).collect()
}

fn layer(bytes: u64) -> LayerRecord {
    LayerRecord {
        diff_id: digest(0),
        bytes,
        seal: [0; 32],
    }
}

const POOL: u8 = 12;

prop_compose! {
    fn subset()(numbers in prop::collection::vec(0..POOL, 0..6)) -> BTreeSet<Digest> {
        digests(&numbers)
    }
}

prop_compose! {
    fn item()(
        blobs in subset(),
        layers in subset(),
        removed_at in prop::option::of(0_u64..100),
        is_complete in any::<bool>(),
    ) -> ItemRecord {
        ItemRecord { manifest: digest(0), is_complete, removed_at, blobs, layers }
    }
}

prop_compose! {
    fn inventory()(
        blobs in prop::collection::btree_map((0..POOL).prop_map(digest), 1_u64..100, 0..10),
        layers in prop::collection::btree_map((0..POOL).prop_map(digest), (1_u64..100).prop_map(layer), 0..10),
        items in prop::collection::btree_map((0..POOL).prop_map(digest), item(), 0..8),
        partials in prop::collection::btree_map(
            (0..POOL).prop_map(digest),
            (1_u64..100, 0_u64..100).prop_map(|(bytes, since)| PartialRecord { bytes, since }),
            0..4,
        ),
        quarantined in prop::collection::btree_map((0..POOL).prop_map(digest), 1_u64..100, 0..3),
        pins in prop::collection::btree_map((0..POOL).prop_map(digest), 1_usize..3, 0..3),
    ) -> Inventory {
        Inventory { blobs, layers, items, partials, quarantined, pins }
    }
}

prop_compose! {
    fn rules()(now in 0_u64..200, item_ttl in 0_u64..100, partial_ttl in 0_u64..100, need in 0_u64..400) -> GcRules {
        GcRules { now, item_ttl, partial_ttl, need }
    }
}

proptest! {
    /// The promise: nothing that a wanted item needs, and nothing that an installation uses, ever goes.
    #[test]
    fn what_is_wanted_or_in_use_never_goes(inventory in inventory(), rules in rules()) {
        let plan = gc_plan(&inventory, &rules);
        for (digest, item) in &inventory.items {
            if item.removed_at.is_some() && !inventory.pins.contains_key(digest) {
                continue;
            }
            prop_assert!(!plan.items.contains(digest));
            prop_assert!(plan.blobs.is_disjoint(&item.blobs));
            prop_assert!(plan.layers.is_disjoint(&item.layers));
            prop_assert!(plan.quarantined.is_disjoint(&item.layers));
        }
        for pinned in inventory.pins.keys() {
            for gone in [&plan.items, &plan.blobs, &plan.layers, &plan.partials, &plan.quarantined] {
                prop_assert!(!gone.contains(pinned));
            }
        }
    }

    /// What stays can be used: an item that is not removed keeps everything that it needs and that was there.
    #[test]
    fn an_item_that_stays_stays_whole(inventory in inventory(), rules in rules()) {
        let plan = gc_plan(&inventory, &rules);
        for (digest, item) in &inventory.items {
            if !plan.items.contains(digest) {
                prop_assert!(plan.blobs.is_disjoint(&item.blobs));
                prop_assert!(plan.layers.is_disjoint(&item.layers));
            }
        }
    }

    /// Without need nothing goes before its time, and what nobody refers to goes at once.
    #[test]
    fn without_need_time_decides(inventory in inventory(), rules in rules()) {
        let rules = GcRules { need: 0, ..rules };
        let plan = gc_plan(&inventory, &rules);
        for gone in &plan.items {
            let since = inventory.items[gone].removed_at.unwrap();
            prop_assert!(rules.now.saturating_sub(since) >= rules.item_ttl);
        }
        for gone in &plan.partials {
            prop_assert!(rules.now.saturating_sub(inventory.partials[gone].since) >= rules.partial_ttl);
        }
        for blob in inventory.blobs.keys() {
            let is_referred_to = inventory.items.values().any(|item| item.blobs.contains(blob));
            if !is_referred_to && !inventory.pins.contains_key(blob) {
                prop_assert!(plan.blobs.contains(blob));
            }
        }
    }

    /// With need, either enough is freed, or nothing that may go is left.
    #[test]
    fn with_need_enough_goes_or_everything_that_may(inventory in inventory(), rules in rules()) {
        let plan = gc_plan(&inventory, &rules);
        let all = gc_plan(&inventory, &GcRules { need: u64::MAX, ..rules });
        prop_assert!(plan.freed >= rules.need || plan == all);
        // The freed bytes are those that are missing afterwards.
        let mut after = inventory.clone();
        after.items.retain(|digest, _| !plan.items.contains(digest));
        after.blobs.retain(|digest, _| !plan.blobs.contains(digest));
        after.layers.retain(|digest, _| !plan.layers.contains(digest));
        after.partials.retain(|digest, _| !plan.partials.contains(digest));
        after.quarantined.retain(|digest, _| !plan.quarantined.contains(digest));
        prop_assert_eq!(inventory.used_bytes() - after.used_bytes(), plan.freed);
        // Done once is done.
        let again = gc_plan(&after, &GcRules { need: 0, ..rules });
        prop_assert!(again.is_empty(), "{:?}", again);
    }
}

#[test]
fn with_need_the_longest_removed_goes_first() {
    let mut inventory = Inventory::default();
    for number in 1..=3 {
        inventory.layers.insert(digest(number), layer(100));
        let item = ItemRecord {
            manifest: digest(number),
            is_complete: true,
            removed_at: Some(50 - u64::from(number)),
            blobs: BTreeSet::new(),
            layers: digests(&[number]),
        };
        inventory.items.insert(digest(number), item);
    }
    let rules = GcRules {
        now: 60,
        item_ttl: 1000,
        partial_ttl: 1000,
        need: 150,
    };
    assert_eq!(gc_plan(&inventory, &rules).items, digests(&[2, 3]));
}
