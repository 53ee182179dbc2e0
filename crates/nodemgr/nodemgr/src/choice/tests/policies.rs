//! Each policy, as far as the daemon carries it.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn place(region: &str, zone: Option<&str>) -> Place {
    Place {
        region: region.to_owned(),
        zone: zone.map(ToOwned::to_owned),
    }
}

/// EC2 in two regions, of which one has two zones.
fn aws() -> Offer {
    Offer {
        places: vec![
            place("eu-central-1", Some("eu-central-1a")),
            place("eu-central-1", Some("eu-central-1b")),
            place("us-east-1", None),
        ],
        ..offer(ProviderId::Aws)
    }
}

fn new_spec(choice: &Choice) -> MachineSpec {
    match first(choice) {
        Some(Take::New(order)) => order.spec,
        other => panic!("{other:?}"),
    }
}

fn by(criterion: Criterion) -> Wish {
    Wish {
        policy: Policy::by(&[criterion]),
        ..wish("small")
    }
}

#[test]
fn the_nearest_of_a_providers_regions_is_taken() {
    let catalog = catalog(SMALL);
    let mut near = by(Criterion::Locality);
    near.policy.near = vec!["us-east-1".to_owned(), "eu-central-1".to_owned()];
    let choice = decide(&near, &catalog, &[aws()], [], NOW).unwrap();
    assert_eq!(new_spec(&choice).region.as_deref(), Some("us-east-1"));
    let takes = choice.takes(&BTreeMap::new(), Timers::default()).count();
    assert_eq!(takes, 3, "the others are what to try next");
    // Whoever says where is taken at his word.
    let fixed = format!("{SMALL}region: us-east-1\n");
    let far = by(Criterion::Locality);
    let choice = decide(&far, &super::catalog(&fixed), &[aws()], [], NOW).unwrap();
    assert_eq!(choice.candidates.len(), 1, "{:?}", choice.candidates);
    let spec = new_spec(&choice);
    assert_eq!(spec.region.as_deref(), Some("us-east-1"));
    assert_eq!(zone(&spec), None);
}

#[test]
fn machines_are_spread_over_zones() {
    let catalog = catalog(SMALL);
    let spread = Wish {
        reuse: false,
        ..by(Criterion::Spread)
    };
    let mut there: Vec<Record> = Vec::new();
    for _ in 0..6 {
        let existing = there.iter().map(free);
        let choice = decide(&spread, &catalog, &[aws()], existing, NOW).unwrap();
        there.push(record(ProviderId::Aws, new_spec(&choice), State::Running));
    }
    let in_zone = |wanted: Option<&str>| {
        let zones = there.iter().map(|it| zone(&it.order.spec));
        zones.filter(|it| *it == wanted).count()
    };
    assert_eq!(in_zone(Some("eu-central-1a")), 2);
    assert_eq!(in_zone(Some("eu-central-1b")), 2);
    assert_eq!(in_zone(None), 2);
}

#[test]
fn a_spot_machine_and_each_type_have_prices_of_their_own() {
    let catalog = catalog(SMALL);
    let price = |on_demand, spot| Price { on_demand, spot };
    let mut aws = offer(ProviderId::Aws);
    aws.prices = Prices {
        usual: price(Some(100), Some(60)),
        of_types: [("b".to_owned(), price(Some(90), Some(20)))].into(),
    };
    let mut sim = offer(ProviderId::Sim);
    sim.prices.usual = price(Some(50), None);
    let offers = [aws, sim];
    let mut cheap = by(Criterion::Cost);
    let choice = decide(&cheap, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Sim));
    cheap.policy.spot = Spot::Either;
    let given = [("instance_type".to_owned(), "b".to_owned())];
    cheap.given = crate::catalog::fields(&given.into()).unwrap();
    let choice = decide(&cheap, &catalog, &offers, [], NOW).unwrap();
    let Some(Take::New(order)) = first(&choice) else {
        panic!("{:?}", choice.explain());
    };
    assert_eq!(order.provider, ProviderId::Aws);
    assert!(matches!(order.purchase, Purchase::Spot { .. }));
    cheap.max_price = Some(19);
    let choice = decide(&cheap, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
}

#[test]
fn a_greatest_price_holds_for_every_type_of_the_list_and_for_the_fallback() {
    let catalog = catalog(SMALL);
    let price = |on_demand, spot| Price { on_demand, spot };
    let mut aws = offer(ProviderId::Aws);
    aws.prices = Prices {
        usual: price(Some(100), Some(60)),
        of_types: [("b".to_owned(), price(Some(90), Some(20)))].into(),
    };
    let offers = [aws];
    let purchases = |max_price: Option<u64>| {
        let mut wish = wish("small");
        wish.policy.spot = Spot::Prefer {
            types: vec!["a".to_owned(), "b".to_owned()],
        };
        wish.max_price = max_price;
        let choice = decide(&wish, &catalog, &offers, [], NOW).unwrap();
        let labels = BTreeMap::new();
        let takes = choice.takes(&labels, Timers::default());
        let new = takes.map(|take| match take {
            Take::New(order) => order.purchase,
            Take::Existing(_) => panic!("there is none"),
        });
        new.collect::<Vec<Purchase>>()
    };
    let spot = |types: &[&str], fallback| Purchase::Spot {
        types: types.iter().map(|&it| it.to_owned()).collect(),
        fallback,
    };
    let both = ["a", "b"];
    assert_eq!(purchases(None), [spot(&both, true), Purchase::OnDemand]);
    let enough = purchases(Some(100));
    assert_eq!(enough, [spot(&both, false), Purchase::OnDemand]);
    assert_eq!(purchases(Some(70)), [spot(&both, false)]);
    assert_eq!(purchases(Some(30)), [spot(&["b"], false)]);
    assert!(purchases(Some(10)).is_empty());
}

