use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_lifecycle::State;
use muster_provider::MachineId;
use muster_template::{Arch, ProviderId};
use proptest::prelude::*;

use crate::{
    Candidate, Criterion, Market, Need, Origin, Policy, Quota, Room, Spot, Taint, Verdict, World,
    choose,
};

const PROVIDERS: &[ProviderId] = &[ProviderId::Aws, ProviderId::Docker, ProviderId::Sim];
const REGIONS: &[&str] = &["north", "south"];
const KINDS: &[&str] = &["small", "large"];

fn maybe_text(words: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(words).prop_map(str::to_owned))
}

fn room() -> impl Strategy<Value = Room> {
    let amount = || prop::option::weighted(0.8, 1u64..5);
    (prop::option::weighted(0.8, 1u32..5), amount(), amount()).prop_map(|(cpus, memory, disk)| {
        Room {
            cpus,
            memory_mb: memory,
            disk_mb: disk,
        }
    })
}

fn taints() -> impl Strategy<Value = BTreeSet<Taint>> {
    let taint = prop::sample::select(&["drain", "gpu"][..]).prop_map(|key| Taint {
        key: key.to_owned(),
        value: String::new(),
    });
    prop::collection::btree_set(taint, 0..2)
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let label = (
        prop::sample::select(&["a", "b"][..]),
        prop::sample::select(&["1", "2"][..]),
    );
    prop::collection::btree_map(
        label.clone().prop_map(|it| it.0.to_owned()),
        label.prop_map(|it| it.1.to_owned()),
        0..2,
    )
}

fn origin() -> impl Strategy<Value = Origin> {
    let market = || prop::sample::select(&[Market::OnDemand, Market::Spot][..]);
    prop_oneof![
        3 => (market(), maybe_text(KINDS)).prop_map(|(market, kind)| Origin::New { market, kind }),
        1 => (prop::sample::select(&State::ALL[..]), market(), maybe_text(KINDS)).prop_map(|(state, market, kind)| Origin::Existing {
            machine: MachineId::new("m-1").expect("a name"),
            state,
            market,
            kind,
        }),
    ]
}

prop_compose! {
    fn candidate()(
        provider in prop::sample::select(PROVIDERS),
        origin in origin(),
        room in room(),
        arch in prop::option::of(prop::sample::select(&[Arch::Amd64, Arch::Arm64][..])),
        region in maybe_text(REGIONS),
        zone in maybe_text(KINDS),
        labels in labels(),
        taints in taints(),
        price in prop::option::of(0u64..5),
        seconds in 0u64..5,
        lives in prop::option::of(0u64..5),
    ) -> Candidate {
        Candidate {
            name: String::new(), template: "t".to_owned(), provider, origin, room, arch, region, zone, labels, taints,
            access: Default::default(), price, ready_in: Duration::from_secs(seconds),
            lives_for: lives.map(Duration::from_secs),
        }
    }
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(candidate(), 0..30).prop_map(|mut all| {
        for (index, candidate) in all.iter_mut().enumerate() {
            candidate.name = format!("c{index:02}");
        }
        all
    })
}

