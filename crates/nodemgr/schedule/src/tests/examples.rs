use std::time::Duration;

use muster_lifecycle::{Halt, State};
use muster_provider::{MachineId, Purchase};
use muster_template::{Arch, ProviderId};

use crate::{
    Candidate, Criterion, Decision, Market, Need, Origin, Policy, Quota, Room, Spot, Taint, Unfit,
    UnfitSet, Verdict, World, choose,
};

fn candidate(name: &str) -> Candidate {
    let mut candidate = Candidate::new(name, "small", ProviderId::Sim);
    candidate.room = Room {
        cpus: Some(2),
        memory_mb: Some(4096),
        disk_mb: Some(10_240),
    };
    candidate.arch = Some(Arch::Amd64);
    candidate.price = Some(1_000_000);
    candidate.ready_in = Duration::from_secs(30);
    candidate
}

fn existing(name: &str, state: State) -> Candidate {
    let machine = MachineId::new(name).unwrap();
    Candidate {
        origin: Origin::Existing {
            machine,
            state,
            market: Market::OnDemand,
            kind: None,
        },
        ..candidate(name)
    }
}

fn spot(name: &str, kind: &str) -> Candidate {
    Candidate {
        origin: Origin::New {
            market: Market::Spot,
            kind: Some(kind.to_owned()),
        },
        price: Some(300_000),
        ..candidate(name)
    }
}

fn pick(policy: &Policy, candidates: &[Candidate]) -> Vec<String> {
    let decision = choose(&Need::default(), policy, &World::default(), candidates);
    let ranking = decision.ranking();
    ranking
        .map(|index| candidates[index].name.clone())
        .collect()
}

