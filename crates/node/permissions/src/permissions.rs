//! The registrations: one row each, and what is done with them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_api::domain::InstanceIdent;
use muster_api::iamanager::v6 as wire;
use muster_durable::key_file::KeyFileError;
use muster_store::rusqlite::{self, Connection, OptionalExtension};
use muster_store::{Abort, AttemptError, Store, StoreError};
use prost::Message;
use subtle::ConstantTimeEq;
use tracing::warn;

use crate::error::{LookUpError, RegisterError, UnregisterError};
use crate::fault;
use crate::grants::{Grants, Limits, OverLimit};
use crate::key_file;
use crate::secret::{self, NodeKey, Secret, SecretHash};

/// What the holder of a secret may do at one functional server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whose secret it is.
    pub instance: InstanceIdent,
    /// By the server's name for a permission, how it is allowed.
    pub permissions: BTreeMap<String, String>,
}

impl From<Granted> for wire::PermissionsResponse {
    fn from(granted: Granted) -> Self {
        Self {
            instance: Some(granted.instance.into()),
            permissions: Some(wire::Permissions {
                permissions: granted.permissions,
            }),
        }
    }
}

/// What is registered on this node. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct Permissions {
    store: Store,
    key: Arc<NodeKey>,
    limits: Limits,
}

impl Permissions {
    /// Over a store that was opened with [`SCHEMA`](crate::SCHEMA). The key is read from `key_file`,
    /// or made there once. Blocks on the disk.
    ///
    /// # Errors
    /// When the key cannot be read, is none, or others can read it.
    pub fn open(store: Store, key_file: &Path, limits: Limits) -> Result<Self, KeyFileError> {
        let key = Arc::new(key_file::open(key_file)?);
        Ok(Self { store, key, limits })
    }

    /// Keeps what an instance may do, instead of what was kept before, and gives its secret: a new
    /// one, or the same as before if the instance is registered.
    ///
    /// # Errors
    /// When a limit is reached or the registration cannot be kept; then all stays as it was.
    pub async fn register(
        &self,
        instance: &InstanceIdent,
        grants: &Grants,
    ) -> Result<Secret, RegisterError> {
        let over_limit = |source| RegisterError::OverLimit {
            instance: instance.to_string(),
            source,
        };
        let registration = self.encode(instance, grants).map_err(over_limit)?;
        let nonce = secret::random().map_err(|source| RegisterError::Randomness {
            instance: instance.to_string(),
            source,
        })?;
        let (key, most, owner) = (
            Arc::clone(&self.key),
            self.limits.instances,
            instance.clone(),
        );
        let work = move |db: &Connection| match kept_secret(db, &key, &owner)? {
            Some(secret) => {
                replace(db, &owner, &registration)?;
                Ok(secret)
            }
            None => {
                let secret = key.secret(nonce.as_slice(), &owner);
                insert(db, &owner, nonce.as_slice(), &secret, &registration, most)?;
                Ok(secret)
            }
        };
        let secret = self
            .store
            .attempt(work)
            .await
            .map_err(|error| match error {
                AttemptError::Refused(limit) => over_limit(limit),
                AttemptError::Store(source) => RegisterError::Store {
                    instance: instance.to_string(),
                    source,
                },
            })?;
        muster_fault::hit(fault::REGISTERED);
        Ok(secret)
    }

    /// Whose secret this is, and what its holder may do at a functional server.
    ///
    /// # Errors
    /// When the secret is nobody's, or its holder has no permissions there.
    pub async fn look_up(&self, secret: &str, server: &str) -> Result<Granted, LookUpError> {
        let hash = SecretHash::of(secret);
        let row = self.store.read(move |db| find(db, hash)).await;
        let Some(row) = row.map_err(LookUpError::Store)? else {
            return Err(LookUpError::UnknownSecret);
        };
        if !bool::from(row.secret_hash.as_slice().ct_eq(hash.as_bytes())) {
            return Err(LookUpError::UnknownSecret);
        }
        let registration = wire::RegisterInstanceRequest::decode(row.registration.as_slice()).ok();
        let instance = registration
            .as_ref()
            .and_then(|registration| registration.instance.clone())
            .and_then(|instance| InstanceIdent::try_from(instance).ok());
        let (Some(mut registration), Some(instance)) = (registration, instance) else {
            return Err(LookUpError::Unreadable {
                instance: row.ident,
            });
        };
        match registration.permissions.remove(server) {
            Some(granted) => Ok(Granted {
                instance,
                permissions: granted.permissions,
            }),
            None => Err(LookUpError::NotGranted {
                instance: row.ident,
                server: server.chars().take(128).collect(),
            }),
        }
    }

