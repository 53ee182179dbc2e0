mod policies;
mod shipped;

use std::path::PathBuf;

use muster_lifecycle::{Lifecycle, VerbSet};
use muster_machines::{Made, Phase};
use muster_mapping::LockUse;
use muster_provider::{ClientToken, Profile, Quota, ResourceId};
use muster_schedule::Criterion;
use proptest::prelude::*;

use super::*;
use crate::catalog::Descriptions;

fn catalog(text: &str) -> Catalog {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("templates.yaml");
    std::fs::write(&path, text).unwrap();
    let descriptions = Descriptions {
        templates: vec![path],
        mappings: Vec::new(),
        optional: Vec::new(),
        added: PathBuf::from("/nowhere/templates.json"),
        lock_file: PathBuf::from("/nowhere/machines.lock"),
        lock: Some(LockUse::Keep),
    };
    descriptions.load().unwrap()
}

const SMALL: &str = "name: small\nimage: debian:12\ncpus: 2\nmemoryMB: 512\n";

fn offer(id: ProviderId) -> Offer {
    let insecure = Isolation::Insecure("it is this machine");
    Offer {
        profile: Profile {
            id,
            verbs: VerbSet::ALL,
            access: Capabilities::new(),
            spot: id == ProviderId::Aws,
            one_machine: false,
            isolation: match id {
                ProviderId::Local => insecure,
                _ => Isolation::Isolated,
            },
        },
        quota: Quota::default(),
        prices: Prices::default(),
        ready_in: Duration::ZERO,
        places: Vec::new(),
        taints: BTreeSet::new(),
    }
}

fn wish(template: &str) -> Wish {
    Wish {
        template: template.to_owned(),
        provider: None,
        given: Fields::default(),
        policy: Policy::default(),
        reuse: true,
        insecure: false,
        access: Capabilities::new(),
        runs_for: None,
        max_price: None,
        tolerates: BTreeSet::new(),
        lives_for: None,
    }
}

pub(crate) fn record(provider: ProviderId, spec: MachineSpec, state: State) -> Record {
    Record {
        id: MachineId::random(),
        token: ClientToken::random(),
        order: MachineOrder {
            provider,
            template: "small".to_owned(),
            spec,
            purchase: Purchase::OnDemand,
            labels: BTreeMap::new(),
            timers: Timers::default(),
            key: None,
            asked: None,
        },
        ordered: Moment::from_millis(0),
        pool: None,
        claimed: None,
        unit: None,
        busy_until: None,
        untouched: true,
        phase: Phase::Made(Made {
            resource: ResourceId::new("r").unwrap(),
            at: Moment::from_millis(0),
            life: Lifecycle::new(state, Moment::from_millis(0)),
            home: None,
            spot: false,
            verbs: VerbSet::ALL,
            address: None,
            access: Capabilities::new(),
            details: BTreeMap::new(),
            trouble: None,
        }),
    }
}

fn free(record: &Record) -> Existing<'_> {
    Existing {
        record,
        busy: false,
        silent: false,
    }
}

const NOW: Moment = Moment::from_millis(1000);

fn first(choice: &Choice) -> Option<Take> {
    choice.takes(&BTreeMap::new(), Timers::default()).next()
}

fn chosen_provider(choice: &Choice) -> Option<ProviderId> {
    match first(choice)? {
        Take::New(order) => Some(order.provider),
        Take::Existing(_) => None,
    }
}

#[test]
fn a_machine_that_is_no_barrier_has_to_be_asked_for() {
    let catalog = catalog(SMALL);
    let offers = [offer(ProviderId::Local)];
    let choice = decide(&wish("small"), &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
    let told = choice.explain();
    assert!(told[0].why[0].contains("insecure=local"), "{told:?}");
    let named = Wish {
        provider: Some(ProviderId::Local),
        ..wish("small")
    };
    let choice = decide(&named, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Local));
}

