use std::num::{NonZeroU32, NonZeroU64};

use muster_provider::{ClientToken, MachineId, ManagerId};
use proptest::prelude::*;

use super::*;

pub(crate) fn order(spec: MachineSpec) -> Order {
    Order {
        spec,
        mark: Mark {
            manager: ManagerId::new("manager").unwrap(),
            machine: MachineId::new("m-1").unwrap(),
            token: ClientToken::new("token").unwrap(),
        },
        purchase: Purchase::OnDemand,
        ssh: None,
    }
}

pub(crate) fn findings() -> Findings {
    Findings {
        arch: Arch::Amd64,
        accelerator: Accelerator::Tcg,
        origin: Origin::Image {
            path: "/images/base.qcow2".into(),
            format: "qcow2".to_owned(),
        },
        image_size: Some(3 << 20),
        sum: None,
        ssh_port: 2222,
    }
}

fn plan(spec: MachineSpec) -> Result<MachinePlan, RefusedOrder> {
    MachinePlan::new(&order(spec), &Defaults::default(), findings())
}

#[test]
fn what_an_order_does_not_say_is_the_default() {
    let made = plan(MachineSpec::default()).unwrap();
    assert_eq!((made.cpus, made.memory_mb, made.disk_mb), (1, 1024, None));
    assert_eq!(made.network, Network::User { ssh_port: 2222 });
    assert!(made.name.starts_with("m-1-"));
    assert!(made.is_of_this_form());
    let said = MachineSpec {
        cpus: NonZeroU32::new(3),
        memory_mb: NonZeroU64::new(512),
        disk_mb: NonZeroU64::new(3),
        network: Some("lab".to_owned()),
        ..MachineSpec::default()
    };
    let made = plan(said).unwrap();
    assert_eq!((made.cpus, made.memory_mb, made.disk_mb), (3, 512, Some(3)));
    assert_eq!(made.ssh_port(), None);
}

#[test]
fn an_order_that_cannot_be_is_refused_with_its_reason() {
    let small = MachineSpec {
        disk_mb: NonZeroU64::new(2),
        ..MachineSpec::default()
    };
    let expected = RefusedOrder::SmallDisk {
        disk_mb: 2,
        image_mb: 3,
    };
    assert_eq!(plan(small).unwrap_err(), expected);
    let large = MachineSpec {
        memory_mb: NonZeroU64::new(u64::MAX),
        ..MachineSpec::default()
    };
    assert!(matches!(plan(large), Err(RefusedOrder::TooMuch { .. })));
    let hostile = MachineSpec {
        network: Some("a\u{1}b".to_owned()),
        ..MachineSpec::default()
    };
    assert!(matches!(plan(hostile), Err(RefusedOrder::Text { .. })));
    let mut spot = order(MachineSpec::default());
    spot.purchase = Purchase::Spot {
        types: Vec::new(),
        fallback: false,
    };
    let made = MachinePlan::new(&spot, &Defaults::default(), findings());
    assert_eq!(made.unwrap_err(), RefusedOrder::Spot);
    let container = MachineSpec {
        image_type: Some(ImageType::Container),
        ..MachineSpec::default()
    };
    assert!(matches!(
        Source::of(&container),
        Err(RefusedOrder::ImageType(_))
    ));
    assert_eq!(
        Source::of(&MachineSpec::default()),
        Err(RefusedOrder::NoImage)
    );
    let riscv = MachineSpec {
        arch: Some(Arch::Riscv64),
        ..MachineSpec::default()
    };
    assert_eq!(arch_of(&riscv), Err(RefusedOrder::Arch(Arch::Riscv64)));
}

#[test]
fn a_disc_is_what_a_system_is_installed_from() {
    let iso = MachineSpec {
        image: Some("/debian.iso".to_owned()),
        image_type: Some(ImageType::Iso),
        ..MachineSpec::default()
    };
    assert_eq!(Source::of(&iso), Ok(Source::Disc("/debian.iso".to_owned())));
    let mut found = findings();
    found.origin = Origin::Disc {
        path: "/debian.iso".into(),
    };
    found.image_size = None;
    let made = MachinePlan::new(&order(iso), &Defaults::default(), found).unwrap();
    assert_eq!(made.disk_mb, Some(20 * 1024));
    assert!(made.install_from().is_some());
}

proptest! {
    #[test]
    fn an_identity_follows_from_manager_and_token_alone(
        manager in "[a-z0-9-]{1,20}",
        token in "[a-z0-9-]{1,20}",
        other in "[a-z0-9-]{1,20}",
    ) {
        let mark = |manager: &str, token: &str| Mark {
            manager: ManagerId::new(manager).unwrap(),
            machine: MachineId::random(),
            token: ClientToken::new(token).unwrap(),
        };
        let here = uuid_of(&mark(&manager, &token));
        prop_assert_eq!(here, uuid_of(&mark(&manager, &token)));
        prop_assert_eq!(here == uuid_of(&mark(&manager, &other)), token == other);
        prop_assert_eq!(here == uuid_of(&mark(&other, &token)), manager == other);
    }

    #[test]
    fn a_plan_reads_back(cpus in 1u32..512, memory in 1u64..1 << 20, name in "\\PC{1,20}") {
        let spec = MachineSpec {
            cpus: NonZeroU32::new(cpus),
            memory_mb: NonZeroU64::new(memory),
            network: Some(name),
            ..MachineSpec::default()
        };
        if let Ok(made) = plan(spec) {
            let json = serde_json::to_string(&made).unwrap();
            prop_assert_eq!(serde_json::from_str::<MachinePlan>(&json).unwrap(), made);
        }
    }
}
