//! A certificate type's part of a token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cryptoki::error::Error;
use cryptoki::object::ObjectClass;
use cryptoki::session::Session;
use rustls::sign::SigningKey;
use rustls_pki_types::CertificateDer;

use super::TokenError;
use super::library::Library;
use super::lookup;
use super::objects::{self, ObjectName};
use super::owner;
use super::token::{Token, TokenSpec};
use crate::config::TokenConfig;
use crate::faults::ISSUERS_STORED;
use crate::module::{Contents, KeyModule, KeyModuleError};
use crate::names::{CertType, KeyAlgorithm, KeyId};
use crate::url::{PinSource, Pkcs11Uri};

/// Keys and certificates of one type in a PKCS#11 token.
#[derive(Debug)]
pub struct Pkcs11Module {
    config: TokenConfig,
    label: String,
}

const CLASSES: [ObjectClass; 3] = [
    ObjectClass::CERTIFICATE,
    ObjectClass::PRIVATE_KEY,
    ObjectClass::PUBLIC_KEY,
];

impl Pkcs11Module {
    /// Nothing is loaded or opened before it is needed.
    pub fn new(config: TokenConfig, cert_type: &CertType) -> Self {
        let label = cert_type.to_string();
        Self { config, label }
    }

    fn token(&self) -> Result<Arc<Token>, TokenError> {
        let library = Library::load(&self.config.library)?;
        Ok(library.token(TokenSpec::of_config(&self.config)))
    }

    fn all(&self) -> ObjectName {
        ObjectName {
            label: Some(self.label.clone()),
            id: None,
        }
    }

    fn named(&self, id: KeyId) -> ObjectName {
        ObjectName {
            label: Some(self.label.clone()),
            id: Some(id.as_bytes().to_vec()),
        }
    }

    fn url(&self, id: KeyId) -> String {
        let config = &self.config;
        let uri = Pkcs11Uri {
            token: Some(config.label.clone()),
            object: Some(self.label.clone()),
            id: Some(id.as_bytes().to_vec()),
            module_path: config.module_path_in_url.then(|| config.library.clone()),
            pin: Some(PinSource::File(config.pin_file.clone())),
            ..Pkcs11Uri::default()
        };
        uri.to_string()
    }

    /// Ids of the objects of one class, with the objects.
    fn ids(&self, session: &Session, class: ObjectClass) -> Result<Vec<(Vec<u8>, Handle)>, Error> {
        let mut found = Vec::new();
        for object in self.all().find(session, class)? {
            found.push((objects::id_of(session, object)?, object));
        }
        Ok(found)
    }

    fn contents_in(&self, session: &Session) -> Result<Contents, Error> {
        let private = self.ids(session, ObjectClass::PRIVATE_KEY)?;
        let public = self.ids(session, ObjectClass::PUBLIC_KEY)?;
        let halves: BTreeSet<_> = public.iter().filter_map(|(id, _)| key_id(id)).collect();
        let others: BTreeSet<_> = private.iter().filter_map(|(id, _)| key_id(id)).collect();
        let keys: BTreeSet<KeyId> = halves.intersection(&others).copied().collect();
        // A pair of which the process lived to see only one half.
        for (id, object) in private.iter().chain(&public) {
            if key_id(id).is_some_and(|id| !keys.contains(&id)) {
                objects::remove(session, *object)?;
            }
        }
        let stored = self.ids(session, ObjectClass::CERTIFICATE)?;
        let leaves: BTreeSet<KeyId> = stored.iter().filter_map(|(id, _)| key_id(id)).collect();
        // Issuers of a certificate that was not stored in the end.
        for (id, object) in &stored {
            if issuer_of(id).is_some_and(|id| !leaves.contains(&id)) {
                objects::remove(session, *object)?;
            }
        }
        let mut certs = BTreeMap::new();
        for id in leaves {
            certs.extend(lookup::chain_in(session, &self.named(id))?.map(|chain| (id, chain)));
        }
        Ok(Contents { keys, certs })
    }

    /// Removes the objects of a class that `doomed` points out.
    fn remove_where(
        &self,
        session: &Session,
        class: ObjectClass,
        doomed: impl Fn(&[u8]) -> bool,
    ) -> Result<(), Error> {
        for (id, object) in self.ids(session, class)? {
            if doomed(&id) {
                objects::remove(session, object)?;
            }
        }
        Ok(())
    }

