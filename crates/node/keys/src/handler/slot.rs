//! One certificate type: the only place that changes its keys, certificates and index.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::sign::SigningKey;
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tracing::{info, warn};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{ApplyCertError, CreateKeyError, KeyStoreError};
use crate::chain;
use crate::clock::now;
use crate::config::ModuleConfig;
use crate::faults;
use crate::index::IndexFile;
use crate::info::CertInfo;
use crate::module::KeyModule;
use crate::names::KeyId;
use crate::reconcile::{Finding, Index, reconcile};
use crate::request::{Csr, CsrSubject, Wanted, is_kind};

/// A certificate that the store has.
#[derive(Debug, Clone)]
struct Stored {
    info: CertInfo,
    /// SubjectPublicKeyInfo.
    public: Vec<u8>,
    /// Tells two chains for one key apart.
    digest: [u8; 32],
    self_signed: bool,
}

/// What is known while the store is open.
#[derive(Debug)]
struct State {
    index: Index,
    certs: BTreeMap<KeyId, Stored>,
}

/// One certificate type.
#[derive(Debug)]
pub(super) struct Slot {
    config: ModuleConfig,
    module: Box<dyn KeyModule>,
    file: IndexFile,
    /// None until the store was opened, and again after anything failed: what the store really has is
    /// then looked at anew.
    state: Mutex<Option<State>>,
    newest: watch::Sender<Option<CertInfo>>,
}

/// The state of one call. Unless the call succeeds, nothing is taken for known afterwards.
struct Open<'a> {
    slot: &'a Slot,
    guard: MutexGuard<'a, Option<State>>,
    state: State,
}

impl Open<'_> {
    fn keep(mut self) {
        *self.guard = Some(self.state);
    }
}

impl Slot {
    pub(super) fn new(config: ModuleConfig, module: Box<dyn KeyModule>, folder: &Path) -> Self {
        Self {
            file: IndexFile::new(folder, &config.cert_type),
            config,
            module,
            state: Mutex::new(None),
            newest: watch::Sender::new(None),
        }
    }

