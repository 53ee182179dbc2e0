//! What EC2 would refuse is refused before it is asked.

use muster_lifecycle::{Halt, State, Verb};
use muster_provider::{FailureClass, Provider as _, Purchase};

use crate::rig::{fake, open, order, owned, plain, running, settings, spec, spot, text, wait};

#[tokio::test]
async fn a_spot_machine_is_neither_stopped_nor_hibernated() {
    let (fake, provider) = fake().await;
    let made = running(&provider, &order(spec("{}"), spot(&["t3.micro"], false))).await;
    for verb in [Verb::Stop, Verb::ForceStop, Verb::Hibernate] {
        let error = provider.act(&owned(&made), verb).await.unwrap_err();
        assert_eq!(error.class, FailureClass::Refused);
        assert!(text(&error).contains("spot machine"), "{}", text(&error));
    }
    assert_eq!(fake.changes(), ["RunInstances"]);
    let state = provider.act(&owned(&made), Verb::Terminate).await.unwrap();
    assert!(state.is_ending());

    let hibernating = spec(r#"{ "hibernation": true }"#);
    let ordered = order(hibernating, spot(&["t3.micro"], false));
    let error = provider.provision(&ordered).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(
        text(&error).contains("cannot be hibernated"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn hibernation_is_chosen_when_a_machine_is_made() {
    let (fake, provider) = fake().await;
    let made = running(&provider, &plain()).await;
    let error = provider
        .act(&owned(&made), Verb::Hibernate)
        .await
        .unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(
        text(&error).contains("hibernation: true"),
        "{}",
        text(&error)
    );
    assert_eq!(fake.changes(), ["RunInstances"]);

    let hibernating = spec(r#"{ "instance_type": "t3.micro", "hibernation": true }"#);
    let made = running(&provider, &order(hibernating.clone(), Purchase::OnDemand)).await;
    let state = provider.act(&owned(&made), Verb::Hibernate).await.unwrap();
    assert_eq!(state, State::Stopping(Halt::Hibernated));
    wait(&provider, &owned(&made), State::Stopped(Halt::Hibernated)).await;
    let state = provider.act(&owned(&made), Verb::Start).await.unwrap();
    assert_eq!(state, State::Pending);

    let mut switched_off = settings(&fake.url());
    switched_off.hibernation = false;
    let without = open(switched_off).await;
    assert!(!without.profile().verbs.has(Verb::Hibernate));
    let ordered = order(hibernating, Purchase::OnDemand);
    let error = without.provision(&ordered).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let error = without
        .act(&owned(&made), Verb::Hibernate)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.class,
            FailureClass::Unsupported | FailureClass::Refused
        ),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn machines_are_made_only_where_they_are_looked_for() {
    let (fake, provider) = fake().await;
    let mut elsewhere = plain();
    elsewhere.spec.region = Some("ap-south-1".to_owned());
    let error = provider.provision(&elsewhere).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(text(&error).contains("ap-south-1"), "{}", text(&error));
    assert!(fake.requests().is_empty());

    let mut both = settings(&fake.url());
    both.regions.push("ap-south-1".parse().unwrap());
    let provider = open(both).await;
    let made = running(&provider, &elsewhere).await;
    assert!(
        made.resource.as_str().ends_with("@ap-south-1"),
        "{}",
        made.resource
    );
    let signed = fake.requests().pop().unwrap();
    assert!(signed.headers["authorization"].contains("/ap-south-1/ec2/"));
}
