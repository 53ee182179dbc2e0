//! Permissions of instances, registered with the identity manager.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, InstanceIdent};
use muster_iamclient::IamClient;
use muster_item::ItemConfig;
use muster_launcher::seams::{Permissions, SeamError};
use muster_runtime::Secret;
use muster_telemetry::ErrorChain;
use zeroize::Zeroizing;

use crate::late::Late;

/// Registers over the protected port.
///
/// An identity manager that is away does not keep an instance from being stopped: what could not be taken back is taken back at
/// the next call that reaches it. An instance that needs permissions waits for it; no other does.
#[derive(Debug)]
pub(crate) struct IamPermissions {
    client: Late<IamClient>,
    owed: Mutex<BTreeSet<InstanceIdent>>,
}

/// There is nobody to ask.
#[derive(Debug, thiserror::Error)]
#[error("the identity manager has not been reached yet")]
struct NotReachedYet;

impl IamPermissions {
    /// With this client, which must have a protected target.
    pub(crate) fn new(client: Late<IamClient>) -> Self {
        Self {
            client,
            owed: Mutex::default(),
        }
    }

    fn owed(&self) -> MutexGuard<'_, BTreeSet<InstanceIdent>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back what is owed, as far as that goes.
    async fn settle(&self, client: &IamClient) {
        let owed: Vec<InstanceIdent> = self.owed().iter().cloned().collect();
        for instance in owed {
            if client.unregister_instance(&instance).await.is_err() {
                return;
            }
            self.owed().remove(&instance);
        }
    }
}

impl Permissions for IamPermissions {
    fn register<'a>(
        &'a self,
        instance: &'a InstanceIdent,
        item: &'a ItemConfig,
    ) -> BoxFuture<'a, Result<Option<Secret>, SeamError>> {
        Box::pin(async move {
            if item.permissions.is_empty() {
                return Ok(None);
            }
            let client = self.client.now();
            let client = client.ok_or_else(|| SeamError::not_yet(NotReachedYet))?;
            self.owed().remove(instance);
            let secret = client.register_instance(instance, &item.permissions).await;
            self.settle(&client).await;
            let secret = secret.map_err(|error| match error.is_unreachable() {
                true => SeamError::not_yet(error),
                false => SeamError::new(AosCode::Failed, error),
            })?;
            Ok(Some(Secret(Zeroizing::new(secret.expose().to_owned()))))
        })
    }

    fn unregister<'a>(
        &'a self,
        instance: &'a InstanceIdent,
    ) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async move {
            let Some(client) = self.client.now() else {
                self.owed().insert(instance.clone());
                return Ok(());
            };
            match client.unregister_instance(instance).await {
                Ok(()) => self.settle(&client).await,
                Err(error) if error.is_unreachable() => {
                    tracing::warn!(%instance, error = %ErrorChain(&error), "its permissions are taken back later");
                    self.owed().insert(instance.clone());
                }
                Err(error) => return Err(SeamError::new(AosCode::Failed, error)),
            }
            Ok(())
        })
    }
}