    pub(super) fn config(&self) -> &ModuleConfig {
        &self.config
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Option<CertInfo>> {
        self.newest.subscribe()
    }

    pub(super) fn open_or_warn(&self) {
        match self.open() {
            Ok(open) => {
                for stored in open.state.certs.values() {
                    let info = &stored.info;
                    if !info.is_valid_at(now()) {
                        warn!(
                            cert_type = %info.cert_type,
                            serial = info.serial_hex(),
                            not_before = info.not_before,
                            not_after = info.not_after,
                            "a certificate is outside its validity and peers will refuse it"
                        );
                    }
                }
                open.keep();
            }
            Err(error) => warn!(
                cert_type = %self.config.cert_type,
                error = &error as &dyn StdError,
                "a key store cannot be opened now, it is opened when it is used"
            ),
        }
    }

    pub(super) fn set_owner(&self, password: &str) -> Result<(), KeyStoreError> {
        let mut guard = self.lock();
        *guard = None;
        self.module
            .set_owner(password)
            .map_err(KeyStoreError::module)?;
        drop(guard);
        self.open()?.keep();
        Ok(())
    }

    pub(super) fn clear(&self) -> Result<(), KeyStoreError> {
        let mut guard = self.lock();
        *guard = None;
        self.module.clear().map_err(KeyStoreError::module)?;
        muster_fault::hit(faults::CLEARED);
        self.file.remove().map_err(KeyStoreError::Index)?;
        self.newest.send_replace(None);
        Ok(())
    }

    pub(super) fn create_key(&self, subject: &CsrSubject) -> Result<Csr, CreateKeyError> {
        let cert_type = || self.config.cert_type.clone();
        self.expect_self_signed(false)?;
        let wanted = self.wanted(subject)?;
        let store = |source| CreateKeyError::Store {
            cert_type: cert_type(),
            source,
        };
        let mut open = self.open().map_err(store)?;
        let (id, key) = open.pending_key(&wanted).map_err(store)?;
        let request = open.state.index.pending.as_mut();
        let request = request.and_then(|pending| pending.request.as_mut());
        if let Some(csr) = request.as_ref().and_then(|request| request.csr.clone()) {
            open.keep();
            return Ok(Csr::from_pem(csr));
        }
        let csr = wanted
            .sign(&key)
            .map_err(|source| CreateKeyError::Request {
                cert_type: cert_type(),
                source,
            })?;
        if let Some(request) = request {
            request.csr = Some(csr.as_pem().to_owned());
        }
        open.save().map_err(store)?;
        muster_fault::hit(faults::REQUEST_RECORDED);
        open.keep();
        info!(cert_type = %self.config.cert_type, key = %id, "key made, waiting for its certificate");
        Ok(csr)
    }

    pub(super) fn apply_cert(&self, chain_pem: &str) -> Result<CertInfo, ApplyCertError> {
        let store = |source| ApplyCertError::Store {
            cert_type: self.config.cert_type.clone(),
            source,
        };
        let mut open = self.open().map_err(store)?;
        let keys = open.public_keys().map_err(store)?;
        let checked = match chain::check(chain_pem, &keys, &self.config.purposes, now()) {
            Ok(checked) => checked,
            Err(source) => {
                // A bad certificate says nothing about the store.
                open.keep();
                return Err(ApplyCertError::Refused {
                    cert_type: self.config.cert_type.clone(),
                    source,
                });
            }
        };
        let info = open.install(checked.id, &checked.chain).map_err(store)?;
        open.keep();
        Ok(info)
    }

    pub(super) fn create_self_signed(&self) -> Result<CertInfo, CreateKeyError> {
        self.expect_self_signed(true)?;
        let wanted = self.wanted(&CsrSubject::new(self.config.cert_type.as_str()))?;
        let store = |source| CreateKeyError::Store {
            cert_type: self.config.cert_type.clone(),
            source,
        };
        let mut open = self.open().map_err(store)?;
        if let Some(stored) = open.state.newest().filter(|stored| stored.self_signed) {
            let info = stored.info.clone();
            open.keep();
            return Ok(info);
        }
        let (id, key) = open.pending_key(&wanted).map_err(store)?;
        let cert = wanted
            .self_sign(&key)
            .map_err(|source| CreateKeyError::Request {
                cert_type: self.config.cert_type.clone(),
                source,
            })?;
        let info = open.install(id, &[cert]).map_err(store)?;
        open.keep();
        Ok(info)
    }

    pub(super) fn find(
        &self,
        issuer: Option<&[u8]>,
        serial: Option<&str>,
    ) -> Result<Option<CertInfo>, KeyStoreError> {
        let open = self.open()?;
        let state = &open.state;
        let newest_first = state.index.order.iter().rev();
        let found = newest_first
            .filter_map(|id| state.certs.get(id))
            .map(|stored| &stored.info)
            .find(|info| {
                issuer.is_none_or(|issuer| info.issuer == issuer)
                    && serial.is_none_or(|serial| info.has_serial(serial))
            })
            .cloned();
        open.keep();
        Ok(found)
    }

    fn expect_self_signed(&self, expected: bool) -> Result<(), CreateKeyError> {
        let self_signed = self.config.self_signed;
        if self_signed == expected {
            return Ok(());
        }
        Err(CreateKeyError::WrongKind {
            cert_type: self.config.cert_type.clone(),
            self_signed,
        })
    }

    fn wanted(&self, subject: &CsrSubject) -> Result<Wanted, CreateKeyError> {
        Wanted::new(&self.config, subject).map_err(|source| CreateKeyError::Request {
            cert_type: self.config.cert_type.clone(),
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // Whatever panicked may have left the state half changed; the store knows better.
            self.state.clear_poison();
            let mut guard = poisoned.into_inner();
            *guard = None;
            guard
        })
    }

    /// Takes the state, and reads it from the store first where it is not known.
    fn open(&self) -> Result<Open<'_>, KeyStoreError> {
        let mut guard = self.lock();
        if let Some(state) = guard.take() {
            let slot = self;
            return Ok(Open { slot, guard, state });
        }
        let contents = self.module.contents().map_err(KeyStoreError::module)?;
        let recorded = self.file.load().map_err(KeyStoreError::Index)?;
        let mut certs = BTreeMap::new();
        for (id, chain) in &contents.certs {
            // What cannot be read is no certificate; its key is one without.
            if let Some(stored) = self.stored(*id, chain) {
                certs.insert(*id, stored);
            }
        }
        let times = certs
            .iter()
            .map(|(id, stored)| (*id, stored.info.not_before))
            .collect();
        let max_items = self.config.max_items;
        let (index, findings) = reconcile(recorded.clone(), &contents.keys, &times, max_items);
        self.report(&findings);
        let changed = recorded.as_ref() != Some(&index) && index != Index::default();
        let slot = self;
        let state = State { index, certs };
        let mut open = Open { slot, guard, state };
        if changed {
            open.save()?;
        }
        open.sweep()?;
        open.publish();
        Ok(open)
    }

    fn report(&self, findings: &[Finding]) {
        let cert_type = &self.config.cert_type;
        for finding in findings {
            match finding {
                Finding::Adopted(key) => {
                    info!(%cert_type, %key, "a certificate that was not in the index is used");
                }
                Finding::CertWithoutKey(key) => {
                    warn!(%cert_type, %key, "a certificate has no key and is removed");
                }
                Finding::StrayKey(key) => {
                    warn!(%cert_type, %key, "a key without a certificate is not needed and is removed");
                }
                Finding::CertGone(key) => {
                    warn!(%cert_type, %key, "a certificate is gone from its store");
                }
            }
        }
    }

