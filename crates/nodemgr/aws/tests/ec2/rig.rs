//! What the tests have in common.

use std::time::{Duration, Instant};

use muster_aws::testing::{FakeEc2, FakeSettings, IMAGE};
use muster_aws::{AwsProvider, AwsSettings};
use muster_lifecycle::State;
use muster_provider::{
    ClientToken, Described, MachineId, MachineSpec, ManagerId, Mark, Order, Owned, Provider as _,
    ProviderError, Purchase, Secret, SshSeed,
};

pub(crate) use crate::server::REGION;

/// For things that take a moment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Settings for something that answers on this machine, and shows what it made at once.
pub(crate) fn settings(url: &str) -> AwsSettings {
    AwsSettings {
        regions: vec![REGION.parse().expect("a region")],
        endpoint_url: Some(url.to_owned()),
        settle: Duration::ZERO,
        ..AwsSettings::default()
    }
}

pub(crate) async fn open(settings: AwsSettings) -> AwsProvider {
    let opened = AwsProvider::with_credentials(settings, FakeEc2::credentials()).await;
    opened.expect("the settings are fine")
}

/// A fake that behaves, and a provider for it.
pub(crate) async fn fake() -> (FakeEc2, AwsProvider) {
    let fake = FakeEc2::start(FakeSettings::default());
    let provider = open(settings(&fake.url())).await;
    (fake, provider)
}

pub(crate) fn spec(extra: &str) -> MachineSpec {
    MachineSpec {
        ami: Some(IMAGE.to_owned()),
        extra: serde_json::from_str(extra).expect("a map"),
        ..MachineSpec::default()
    }
}

pub(crate) fn order(spec: MachineSpec, purchase: Purchase) -> Order {
    Order {
        spec,
        mark: Mark {
            manager: ManagerId::random(),
            machine: MachineId::random(),
            token: ClientToken::random(),
        },
        purchase,
        ssh: None,
    }
}

/// One on demand, of a type.
pub(crate) fn plain() -> Order {
    order(
        spec(r#"{ "instance_type": "t3.micro" }"#),
        Purchase::OnDemand,
    )
}

pub(crate) fn spot(types: &[&str], fallback: bool) -> Purchase {
    Purchase::Spot {
        types: types.iter().map(|&kind| kind.to_owned()).collect(),
        fallback,
    }
}

pub(crate) fn seed() -> SshSeed {
    SshSeed {
        user: "builder".to_owned(),
        authorized_keys: vec!["ssh-ed25519 AAAAexample manager".to_owned()],
        host_private: Secret::new("-----BEGIN OPENSSH PRIVATE KEY-----\nnobody\n".to_owned()),
        host_public: "ssh-ed25519 AAAAexample host".to_owned(),
    }
}

pub(crate) fn owned(described: &Described) -> Owned {
    Owned {
        resource: described.resource.clone(),
        mark: described.mark.clone(),
    }
}

/// An error with all its causes.
pub(crate) fn text(error: &ProviderError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Looks until a machine is as wanted.
pub(crate) async fn wait(provider: &AwsProvider, machine: &Owned, wanted: State) -> Described {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let described = provider
            .describe(machine)
            .await
            .map_err(|error| text(&error));
        if let Ok(Some(described)) = &described
            && described.state == wanted
        {
            return described.clone();
        }
        assert!(Instant::now() < deadline, "{described:?} is not {wanted}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A machine that runs.
pub(crate) async fn running(provider: &AwsProvider, order: &Order) -> Described {
    let made = provider
        .provision(order)
        .await
        .map_err(|error| text(&error));
    let made = made.expect("the machine is made");
    wait(provider, &owned(&made), State::Running).await
}
