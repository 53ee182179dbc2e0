//! Holding a machine, so that it is not put away while it is used.

use std::time::Duration;

use muster_machine_api::v1;
use tokio::task::JoinHandle;
use tonic::{Code, Streaming};

use super::client::Manager;
use crate::call::CallError;

/// How long is waited before a manager that went away is asked again, at first and at most.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// As long as it lives, its machine is in use, also for a manager that has died and come back meanwhile.
#[derive(Debug)]
pub(super) struct Held(JoinHandle<()>);

impl Held {
    /// Holds a machine.
    ///
    /// # Errors
    /// The manager does not let it be held.
    pub(super) async fn begin(
        manager: &Manager,
        request: v1::HoldRequest,
    ) -> Result<Self, CallError> {
        let held = hold(manager, &request).await?;
        Ok(Self(tokio::spawn(keep(manager.clone(), request, held))))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn hold(
    manager: &Manager,
    request: &v1::HoldRequest,
) -> Result<Streaming<v1::Held>, CallError> {
    let request = request.clone();
    let held = manager.ask("Hold", async |mut it| it.hold(request).await);
    held.await
}

/// Holds it again whenever the manager has let it go: that one was started anew, and knows of nobody. A machine that is gone is
/// held no more.
async fn keep(manager: Manager, request: v1::HoldRequest, mut held: Streaming<v1::Held>) {
    let mut wait = FIRST;
    loop {
        while let Ok(Some(v1::Held {})) = held.message().await {
            wait = FIRST;
        }
        held = loop {
            tokio::time::sleep(wait).await;
            wait = (2 * wait).min(LONGEST);
            match hold(&manager, &request).await {
                Ok(held) => break held,
                Err(CallError::Refused { source, .. }) if source.code() == Code::NotFound => return,
                // Nobody is there yet, or whoever is there is not ready.
                Err(_) => {}
            }
        };
    }
}