fn only_unfit(decision: &Decision) -> UnfitSet {
    match decision.verdicts() {
        [Verdict::Unfit(found)] => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_that_is_needed_must_be_there_and_known() {
    let need = Need {
        room: Room {
            cpus: Some(4),
            memory_mb: Some(8192),
            disk_mb: Some(20_480),
        },
        arch: Some(Arch::Arm64),
        region: Some("north".to_owned()),
        labels: [("gpu".to_owned(), "yes".to_owned())].into(),
        access: ["ssh:exec".parse().unwrap()].into(),
        runs_for: Some(Duration::from_secs(3600)),
        max_price: Some(500_000),
        ..Need::default()
    };
    let mut poor = candidate("poor");
    poor.lives_for = Some(Duration::from_secs(60));
    poor.taints.insert(Taint {
        key: "drain".to_owned(),
        value: String::new(),
    });
    let (policy, world) = (Policy::default(), World::default());
    let decision = choose(&need, &policy, &world, std::slice::from_ref(&poor));
    let all = [
        Unfit::Arch,
        Unfit::Region,
        Unfit::Cpus,
        Unfit::Memory,
        Unfit::Disk,
        Unfit::Labels,
        Unfit::Taints,
        Unfit::Access,
        Unfit::Lifetime,
        Unfit::Price,
    ];
    let found: Vec<Unfit> = only_unfit(&decision).iter().collect();
    assert_eq!(found, all);
    let mut explained = decision.explain(&need, &policy, &world, std::slice::from_ref(&poor));
    let explanation = explained.next().unwrap();
    assert_eq!(explanation.why.len(), all.len());
    assert!(explanation.why.contains(&"cpus: 2 of 4".to_owned()));
    assert!(
        explanation
            .why
            .contains(&"it has no label gpu=yes".to_owned())
    );
    assert!(
        explanation
            .why
            .contains(&"it does not offer ssh:exec".to_owned())
    );
    assert!(explained.next().is_none());
    drop(explained);

    let mut vague = candidate("vague");
    vague.room.disk_mb = None;
    let need = Need {
        room: Room {
            disk_mb: Some(1),
            ..Room::default()
        },
        ..Need::default()
    };
    let decision = choose(&need, &policy, &world, &[vague]);
    assert!(only_unfit(&decision).has(Unfit::Disk));
}

#[test]
fn each_criterion_prefers_what_it_says() {
    let mut cheap = candidate("cheap");
    cheap.price = Some(1);
    cheap.ready_in = Duration::from_secs(300);
    let mut fast = candidate("fast");
    fast.ready_in = Duration::from_secs(1);
    let mut near = candidate("near");
    near.region = Some("here".to_owned());
    let stopped = existing("stopped", State::Stopped(Halt::Off));
    let asleep = existing("asleep", State::Stopped(Halt::Hibernated));
    let candidates = [cheap, fast, near, stopped, asleep];
    let mut policy = Policy::by(&[Criterion::Cost]);
    assert_eq!(pick(&policy, &candidates)[0], "cheap");
    policy = Policy::by(&[Criterion::Speed]);
    assert_eq!(pick(&policy, &candidates)[0], "fast");
    policy = Policy::by(&[Criterion::Locality]);
    policy.near = vec!["here".to_owned()];
    assert_eq!(pick(&policy, &candidates)[0], "near");
    policy = Policy::by(&[Criterion::Reuse]);
    assert_eq!(pick(&policy, &candidates)[..2], ["asleep", "stopped"]);
}

#[test]
fn a_machine_that_leaves_is_not_used() {
    for state in [State::Pending, State::ShuttingDown, State::Terminated] {
        let candidates = [existing("one", state)];
        assert!(pick(&Policy::default(), &candidates).is_empty(), "{state}");
    }
}

#[test]
fn spot_types_go_in_their_order_and_on_demand_is_the_fallback() {
    let candidates = [
        candidate("on-demand"),
        spot("spot-large", "large"),
        spot("spot-small", "small"),
        spot("spot-odd", "odd"),
    ];
    let types = vec!["small".to_owned(), "large".to_owned()];
    let mut policy = Policy::by(&[Criterion::Cost]);
    assert_eq!(pick(&policy, &candidates), ["on-demand"]);
    policy.spot = Spot::Prefer {
        types: types.clone(),
    };
    assert_eq!(
        pick(&policy, &candidates),
        ["spot-small", "spot-large", "on-demand"]
    );
    assert_eq!(
        purchase(&Need::default(), &policy, &candidates, 2),
        Purchase::Spot {
            types: types.clone(),
            fallback: true
        }
    );
    let on_demand = purchase(&Need::default(), &policy, &candidates, 0);
    assert_eq!(on_demand, Purchase::OnDemand);
    policy.spot = Spot::Only { types };
    assert_eq!(pick(&policy, &candidates), ["spot-small", "spot-large"]);
    policy.spot = Spot::Either;
    assert_eq!(pick(&policy, &candidates).len(), 4);
}

fn purchase(need: &Need, policy: &Policy, candidates: &[Candidate], chosen: usize) -> Purchase {
    let decision = choose(need, policy, &World::default(), candidates);
    decision.purchase(chosen, need, policy, candidates)
}

#[test]
fn what_does_not_fit_is_not_bought_in_the_place_of_what_does() {
    let priced = |candidate: Candidate, price| Candidate {
        price: Some(price),
        ..candidate
    };
    let elsewhere = Candidate {
        region: Some("far".to_owned()),
        ..priced(spot("spot-far", "far"), 10)
    };
    let candidates = [
        priced(candidate("on-demand"), 100),
        priced(spot("spot-large", "large"), 60),
        priced(spot("spot-small", "small"), 30),
        elsewhere,
    ];
    let types = ["large", "small", "far"].map(str::to_owned).to_vec();
    let mut policy = Policy::default();
    policy.spot = Spot::Prefer { types };
    let bought = |policy: &Policy, candidates: &[Candidate], most: Option<u64>| {
        let need = Need {
            max_price: most,
            ..Need::default()
        };
        let Purchase::Spot { types, fallback } = purchase(&need, policy, candidates, 2) else {
            panic!("it is a spot machine");
        };
        (types.join(" "), fallback)
    };
    let of = |types: &str, fallback| (types.to_owned(), fallback);
    assert_eq!(bought(&policy, &candidates, None), of("large small", true));
    assert_eq!(bought(&policy, &candidates, Some(50)), of("small", false));
    // What a type of the list costs on demand is not known: one on demand is the next candidate, and no fallback.
    assert_eq!(
        bought(&policy, &candidates, Some(100)),
        of("large small", false)
    );
    // Without a list the fallback is the machine on demand itself.
    let plain = |candidate: &Candidate| match &candidate.origin {
        Origin::New { market, .. } => Candidate {
            origin: Origin::New {
                market: *market,
                kind: None,
            },
            ..candidate.clone()
        },
        Origin::Existing { .. } => candidate.clone(),
    };
    let plain: Vec<Candidate> = candidates.iter().map(plain).collect();
    policy.spot = Spot::Prefer { types: Vec::new() };
    assert_eq!(bought(&policy, &plain, Some(100)), of("", true));
    assert_eq!(bought(&policy, &plain, Some(99)), of("", false));
    policy.spot = Spot::Either;
    assert_eq!(bought(&policy, &plain, None), of("", false));
}

#[test]
fn machines_are_spread_over_zones() {
    let zone = |name: &str| Candidate {
        zone: Some(name.to_owned()),
        ..candidate(name)
    };
    let candidates = [zone("a"), zone("b"), zone("c")];
    let policy = Policy::by(&[Criterion::Spread]);
    let mut world = World::default();
    let mut counts = [0; 3];
    for _ in 0..9 {
        let decision = choose(&Need::default(), &policy, &world, &candidates);
        let index = decision.chosen().unwrap();
        counts[index] += 1;
        world.take(&candidates[index]);
    }
    assert_eq!(counts, [3, 3, 3]);
}

#[test]
fn a_full_provider_is_passed_over_but_not_what_exists_there() {
    let mut world = World::default();
    let quota = Quota {
        machines: Some(1),
        ..Quota::default()
    };
    world.limit(ProviderId::Sim, quota);
    world.take(&candidate("first"));
    let other = Candidate {
        provider: ProviderId::Aws,
        ..candidate("other")
    };
    let candidates = [
        candidate("second"),
        other,
        existing("old", State::Stopped(Halt::Off)),
    ];
    let (need, policy) = (Need::default(), Policy::by(&[Criterion::Cost]));
    let decision = choose(&need, &policy, &world, &candidates);
    let ranking: Vec<usize> = decision.ranking().collect();
    assert_eq!(ranking, [2, 1]);
    let explained: Vec<_> = decision
        .explain(&need, &policy, &world, &candidates)
        .collect();
    assert_eq!(
        explained[0].why,
        ["it would pass the quota of sim: 1 of 1 machines used"]
    );
    assert!(explained[2].chosen);
    assert_eq!(
        explained[1].why,
        ["old is better by reuse: one that is stopped against a new one"]
    );
}

#[test]
fn a_size_that_nobody_set_passes_no_quota_and_is_said_to_count_for_nothing() {
    let mut world = World::default();
    let quota = Quota {
        machines: Some(2),
        cpus: None,
        memory_mb: Some(1024),
    };
    world.limit(ProviderId::Sim, quota);
    let unknown = Candidate {
        room: Room::default(),
        ..candidate("unknown")
    };
    let candidates = [unknown.clone()];
    let (need, policy) = (Need::default(), Policy::default());
    let decision = choose(&need, &policy, &world, &candidates);
    assert_eq!(decision.chosen(), Some(0));
    let told: Vec<_> = decision
        .explain(&need, &policy, &world, &candidates)
        .collect();
    let said = "nobody set its memory, so that counts for nothing in the quota of sim";
    assert_eq!(told[0].why, ["it is the best that fits", said]);
    // The number of machines is counted all the same.
    world.take(&unknown);
    world.take(&unknown);
    assert_eq!(choose(&need, &policy, &world, &candidates).chosen(), None);
}

/// It may be taken back at any moment, whether it is made now or was made before.
#[test]
fn a_machine_that_exists_is_held_to_its_market_too() {
    let on = |market, kind: Option<&str>| Candidate {
        origin: Origin::Existing {
            machine: MachineId::new("m-1").unwrap(),
            state: State::Running,
            market,
            kind: kind.map(str::to_owned),
        },
        ..candidate("m-1")
    };
    let why = |spot, candidate: &Candidate| {
        let mut policy = Policy::default();
        policy.spot = spot;
        let decision = choose(
            &Need::default(),
            &policy,
            &World::default(),
            std::slice::from_ref(candidate),
        );
        match decision.verdicts() {
            [Verdict::Unfit(found)] => found.iter().collect::<Vec<_>>(),
            _ => Vec::new(),
        }
    };
    let only = |types: &[&str]| Spot::Only {
        types: types.iter().map(|&it| it.to_owned()).collect(),
    };
    let (bought, spot) = (on(Market::OnDemand, None), on(Market::Spot, Some("large")));
    assert_eq!(why(Spot::Never, &spot), [Unfit::SpotRefused]);
    assert_eq!(why(Spot::Never, &bought), []);
    assert_eq!(why(only(&[]), &bought), [Unfit::SpotWanted]);
    assert_eq!(why(only(&["small"]), &spot), [Unfit::SpotType]);
    assert_eq!(why(only(&["large"]), &spot), []);
    assert_eq!(why(Spot::Either, &spot), []);
}
