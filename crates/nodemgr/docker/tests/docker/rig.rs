//! A Docker engine of the test's own, and the provider that makes machines of it.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_docker::{DockerProvider, Endpoint, Engine};
use muster_lab::docker::{self, Traces};
use muster_lab::program::Program;
use muster_provider::{ClientToken, MachineId, MachineSpec, ManagerId, Mark, Order, Purchase};

pub(crate) use muster_lab::docker::IMAGE;

/// Far more than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An engine that answers.
pub(crate) struct Docker(docker::Docker);

impl Docker {
    pub(crate) fn start() -> Self {
        Self(docker::Docker::start().expect("the engine starts"))
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.0.socket())
    }

    pub(crate) fn engine(&self) -> Engine {
        Engine::new(self.endpoint())
    }

    pub(crate) fn provider(&self) -> DockerProvider {
        DockerProvider::new(self.engine()).with_grace(Duration::from_secs(5))
    }

    /// A program that works in the engine's network.
    pub(crate) fn in_network(&self, program: &str) -> Program {
        self.0.in_network(program)
    }

    /// Docker's own client: a second opinion.
    #[track_caller]
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        self.0.cli(words).expect("docker's client")
    }

    /// Whether Docker's own client succeeds.
    pub(crate) fn try_cli(&self, words: &[&str]) -> bool {
        self.0.cli(words).is_ok()
    }

    /// Ids of containers, with a filter of the client's.
    pub(crate) fn containers(&self, filter: &str) -> BTreeSet<String> {
        let found = self.0.containers(Some(filter));
        found.expect("docker's client")
    }

    pub(crate) fn traces(&self) -> Traces {
        self.0.traces().expect("the engine lives")
    }

    /// Everything must be as it was: some of it goes a moment after the engine has answered.
    #[track_caller]
    pub(crate) fn assert_traces(&self, before: &Traces) {
        let settled = muster_lab::try_poll_for(PATIENCE, || {
            let now = self.traces();
            (now == *before).then_some(now)
        });
        if settled.is_none() {
            assert_eq!(&self.traces(), before);
        }
    }
}

pub(crate) fn spec() -> MachineSpec {
    MachineSpec {
        image: Some(IMAGE.to_owned()),
        ..MachineSpec::default()
    }
}

pub(crate) fn order(spec: MachineSpec) -> Order {
    Order {
        spec,
        mark: Mark {
            manager: ManagerId::new("tests").expect("a name"),
            machine: MachineId::random(),
            token: ClientToken::random(),
        },
        purchase: Purchase::OnDemand,
        ssh: None,
    }
}