/// The provider takes any of them that is to be had.
#[test]
fn a_template_with_several_types_costs_what_the_dearest_does() {
    let price = |on_demand| Price {
        on_demand,
        spot: None,
    };
    let takes = |listed: &str, usual, max_price| {
        let lists = format!("{SMALL}overrides: {{aws: {{instance_type: {listed}}}}}\n");
        let mut aws = offer(ProviderId::Aws);
        aws.prices = Prices {
            usual: price(usual),
            of_types: [("a", 90), ("b", 20)]
                .map(|(kind, it)| (kind.to_owned(), price(Some(it))))
                .into(),
        };
        let mut wish = wish("small");
        wish.max_price = Some(max_price);
        let choice = decide(&wish, &catalog(&lists), &[aws], [], NOW).unwrap();
        first(&choice).is_some()
    };
    assert!(takes("[b, a]", None, 90));
    assert!(!takes("[b, a]", None, 89));
    assert!(takes("[b]", None, 20));
    // What nobody knows may be more than anything.
    assert!(!takes("[b, unheard-of]", None, 1000));
    assert!(takes("[b, unheard-of]", Some(100), 100));
}

#[test]
fn a_tainted_provider_is_for_those_who_tolerate_it() {
    let catalog = catalog(SMALL);
    let gpu = Taint {
        key: "gpu".to_owned(),
        value: "dear".to_owned(),
    };
    let mut tainted = offer(ProviderId::Docker);
    tainted.taints.insert(gpu.clone());
    let offers = [tainted];
    let choice = decide(&wish("small"), &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
    let told = choice.explain();
    assert!(told[0].why[0].contains("gpu=dear"), "{told:?}");
    // Whoever names a provider does not thereby tolerate what its owner put there.
    let named = Wish {
        provider: Some(ProviderId::Docker),
        ..wish("small")
    };
    let choice = decide(&named, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
    let tolerant = Wish {
        tolerates: [gpu].into(),
        ..wish("small")
    };
    let choice = decide(&tolerant, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
}

#[test]
fn a_machine_that_ends_too_soon_does_not_fit() {
    let catalog = catalog(SMALL);
    let offers = [offer(ProviderId::Docker)];
    let short = Wish {
        lives_for: Some(HOUR),
        runs_for: Some(2 * HOUR),
        ..wish("small")
    };
    let choice = decide(&short, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
    let told = choice.explain();
    assert!(told[0].why[0].contains("it lives for"), "{told:?}");
    let long = Wish {
        lives_for: Some(3 * HOUR),
        ..short
    };
    let choice = decide(&long, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
}

/// It is free and fits, and may be taken back at any moment.
#[test]
fn a_free_spot_machine_is_for_those_who_want_one_at_its_own_price() {
    let catalog = catalog(SMALL);
    let mut offer = offer(ProviderId::Aws);
    offer.prices.usual.on_demand = Some(100);
    offer.prices.usual.spot = Some(30);
    let offers = [offer];
    let none = Fields::default();
    let spec = catalog.spec("small", ProviderId::Aws, &none).unwrap();
    let mut machine = record(ProviderId::Aws, spec, State::Running);
    if let Phase::Made(made) = &mut machine.phase {
        made.spot = true;
        made.details = [("instanceType".to_owned(), "c6i.large".to_owned())].into();
    }
    let taken = |spot: Spot, max_price: Option<u64>| {
        let mut wish = by(Criterion::Reuse);
        wish.policy.spot = spot;
        wish.max_price = max_price;
        let choice = decide(&wish, &catalog, &offers, [free(&machine)], NOW).unwrap();
        let taken = Some(Take::Existing(machine.id.clone()));
        (first(&choice) == taken, choice.explain())
    };
    let (is_taken, told) = taken(Spot::Never, None);
    assert!(!is_taken, "{told:?}");
    let own = told.iter().find(|it| it.machine.is_some()).unwrap();
    assert_eq!(own.why, ["it is a spot machine, and none is wanted"]);
    let only = |kind: &str| Spot::Only {
        types: vec![kind.to_owned()],
    };
    assert!(taken(only("c6i.large"), None).0);
    assert!(!taken(only("m6i.large"), None).0);
    // It costs what a spot machine costs.
    assert!(taken(Spot::Either, Some(50)).0);
    assert!(!taken(Spot::Either, Some(20)).0);
}
