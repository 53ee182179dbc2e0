use bollard::models::ContainerCreateBody;
use tokio::sync::Semaphore;

use super::*;
use crate::engine::fake::{Answer, Fake};

fn creation() -> Creation {
    Creation {
        name: "muster-m-1".to_owned(),
        image: "large:1".to_owned(),
        platform: None,
        body: ContainerCreateBody::default(),
    }
}

/// An engine whose pulls end with each permit.
fn slow(permits: &Arc<Semaphore>, said: &'static str) -> Fake {
    let permits = Arc::clone(permits);
    Fake::start(move |asked| {
        let permits = Arc::clone(&permits);
        async move {
            if !asked.contains("/images/create") {
                return Answer::ping(47);
            }
            permits.acquire().await.expect("it stays open").forget();
            Answer {
                body: said.to_owned(),
                ..Answer::ping(47)
            }
        }
    })
}

#[tokio::test]
async fn an_image_that_takes_longer_than_a_call_is_pulled_once_and_comes() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = slow(&permits, "");
    let docker = fake.engine().docker().await.unwrap();
    let mut pulls = Pulls {
        wait: Duration::from_millis(20),
        ..Pulls::default()
    };
    for _ in 0..3 {
        let failure = pulls.pull(&docker, &creation()).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Underway);
        assert_eq!(failure.source.to_string(), "image large:1 is being pulled");
    }
    permits.add_permits(1);
    pulls.wait = WAIT;
    pulls.pull(&docker, &creation()).await.unwrap();
    assert_eq!(fake.asked("/images/create"), 1);
}

#[tokio::test]
async fn a_pull_that_fails_fails_for_everybody_who_waits() {
    let permits = Arc::new(Semaphore::new(0));
    let fake = slow(&permits, r#"{"errorDetail":{"message":"the line broke"}}"#);
    let docker = fake.engine().docker().await.unwrap();
    let pulls = Pulls::default();
    let creation = creation();
    let release = async { permits.add_permits(1) };
    let (one, two, ()) = tokio::join!(
        pulls.pull(&docker, &creation),
        pulls.pull(&docker, &creation),
        release
    );
    for failed in [one, two] {
        let failure = failed.unwrap_err();
        assert_eq!(failure.class, FailureClass::Retryable);
        let said = muster_telemetry::ErrorChain(failure.source.as_ref()).to_string();
        assert!(said.contains("the line broke"), "{said}");
    }
    assert_eq!(fake.asked("/images/create"), 1);
}
