//! How machines are made: once, of whichever type there is, with everything that belongs to them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_lifecycle::{Reason, State};
use muster_provider::{FailureClass, Provider as _, Purchase};

use crate::rig::{
    fake, open, order, owned, plain, running, seed, settings, spec, spot, text, wait,
};

#[tokio::test]
async fn an_answer_that_was_lost_makes_no_second_machine() {
    let (fake, provider) = fake().await;
    let order = plain();
    fake.set(|settings| settings.lose = ("RunInstances", 1));
    let error = provider.provision(&order).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
    let made = provider.provision(&order).await.unwrap();
    assert_eq!(fake.machines().len(), 1);
    assert!(made.resource.as_str().starts_with(&fake.machines()[0].id));
}

#[tokio::test]
async fn a_machine_that_is_not_shown_yet_is_given_again_by_its_token() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.shown_after = crate::rig::PATIENCE);
    let order = plain();
    let first = provider.provision(&order).await.unwrap();
    // As after a crash: nothing is remembered, and no list has it.
    let restarted = open(settings(&fake.url())).await;
    assert!(
        restarted
            .list(&order.mark.manager)
            .await
            .unwrap()
            .is_empty()
    );
    let second = restarted.provision(&order).await.unwrap();
    assert_eq!(first.resource, second.resource);
    assert_eq!(fake.machines().len(), 1);
}

