//! What is wrong with certificate files is said by name.

use std::error::Error as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use muster_lab::pki::{CertSpec, Pki};
use muster_tls::rustls::sign::{CertifiedKey, Signer, SigningKey};
use muster_tls::rustls::{SignatureAlgorithm, SignatureScheme};
use muster_tls::{
    CertMaterial, CertSource, CertStore, ClientOptions, ClientTls, FileCertSource, LoadCertError,
    LoadWarning, OwnCert, OwnCertError,
};

use crate::common::{Folder, Logs, TestServer, client, server_cert, server_role, write_in_place};

fn folder() -> (Pki, Folder) {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    (pki, folder)
}

fn fault(folder: &Folder) -> LoadCertError {
    folder
        .source_with_crl()
        .load()
        .expect_err("the fault went unnoticed")
}

#[test]
fn every_fault_names_its_file() {
    let faults: [(&str, &str, &str); 8] = [
        ("own.crt.pem", "", "has no certificate in it"),
        (
            "own.crt.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            "is not well-formed PEM",
        ),
        (
            "own.crt.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "certificate number 1 in",
        ),
        (
            "own.key.pem",
            "",
            "has no readable, unencrypted private key",
        ),
        (
            "own.key.pem",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "the private key in",
        ),
        ("ca.pem", "text", "has no CA certificate in it"),
        ("ca.crl.pem", "", "has no certificate revocation list in it"),
        (
            "ca.crl.pem",
            "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
            "revocation lists of",
        ),
    ];
    for (name, content, words) in faults {
        let (pki, folder) = folder();
        folder.revoke(&pki);
        folder.source_with_crl().load().expect("all is well before");
        write_in_place(&folder.path(name), content);
        let error = fault(&folder).to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.contains(name), "{error}");
        std::fs::remove_file(folder.path(name)).unwrap();
        let error = fault(&folder);
        assert!(error.to_string().contains(name), "{error}");
        assert!(
            error.source().unwrap().to_string().contains("No such file"),
            "{error:?}"
        );
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (pki, folder) = folder();
    write_in_place(&folder.path("own.key.pem"), &server_cert(&pki).key_pem);
    folder.revoke(&pki);
    assert!(matches!(fault(&folder), LoadCertError::KeyMismatch { .. }));
}

#[test]
fn no_output_shows_a_key() {
    let (pki, folder) = folder();
    folder.revoke(&pki);
    let key = std::fs::read_to_string(folder.path("own.key.pem")).unwrap();
    let secret: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
    let material = folder.source_with_crl().load().unwrap();
    let shown = format!("{material:?}");
    assert!(secret.iter().all(|line| !shown.contains(line)));
    // A key on one line makes the PEM parser quote it in its error.
    write_in_place(&folder.path("own.key.pem"), &key.replace('\n', " "));
    let error = fault(&folder);
    let shown = format!("{error:?} {error} {:?}", error.source());
    assert!(secret.iter().all(|line| !shown.contains(line)), "{shown}");
}

#[tokio::test]
async fn doubtful_material_is_used_with_a_warning() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let expired = pki.issue(&CertSpec::node("main", "cm").expired()).unwrap();
    let folder = Folder::new(&pki, &expired);
    let other = Pki::new("system-2").unwrap();
    folder.revoke(&other);
    let key = folder.path("own.key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let store = CertStore::open(folder.source_with_crl()).await.unwrap();
    let generation = store.current();
    let warnings = &generation.material().warnings;
    assert!(
        matches!(
            warnings.as_slice(),
            [
                LoadWarning::KeyReadableByOthers { mode: 0o640, .. },
                LoadWarning::OutsideValidity { .. },
                LoadWarning::NoRevocationList { .. },
            ]
        ),
        "{warnings:?}"
    );
    for words in ["mode 0640", "outside its validity", "has none"] {
        let lines = logs.with(words);
        assert!(
            lines.len() == 1 && lines[0].contains("WARN"),
            "{words}: {lines:?}"
        );
    }
}

/// Stands for a hardware token: signs, and reveals nothing of the key.
#[derive(Debug)]
struct Token(Arc<dyn SigningKey>);

impl SigningKey for Token {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.choose_scheme(offered)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct TokenSource(FileCertSource);

impl CertSource for TokenSource {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        use muster_tls::rustls_pki_types::pem::PemObject as _;
        use muster_tls::rustls_pki_types::{CertificateDer, PrivateKeyDer};
        let files = self.0.files();
        let chain = CertificateDer::from_pem_file(&files[0]).unwrap();
        let key = PrivateKeyDer::from_pem_file(&files[1]).unwrap();
        let key = muster_tls::rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let own = OwnCert::new(CertifiedKey::new(vec![chain], Arc::new(Token(key))));
        let own = own.map_err(|source| LoadCertError::Source {
            object: "the token".into(),
            source: Box::new(source),
        })?;
        Ok(CertMaterial {
            own: Some(own),
            ..self.0.load()?
        })
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_key_that_never_leaves_its_token_works_on_both_sides() {
    let (pki, folder) = folder();
    let server_store = CertStore::open(TokenSource(folder.source())).await.unwrap();
    let server = TestServer::mutual(&server_store).await;
    let cert = pki.issue(&CertSpec::node("node-1", "sm")).unwrap();
    server.call(&client(&pki, &cert).await).await.unwrap();
    let own = Folder::new(&pki, &cert);
    let store = CertStore::open(TokenSource(own.source())).await.unwrap();
    let client = ClientTls::mutual(&store, server_role(), ClientOptions::default()).unwrap();
    server.call(&client).await.unwrap();
}

#[test]
fn an_own_certificate_has_a_chain() {
    let (_, folder) = folder();
    let own = folder.source().load().unwrap().own.unwrap();
    assert_eq!(own.summary().subject, "CN=main");
    let key = muster_tls::rustls::crypto::ring::sign::any_supported_type(
        &muster_tls::rustls_pki_types::pem::PemObject::from_pem_file(folder.path("own.key.pem"))
            .unwrap(),
    )
    .unwrap();
    assert!(matches!(
        OwnCert::new(CertifiedKey::new(vec![], key)),
        Err(OwnCertError::Empty)
    ));
}

#[test]
fn roots_and_revocation_lists_may_stand_in_several_files() {
    let (pki, folder) = folder();
    let other = Pki::new("other").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (ca, crl) = (
        other.write_ca(dir.path(), "other").unwrap(),
        other.write_crl(dir.path(), "other").unwrap(),
    );
    folder.revoke(&pki);
    let both = folder.source_with_crl().with_ca(&ca);
    let warnings = both.load().unwrap().warnings;
    assert!(
        matches!(warnings.as_slice(), [LoadWarning::NoRevocationList { ca }] if ca.contains("other")),
        "{warnings:?}"
    );
    let both = both.with_crl(&crl);
    assert_eq!(both.load().unwrap().warnings, []);
    assert!(both.files().ends_with(std::slice::from_ref(&crl)) && both.files().contains(&ca));
    std::fs::remove_file(&crl).unwrap();
    let error = both.load().unwrap_err().to_string();
    assert!(error.contains("other.crl.pem"), "{error}");

    let trusting = FileCertSource::default().with_ca(&ca).load().unwrap();
    assert!(trusting.own.is_none() && trusting.trust.is_some());
}
