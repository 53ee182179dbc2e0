//! SIGHUP: certificates are read again, and changes of the configuration that need a restart are named.

use std::sync::Arc;

use muster_program::Sources;
use muster_telemetry::{ErrorChain, Notifier, Reloads};
use tokio::sync::watch;
use tokio::task;
use tracing::{error, info, warn};

use crate::config::Config;
use crate::config::raw::RawConfig;
use crate::own_cert::InUse;
use crate::program::ABOUT;

/// Serves requests to reload. Nothing that a running stream depends on is changed.
pub(crate) async fn follow(
    sources: Sources,
    running: Arc<Config>,
    certificate: watch::Receiver<Option<InUse>>,
    mut reloads: Reloads,
    notifier: Notifier,
) {
    loop {
        reloads.next().await;
        notifier.reloading();
        let from = sources.clone();
        let read = task::spawn_blocking(move || {
            ABOUT
                .layers::<RawConfig>(from.file.as_deref(), &from.flags)
                .load()
                .and_then(muster_config::Loaded::validate)
        });
        match read.await {
            Ok(Ok(new)) => report(&running.differences(&new)),
            Ok(Err(invalid)) => error!(
                error = %ErrorChain(&invalid),
                "the configuration is not valid, the one in use stays"
            ),
            Err(broken) => error!(error = %broken, "the configuration was not read"),
        }
        let in_use = certificate.borrow().clone();
        if let Some(in_use) = in_use
            && let Err(failed) = in_use.store.reload().await
        {
            warn!(error = %ErrorChain(&failed), "the certificates in use stay");
        }
        notifier.ready();
    }
}

fn report(differences: &[&'static str]) {
    if differences.is_empty() {
        info!("the configuration has not changed");
    } else {
        warn!(
            keys = differences.join(", "),
            "these keys have changed and need a restart to count"
        );
    }
}