#[tokio::test]
async fn the_next_type_is_taken_when_there_is_none_of_the_first() {
    let (fake, provider) = fake().await;
    fake.set(|settings| {
        settings.on_demand = [("m6i.large".to_owned(), 0), ("m5.large".to_owned(), 0)].into();
    });
    let types = spec(r#"{ "instance_type": ["m6i.large", "m5.large", "m4.large"] }"#);
    let made = running(&provider, &order(types, Purchase::OnDemand)).await;
    assert_eq!(made.details["instanceType"], "m4.large");
    assert!(!made.spot);

    let types = spec(r#"{ "instance_type": ["m6i.large", "m5.large"] }"#);
    let error = provider
        .provision(&order(types, Purchase::OnDemand))
        .await
        .unwrap_err();
    assert_eq!(error.class, FailureClass::Capacity, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
}

/// The hole between two requests that are each idempotent: the first had no room, the second was carried out and not answered, and
/// now there is room for the first.
#[tokio::test]
async fn an_order_goes_on_with_the_attempt_that_was_not_answered() {
    let (fake, provider) = fake().await;
    let order = order(
        spec(r#"{ "instance_type": ["m6i.large", "m5.large"] }"#),
        Purchase::OnDemand,
    );
    fake.set(|settings| {
        settings.on_demand = [("m6i.large".to_owned(), 0)].into();
        settings.shown_after = crate::rig::PATIENCE;
        settings.lose = ("RunInstances", 1);
    });
    let error = provider.provision(&order).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
    fake.set(|settings| settings.on_demand.clear());
    let made = provider.provision(&order).await.unwrap();
    let machines = fake.machines();
    assert_eq!(machines.len(), 1, "{machines:?}");
    assert_eq!(made.details["instanceType"], "m5.large");
}

#[tokio::test]
async fn a_spot_machine_is_of_the_first_type_that_there_is_and_leaves_no_template() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.spot = [("c6i.large".to_owned(), 0)].into());
    let mut order = order(
        spec("{}"),
        spot(&["c6i.large", "m6i.large", "r6i.large"], false),
    );
    order.ssh = Some(seed());
    let made = running(&provider, &order).await;
    assert!(made.spot);
    assert_eq!(made.details["instanceType"], "m6i.large");
    assert_eq!(made.mark, order.mark);
    assert_eq!(fake.templates(), [""; 0]);
    assert_eq!(
        fake.changes(),
        [
            "CreateLaunchTemplate",
            "CreateFleet",
            "DeleteLaunchTemplate"
        ]
    );
    // Asking again gives the same, and its end is EC2's to decide.
    let again = provider.provision(&order).await.unwrap();
    assert_eq!(again.resource, made.resource);
    fake.interrupt(&fake.machines()[0].id);
    let gone = wait(&provider, &owned(&made), State::Terminated).await;
    assert_eq!(gone.reason, Some(Reason::Interrupted));
}

#[tokio::test]
async fn a_fleet_whose_answer_was_lost_makes_no_second_machine() {
    let (fake, provider) = fake().await;
    let order = order(spec("{}"), spot(&["c6i.large", "m6i.large"], true));
    fake.set(|settings| {
        settings.lose = ("CreateFleet", 1);
        settings.shown_after = crate::rig::PATIENCE;
    });
    let error = provider.provision(&order).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert_eq!(fake.templates().len(), 1, "it is needed for the next call");
    let made = provider.provision(&order).await.unwrap();
    assert_eq!(made.state, State::Pending);
    assert_eq!(fake.machines().len(), 1);
    assert_eq!(fake.templates(), [""; 0]);
}

#[tokio::test]
async fn without_spot_machines_one_on_demand_is_made_if_that_will_do() {
    let (fake, provider) = fake().await;
    let none = [("c6i.large".to_owned(), 0), ("m6i.large".to_owned(), 0)];
    fake.set(|settings| settings.spot = none.into());
    for types in [&["c6i.large"][..], &["c6i.large", "m6i.large"]] {
        let refused = provider
            .provision(&order(spec("{}"), spot(types, false)))
            .await;
        let error = refused.unwrap_err();
        assert_eq!(error.class, FailureClass::Capacity, "{}", text(&error));
        let made = running(&provider, &order(spec("{}"), spot(types, true))).await;
        assert!(!made.spot);
        assert_eq!(made.details["instanceType"], "c6i.large");
    }
    assert_eq!(fake.templates(), [""; 0]);
}

#[tokio::test]
async fn everything_that_was_ordered_is_in_the_one_request() {
    let (fake, provider) = fake().await;
    let mut spec = spec(
        r#"{ "instance_type": "t3.micro", "subnet": "subnet-1", "security_groups": ["sg-1", "sg-2"], "iam_profile": "worker",
             "key_name": "ops", "zone": "eu-central-1a", "volume_type": "gp3", "encrypted": true }"#,
    );
    spec.disk_mb = std::num::NonZeroU64::new(20_481);
    spec.labels = [("team".to_owned(), "build & test".to_owned())].into();
    let mut order = order(spec, Purchase::OnDemand);
    order.ssh = Some(seed());
    let made = running(&provider, &order).await;
    assert!(!made.access.is_empty());
    assert_eq!(made.details["user"], "builder");

    let machines = fake.machines();
    let with = &machines[0].made_with;
    for (name, value) in [
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("ClientToken", order.mark.token.as_str()),
        ("SubnetId", "subnet-1"),
        ("SecurityGroupId.2", "sg-2"),
        ("IamInstanceProfile.Name", "worker"),
        ("KeyName", "ops"),
        ("Placement.AvailabilityZone", "eu-central-1a"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "21"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("MetadataOptions.HttpTokens", "required"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.2.ResourceType", "volume"),
    ] {
        assert_eq!(with.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(machines[0].tags["team"], "build & test");
    assert_eq!(machines[0].tags["muster-token"], order.mark.token.as_str());
    let user_data = STANDARD.decode(&with["UserData"]).unwrap();
    let user_data = String::from_utf8(user_data).unwrap();
    assert!(user_data.contains("ssh_authorized_keys"), "{user_data}");
    assert!(user_data.contains("OPENSSH PRIVATE KEY"), "{user_data}");
}

#[tokio::test]
async fn a_token_that_made_another_machine_makes_none_and_finds_it() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.shown_after = crate::rig::PATIENCE);
    let first = plain();
    provider.provision(&first).await.unwrap();
    // The template was changed in between, and nothing shows the machine.
    let mut changed = first.clone();
    changed.spec = spec(r#"{ "instance_type": "t3.large" }"#);
    let restarted = open(settings(&fake.url())).await;
    let error = restarted.provision(&changed).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
    // Another mark with the same token is somebody's mistake.
    fake.set(|settings| settings.shown_after = std::time::Duration::ZERO);
    let (fake, provider) = crate::rig::fake().await;
    provider.provision(&first).await.unwrap();
    let found = provider.provision(&changed).await.unwrap();
    assert_eq!(found.details["instanceType"], "t3.micro");
    changed.mark.machine = muster_provider::MachineId::random();
    let error = provider.provision(&changed).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
}

/// A manager died between its launch template and its fleet; the image that the template means has changed since.
#[tokio::test]
async fn a_launch_template_of_a_call_before_is_used() {
    let (fake, provider) = fake().await;
    let order = order(spec("{}"), spot(&["c6i.large", "m6i.large"], false));
    fake.set(|settings| settings.lose = ("CreateLaunchTemplate", 1));
    let error = provider.provision(&order).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    let mut changed = order.clone();
    changed.spec.disk_mb = std::num::NonZeroU64::new(10_240);
    let restarted = open(settings(&fake.url())).await;
    let made = restarted.provision(&changed).await.unwrap();
    assert_eq!(made.mark, order.mark);
    assert_eq!(fake.machines().len(), 1);
    assert_eq!(fake.templates(), [""; 0]);
}

#[tokio::test]
async fn the_token_of_a_machine_that_is_gone_and_forgotten_makes_nothing() {
    let (fake, provider) = fake().await;
    let order = plain();
    let machine = owned(&running(&provider, &order).await);
    provider.destroy(&machine).await.unwrap();
    wait(&provider, &machine, State::Terminated).await;
    // After an hour or so EC2 shows it no more, and still knows the token.
    fake.forget_terminated();
    let error = provider.provision(&order).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{}", text(&error));
    assert!(
        text(&error).contains("IdempotentInstanceTerminated"),
        "{}",
        text(&error)
    );
    assert_eq!(provider.describe(&machine).await.unwrap(), None);
    assert!(provider.destroy(&machine).await.unwrap().is_ending());
    assert!(fake.machines().is_empty());
}