    fn store_in(
        &self,
        session: &Session,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<(), Error> {
        let Some((leaf, issuers)) = chain.split_first() else {
            return Err(Error::InvalidValue);
        };
        let before = self.ids(session, ObjectClass::CERTIFICATE)?;
        for (place, issuer) in issuers.iter().enumerate() {
            let place = u8::try_from(place).map_err(|_| Error::InvalidValue)?;
            let issuer_id = [id.as_bytes(), [place].as_slice()].concat();
            objects::put_cert(session, &self.label, &issuer_id, issuer)?;
        }
        muster_fault::hit(ISSUERS_STORED);
        objects::put_cert(session, &self.label, id.as_bytes(), leaf)?;
        // The leaf counts from here on; what the key had before, also from a try that failed, goes.
        for (old, object) in before {
            if key_id(&old) == Some(id) || issuer_of(&old) == Some(id) {
                objects::remove(session, object)?;
            }
        }
        Ok(())
    }
}

type Handle = cryptoki::object::ObjectHandle;

/// The key that an object belongs to, if it is a key or the certificate of one.
fn key_id(id: &[u8]) -> Option<KeyId> {
    id.try_into().ok().map(KeyId::from_bytes)
}

/// The key to whose chain a certificate belongs, if it is an issuer.
fn issuer_of(id: &[u8]) -> Option<KeyId> {
    let (_place, id) = id.split_last()?;
    key_id(id)
}

impl KeyModule for Pkcs11Module {
    fn set_owner(&self, password: &str) -> Result<(), KeyModuleError> {
        let token = self.token()?;
        Ok(owner::take(&token, &self.config, password)?)
    }

    fn clear(&self) -> Result<(), KeyModuleError> {
        let token = self.token()?;
        let cleared = token.with("remove everything of", &self.label, |session| {
            for class in CLASSES {
                self.remove_where(session, class, |_| true)?;
            }
            Ok(())
        });
        match cleared {
            Ok(()) | Err(TokenError::NoToken { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn contents(&self) -> Result<Contents, KeyModuleError> {
        let token = self.token()?;
        Ok(token.with("list the objects of", &self.label, |session| {
            self.contents_in(session)
        })?)
    }

    fn create_key(
        &self,
        id: KeyId,
        algorithm: KeyAlgorithm,
    ) -> Result<Arc<dyn SigningKey>, KeyModuleError> {
        let token = self.token()?;
        token.with("make the key", &self.named(id), |session| {
            objects::make_pair(session, &self.label, id.as_bytes(), algorithm)
        })?;
        match lookup::key(&token, &self.named(id))? {
            Some(key) => Ok(Arc::new(key)),
            None => Err(TokenError::BadObject {
                token: token.name(),
                object: self.named(id).to_string(),
                problem: "the token does not give the public half of a key that it made",
            }
            .into()),
        }
    }

    fn key(&self, id: KeyId) -> Result<Option<Arc<dyn SigningKey>>, KeyModuleError> {
        let key = lookup::key(&self.token()?, &self.named(id))?;
        Ok(key.map(|key| -> Arc<dyn SigningKey> { Arc::new(key) }))
    }

    fn remove_key(&self, id: KeyId) -> Result<(), KeyModuleError> {
        let token = self.token()?;
        let name = self.named(id);
        token.with("remove the key", &name, |session| {
            for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY] {
                for object in name.find(session, class)? {
                    objects::remove(session, object)?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn store_cert(
        &self,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<(), KeyModuleError> {
        let token = self.token()?;
        Ok(
            token.with("store the certificate", &self.named(id), |session| {
                self.store_in(session, id, chain)
            })?,
        )
    }

    fn remove_cert(&self, id: KeyId) -> Result<(), KeyModuleError> {
        let token = self.token()?;
        token.with("remove the certificate", &self.named(id), |session| {
            // The leaf first: without it nobody looks for its issuers.
            let class = ObjectClass::CERTIFICATE;
            self.remove_where(session, class, |found| key_id(found) == Some(id))?;
            self.remove_where(session, class, |found| issuer_of(found) == Some(id))
        })?;
        Ok(())
    }

    fn cert_url(&self, id: KeyId) -> String {
        self.url(id)
    }

    fn key_url(&self, id: KeyId) -> String {
        self.url(id)
    }
}