#[test]
fn a_stopped_machine_goes_before_a_new_one_and_work_before_both() {
    let catalog = catalog(SMALL);
    let offers = [offer(ProviderId::Docker)];
    let none = Fields::default();
    let spec = catalog.spec("small", ProviderId::Docker, &none).unwrap();
    let stopped = State::Stopped(muster_lifecycle::Halt::Off);
    let machine = record(ProviderId::Docker, spec.clone(), stopped);
    let choice = decide(&wish("small"), &catalog, &offers, [free(&machine)], NOW).unwrap();
    assert_eq!(first(&choice), Some(Take::Existing(machine.id.clone())));

    let at_work = Existing {
        record: &machine,
        busy: true,
        silent: false,
    };
    let choice = decide(&wish("small"), &catalog, &offers, [at_work], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
    assert_eq!(choice.ruled[0].why, "it has work");

    let silent = Existing {
        silent: true,
        ..free(&machine)
    };
    let choice = decide(&wish("small"), &catalog, &offers, [silent], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
    assert_eq!(choice.ruled[0].why, "it does not answer");

    // Somebody has asked for it to be stopped, and nothing of that is to be seen yet.
    let mut stopping = record(ProviderId::Docker, spec.clone(), State::Running);
    if let Phase::Made(made) = &mut stopping.phase {
        let asked = muster_lifecycle::Reason::Asked;
        let verb = muster_lifecycle::Verb::Stop;
        made.life.begin(verb, VerbSet::ALL, asked, NOW).unwrap();
    }
    let choice = decide(&wish("small"), &catalog, &offers, [free(&stopping)], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
    assert!(choice.ruled[0].why.contains("being stopped"));

    let mut other = spec;
    other.user = Some("somebody".to_owned());
    let other = record(ProviderId::Docker, other, stopped);
    let choice = decide(&wish("small"), &catalog, &offers, [free(&other)], NOW).unwrap();
    assert!(choice.ruled[0].why.contains("what the template says now"));

    let unwanted = Wish {
        reuse: false,
        ..wish("small")
    };
    let choice = decide(&unwanted, &catalog, &offers, [free(&machine)], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
}

#[test]
fn a_node_of_a_unit_is_not_taken_for_anything_else() {
    let catalog = catalog(SMALL);
    let offers = [offer(ProviderId::Docker)];
    let none = Fields::default();
    let spec = catalog.spec("small", ProviderId::Docker, &none).unwrap();
    let mut node = record(ProviderId::Docker, spec, State::Running);
    node.unit = Some("/units/one/join.json".to_owned());
    let choice = decide(&wish("small"), &catalog, &offers, [free(&node)], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
    let why = &choice.ruled[0].why;
    assert_eq!(why, "it is a node of the Unit in /units/one/join.json");
}

#[test]
fn a_pin_does_not_make_another_machine_of_it() {
    let image = |text: &str| MachineSpec {
        image: Some(text.to_owned()),
        ..MachineSpec::default()
    };
    let pinned = format!("host:5000/debian@sha256:{}", "0".repeat(64));
    assert!(covers(&image("host:5000/debian:12"), &image(&pinned)));
    assert!(covers(&image(&pinned), &image("host:5000/debian:12")));
    assert!(!covers(&image("host:5000/ubuntu:24.04"), &image(&pinned)));
    assert!(!covers(&image("debian:11"), &image("debian:12")));
    // Where it is known from what a pin was made, no other tag is taken for it.
    let made = |text: &str| {
        let none = Fields::default();
        catalog(text)
            .spec("small", ProviderId::Docker, &none)
            .unwrap()
    };
    let held = MachineSpec {
        image: Some(format!("debian@sha256:{}", "0".repeat(64))),
        ..made(SMALL)
    };
    assert!(covers(&made(SMALL), &held) && covers(&held, &made(SMALL)));
    let other = made(&SMALL.replace("debian:12", "debian:11"));
    assert!(!covers(&other, &held) && !covers(&held, &other));
}

#[test]
fn quotas_count_machines_of_all_templates() {
    let catalog = catalog(SMALL);
    let mut full = offer(ProviderId::Docker);
    full.quota.machines = Some(1);
    let offers = [full, offer(ProviderId::Sim)];
    let mut machine = record(ProviderId::Docker, MachineSpec::default(), State::Running);
    machine.order.template = "other".to_owned();
    let choice = decide(&wish("small"), &catalog, &offers, [free(&machine)], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Sim));
    let told = choice.explain();
    let docker = told.iter().find(|it| it.provider == ProviderId::Docker);
    assert!(docker.unwrap().why[0].contains("quota"), "{told:?}");
}

#[test]
fn spot_machines_are_bought_with_their_whole_list_once() {
    let catalog = catalog(SMALL);
    let offers = [offer(ProviderId::Aws)];
    let mut wish = wish("small");
    wish.policy.spot = Spot::Prefer {
        types: vec!["a".to_owned(), "b".to_owned()],
    };
    let choice = decide(&wish, &catalog, &offers, [], NOW).unwrap();
    let takes: Vec<Take> = choice.takes(&BTreeMap::new(), Timers::default()).collect();
    let purchases: Vec<&Purchase> = takes
        .iter()
        .map(|take| match take {
            Take::New(order) => &order.purchase,
            Take::Existing(_) => panic!("there is none"),
        })
        .collect();
    assert_eq!(purchases.len(), 2, "{purchases:?}");
    assert!(matches!(purchases[0], Purchase::Spot { types, fallback: true } if types.len() == 2));
    assert_eq!(*purchases[1], Purchase::OnDemand);
}

#[test]
fn what_makes_no_machine_is_said() {
    let catalog = catalog("name: odd\noverrides: { docker: { image_type: floppy } }\n");
    let offers = [offer(ProviderId::Docker)];
    let choice = decide(&wish("odd"), &catalog, &offers, [], NOW).unwrap();
    assert_eq!(first(&choice), None);
    assert!(
        choice.ruled[0].why.contains("image_type"),
        "{:?}",
        choice.ruled
    );
    let unknown = decide(&wish("od"), &catalog, &offers, [], NOW).unwrap_err();
    assert!(
        unknown.to_string().contains("did you mean `odd`"),
        "{unknown}"
    );
    let named = Wish {
        provider: Some(ProviderId::Aws),
        ..wish("odd")
    };
    let refused = decide(&named, &catalog, &offers, [], NOW).unwrap_err();
    assert_eq!(refused, ChooseError::NoProvider(ProviderId::Aws));
    let refused = decide(&wish("odd"), &catalog, &[], [], NOW).unwrap_err();
    assert_eq!(refused, ChooseError::NoProviders);
}

proptest! {
    /// Whatever there is: what is taken was explained as fitting, in the same order, and nobody's work is taken away.
    #[test]
    fn what_is_taken_is_what_was_explained(
        machines in proptest::collection::vec((0_usize..3, any::<bool>(), any::<bool>()), 0..12),
        limit in proptest::option::of(0_u64..8),
        reuse in any::<bool>(),
    ) {
        let catalog = catalog(SMALL);
        let mut docker = offer(ProviderId::Docker);
        docker.quota.machines = limit;
        let offers = [docker, offer(ProviderId::Local)];
        let none = Fields::default();
        let spec = catalog.spec("small", ProviderId::Docker, &none).unwrap();
        let states = [State::Running, State::Stopped(muster_lifecycle::Halt::Off), State::Terminated];
        let records: Vec<(Record, bool)> = machines.iter().map(|&(state, busy, pooled)| {
            let mut record = record(ProviderId::Docker, spec.clone(), states[state]);
            record.pool = pooled.then(|| "pool".to_owned());
            (record, busy)
        }).collect();
        let there = records.iter().map(|(record, busy)| Existing { record, busy: *busy, silent: false });
        let wish = Wish { reuse, policy: Policy::by(&[Criterion::Reuse]), ..wish("small") };
        let choice = decide(&wish, &catalog, &offers, there, NOW).unwrap();
        let told = choice.explain();
        let fitting = told.iter().filter(|it| it.place.is_some()).count();
        let takes: Vec<Take> = choice.takes(&BTreeMap::new(), Timers::default()).collect();
        prop_assert!(takes.len() <= fitting);
        prop_assert_eq!(takes.is_empty(), fitting == 0);
        let alive = records.iter().filter(|(record, _)| !record.state().is_ending()).count();
        for take in &takes {
            match take {
                Take::Existing(id) => {
                    let (record, busy) = records.iter().find(|(record, _)| record.id == *id).unwrap();
                    prop_assert!(reuse && !busy && record.pool.is_none() && !record.state().is_ending());
                }
                Take::New(order) => {
                    prop_assert_eq!(order.provider, ProviderId::Docker);
                    prop_assert!(limit.is_none_or(|limit| (alive as u64) < limit));
                }
            }
        }
    }
}
