//! What goes wrong, and what is said about it.

use muster_aws::testing::{ACCESS_KEY, FakeEc2};
use muster_aws::{AwsProvider, AwsSettings, CredentialSource, OpenAwsError};
use muster_provider::{FailureClass, Provider as _, Secret};

use crate::rig::{fake, open, plain, settings, text};

#[tokio::test]
async fn throttled_requests_are_repeated_a_few_times() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.throttle = 3);
    provider.provision(&plain()).await.expect("in the end");
    assert_eq!(fake.machines().len(), 1);

    let mut impatient = settings(&fake.url());
    impatient.throttle_attempts = 2;
    let provider = open(impatient).await;
    fake.set(|settings| settings.throttle = usize::MAX);
    let before = fake.requests().len();
    let error = provider.provision(&plain()).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    assert!(
        text(&error).contains("RequestLimitExceeded"),
        "{}",
        text(&error)
    );
    assert_eq!(fake.requests().len() - before, 2);
}

#[tokio::test]
async fn a_used_up_quota_is_one() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.quota = Some(0));
    let error = provider.provision(&plain()).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Quota, "{}", text(&error));
    assert!(
        text(&error).contains("VcpuLimitExceeded"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn refused_credentials_are_named_and_not_shown() {
    let (fake, _) = fake().await;
    let wrong = CredentialSource::fixed(ACCESS_KEY, &Secret::new("not-this-one".to_owned()));
    let provider = AwsProvider::with_credentials(settings(&fake.url()), wrong);
    let provider = provider.await.unwrap();
    let error = provider.provision(&plain()).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let said = text(&error);
    assert!(
        said.contains("credentials from the settings, key ...FAKE"),
        "{said}"
    );
    assert!(said.contains("SignatureDoesNotMatch"), "{said}");
    assert!(!said.contains("not-this-one"), "{said}");
    assert!(!format!("{provider:?}{error:?}").contains("not-this-one"));

    let stranger = CredentialSource::fixed("AKIASTRANGER", &Secret::new("x".to_owned()));
    let provider = AwsProvider::with_credentials(settings(&fake.url()), stranger);
    let error = provider
        .await
        .unwrap()
        .provision(&plain())
        .await
        .unwrap_err();
    assert!(text(&error).contains("AuthFailure"), "{}", text(&error));
    assert!(fake.machines().is_empty());
}

#[tokio::test]
async fn what_the_account_may_not_do_is_said() {
    let (fake, provider) = fake().await;
    fake.set(|settings| settings.forbidden = Some("RunInstances"));
    let error = provider.provision(&plain()).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let said = text(&error);
    assert!(
        said.contains("RunInstances in eu-central-1 was refused"),
        "{said}"
    );
    assert!(said.contains("UnauthorizedOperation"), "{said}");
}

#[tokio::test]
async fn a_service_that_does_not_answer_says_nothing_about_machines() {
    let (fake, provider) = fake().await;
    let machine = crate::rig::owned(&crate::rig::running(&provider, &plain()).await);
    drop(fake);
    for error in [
        provider.provision(&plain()).await.map(drop).unwrap_err(),
        provider.describe(&machine).await.map(drop).unwrap_err(),
        provider.destroy(&machine).await.map(drop).unwrap_err(),
        provider
            .list(&machine.mark.manager)
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(error.class, FailureClass::Retryable, "{}", text(&error));
    }
}

#[tokio::test]
async fn wrong_names_and_settings_are_refused() {
    let (fake, provider) = fake().await;
    let mut machine = crate::rig::owned(&crate::rig::running(&provider, &plain()).await);
    machine.resource = muster_provider::ResourceId::new("i-1").unwrap();
    let error = provider.destroy(&machine).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{}", text(&error));
    let plain_http = AwsSettings {
        endpoint_url: Some("http://ec2.example.org".to_owned()),
        ..settings(&fake.url())
    };
    let opened = AwsProvider::with_credentials(plain_http, FakeEc2::credentials()).await;
    assert!(matches!(opened, Err(OpenAwsError::Endpoint(_))));
}
