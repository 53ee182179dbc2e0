use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use muster_provider::{ClientToken, ManagerId, Mark};
use muster_template::{Arch, Value};
use proptest::prelude::*;

use super::*;

fn order(spec: MachineSpec) -> Order {
    Order {
        spec,
        mark: Mark {
            manager: ManagerId::new("us").unwrap(),
            machine: MachineId::new("m-1").unwrap(),
            token: ClientToken::new("t").unwrap(),
        },
        purchase: Purchase::OnDemand,
        ssh: None,
    }
}

fn spec() -> MachineSpec {
    MachineSpec {
        image: Some("box".to_owned()),
        ..MachineSpec::default()
    }
}

fn planned(spec: MachineSpec) -> Creation {
    plan(&order(spec), None).unwrap()
}

fn refused(spec: MachineSpec) -> String {
    plan(&order(spec), None).unwrap_err().to_string()
}

#[test]
fn a_machine_waits_under_an_init_and_bears_its_mark() {
    let creation = planned(spec());
    assert_eq!(creation.name, "muster-m-1");
    let body = creation.body;
    assert_eq!(body.cmd.unwrap(), ["sleep", "infinity"]);
    assert_eq!(body.entrypoint.unwrap(), [""; 0]);
    let host = body.host_config.unwrap();
    assert_eq!((host.init, host.privileged), (Some(true), Some(false)));
    assert_eq!(
        (host.cap_add, host.cap_drop, host.security_opt),
        (None, None, None)
    );
    assert_eq!(
        (host.memory, host.nano_cpus, host.storage_opt),
        (None, None, None)
    );
    let labels: BTreeMap<_, _> = body.labels.unwrap().into_iter().collect();
    assert_eq!(Mark::from_labels(&labels), Some(order(spec()).mark));
    assert!(!labels.contains_key(NOTE_LABEL));
}

#[test]
fn sizes_are_carried_over() {
    let creation = planned(MachineSpec {
        cpus: NonZeroU32::new(3),
        memory_mb: NonZeroU64::new(512),
        disk_mb: NonZeroU64::new(2048),
        arch: Some(Arch::Arm64),
        ..spec()
    });
    let host = creation.body.host_config.unwrap();
    assert_eq!(host.nano_cpus, Some(3_000_000_000));
    assert_eq!(
        (host.memory, host.memory_swap),
        (Some(512 << 20), Some(512 << 20))
    );
    assert_eq!(host.storage_opt.unwrap()["size"], "2048M");
    assert_eq!(creation.platform.unwrap(), "linux/arm64");
}

#[test]
fn a_disk_that_cannot_be_limited_is_not_and_says_so() {
    let spec = MachineSpec {
        disk_mb: NonZeroU64::new(1),
        ..spec()
    };
    let body = plan(&order(spec), Some("no quotas here")).unwrap().body;
    assert_eq!(body.host_config.unwrap().storage_opt, None);
    assert_eq!(
        body.labels.unwrap()[NOTE_LABEL],
        "diskMB is not limited: no quotas here"
    );
}

#[test]
fn what_is_weaker_or_not_used_is_noted() {
    let body = planned(MachineSpec {
        network: Some("host".to_owned()),
        user_data: Some("secret text".to_owned()),
        ssh_keys: vec!["ssh-ed25519 AAAA".to_owned()],
        extra: BTreeMap::from([("privileged".to_owned(), Value::Bool(true))]),
        ..spec()
    })
    .body;
    assert_eq!(
        body.labels.unwrap()[NOTE_LABEL],
        "privileged: nothing keeps it from the engine's machine; shares the network of the engine's machine; \
         not used by Docker: sshKeys, userData"
    );
}