    fn stored(&self, id: KeyId, chain: &[CertificateDer<'static>]) -> Option<Stored> {
        let leaf = chain.first()?;
        let (_, cert) = X509Certificate::from_der(leaf).ok()?;
        let serial = cert.raw_serial();
        let zeros = serial.iter().take_while(|byte| **byte == 0).count();
        let mut digest = Sha256::new();
        for der in chain {
            digest.update(der);
        }
        Some(Stored {
            info: CertInfo {
                cert_type: self.config.cert_type.clone(),
                cert_url: self.module.cert_url(id),
                key_url: self.module.key_url(id),
                serial: serial[zeros..].to_vec(),
                issuer: cert.issuer().as_raw().to_vec(),
                not_before: cert.validity().not_before.timestamp(),
                not_after: cert.validity().not_after.timestamp(),
            },
            public: cert.public_key().raw.to_vec(),
            digest: digest.finalize().into(),
            self_signed: cert.verify_signature(None).is_ok(),
        })
    }
}

impl State {
    fn newest(&self) -> Option<&Stored> {
        self.index.order.last().and_then(|id| self.certs.get(id))
    }
}

impl Open<'_> {
    fn save(&self) -> Result<(), KeyStoreError> {
        let file = &self.slot.file;
        file.save(&self.state.index).map_err(KeyStoreError::Index)
    }

    /// Removes what the index lists for removal, certificates before their keys.
    fn sweep(&mut self) -> Result<(), KeyStoreError> {
        if self.state.index.dropping.is_empty() {
            return Ok(());
        }
        let module = &self.slot.module;
        for &id in &self.state.index.dropping {
            module.remove_cert(id).map_err(KeyStoreError::module)?;
            muster_fault::hit(faults::CERT_REMOVED);
            module.remove_key(id).map_err(KeyStoreError::module)?;
            muster_fault::hit(faults::KEY_REMOVED);
            self.state.certs.remove(&id);
        }
        self.state.index.dropping.clear();
        self.save()
    }

    /// The waiting key for this request, made if there is none.
    fn pending_key(
        &mut self,
        wanted: &Wanted,
    ) -> Result<(KeyId, Arc<dyn SigningKey>), KeyStoreError> {
        let module = &self.slot.module;
        let algorithm = self.slot.config.algorithm;
        let mut reusable = None;
        if let Some(pending) = &mut self.state.index.pending {
            match &pending.request {
                Some(request) if request.wanted != *wanted => {}
                Some(_) => reusable = Some(pending.id),
                None => {
                    // What it was made for is not known, so it may as well be for this.
                    let request = crate::reconcile::Request {
                        wanted: wanted.clone(),
                        csr: None,
                    };
                    pending.request = Some(request);
                    reusable = Some(pending.id);
                }
            }
        }
        if let Some(id) = reusable {
            let key = module.key(id).map_err(KeyStoreError::module)?;
            if let Some(key) = key.filter(|key| is_kind(key, algorithm)) {
                return Ok((id, key));
            }
        }
        let id = KeyId::random().map_err(KeyStoreError::Random)?;
        self.state.index.supersede_pending(id, wanted.clone());
        self.save()?;
        muster_fault::hit(faults::PENDING_RECORDED);
        // Before the new key is made: a token may have room for just one.
        self.sweep()?;
        let key = module
            .create_key(id, algorithm)
            .map_err(KeyStoreError::module)?;
        muster_fault::hit(faults::KEY_MADE);
        Ok((id, key))
    }

    /// The keys that a certificate may be for, as SubjectPublicKeyInfo; the waiting one first.
    fn public_keys(&self) -> Result<Vec<(KeyId, Vec<u8>)>, KeyStoreError> {
        let mut keys = Vec::new();
        if let Some(pending) = &self.state.index.pending {
            let key = self.slot.module.key(pending.id);
            let key = key.map_err(KeyStoreError::module)?;
            let public = key.and_then(|key| Some(key.public_key()?.to_vec()));
            keys.extend(public.map(|public| (pending.id, public)));
        }
        let certs = self.state.certs.iter();
        keys.extend(certs.map(|(id, stored)| (*id, stored.public.clone())));
        Ok(keys)
    }

    /// Keeps a certificate as the newest one, then makes room.
    fn install(
        &mut self,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<CertInfo, KeyStoreError> {
        let stored = self.slot.stored(id, chain);
        let stored = stored.expect("a chain that was checked or made here has a readable leaf");
        let known = self.state.certs.get(&id);
        if let Some(known) = known.filter(|known| known.digest == stored.digest) {
            return Ok(known.info.clone());
        }
        let module = &self.slot.module;
        module
            .store_cert(id, chain)
            .map_err(KeyStoreError::module)?;
        muster_fault::hit(faults::CERT_STORED);
        let info = stored.info.clone();
        self.state.certs.insert(id, stored);
        self.state.index.add_newest(id, self.slot.config.max_items);
        self.save()?;
        muster_fault::hit(faults::CERT_RECORDED);
        self.publish();
        info!(
            cert_type = %info.cert_type,
            serial = info.serial_hex(),
            not_after = info.not_after,
            "certificate applied"
        );
        self.sweep()?;
        Ok(info)
    }

    /// Tells subscribers, if the newest certificate is another one.
    fn publish(&self) {
        let newest = self.state.newest().map(|stored| stored.info.clone());
        self.slot.newest.send_if_modified(|told| {
            let changed = *told != newest;
            *told = newest;
            changed
        });
    }
}
