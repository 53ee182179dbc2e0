//! Permissions of instances, registered with the identity manager.

mod owed;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, InstanceIdent};
use muster_iamclient::{IamCallError, IamClient};
use muster_item::ItemConfig;
use muster_launcher::seams::{Permissions, SeamError};
use muster_runtime::Secret;
use muster_store::Store;
use muster_telemetry::ErrorChain;
use zeroize::Zeroizing;

use self::owed::Owed;
pub(crate) use self::owed::SCHEMA;
use crate::late::Late;

/// Before an identity manager that went away is asked again.
const AGAIN: Duration = Duration::from_secs(15);

/// Registers over the protected port.
///
/// An identity manager that is away does not keep an instance from being stopped: what could not be taken back is written down, and
/// taken back when it is reached, by this daemon or the next. An instance that needs permissions waits for it; no other does.
#[derive(Debug, Clone)]
pub(crate) struct IamPermissions {
    client: Late<IamClient>,
    owed: Arc<Owed>,
}

/// There is nobody to ask.
#[derive(Debug, thiserror::Error)]
#[error("the identity manager has not been reached yet")]
struct NotReachedYet;

impl IamPermissions {
    /// With this client, which must have a protected target, and a store that was opened with [`SCHEMA`].
    pub(crate) fn new(client: Late<IamClient>, store: Store) -> Self {
        Self {
            client,
            owed: Arc::new(Owed::new(store)),
        }
    }

    /// Takes back what an earlier daemon owed, and what this one comes to owe, as soon as there is somebody to ask. Never ends.
    pub(crate) async fn keep_settling(self) {
        loop {
            let client = self.client.get().await;
            match self.settle(&client).await {
                true => self.owed.news.notified().await,
                false => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Takes back what is owed, as far as that goes. Whether nothing is left.
    async fn settle(&self, client: &IamClient) -> bool {
        let Ok(owed) = self.owed.all().await else {
            return false;
        };
        let mut is_all = true;
        for instance in owed {
            let turn = self.owed.turn.lock().await;
            if turn.contains(&instance) {
                is_all = false;
                continue;
            }
            let still = self.owed.all().await;
            if still.is_ok_and(|still| !still.contains(&instance)) {
                // It has come back meanwhile.
                continue;
            }
            let taken_back = take_back(client, &instance).await;
            if taken_back.is_err() || self.owed.remove(&instance).await.is_err() {
                return false;
            }
        }
        is_all
    }

    async fn owe(&self, instance: &InstanceIdent) -> Result<(), SeamError> {
        let owed = self.owed.add(instance).await;
        owed.map_err(|error| SeamError::new(AosCode::Failed, error))
    }
}

/// Fails only where there is nobody to ask. Who refuses would refuse again: of managers that keep what they gave in memory alone, an
/// instance outlives what it was given, and nothing is left to take back.
async fn take_back(client: &IamClient, instance: &InstanceIdent) -> Result<(), IamCallError> {
    match client.unregister_instance(instance).await {
        Err(error) if !error.is_unreachable() => {
            tracing::warn!(%instance, error = %ErrorChain(&error), "its permissions cannot be taken back");
            Ok(())
        }
        answer => answer,
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
            self.owed.turn.lock().await.insert(instance.clone());
            let secret = client.register_instance(instance, &item.permissions).await;
            let removed = match secret.is_ok() {
                true => self.owed.remove(instance).await,
                // A manager that is away is asked again and again, and what is owed need not come and go with that.
                false => Ok(()),
            };
            self.owed.turn.lock().await.remove(instance);
            self.settle(&client).await;
            removed.map_err(|error| SeamError::new(AosCode::Failed, error))?;
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
        item: Option<&'a ItemConfig>,
    ) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async move {
            if item.is_some_and(|item| item.permissions.is_empty()) {
                // It never had any.
                return Ok(());
            }
            let Some(client) = self.client.now() else {
                return self.owe(instance).await;
            };
            match take_back(&client, instance).await {
                Ok(()) => {
                    self.settle(&client).await;
                    Ok(())
                }
                Err(error) => {
                    tracing::warn!(%instance, error = %ErrorChain(&error), "its permissions are taken back later");
                    self.owe(instance).await
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use muster_api::domain::ItemType;
    use muster_store::{OnDamage, StoreConfig};

    use super::*;

    #[tokio::test]
    async fn what_is_owed_stays_owed_while_the_identity_manager_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
        let instance = InstanceIdent {
            item_id: "item".parse().unwrap(),
            subject_id: "subject".parse().unwrap(),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        };
        let rights = BTreeMap::from([("speed".to_owned(), "r".to_owned())]);
        let item = ItemConfig {
            permissions: BTreeMap::from([("vis".to_owned(), rights)]),
            ..ItemConfig::default()
        };
        let away = IamClient::local(folder.path().join("nobody"));
        let permissions = IamPermissions::new(Late::ready(away), store);
        // As the launcher does it, time and again.
        for _ in 0..2 {
            let refused = permissions.register(&instance, &item).await.unwrap_err();
            assert!(refused.will_pass, "{refused:?}");
            permissions
                .unregister(&instance, Some(&item))
                .await
                .unwrap();
        }
        let refused = permissions.register(&instance, &item).await;
        assert!(refused.is_err());
        let owed = permissions.owed.all().await.unwrap();
        assert_eq!(owed, BTreeSet::from([instance]), "it was not taken off");
        assert!(permissions.owed.turn.lock().await.is_empty());
    }
}
