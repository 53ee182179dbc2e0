//! What is not seen is not gone.

use std::time::{Duration, Instant};

use muster_aws::testing::{FakeEc2, FakeSettings};
use muster_lifecycle::{State, Verb};
use muster_provider::{FailureClass, Provider as _};

use crate::rig::{PATIENCE, fake, open, owned, plain, running, settings, text, wait};

/// A fake that shows machines late, and a provider that knows.
async fn late(shown_after: Duration) -> (FakeEc2, muster_aws::AwsProvider) {
    let fake = FakeEc2::start(FakeSettings {
        shown_after,
        ..FakeSettings::default()
    });
    let mut settings = settings(&fake.url());
    settings.settle = PATIENCE;
    let provider = open(settings).await;
    (fake, provider)
}

#[tokio::test]
async fn a_new_machine_that_is_not_shown_is_pending() {
    let (_fake, provider) = late(Duration::from_millis(200)).await;
    let made = provider.provision(&plain()).await.unwrap();
    let seen = provider.describe(&owned(&made)).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Pending);
    let error = provider.act(&owned(&made), Verb::Stop).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    wait(&provider, &owned(&made), State::Running).await;
}

#[tokio::test]
async fn a_machine_that_is_not_shown_is_not_taken_for_destroyed() {
    let (fake, provider) = late(Duration::from_millis(200)).await;
    let machine = owned(&provider.provision(&plain()).await.unwrap());
    let deadline = Instant::now() + PATIENCE;
    let mut refusals = 0;
    // It is asked again, as the registry does, until EC2 knows what it is about.
    while let Err(error) = provider.destroy(&machine).await {
        assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
        assert!(Instant::now() < deadline);
        refusals += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refusals > 0);
    wait(&provider, &machine, State::Terminated).await;
    assert!(fake.machines().is_empty());
}

#[tokio::test]
async fn after_a_restart_nothing_is_believed_to_be_gone_too_early() {
    let (fake, provider) = late(PATIENCE).await;
    let machine = owned(&provider.provision(&plain()).await.unwrap());
    let mut patient = settings(&fake.url());
    patient.settle = PATIENCE;
    let restarted = open(patient).await;
    let error = restarted.describe(&machine).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    let error = restarted.destroy(&machine).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert_eq!(fake.machines().len(), 1);
    // One that has been here for long enough believes it.
    let settled = open(settings(&fake.url())).await;
    assert_eq!(settled.describe(&machine).await.unwrap(), None);
}

#[tokio::test]
async fn a_list_has_all_pages_and_nothing_of_others() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.page = 3);
    let mine = plain().mark.manager;
    for _ in 0..10 {
        let mut order = plain();
        order.mark.manager = mine.clone();
        provider.provision(&order).await.unwrap();
    }
    running(&provider, &plain()).await;
    fake.add_foreign(&[("muster-manager", mine.as_str())]);
    let listed = provider.list(&mine).await.unwrap();
    assert_eq!(listed.len(), 10);
    assert!(listed.iter().all(|it| it.mark.manager == mine));
    let pages = fake
        .requests()
        .iter()
        .filter(|it| it.body.contains("NextToken"))
        .count();
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn launch_templates_that_were_left_behind_are_swept() {
    let (fake, provider) = fake().await;
    let mine = plain().mark.manager;
    let tag = [("muster-manager", mine.as_str())];
    fake.add_template("muster-old", &tag, "2020-01-01T00:00:00.000Z");
    fake.add_template("muster-new", &tag, "2999-01-01T00:00:00.000Z");
    fake.add_template(
        "theirs",
        &[("muster-manager", "other")],
        "2020-01-01T00:00:00.000Z",
    );
    provider.list(&mine).await.unwrap();
    assert_eq!(fake.templates(), ["muster-new", "theirs"]);
    // What is left behind is no hurry, and lists are many.
    for _ in 0..3 {
        provider.list(&mine).await.unwrap();
    }
    let requests = fake.requests();
    let looks = requests
        .iter()
        .filter(|it| it.action == "DescribeLaunchTemplates");
    assert_eq!(looks.count(), 1);
}

#[tokio::test]
async fn another_account_is_another_home() {
    let (fake, provider) = fake().await;
    let first = provider.home().await.unwrap().unwrap();
    assert_eq!(first.as_str(), "123456789012");
    fake.set(|settings| settings.account = "210987654321");
    assert_ne!(provider.home().await.unwrap(), Some(first));
    fake.set(|settings| settings.forbidden = Some("GetCallerIdentity"));
    let error = provider.home().await.unwrap_err();
    assert!(
        text(&error).contains("cannot name its account"),
        "{}",
        text(&error)
    );
}
