//! How images are found.

use muster_aws::testing::{FakeImage, IMAGE};
use muster_mapping::AmiLookup;
use muster_provider::{FailureClass, MachineSpec, Provider as _, Purchase};
use muster_template::Arch;

use crate::rig::{fake, order, running, spec, text};

const OWNER: &str = "099720109477";

fn image(id: &'static str, arch: &'static str, created: &'static str) -> FakeImage {
    FakeImage {
        id,
        owner: OWNER,
        name: "ubuntu/24.04-2",
        arch,
        created,
        root_device: "/dev/sda1",
    }
}

fn lookup(owner: &str, arch: Option<Arch>) -> MachineSpec {
    MachineSpec {
        ami: None,
        arch,
        ami_lookup: Some(AmiLookup::Newest {
            owner: owner.to_owned(),
            name: "ubuntu/24.04-*".to_owned(),
        }),
        ..spec(r#"{ "instance_type": "t3.micro" }"#)
    }
}

#[tokio::test]
async fn the_newest_image_of_an_owner_for_the_architecture_is_found() {
    let (fake, provider) = fake().await;
    fake.set(|settings| {
        settings.images.extend([
            image("ami-2", "x86_64", "2026-03-01T00:00:00.000Z"),
            image("ami-3", "x86_64", "2026-02-01T00:00:00.000Z"),
            image("ami-4", "arm64", "2026-04-01T00:00:00.000Z"),
        ]);
    });
    assert_eq!(
        provider.find_image(&lookup(OWNER, None)).await.unwrap(),
        "ami-2"
    );
    let arm = lookup(OWNER, Some(Arch::Arm64));
    assert_eq!(provider.find_image(&arm).await.unwrap(), "ami-4");
    let made = running(&provider, &order(lookup(OWNER, None), Purchase::OnDemand)).await;
    assert_eq!(made.details["image"], "ami-2");

    let error = provider
        .find_image(&lookup("nobody", None))
        .await
        .unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(
        text(&error).contains("no image of nobody for x86_64"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn a_parameter_says_which_image() {
    let (fake, provider) = fake().await;
    fake.set(|settings| {
        settings.parameters = [("/images/ours", IMAGE), ("/images/none", "nothing")].into();
    });
    let by = |parameter: &str| MachineSpec {
        ami: None,
        ami_lookup: Some(AmiLookup::Ssm {
            parameter: parameter.to_owned(),
        }),
        ..spec(r#"{ "instance_type": "t3.micro" }"#)
    };
    assert_eq!(
        provider.find_image(&by("/images/ours")).await.unwrap(),
        IMAGE
    );
    for (parameter, why) in [
        ("/images/none", "which is no image"),
        ("/images/missing", "ParameterNotFound"),
    ] {
        let error = provider.find_image(&by(parameter)).await.unwrap_err();
        assert_eq!(error.class, FailureClass::Refused, "{}", text(&error));
        assert!(text(&error).contains(why), "{}", text(&error));
    }
    running(&provider, &order(by("/images/ours"), Purchase::OnDemand)).await;
}

#[tokio::test]
async fn an_image_for_another_architecture_or_none_is_refused() {
    let (fake, provider) = fake().await;
    let mut arm = spec("{}");
    arm.arch = Some(Arch::Arm64);
    let error = provider
        .provision(&order(arm, Purchase::OnDemand))
        .await
        .unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(text(&error).contains("is for x86_64"), "{}", text(&error));
    let mut missing = spec("{}");
    missing.ami = Some("ami-00000000000000000".to_owned());
    let error = provider
        .provision(&order(missing, Purchase::OnDemand))
        .await
        .unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{}", text(&error));
    assert!(
        text(&error).contains("InvalidAMIID.NotFound"),
        "{}",
        text(&error)
    );
    let none = order(MachineSpec::default(), Purchase::OnDemand);
    let error = provider.provision(&none).await.unwrap_err();
    assert!(
        text(&error).contains("there is no image"),
        "{}",
        text(&error)
    );
    assert!(fake.machines().is_empty());
}
