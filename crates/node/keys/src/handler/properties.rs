//! Whatever is asked for, in whatever order, and whichever call of the key module fails: there is never a
//! moment without the newest certificate, and trying again ends well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use muster_lab::pki::{CertSpec, Pki};
use proptest::prelude::*;
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::sign::SigningKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;
use crate::config::RawModuleConfig;
use crate::config::RawModuleParams;
use crate::file_module::FileModuleError;
use crate::module::Contents;
use crate::names::{KeyAlgorithm, KeyId};

/// How a call fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Nothing was done.
    Before,
    /// It was done, and reported as failed.
    After,
}

#[derive(Debug, Default)]
struct Memory {
    keys: BTreeMap<KeyId, Arc<dyn SigningKey>>,
    certs: BTreeMap<KeyId, Vec<CertificateDer<'static>>>,
    /// Calls until the one that fails.
    fault: Option<(u8, Fault)>,
}

/// Keys in memory, which outlive the handler as a disk does.
#[derive(Debug, Clone, Default)]
struct MemoryModule(Arc<Mutex<Memory>>);

impl MemoryModule {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap()
    }

    fn call<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> Result<T, KeyModuleError> {
        let mut memory = self.memory();
        let due = match &mut memory.fault {
            Some((0, fault)) => Some(*fault),
            Some((calls, _)) => {
                *calls -= 1;
                None
            }
            None => None,
        };
        let failed = || {
            KeyModuleError::from(FileModuleError::Read {
                path: "memory".into(),
                source: std::io::ErrorKind::Other.into(),
            })
        };
        if due.is_some() {
            memory.fault = None;
        }
        if let Some(Fault::Before) = due {
            return Err(failed());
        }
        let done = work(&mut memory);
        if due.is_some() {
            Err(failed())
        } else {
            Ok(done)
        }
    }
}

impl KeyModule for MemoryModule {
    fn set_owner(&self, _password: &str) -> Result<(), KeyModuleError> {
        self.call(|_| ())
    }

    fn clear(&self) -> Result<(), KeyModuleError> {
        self.call(|memory| {
            memory.keys.clear();
            memory.certs.clear();
        })
    }

    fn contents(&self) -> Result<Contents, KeyModuleError> {
        self.call(|memory| Contents {
            keys: memory.keys.keys().copied().collect(),
            certs: memory.certs.clone(),
        })
    }

    fn create_key(
        &self,
        id: KeyId,
        _algorithm: KeyAlgorithm,
    ) -> Result<Arc<dyn SigningKey>, KeyModuleError> {
        self.call(|memory| {
            let pair = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
            let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
            let key = rustls::crypto::ring::sign::any_supported_type(&der).unwrap();
            memory.keys.insert(id, Arc::clone(&key));
            key
        })
    }

    fn key(&self, id: KeyId) -> Result<Option<Arc<dyn SigningKey>>, KeyModuleError> {
        self.call(|memory| memory.keys.get(&id).cloned())
    }

    fn remove_key(&self, id: KeyId) -> Result<(), KeyModuleError> {
        self.call(|memory| drop(memory.keys.remove(&id)))
    }

