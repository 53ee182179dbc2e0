use std::num::{NonZeroU32, NonZeroU64};

use muster_provider::{ClientToken, MachineId, ManagerId, Mark, SshSeed};
use proptest::prelude::*;

use super::*;
use crate::ec2::Action as _;

fn regions() -> Vec<Region> {
    ["eu-central-1", "us-east-1"]
        .map(|it| it.parse().unwrap())
        .into()
}

fn order(extra: &str, purchase: Purchase) -> Order {
    Order {
        spec: MachineSpec {
            ami: Some("ami-1".to_owned()),
            extra: serde_json::from_str(extra).unwrap(),
            ..MachineSpec::default()
        },
        mark: Mark {
            manager: ManagerId::random(),
            machine: MachineId::random(),
            token: ClientToken::new("t0").unwrap(),
        },
        purchase,
        ssh: None,
    }
}

fn image() -> Image {
    Image {
        id: "ami-1".to_owned(),
        arch: "x86_64".to_owned(),
        created: String::new(),
        root_device: Some("/dev/sda1".to_owned()),
    }
}

fn read(order: &Order) -> Result<Wanted, WantedProblem> {
    Wanted::read(order, &AwsSettings::default(), &regions())
}

/// Each attempt in a few words.
fn told(attempts: &[Attempt]) -> Vec<String> {
    let tell = |attempt: &Attempt| match attempt {
        Attempt::Run(run) if run.spot => format!("spot {} {}", run.kind, run.token),
        Attempt::Run(run) => format!("{} {}", run.kind, run.token),
        Attempt::Fleet { fleet, .. } => format!("fleet {} {}", fleet.kinds.join("+"), fleet.token),
    };
    attempts.iter().map(tell).collect()
}

fn attempts(order: &Order) -> Vec<String> {
    told(&read(order).unwrap().attempts(&image()))
}

fn spot(types: &[&str], fallback: bool) -> Purchase {
    Purchase::Spot {
        types: types.iter().map(|&kind| kind.to_owned()).collect(),
        fallback,
    }
}

#[test]
fn attempts_follow_from_the_purchase() {
    let two = r#"{ "instance_type": ["a", "b"] }"#;
    assert_eq!(
        attempts(&order(two, Purchase::OnDemand)),
        ["a t0", "b t0-1"]
    );
    assert_eq!(attempts(&order(two, spot(&[], false))), ["fleet a+b t0"]);
    assert_eq!(
        attempts(&order(two, spot(&["c"], true))),
        ["spot c t0", "c t0-1"]
    );
    assert_eq!(
        attempts(&order(two, spot(&["c", "d"], true))),
        ["fleet c+d t0", "c t0-1", "d t0-2"]
    );
}

#[test]
fn a_type_is_chosen_by_what_the_machine_needs() {
    let mut order = order("{}", Purchase::OnDemand);
    assert_eq!(attempts(&order)[0], "t3.micro t0");
    order.spec.cpus = NonZeroU32::new(4);
    order.spec.memory_mb = NonZeroU64::new(30_000);
    assert_eq!(attempts(&order)[0], "r6i.xlarge t0");
    order.spec.arch = Some(Arch::Arm64);
    assert_eq!(attempts(&order)[0], "r6g.xlarge t0");
    order.spec.cpus = NonZeroU32::new(5000);
    assert!(matches!(
        read(&order),
        Err(WantedProblem::NoKind { cpus: 5000, .. })
    ));
}