#[test]
fn single_rights_are_given_and_noted() {
    let names = |names: &[&str]| {
        let names = names.iter();
        Value::List(names.map(|it| Value::String((*it).to_owned())).collect())
    };
    let extra = [
        ("capabilities", names(&["SYS_ADMIN", "CAP_NET_ADMIN"])),
        ("dropCapabilities", names(&["MKNOD"])),
        ("seccomp", Value::String("unconfined".to_owned())),
    ];
    let body = planned(MachineSpec {
        extra: extra.map(|(key, it)| (key.to_owned(), it)).into(),
        ..spec()
    })
    .body;
    let host = body.host_config.unwrap();
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.cap_add.unwrap(), ["NET_ADMIN", "SYS_ADMIN"]);
    assert_eq!(host.cap_drop.unwrap(), ["MKNOD"]);
    assert_eq!(host.security_opt.unwrap(), ["seccomp=unconfined"]);
    assert_eq!(
        body.labels.unwrap()[NOTE_LABEL],
        "has the capabilities NET_ADMIN, SYS_ADMIN; may make every system call"
    );
}

#[test]
fn an_image_is_taken_by_its_checksum_where_that_is_known() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for (image, name) in [
        ("ubuntu:24.04", "ubuntu"),
        ("host:5000/a:b", "host:5000/a"),
        ("host:5000/a", "host:5000/a"),
        ("a@sha256:11", "a"),
    ] {
        let creation = planned(MachineSpec {
            image: Some(image.to_owned()),
            digest: Some(digest.clone()),
            ..spec()
        });
        assert_eq!(creation.image, format!("{name}@{digest}"));
    }
}

#[test]
fn what_makes_no_container_is_refused_with_its_field() {
    assert!(refused(MachineSpec::default()).starts_with("image: is not set"));
    for image in ["", "a b", "a?b", "ä"] {
        let image = Some(image.to_owned());
        let wrong = MachineSpec { image, ..spec() };
        assert!(refused(wrong).starts_with("image: is no name"));
    }
    let wrong = MachineSpec {
        image_type: Some(ImageType::Iso),
        ..spec()
    };
    assert_eq!(
        refused(wrong),
        "imageType: an image of type iso makes no container"
    );
    let wrong = MachineSpec {
        network: Some("a/b".to_owned()),
        ..spec()
    };
    assert!(refused(wrong).starts_with("network: "));
    let wrong = MachineSpec {
        labels: BTreeMap::from([("muster-manager".to_owned(), "them".to_owned())]),
        ..spec()
    };
    assert!(refused(wrong).starts_with("labels.muster-manager: "));
    let wrong = MachineSpec {
        memory_mb: NonZeroU64::new(u64::MAX),
        ..spec()
    };
    assert!(refused(wrong).starts_with("memoryMB: "));
    let mut spot = order(spec());
    spot.purchase = Purchase::Spot {
        types: Vec::new(),
        fallback: false,
    };
    assert!(plan(&spot, None).is_err());
}

proptest! {
    /// Whatever a template says, the mark is the order's, the name is the machine's, and privileges are asked for.
    #[test]
    fn no_template_changes_whose_a_container_is(
        labels in prop::collection::btree_map("[a-z-]{0,16}|muster-(manager|machine|token)", ".{0,8}", 0..6),
        image in "[a-z0-9/:@._-]{0,24}",
        privileged in prop::option::of(any::<bool>()),
    ) {
        let extra = privileged.map(|it| ("privileged".to_owned(), Value::Bool(it)));
        let spec = MachineSpec {
            image: Some(image),
            labels,
            extra: extra.into_iter().collect(),
            ..MachineSpec::default()
        };
        let order = order(spec);
        if let Ok(creation) = plan(&order, None) {
            let labels: BTreeMap<_, _> = creation.body.labels.unwrap().into_iter().collect();
            prop_assert_eq!(Mark::from_labels(&labels), Some(order.mark.clone()));
            prop_assert_eq!(creation.name, container_name(&order.mark.machine));
            let host = creation.body.host_config.unwrap();
            prop_assert_eq!(host.privileged, Some(privileged.unwrap_or(false)));
        }
    }
}
