use std::fs;

use muster_lab::pki::{CertSpec, Pki};
use rcgen::CertificateSigningRequestParams;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::*;
use crate::config::{KeyPurpose, RawModuleConfig, RawModuleParams};

/// A node with keys in files.
struct Node {
    folder: tempfile::TempDir,
    pki: Pki,
}

fn sm() -> CertType {
    CertType::new("sm").unwrap()
}

impl Node {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            pki: Pki::new("system-1").unwrap(),
        }
    }

    fn config(&self, id: &str, change: impl Fn(&mut RawModuleConfig)) -> ModuleConfig {
        let mut raw = RawModuleConfig {
            id: id.into(),
            plugin: "swmodule".into(),
            max_items: 2,
            extended_key_usage: vec!["clientAuth".into(), "serverAuth".into()],
            alternative_names: vec!["main.local".into(), "10.0.0.1".into()],
            params: RawModuleParams {
                storage_path: Some(self.keys(id)),
                ..RawModuleParams::default()
            },
            ..RawModuleConfig::default()
        };
        change(&mut raw);
        raw.try_into().unwrap()
    }

    fn keys(&self, id: &str) -> PathBuf {
        self.folder.path().join("keys").join(id)
    }

    fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    fn open(&self) -> CertHandler {
        CertHandler::new(vec![self.config("sm", |_| {})], &self.index()).unwrap()
    }

    fn sign(&self, csr: &Csr) -> String {
        let authority = self.pki.intermediate().unwrap();
        let spec = CertSpec::node("n1", "sm");
        authority.sign_request(csr.as_pem(), &spec).unwrap()
    }

    /// Makes a key and has it certified.
    fn renew(&self, handler: &CertHandler) -> CertInfo {
        let csr = handler.create_key(&sm(), &subject()).unwrap();
        handler.apply_cert(&sm(), &self.sign(&csr)).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.keys("sm"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn subject() -> CsrSubject {
    CsrSubject::new("system-1").uri("spiffe://system-1/node/n1/sm")
}

#[test]
fn a_request_asks_for_what_is_configured() {
    let node = Node::new();
    let csr = node.open().create_key(&sm(), &subject()).unwrap();
    let request = CertificateSigningRequestParams::from_pem(csr.as_pem()).unwrap();
    let names: Vec<String> = request
        .params
        .subject_alt_names
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    assert!(
        names[0].contains("spiffe://system-1/node/n1/sm"),
        "{names:?}"
    );
    assert!(
        names[1].contains("main.local") && names[2].contains("10.0.0.1"),
        "{names:?}"
    );
    assert_eq!(request.params.extended_key_usages.len(), 2);
    let common = request.params.distinguished_name.iter().next().unwrap().1;
    assert_eq!(format!("{common:?}"), r#"Utf8String("system-1")"#);
}

#[test]
fn the_same_request_is_given_until_a_certificate_is_applied() {
    let node = Node::new();
    let handler = node.open();
    let csr = handler.create_key(&sm(), &subject()).unwrap();
    assert_eq!(handler.create_key(&sm(), &subject()).unwrap(), csr);
    drop(handler);
    let handler = node.open();
    assert_eq!(
        handler.create_key(&sm(), &subject()).unwrap(),
        csr,
        "also after a restart"
    );
    assert_eq!(node.files().len(), 1);

    let other = handler
        .create_key(&sm(), &CsrSubject::new("other"))
        .unwrap();
    assert_ne!(other, csr);
    assert_eq!(
        node.files().len(),
        1,
        "the key of the first request is gone"
    );
    let refused = handler.apply_cert(&sm(), &node.sign(&csr)).unwrap_err();
    assert!(matches!(
        refused,
        ApplyCertError::Refused {
            source: CheckChainError::ForeignKey,
            ..
        }
    ));
    handler.apply_cert(&sm(), &node.sign(&other)).unwrap();
    assert_ne!(
        handler
            .create_key(&sm(), &CsrSubject::new("other"))
            .unwrap(),
        other
    );
}

#[test]
fn applying_a_certificate_twice_changes_nothing() {
    let node = Node::new();
    let handler = node.open();
    let csr = handler.create_key(&sm(), &subject()).unwrap();
    let chain = node.sign(&csr);
    let info = handler.apply_cert(&sm(), &chain).unwrap();
    let mut seen = handler.subscribe(&sm()).unwrap();
    seen.mark_unchanged();
    assert_eq!(handler.apply_cert(&sm(), &chain).unwrap(), info);
    drop(handler);
    assert_eq!(
        node.open().apply_cert(&sm(), &chain).unwrap(),
        info,
        "also after a restart"
    );
    assert!(!seen.has_changed().unwrap_or(false));

    let leaf = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    assert_eq!(
        info.serial_hex(),
        format!("{:x}", leaf.tbs_certificate.serial)
    );
    assert_eq!(info.issuer, leaf.issuer().as_raw());
    assert_eq!(info.not_after, leaf.validity().not_after.timestamp());
}

#[test]
fn the_oldest_certificate_makes_room() {
    let node = Node::new();
    let handler = node.open();
    let infos: Vec<CertInfo> = (0..3).map(|_| node.renew(&handler)).collect();
    assert_eq!(node.files().len(), 4, "two keys, two certificates");
    let found = |info: &CertInfo| {
        handler.cert(
            &sm(),
            Some(&info.issuer),
            Some(&info.serial_hex().to_uppercase()),
        )
    };
    assert!(matches!(
        found(&infos[0]),
        Err(FindCertError::NotFound { .. })
    ));
    assert_eq!(found(&infos[1]).unwrap(), infos[1]);
    assert_eq!(handler.cert(&sm(), None, None).unwrap(), infos[2]);
    assert_eq!(handler.cert(&sm(), Some(&[]), Some("")).unwrap(), infos[2]);
    assert!(handler.cert(&sm(), Some(b"nobody"), None).is_err());
    let padded = format!("000{}", infos[1].serial_hex());
    assert_eq!(handler.cert(&sm(), None, Some(&padded)).unwrap(), infos[1]);
}

#[test]
fn a_key_can_be_certified_anew() {
    let node = Node::new();
    let handler = node.open();
    let csr = handler.create_key(&sm(), &subject()).unwrap();
    let first = handler.apply_cert(&sm(), &node.sign(&csr)).unwrap();
    let second = handler.apply_cert(&sm(), &node.sign(&csr)).unwrap();
    assert_eq!(first.key_url, second.key_url);
    assert_ne!(first.serial, second.serial);
    assert_eq!(node.files().len(), 2);
    assert_eq!(handler.cert(&sm(), None, None).unwrap(), second);
}

#[test]
fn subscribers_are_told_before_the_call_returns() {
    let node = Node::new();
    let handler = node.open();
    let mut newest = handler.subscribe(&sm()).unwrap();
    assert_eq!(*newest.borrow_and_update(), None);
    for _ in 0..2 {
        let info = node.renew(&handler);
        assert!(newest.has_changed().unwrap());
        assert_eq!(newest.borrow_and_update().as_ref(), Some(&info));
    }
    let reopened = node.open();
    let current = reopened.subscribe(&sm()).unwrap();
    assert_eq!(*current.borrow(), *newest.borrow(), "known from the start");
    handler.clear(&sm()).unwrap();
    assert_eq!(*newest.borrow_and_update(), None);
}

#[test]
fn clearing_leaves_nothing_and_can_be_repeated() {
    let node = Node::new();
    let handler = node.open();
    handler.clear(&sm()).unwrap();
    node.renew(&handler);
    handler.create_key(&sm(), &subject()).unwrap();
    handler.clear(&sm()).unwrap();
    handler.clear(&sm()).unwrap();
    assert_eq!(node.files(), Vec::<String>::new());
    assert_eq!(fs::read_dir(node.index()).unwrap().count(), 0);
    assert!(handler.cert(&sm(), None, None).is_err());
    node.renew(&handler);
}

#[test]
fn a_lost_or_damaged_index_costs_no_certificate() {
    let node = Node::new();
    let handler = node.open();
    let (_, newest) = (node.renew(&handler), node.renew(&handler));
    handler.create_key(&sm(), &subject()).unwrap();
    drop(handler);
    let index = node.index().join("sm.json");
    for damage in [None, Some("{"), Some("{\"version\": 1}"), Some("")] {
        match damage {
            Some(text) => fs::write(&index, text).unwrap(),
            None => fs::remove_file(&index).unwrap(),
        }
        let handler = node.open();
        // Both were made in the same second, so either may count as the newest; both are there.
        handler
            .cert(&sm(), Some(&newest.issuer), Some(&newest.serial_hex()))
            .unwrap();
        assert_eq!(node.files().len(), 5);
        assert!(index.exists());
    }
    // The pending key is still good for the next request.
    let handler = node.open();
    let before = node.files();
    let csr = handler.create_key(&sm(), &subject()).unwrap();
    assert_eq!(node.files(), before);
    handler.apply_cert(&sm(), &node.sign(&csr)).unwrap();

    fs::write(&index, r#"{"version": 2, "order": []}"#).unwrap();
    let refused = node.open().cert(&sm(), None, None).unwrap_err();
    let FindCertError::Store {
        source: KeyStoreError::Index(source),
        ..
    } = refused
    else {
        panic!("{refused:?}")
    };
    assert!(
        matches!(source, IndexError::Newer { found: 2, .. }),
        "{source:?}"
    );
}

#[test]
fn leftovers_are_repaired_at_the_start() {
    let node = Node::new();
    let handler = node.open();
    let info = node.renew(&handler);
    drop(handler);
    // A certificate without a key, and a key that nothing is known about.
    let stray = node
        .keys("sm")
        .join(format!("cert_{}.pem", "ab".repeat(16)));
    let cert = node
        .files()
        .into_iter()
        .find(|name| name.starts_with("cert"))
        .unwrap();
    fs::copy(node.keys("sm").join(cert), &stray).unwrap();
    let handler = node.open();
    assert!(!stray.exists());
    assert_eq!(handler.cert(&sm(), None, None).unwrap(), info);
}

#[test]
fn self_signed_types_certify_themselves_once() {
    let node = Node::new();
    let offline = CertType::new("offline").unwrap();
    let modules = || {
        vec![
            node.config("sm", |_| {}),
            node.config("offline", |raw| raw.self_signed = true),
            node.config("gone", |raw| raw.disabled = true),
        ]
    };
    let handler = CertHandler::new(modules(), &node.index()).unwrap();
    assert_eq!(handler.cert_types(), [sm()]);
    assert_eq!(handler.self_signed_types(), std::slice::from_ref(&offline));
    let info = handler.create_self_signed(&offline).unwrap();
    assert_eq!(handler.create_self_signed(&offline).unwrap(), info);
    drop(handler);
    let handler = CertHandler::new(modules(), &node.index()).unwrap();
    assert_eq!(handler.create_self_signed(&offline).unwrap(), info);
    assert!(
        info.is_valid_at(4_000_000_000),
        "a node may be put away for long"
    );

    let refused = handler.create_self_signed(&sm()).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("are signed by an authority, not by their own key")
    );
    let refused = handler.create_key(&offline, &subject()).unwrap_err();
    assert!(refused.to_string().contains("are self-signed"));
    let gone = CertType::new("gone").unwrap();
    assert!(matches!(
        handler.clear(&gone),
        Err(OwnerError::UnknownType { .. })
    ));
    assert!(handler.config(&gone).is_none());
    let config = handler.config(&offline).unwrap();
    assert_eq!(
        config.purposes,
        [KeyPurpose::ClientAuth, KeyPurpose::ServerAuth]
    );
}

#[test]
fn types_do_not_share_a_name_or_a_folder() {
    let node = Node::new();
    let twice = vec![
        node.config("sm", |_| {}),
        node.config("sm", |raw| raw.params.storage_path = Some(node.keys("x"))),
    ];
    let refused = CertHandler::new(twice, &node.index()).unwrap_err();
    assert!(
        matches!(refused, OpenHandlerError::Twice { .. }),
        "{refused:?}"
    );
    let shared = vec![
        node.config("sm", |_| {}),
        node.config("cm", |raw| raw.params.storage_path = Some(node.keys("sm"))),
    ];
    let refused = CertHandler::new(shared, &node.index()).unwrap_err();
    assert!(
        matches!(refused, OpenHandlerError::SharedFolder { .. }),
        "{refused:?}"
    );
}

#[test]
fn subjects_that_cannot_be_certified_are_refused() {
    let node = Node::new();
    let handler = node.open();
    for bad in [
        CsrSubject::new(""),
        CsrSubject::new("x".repeat(256)),
        CsrSubject::new("s").uri("spiffe://ä"),
        CsrSubject::new("s").uri("x".repeat(3000)),
        (0..9).fold(CsrSubject::new("s"), CsrSubject::uri),
    ] {
        let refused = handler.create_key(&sm(), &bad).unwrap_err();
        assert!(
            matches!(refused, CreateKeyError::Request { .. }),
            "{refused:?}"
        );
    }
}

#[test]
fn calls_from_many_threads_end_in_one_key() {
    let node = Node::new();
    let handler = node.open();
    let requests: Vec<Csr> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| handler.create_key(&sm(), &subject()).unwrap()))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(node.files().len(), 1);
}