#[test]
fn what_ec2_would_never_do_is_refused_with_its_reason() {
    type Change = fn(&mut Order);
    let cases: [(Change, &str); 14] = [
        (|it| it.spec.ami = None, "there is no image"),
        (
            |it| it.spec.image_type = Some(ImageType::Iso),
            "no image of the type Iso",
        ),
        (
            |it| it.spec.arch = Some(Arch::Riscv64),
            "architecture riscv64",
        ),
        (
            |it| it.spec.region = Some("mars".to_owned()),
            "not among the regions",
        ),
        (|it| it.spec.region = Some("a/b".to_owned()), "is no region"),
        (
            |it| it.spec.network = Some("default".to_owned()),
            "no subnet",
        ),
        (
            |it| it.spec.user_data = Some("x".repeat(20_000)),
            "has 20000 bytes",
        ),
        (
            |it| drop(it.spec.labels.insert("aws:x".to_owned(), String::new())),
            "not for templates",
        ),
        (
            |it| {
                drop(
                    it.spec
                        .labels
                        .insert("muster-token".to_owned(), String::new()),
                )
            },
            "not for templates",
        ),
        (
            |it| drop(it.spec.labels.insert("x".to_owned(), "y".repeat(257))),
            "longer than 256",
        ),
        (
            |it| {
                let many = (0..60).map(|nth| (format!("l{nth}"), String::new()));
                it.spec.labels = many.collect();
            },
            "EC2 takes 50",
        ),
        (
            |it| it.mark.token = ClientToken::new(&"t".repeat(62)).unwrap(),
            "longer than the 61",
        ),
        (
            |it| {
                let extra = r#"{ "hibernation": true, "encrypted": false }"#;
                it.spec.extra = serde_json::from_str(extra).unwrap();
            },
            "encrypted root volume",
        ),
        (
            |it| it.spec.extra = serde_json::from_str(r#"{ "subnett": "x" }"#).unwrap(),
            "did you mean `subnet`",
        ),
    ];
    for (change, why) in cases {
        let mut order = order("{}", Purchase::OnDemand);
        change(&mut order);
        let problem = read(&order).expect_err(why).to_string();
        assert!(problem.contains(why), "{problem}");
    }
}

#[test]
fn a_label_cannot_take_the_place_of_the_mark() {
    let order = order("{}", Purchase::OnDemand);
    let tags = read(&order).unwrap().tags;
    assert_eq!(Mark::from_labels(&tags), Some(order.mark.clone()));
    assert_eq!(tags["Name"], order.mark.machine.as_str());
}

#[test]
fn a_machine_that_can_be_hibernated_has_an_encrypted_root() {
    let order = order(
        r#"{ "instance_type": "a", "hibernation": true }"#,
        Purchase::OnDemand,
    );
    let wanted = read(&order).unwrap();
    assert!(wanted.needs_root_device());
    let attempts = wanted.attempts(&image());
    let Attempt::Run(run) = &attempts[0] else {
        panic!("{attempts:?}");
    };
    assert!(run.data.hibernation);
    let root = run.data.root.as_ref().unwrap();
    assert_eq!(
        (root.device.as_str(), root.encrypted),
        ("/dev/sda1", Some(true))
    );
}

#[test]
fn no_debug_output_has_the_keys_of_a_machine() {
    let mut order = order("{}", spot(&["a", "b"], true));
    order.ssh = Some(SshSeed {
        user: "dev".to_owned(),
        authorized_keys: Vec::new(),
        host_private: Secret::new("PRIVATE".to_owned()),
        host_public: "PUBLIC".to_owned(),
    });
    let wanted = read(&order).unwrap();
    let attempts = wanted.attempts(&image());
    assert!(!format!("{wanted:?} {attempts:?}").contains("PRIVATE"));
    for attempt in &attempts {
        let query = match attempt {
            Attempt::Run(run) => run.query(),
            Attempt::Fleet { template, .. } => template.query(),
        };
        assert!(query.iter().any(|(name, _)| name.ends_with("UserData")));
        assert!(format!("{query:?}").contains("(secret)"));
    }
}

fn purchases() -> impl Strategy<Value = Purchase> {
    let types = proptest::collection::vec("[a-z][0-9]\\.large", 0..4);
    let spot =
        (types, any::<bool>()).prop_map(|(types, fallback)| Purchase::Spot { types, fallback });
    prop_oneof![Just(Purchase::OnDemand), spot]
}

proptest! {
    /// Whatever is ordered: the same order gives the same attempts, each with a token of its own that EC2 takes; every one bears the
    /// mark; and no machine on demand is made unless it was asked for.
    #[test]
    fn attempts_are_settled_by_the_order(
        purchase in purchases(),
        kinds in proptest::collection::vec("[a-z][0-9]\\.large", 1..5),
        token in "[a-z0-9-]{1,61}",
    ) {
        let extra = serde_json::json!({ "instance_type": kinds }).to_string();
        let mut order = order(&extra, purchase.clone());
        order.mark.token = ClientToken::new(&token).unwrap();
        let wanted = read(&order).unwrap();
        let attempts = wanted.attempts(&image());
        prop_assert_eq!(&attempts, &read(&order).unwrap().attempts(&image()));
        prop_assert!(!attempts.is_empty());
        let mut tokens = std::collections::BTreeSet::new();
        for attempt in &attempts {
            let (token, tags, on_demand) = match attempt {
                Attempt::Run(run) => (&run.token, &run.data.tags, !run.spot),
                Attempt::Fleet { fleet, .. } => (&fleet.token, &fleet.tags, false),
            };
            prop_assert!(token.len() <= LONGEST_TOKEN);
            prop_assert!(tokens.insert(token.clone()));
            prop_assert_eq!(Mark::from_labels(tags), Some(order.mark.clone()));
            let allowed = matches!(purchase, Purchase::OnDemand | Purchase::Spot { fallback: true, .. });
            prop_assert!(!on_demand || allowed);
        }
    }
}