    fn store_cert(
        &self,
        id: KeyId,
        chain: &[CertificateDer<'static>],
    ) -> Result<(), KeyModuleError> {
        self.call(|memory| drop(memory.certs.insert(id, chain.to_vec())))
    }

    fn remove_cert(&self, id: KeyId) -> Result<(), KeyModuleError> {
        self.call(|memory| drop(memory.certs.remove(&id)))
    }

    fn cert_url(&self, id: KeyId) -> String {
        format!("file:///{id}")
    }

    fn key_url(&self, id: KeyId) -> String {
        format!("file:///{id}")
    }
}

#[derive(Debug, Clone)]
enum Action {
    /// Ask for a key, for one of a few subjects.
    Key(u8),
    /// Have the last request signed and apply the certificate.
    Certify,
    /// Apply the last certificate again.
    Repeat,
    /// Start anew with what the module and the index have.
    Restart,
    Clear,
    /// Let a later call of the module fail.
    Break(u8, Fault),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let fault = prop_oneof![Just(Fault::Before), Just(Fault::After)];
    let action = prop_oneof![
        4 => (0u8..2).prop_map(Action::Key),
        4 => Just(Action::Certify),
        1 => Just(Action::Repeat),
        1 => Just(Action::Restart),
        1 => Just(Action::Clear),
        3 => (0u8..6, fault).prop_map(|(calls, fault)| Action::Break(calls, fault)),
    ];
    proptest::collection::vec(action, 1..25)
}

struct World {
    folder: tempfile::TempDir,
    module: MemoryModule,
    pki: Pki,
    handler: CertHandler,
}

fn sm() -> CertType {
    CertType::new("sm").unwrap()
}

const MAX_ITEMS: usize = 2;

fn open(module: &MemoryModule, folder: &Path) -> CertHandler {
    let raw = RawModuleConfig {
        id: "sm".into(),
        plugin: "file".into(),
        max_items: MAX_ITEMS,
        params: RawModuleParams {
            storage_path: Some("/unused".into()),
            ..RawModuleParams::default()
        },
        ..RawModuleConfig::default()
    };
    let config = ModuleConfig::try_from(raw).unwrap();
    CertHandler::with_modules(vec![(config, Box::new(module.clone()))], folder).unwrap()
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let module = MemoryModule::default();
        let handler = open(&module, folder.path());
        Self {
            folder,
            module,
            pki: Pki::new("s").unwrap(),
            handler,
        }
    }

    fn key(&self, subject: u8) -> Option<Csr> {
        let subject = CsrSubject::new(format!("subject {subject}"));
        self.handler.create_key(&sm(), &subject).ok()
    }

    fn sign(&self, csr: &Csr) -> String {
        let spec = CertSpec::node("n", "sm");
        self.pki.sign_request(csr.as_pem(), &spec).unwrap()
    }

    fn newest(&self) -> Option<CertInfo> {
        // The first look may be the one that fails.
        let mut looks = (0..2).map(|_| self.handler.cert(&sm(), None, None));
        looks.find_map(Result::ok)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_newest_certificate_is_never_lost(actions in actions()) {
        let mut world = World::new();
        let mut request: Option<Csr> = None;
        let mut chain: Option<String> = None;
        let mut newest: Option<CertInfo> = None;
        for action in actions {
            match action {
                Action::Key(subject) => {
                    let given = world.key(subject);
                    if let Some(again) = given.as_ref().and_then(|_| world.key(subject)) {
                        prop_assert_eq!(Some(&again), given.as_ref());
                    }
                    // After a failure nothing is known about the last request.
                    request = given;
                }
                Action::Certify => if let Some(csr) = request.take() {
                    let signed = world.sign(&csr);
                    match world.handler.apply_cert(&sm(), &signed) {
                        Ok(info) => newest = Some(info),
                        Err(error) => {
                            // Trying again must do.
                            let refused = matches!(error, ApplyCertError::Refused { .. });
                            prop_assert!(!refused, "{error:?}");
                            world.module.memory().fault = None;
                            newest = Some(world.handler.apply_cert(&sm(), &signed).unwrap());
                        }
                    }
                    chain = Some(signed);
                },
                Action::Repeat => if let Some(chain) = &chain {
                    // Known already, or displaced meanwhile; never a new one.
                    let _ = world.handler.apply_cert(&sm(), chain);
                },
                Action::Restart => {
                    world.handler = open(&world.module, world.folder.path());
                }
                Action::Clear => {
                    if world.handler.clear(&sm()).is_err() {
                        world.module.memory().fault = None;
                        world.handler.clear(&sm()).unwrap();
                    }
                    (request, newest) = (None, None);
                }
                Action::Break(calls, fault) => {
                    world.module.memory().fault = Some((calls, fault));
                    continue;
                }
            }
            let found = world.newest();
            prop_assert_eq!(&found, &newest);
        }
        // Without further faults everything works, and nothing is left over.
        world.module.memory().fault = None;
        let csr = world.key(9).unwrap();
        let info = world.handler.apply_cert(&sm(), &world.sign(&csr)).unwrap();
        prop_assert_eq!(world.newest(), Some(info));
        let memory = world.module.memory();
        prop_assert!(memory.certs.len() <= MAX_ITEMS);
        prop_assert!(memory.keys.keys().eq(memory.certs.keys()));
    }
}
