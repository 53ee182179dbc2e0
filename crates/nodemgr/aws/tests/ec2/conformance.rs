//! The suite that every provider passes, on the fake.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use muster_aws::AwsProvider;
use muster_aws::testing::{FakeEc2, FakeSettings};
use muster_lifecycle::State;
use muster_provider::testing::{Rig, run};
use muster_provider::{MachineSpec, Owned, Provider, ResourceId, SshSeed};

use crate::rig::{PATIENCE, REGION, open, seed, settings, spec};

#[derive(Debug)]
struct FakeRig {
    fake: FakeEc2,
    provider: AwsProvider,
}

impl Rig for FakeRig {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.provider.clone())
    }

    fn spec(&self) -> MachineSpec {
        MachineSpec {
            user_data: Some("#!/bin/sh\ntrue\n".to_owned()),
            ..spec(r#"{ "instance_type": "t3.micro", "hibernation": true, "volume_type": "gp3" }"#)
        }
    }

    fn plain_spec(&self) -> MachineSpec {
        spec(r#"{ "instance_type": "t3.micro" }"#)
    }

    fn ssh(&self) -> Option<SshSeed> {
        Some(seed())
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        let id = self.fake.add_foreign(&[("Name", "somebody's")]);
        let resource = ResourceId::new(&format!("{id}@{REGION}")).expect("a name");
        ready(Some(resource)).boxed()
    }

    fn boot<'a>(&'a self, machine: &'a Owned) -> BoxFuture<'a, Option<String>> {
        let (id, _) = machine.resource.as_str().split_once('@').expect("a place");
        let found = self.fake.machines().into_iter().find(|it| it.id == id);
        ready(found.map(|it| it.reboots.to_string())).boxed()
    }

    fn is_untouched<'a>(&'a self, foreign: &'a ResourceId) -> BoxFuture<'a, bool> {
        let (id, _) = foreign.as_str().split_once('@').expect("a place");
        let found = self.fake.machines().into_iter().find(|it| it.id == id);
        ready(found.is_some_and(|it| it.state == State::Running)).boxed()
    }
}

#[tokio::test]
async fn the_fake_shows_that_every_promise_is_kept() {
    let fake = FakeEc2::start(FakeSettings {
        boot: Duration::from_millis(20),
        halt: Duration::from_millis(20),
        page: 3,
        ..FakeSettings::default()
    });
    let provider = open(settings(&fake.url())).await;
    let rig = FakeRig { fake, provider };
    let report = run(&rig).await;
    println!("{report}");
    // What is skipped is what is asked of providers that lack a verb; EC2 lacks none.
    report.assert_skipped_only(&[
        (
            "start is refused where it is not offered",
            "it can start machines",
        ),
        (
            "stop is refused where it is not offered",
            "it can stop machines",
        ),
        (
            "a forced stop is refused where it is not offered",
            "it can force-stop machines",
        ),
        (
            "reboot is refused where it is not offered",
            "it can reboot machines",
        ),
        (
            "hibernation is refused where it is not offered",
            "it can hibernate machines",
        ),
        (
            "resuming is refused where it is not offered",
            "it can resume machines",
        ),
    ]);
    report.assert_at_least(40);
    let left = rig.fake.machines();
    assert!(
        left.iter().all(|machine| machine.tags.len() == 1),
        "{left:?}"
    );
    rig.fake.assert_signed();
}