prop_compose! {
    fn need()(
        room in prop_oneof![2 => Just(Room::default()), 1 => room()],
        arch in prop::option::weighted(0.3, Just(Arch::Amd64)),
        region in prop::option::weighted(0.3, Just("north".to_owned())),
        labels in prop_oneof![2 => Just(BTreeMap::new()), 1 => labels()],
        tolerates in taints(),
        runs in prop::option::weighted(0.3, 0u64..5),
        max_price in prop::option::weighted(0.3, 0u64..5),
    ) -> Need {
        Need {
            room, arch, region, labels, tolerates, access: Default::default(),
            runs_for: runs.map(Duration::from_secs), max_price,
        }
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    let types = || prop::collection::vec(prop::sample::select(KINDS).prop_map(str::to_owned), 0..2);
    let spot = prop_oneof![
        Just(Spot::Never),
        types().prop_map(|types| Spot::Prefer { types }),
        types().prop_map(|types| Spot::Only { types }),
        Just(Spot::Either),
    ];
    let order = prop::collection::vec(prop::sample::select(&Criterion::ALL[..]), 0..5);
    (order, spot).prop_map(|(order, spot)| {
        let mut policy = Policy::by(&order);
        policy.spot = spot;
        policy.near = vec!["south".to_owned()];
        policy
    })
}

fn quotas() -> impl Strategy<Value = World> {
    let limit = || prop::option::of(0u64..8);
    let quota = (limit(), limit(), limit()).prop_map(|(machines, cpus, memory_mb)| Quota {
        machines,
        cpus,
        memory_mb,
    });
    prop::collection::vec((prop::sample::select(PROVIDERS), quota), 0..3).prop_map(|quotas| {
        let mut world = World::default();
        for (provider, quota) in quotas {
            world.limit(provider, quota);
        }
        world
    })
}

/// Said anew, and in another way than the code says it.
fn really_fits(candidate: &Candidate, need: &Need, policy: &Policy) -> bool {
    let enough = |needed: Option<u64>, has: Option<u64>| match (needed, has) {
        (None, _) => true,
        (Some(needed), Some(has)) => has >= needed,
        (Some(_), None) => false,
    };
    let room = enough(
        need.room.cpus.map(u64::from),
        candidate.room.cpus.map(u64::from),
    ) && enough(need.room.memory_mb, candidate.room.memory_mb)
        && enough(need.room.disk_mb, candidate.room.disk_mb);
    let place = (need.arch.is_none() || need.arch == candidate.arch)
        && (need.region.is_none() || need.region == candidate.region);
    let labels = need
        .labels
        .iter()
        .all(|it| candidate.labels.iter().any(|has| has == it));
    let taints = candidate
        .taints
        .iter()
        .all(|taint| need.tolerates.contains(taint));
    let life = match (need.runs_for, candidate.lives_for) {
        (Some(runs), Some(lives)) => lives >= runs,
        _ => true,
    };
    let price =
        need.max_price.is_none() || candidate.price.is_some_and(|it| Some(it) <= need.max_price);
    let usable = match &candidate.origin {
        Origin::Existing { state, .. } => matches!(state, State::Running | State::Stopped(_)),
        Origin::New { .. } => true,
    };
    let (market, kind) = bought(candidate);
    let market = match (market, &policy.spot) {
        (Market::Spot, Spot::Never) | (Market::OnDemand, Spot::Only { .. }) => false,
        (Market::Spot, Spot::Prefer { types } | Spot::Only { types }) => {
            types.is_empty() || kind.is_some_and(|kind| types.contains(kind))
        }
        _ => true,
    };
    room && place && labels && taints && life && price && usable && market
}

const fn bought(candidate: &Candidate) -> (Market, Option<&String>) {
    match &candidate.origin {
        Origin::New { market, kind } | Origin::Existing { market, kind, .. } => {
            (*market, kind.as_ref())
        }
    }
}

/// How good a new machine is by its market: its type's place in the list, and behind all of them one on demand. One that exists is
/// as good as the first.
fn market_place(candidate: &Candidate, spot: &Spot) -> usize {
    let (Spot::Prefer { types } | Spot::Only { types }) = spot else {
        return 0;
    };
    match (&candidate.origin, bought(candidate)) {
        (Origin::Existing { .. }, _) => 0,
        (_, (Market::OnDemand, _)) => usize::MAX,
        (_, (Market::Spot, kind)) => {
            let place = types.iter().position(|it| Some(it) == kind);
            place.unwrap_or(0)
        }
    }
}

/// Whether one is better than another by a single criterion.
fn better(
    one: &Candidate,
    two: &Candidate,
    criterion: Criterion,
    policy: &Policy,
    taken: &[Candidate],
) -> bool {
    let beside = |it: &Candidate| {
        let here = |other: &&Candidate| {
            (other.provider, &other.region, &other.zone) == (it.provider, &it.region, &it.zone)
        };
        taken.iter().filter(here).count()
    };
    let distance = |it: &Candidate| {
        policy
            .near
            .iter()
            .position(|near| Some(near) == it.region.as_ref())
            .unwrap_or(usize::MAX)
    };
    match criterion {
        Criterion::Cost => one.price.unwrap_or(u64::MAX) < two.price.unwrap_or(u64::MAX),
        Criterion::Speed => one.ready_in < two.ready_in,
        Criterion::Locality => distance(one) < distance(two),
        Criterion::Reuse => {
            matches!(one.origin, Origin::Existing { .. })
                && matches!(two.origin, Origin::New { .. })
        }
        Criterion::Spread => beside(one) < beside(two),
    }
}

proptest! {
    #[test]
    fn only_what_fits_is_chosen_and_everything_has_one_verdict(
        all in candidates(), need in need(), policy in policy(), world in quotas(),
    ) {
        let decision = choose(&need, &policy, &world, &all);
        prop_assert_eq!(decision.verdicts().len(), all.len());
        let ranking: Vec<usize> = decision.ranking().collect();
        let distinct: BTreeSet<usize> = ranking.iter().copied().collect();
        prop_assert_eq!(distinct.len(), ranking.len());
        for (index, (candidate, verdict)) in all.iter().zip(decision.verdicts()).enumerate() {
            let fits = really_fits(candidate, &need, &policy);
            match verdict {
                Verdict::Fits { place } => {
                    prop_assert!(fits);
                    prop_assert_eq!(ranking[*place as usize], index);
                }
                Verdict::Unfit(why) => {
                    prop_assert!(!why.is_empty());
                    // What fits in every other way is kept away by a quota only.
                    prop_assert!(!fits || why.has(crate::Unfit::Quota));
                }
            }
        }
    }

    #[test]
    fn every_candidate_is_explained_once(
        all in candidates(), need in need(), policy in policy(), world in quotas(),
    ) {
        let decision = choose(&need, &policy, &world, &all);
        let explained: Vec<_> = decision.explain(&need, &policy, &world, &all).collect();
        let names: Vec<&String> = explained.iter().map(|it| &it.candidate).collect();
        prop_assert_eq!(names, all.iter().map(|it| &it.name).collect::<Vec<_>>());
        prop_assert!(explained.iter().all(|it| !it.why.is_empty()));
        let chosen: Vec<usize> = (0..all.len()).filter(|&index| explained[index].chosen).collect();
        prop_assert_eq!(chosen, decision.chosen().into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_order_of_candidates_does_not_matter(
        all in candidates(), need in need(), policy in policy(), world in quotas(), turn in 0usize..30,
    ) {
        let named = |all: &[Candidate]| -> Vec<String> {
            let decision = choose(&need, &policy, &world, all);
            decision.ranking().map(|index| all[index].name.clone()).collect()
        };
        let first = named(&all);
        let mut turned = all;
        let middle = turn % turned.len().max(1);
        turned.rotate_left(middle);
        turned.reverse();
        prop_assert_eq!(first, named(&turned));
    }

    #[test]
    fn nothing_better_by_the_first_criterion_is_left_behind(
        all in candidates(), taken in candidates(), need in need(), policy in policy(), mut world in quotas(),
    ) {
        // What there is already: only new machines are counted, the others are.
        let taken: Vec<Candidate> =
            taken.into_iter().filter(|it| matches!(it.origin, Origin::New { .. })).collect();
        taken.iter().for_each(|it| world.take(it));
        let decision = choose(&need, &policy, &world, &all);
        if let Some(chosen) = decision.chosen() {
            let chosen = &all[chosen];
            for other in decision.ranking().skip(1).map(|index| &all[index]) {
                let place = |it| market_place(it, &policy.spot);
                prop_assert!(place(chosen) <= place(other));
                // What the market leaves equal, the criteria decide.
                let first = policy.order()[0];
                let equal = place(chosen) == place(other);
                prop_assert!(!equal || !better(other, chosen, first, &policy, &taken));
            }
        }
    }

    #[test]
    fn no_quota_is_passed_however_many_are_chosen(
        all in candidates(), policy in policy(),
        machines in prop::option::of(0u64..8), cpus in prop::option::of(0u64..8), memory_mb in prop::option::of(0u64..8),
    ) {
        let mut world = World::default();
        for &provider in PROVIDERS {
            world.limit(provider, Quota { machines, cpus, memory_mb });
        }
        let mut used: BTreeMap<ProviderId, (u64, u64, u64)> = BTreeMap::new();
        for _ in 0..40 {
            let decision = choose(&Need::default(), &policy, &world, &all);
            let Some(chosen) = decision.ranking().find(|&index| matches!(all[index].origin, Origin::New { .. })) else {
                break;
            };
            let chosen = &all[chosen];
            world.take(chosen);
            let sum = used.entry(chosen.provider).or_default();
            sum.0 += 1;
            sum.1 += u64::from(chosen.room.cpus.unwrap_or(0));
            sum.2 += chosen.room.memory_mb.unwrap_or(0);
            prop_assert!(machines.is_none_or(|most| sum.0 <= most));
            prop_assert!(cpus.is_none_or(|most| sum.1 <= most));
            prop_assert!(memory_mb.is_none_or(|most| sum.2 <= most));
        }
    }
}
