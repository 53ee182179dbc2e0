//! What is wrong, and what to do.

mod passage;

use std::time::Duration;

use futures_util::future::join_all;
use muster_lifecycle::State;
use muster_machine_api::v1;
use muster_provider::{Isolation, ProviderId};
use muster_telemetry::ErrorChain;

use crate::desk::Desk;
use crate::providers::Enabled;

/// A provider that takes longer than this is not well.
const PATIENCE: Duration = Duration::from_secs(10);

fn check(id: &str, health: v1::Health, message: String, advice: &str) -> v1::Check {
    v1::Check {
        id: id.to_owned(),
        health: health.into(),
        message,
        advice: advice.to_owned(),
    }
}

/// Looks at everything that machines need.
pub(super) async fn checks(desk: &Desk) -> Vec<v1::Check> {
    let parts = desk.parts();
    let mut checks = vec![descriptions(desk).await];
    if parts.providers.is_empty() && parts.unusable.is_empty() {
        let advice =
            "start an engine of Docker, or name a provider under `providers` of the configuration";
        let said = "there is no provider".to_owned();
        checks.push(check("providers", v1::Health::Error, said, advice));
    }
    let unusable = parts.unusable.iter().map(|it| {
        let id = format!("provider-{}", it.id);
        check(&id, v1::Health::Error, it.why.clone(), "")
    });
    checks.extend(unusable);
    let disks = parts.providers.iter().filter_map(|it| it.disks.as_deref());
    checks.extend(disks.map(passage::check_disks));
    let asked = parts.providers.iter().map(|it| provider(desk, it));
    checks.extend(join_all(asked).await);
    checks.extend(nodes(desk));
    checks
}

/// Machines that are gone, and that their Unit still takes for nodes.
fn nodes(desk: &Desk) -> Option<v1::Check> {
    let all = desk.machines().all();
    let gone: Vec<&str> = all
        .values()
        .map(|machine| machine.record())
        .filter(|record| record.unit.is_some() && record.state() == State::Terminated)
        .map(|record| record.id.as_str())
        .collect();
    let first = gone.first()?;
    let message = format!("Units still know nodes that are gone: {}", gone.join(", "));
    let advice = format!("`muster machine leave {first}` takes one out of its Unit");
    Some(check("nodes", v1::Health::Warning, message, &advice))
}

async fn descriptions(desk: &Desk) -> v1::Check {
    let id = "descriptions";
    match desk.catalog().await {
        Ok(catalog) => {
            let message = format!("{} templates", catalog.templates().len());
            check(id, v1::Health::Ok, message, "")
        }
        Err(error) => {
            let advice = "mend the file; what was read before is not used";
            check(
                id,
                v1::Health::Error,
                ErrorChain(&error).to_string(),
                advice,
            )
        }
    }
}

async fn provider(desk: &Desk, enabled: &Enabled) -> v1::Check {
    let profile = &enabled.offer.profile;
    let id = format!("provider-{}", profile.id);
    let listed = enabled.provider.list(&desk.parts().manager);
    match tokio::time::timeout(PATIENCE, listed).await {
        Ok(Ok(_)) => match profile.isolation {
            Isolation::Isolated => {
                let message = format!("it answers at {}", enabled.endpoint);
                check(&id, v1::Health::Ok, message, "")
            }
            Isolation::Insecure(why) => {
                let advice = "use it for what you would run here yourself; it is never chosen unless it is named";
                check(&id, v1::Health::Warning, why.to_owned(), advice)
            }
        },
        Ok(Err(error)) => {
            let message = ErrorChain(&error).to_string();
            check(&id, v1::Health::Error, message, advice(profile.id))
        }
        Err(_) => {
            let message = format!("it did not answer within {} s", PATIENCE.as_secs());
            check(&id, v1::Health::Error, message, advice(profile.id))
        }
    }
}

const fn advice(provider: ProviderId) -> &'static str {
    match provider {
        ProviderId::Docker => {
            "is the engine running, and may you use its socket (group docker)? another one is named by `providers.docker.endpoint`"
        }
        ProviderId::Libvirt => {
            "is libvirtd running, and may you use it (group libvirt)? another one is named by `providers.libvirt.uri`"
        }
        ProviderId::Aws => {
            "are there credentials (environment, ~/.aws, or the machine's role), and a region under `providers.aws.region`?"
        }
        ProviderId::Local | ProviderId::Sim => "this should not happen; the log tells more",
    }
}