    /// Makes an instance's secret worthless. Tells whether there was one.
    ///
    /// # Errors
    /// When the store fails; the secret then stays valid.
    pub async fn unregister(&self, instance: &InstanceIdent) -> Result<bool, UnregisterError> {
        let ident = instance.to_string();
        let sql = "DELETE FROM permissions_instances WHERE ident = ?1";
        let work = move |db: &Connection| db.execute(sql, [ident]);
        let removed = self.store.write(work).await;
        let removed = removed.map_err(|source| UnregisterError {
            instance: instance.to_string(),
            source,
        })?;
        muster_fault::hit(fault::UNREGISTERED);
        Ok(removed > 0)
    }

    /// Makes every secret worthless: the node is to belong to somebody else.
    ///
    /// # Errors
    /// When the store fails; the secrets then stay valid.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let work = |db: &Connection| db.execute("DELETE FROM permissions_instances", []);
        self.store.write(work).await.map(drop)
    }

    fn encode(&self, instance: &InstanceIdent, grants: &Grants) -> Result<Vec<u8>, OverLimit> {
        let (servers, limit) = (grants.servers().len(), self.limits.servers);
        if servers > limit {
            return Err(OverLimit::Servers { servers, limit });
        }
        let registration = wire::RegisterInstanceRequest {
            instance: Some(instance.clone().into()),
            permissions: grants.to_wire(),
        };
        let (bytes, limit) = (registration.encoded_len(), self.limits.registration_bytes);
        if bytes > limit {
            return Err(OverLimit::Bytes { bytes, limit });
        }
        Ok(registration.encode_to_vec())
    }
}

/// The secret that an instance has, made again. None when the instance is not registered, and also
/// when the key is another than the one its secret was made with.
fn kept_secret(
    db: &Connection,
    key: &NodeKey,
    instance: &InstanceIdent,
) -> rusqlite::Result<Option<Secret>> {
    let sql = "SELECT nonce, secret_hash FROM permissions_instances WHERE ident = ?1";
    let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let kept: Option<(Vec<u8>, Vec<u8>)> = db
        .query_row(sql, [instance.to_string()], columns)
        .optional()?;
    let Some((nonce, secret_hash)) = kept else {
        return Ok(None);
    };
    let secret = key.secret(&nonce, instance);
    if bool::from(secret.hash().as_bytes().ct_eq(&secret_hash)) {
        return Ok(Some(secret));
    }
    warn!(
        %instance,
        "the key of instances' secrets is another one than before; the instance gets a new secret"
    );
    Ok(None)
}

fn replace(db: &Connection, instance: &InstanceIdent, registration: &[u8]) -> rusqlite::Result<()> {
    let sql = "UPDATE permissions_instances SET registration = ?2
               WHERE ident = ?1 AND registration <> ?2";
    db.execute(sql, (instance.to_string(), registration))?;
    Ok(())
}

fn insert(
    db: &Connection,
    instance: &InstanceIdent,
    nonce: &[u8],
    secret: &Secret,
    registration: &[u8],
    most: u64,
) -> Result<(), Abort<OverLimit>> {
    let sql = "INSERT OR REPLACE INTO permissions_instances
               (ident, nonce, secret_hash, registration) VALUES (?1, ?2, ?3, ?4)";
    let hash = secret.hash();
    db.execute(
        sql,
        (instance.to_string(), nonce, hash.as_bytes(), registration),
    )?;
    let count = "SELECT count(*) FROM permissions_instances";
    let count: i64 = db.query_row(count, [], |row| row.get(0))?;
    if u64::try_from(count).unwrap_or(u64::MAX) > most {
        // Undone with everything else in this attempt.
        return Err(Abort::Refuse(OverLimit::Instances { limit: most }));
    }
    Ok(())
}

struct Row {
    ident: String,
    secret_hash: Vec<u8>,
    registration: Vec<u8>,
}

fn find(db: &Connection, hash: SecretHash) -> rusqlite::Result<Option<Row>> {
    let sql = "SELECT ident, secret_hash, registration FROM permissions_instances
               WHERE secret_hash = ?1";
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Row {
            ident: row.get(0)?,
            secret_hash: row.get(1)?,
            registration: row.get(2)?,
        })
    };
    db.query_row(sql, [hash.as_bytes()], row).optional()
}
