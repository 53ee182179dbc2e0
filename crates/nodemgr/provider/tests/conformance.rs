//! The suite that every provider passes, on those that need nobody else.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use muster_lifecycle::{State, Verb, VerbSet};
use muster_provider::local::LocalProvider;
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::testing::{Rig, run};
use muster_provider::{Isolation, MachineSpec, Provider, ResourceId};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct SimRig(SimCloud);

impl Rig for SimRig {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider())
    }

    fn spec(&self) -> MachineSpec {
        MachineSpec::default()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        let resource = self.0.add_foreign().expect("the cloud is in memory");
        ready(Some(resource)).boxed()
    }

    fn is_untouched<'a>(&'a self, foreign: &'a ResourceId) -> BoxFuture<'a, bool> {
        let mut machines = self.0.machines().into_iter();
        let found = machines.find(|it| it.resource == *foreign);
        ready(found.is_some_and(|it| it.state == State::Running)).boxed()
    }
}

#[derive(Debug)]
struct LocalRig;

impl Rig for LocalRig {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(LocalProvider::new())
    }

    fn spec(&self) -> MachineSpec {
        MachineSpec::default()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        ready(None).boxed()
    }

    fn is_untouched<'a>(&'a self, _: &'a ResourceId) -> BoxFuture<'a, bool> {
        ready(true).boxed()
    }
}

fn slow() -> SimSettings {
    SimSettings {
        latency: Duration::from_millis(1)..=Duration::from_millis(5),
        boot: Duration::from_millis(30),
        halt: Duration::from_millis(30),
        ..SimSettings::default()
    }
}

#[tokio::test]
async fn the_simulated_cloud_keeps_every_promise() {
    let report = run(&SimRig(SimCloud::new(slow()))).await;
    report.assert_passed();
    // Everything is offered, so what is skipped is only about what is not.
    for skipped in report.skipped() {
        assert!(skipped.contains("where it is not offered"), "{skipped}");
    }
    assert!(report.passed().count() >= 36, "\n{report}");
    assert!(report.cases.len() >= 43, "\n{report}");
}

#[tokio::test]
async fn a_machine_that_can_do_less_than_others_says_so() {
    let settings = SimSettings {
        made_with: VerbSet::ALL.without(Verb::Hibernate).without(Verb::Resume),
        spot_verbs: VerbSet::ALL.without(Verb::ForceStop),
        ..slow()
    };
    let report = run(&SimRig(SimCloud::new(settings))).await;
    let asked = |name: &&str| name.ends_with(" alone");
    assert_eq!(report.passed().filter(asked).count(), 2, "\n{report}");
}

#[tokio::test]
async fn a_simulated_cloud_that_can_do_little_says_so() {
    let settings = SimSettings {
        verbs: VerbSet::of(&[Verb::Terminate]),
        ..slow()
    };
    let report = run(&SimRig(SimCloud::new(settings))).await;
    report.assert_passed();
    assert!(
        report
            .skipped()
            .any(|name| name == "a stop ends in stopped")
    );
    let passed = report
        .passed()
        .filter(|name| name.contains("where it is not offered"));
    assert_eq!(passed.count(), 6, "\n{report}");
}

#[tokio::test]
async fn this_machine_keeps_every_promise_that_concerns_it() {
    let report = run(&LocalRig).await;
    report.assert_passed();
    assert!(report.passed().count() >= 15, "\n{report}");
}

#[test]
fn this_machine_says_that_it_is_insecure() {
    let local = LocalProvider::new();
    let profile = local.profile();
    assert!(matches!(profile.isolation, Isolation::Insecure(why) if !why.is_empty()));
    let access: Vec<String> = profile.access.iter().map(ToString::to_string).collect();
    assert_eq!(access, ["local:exec", "local:attach", "local:copy"]);
}
