//! The suite that every provider passes, on those that need nobody else.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use muster_lifecycle::{State, Verb, VerbSet};
use muster_provider::local::LocalProvider;
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::testing::{Rig, run};
use muster_provider::{Isolation, MachineSpec, Owned, Provider, ResourceId};

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

    fn boot<'a>(&'a self, machine: &'a Owned) -> BoxFuture<'a, Option<String>> {
        let mut machines = self.0.machines().into_iter();
        let found = machines.find(|it| it.resource == machine.resource);
        ready(found.map(|it| it.reboots.to_string())).boxed()
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

/// Cases for what a provider does not offer.
const REFUSED: [(&str, &str); 6] = [
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
];

const ONE_ALONE: &str = "a verb is refused where it is not offered by one machine alone";
const SPOT_ALONE: &str = "a verb is refused where it is not offered by spot machines alone";
const ALL_OF_IT: &str = "it offers whatever its provider can do";

/// Cases for what one that only makes and destroys machines cannot be asked, and the verb that each would need first.
const POWER: [(&str, &[&str]); 5] = [
    (
        "it cannot stop machines",
        &[
            "a stop ends in stopped",
            "a stopped machine starts again, as the same",
            "stopping a stopped machine changes nothing",
            "stopping at once succeeds for all",
            "a machine that stops can be switched off",
            "a machine that stops can be terminated",
            "stopping and terminating at once ends it",
            "a stopped machine bears its mark and is listed",
            "the same token again does not start what was stopped",
            "a stopped machine cannot be rebooted",
            "a stopped machine cannot be hibernated",
            "a machine that was not hibernated cannot be resumed",
            "a stopped machine can be terminated",
            "a machine with another mark is not stopped",
        ],
    ),
    (
        "it cannot force-stop machines",
        &["a forced stop ends in stopped"],
    ),
    (
        "it cannot start machines",
        &[
            "starting a running machine changes nothing",
            "a machine that is gone cannot be started",
        ],
    ),
    (
        "it cannot reboot machines",
        &[
            "a reboot stays inside running",
            "a machine that was rebooted has booted anew",
        ],
    ),
    (
        "it cannot hibernate machines",
        &[
            "a hibernation ends in hibernated and goes on",
            "starting a hibernated machine resumes it",
            "a hibernated machine can be terminated",
        ],
    ),
];

const OF_ONE: [&str; 10] = [
    "the same token at once gives one machine",
    "every token gives a machine of its own",
    "the list has what is ours and alive",
    "two managers have a machine each and see their own",
    "a machine is listed as it is described",
    "a destroyed machine is gone",
    "a machine can be destroyed before it runs",
    "a used token makes nothing new after the machine is gone",
    "a machine with another mark is not destroyed",
    "what is not ours is neither listed nor destroyed",
];

fn power() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = POWER.into_iter();
    all.flat_map(|(why, names)| names.iter().map(move |&name| (name, why)))
}

#[tokio::test]
async fn the_simulated_cloud_keeps_every_promise() {
    let report = run(&SimRig(SimCloud::new(slow()))).await;
    // Everything is offered, so what is skipped is only about what is not.
    let alone = [(ONE_ALONE, ALL_OF_IT), (SPOT_ALONE, ALL_OF_IT)];
    let skipped: Vec<_> = REFUSED.into_iter().chain(alone).collect();
    report.assert_skipped_only(&skipped);
    println!("{report}");
    // Its machines are nowhere, so nothing can be done in them: the suite of executors has nothing to run in.
    report.assert_at_least(40);
}

#[tokio::test]
async fn a_machine_that_can_do_less_than_others_says_so() {
    let of_spot = SimSettings {
        spot_verbs: VerbSet::ALL.without(Verb::ForceStop),
        ..slow()
    };
    let report = run(&SimRig(SimCloud::new(of_spot))).await;
    let skipped = REFUSED.into_iter().chain([(ONE_ALONE, ALL_OF_IT)]);
    report.assert_skipped_only(&skipped.collect::<Vec<_>>());

    let of_all = SimSettings {
        made_with: VerbSet::ALL.without(Verb::Hibernate).without(Verb::Resume),
        ..slow()
    };
    let report = run(&SimRig(SimCloud::new(of_all))).await;
    let asked = report.passed().filter(|name| name.ends_with(" alone"));
    assert_eq!(asked.count(), 2, "\n{report}");
    // The suite asks every machine for what its provider offers.
    let others = report.failed().filter(|name| !name.contains("hibernat"));
    assert_eq!(others.count(), 0, "\n{report}");
}

#[tokio::test]
async fn a_simulated_cloud_that_can_do_little_says_so() {
    let settings = SimSettings {
        verbs: VerbSet::of(&[Verb::Terminate]),
        ..slow()
    };
    let report = run(&SimRig(SimCloud::new(settings))).await;
    let alone = [(ONE_ALONE, ALL_OF_IT), (SPOT_ALONE, ALL_OF_IT)];
    let skipped: Vec<_> = power().chain(alone).collect();
    report.assert_skipped_only(&skipped);
    let passed = report
        .passed()
        .filter(|name| name.contains("where it is not offered"));
    assert_eq!(passed.count(), REFUSED.len(), "\n{report}");
}

#[tokio::test]
async fn this_machine_keeps_every_promise_that_concerns_it() {
    let report = run(&LocalRig).await;
    let alone = [
        (ONE_ALONE, ALL_OF_IT),
        (SPOT_ALONE, "it has no spot machines"),
    ];
    let of_one = OF_ONE.map(|name| (name, "it has one machine only"));
    let skipped: Vec<_> = power().chain(alone).chain(of_one).collect();
    println!("{report}");
    report.assert_skipped_only(&skipped);
}

#[test]
fn this_machine_says_that_it_is_insecure() {
    let local = LocalProvider::new();
    let profile = local.profile();
    assert!(matches!(profile.isolation, Isolation::Insecure(why) if !why.is_empty()));
    let access: Vec<String> = profile.access.iter().map(ToString::to_string).collect();
    assert_eq!(access, ["local:exec", "local:attach", "local:copy"]);
}
