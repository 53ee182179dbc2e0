//! Certificates of IAM under a running TLS server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use muster_api::domain::CertType;
use muster_api::iamanager::v6 as wire;
use muster_iamclient::{IamCertStore, IamClient, OpenCertStoreError};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Generation, Role,
    ServerName, ServerOptions, ServerTls,
};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::fake::{FakeIam, State};

const TIME: Duration = Duration::from_secs(20);

/// A certificate for the Service Manager in files of its own, as IAM tells of it.
fn issue(pki: &Pki, folder: &Path, name: &str) -> wire::CertInfo {
    let issued = pki
        .issue(&CertSpec::node("main", "sm").localhost())
        .expect("a certificate");
    let files = issued.write_to(folder, name).expect("files");
    wire::CertInfo {
        r#type: "sm".into(),
        cert_url: format!("file://{}", files.cert.display()),
        key_url: format!("file://{}", files.key.display()),
        serial: issued.serial.into_bytes(),
        issuer: Vec::new(),
    }
}

fn with_cert(cert: wire::CertInfo) -> impl FnOnce(&mut State) {
    move |state| {
        state.certs.insert("sm".into(), cert);
    }
}

fn serial_of(generation: &Generation) -> &str {
    let own = generation.material().own.as_ref().expect("a certificate");
    &own.summary().serial
}

/// Waits until new connections show the certificate that IAM told of.
async fn shows(store: &CertStore, cert: &wire::CertInfo) {
    let mut generations = store.subscribe();
    let wanted = String::from_utf8(cert.serial.clone()).expect("hexadecimal");
    let waiting = generations.wait_for(|generation| serial_of(generation) == wanted);
    timeout(TIME, waiting)
        .await
        .expect("in time")
        .expect("the store");
}

#[tokio::test]
async fn a_renewal_reaches_a_running_server_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::new("unit-7").expect("a CA");
    let ca = pki.write_ca(folder.path(), "ca").expect("a file");
    let iam = FakeIam::new(State::default());
    let socket = folder.path().join("iam.sock");
    let _server = iam.start(&socket).await;
    let client = IamClient::local(socket);

    // Opening waits for the certificate.
    let opening = tokio::spawn({
        let (client, roots) = (client.clone(), vec![ca.clone()]);
        async move { IamCertStore::open(&client, CertType::Sm, roots, Vec::new()).await }
    });
    iam.change(with_cert(issue(&pki, folder.path(), "first")));
    let certs = timeout(TIME, opening)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("a store");

    let tls = ServerTls::server_only(certs.store(), ServerOptions::default()).expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut incoming = tls.incoming(listener);
    let port = incoming.local_addr().expect("an address").port();
    let trust = CertStore::open(FileCertSource::trust_only(&ca))
        .await
        .expect("a CA");
    let sm = ServerName::Spiffe(ExpectedServer::role(Role::Sm));
    let peer =
        ClientTls::without_certificate(&trust, sm, ClientOptions::default()).expect("a client");

    for round in 0..3 {
        let renewed = issue(&pki, folder.path(), &format!("renewed-{round}"));
        let start = Instant::now();
        iam.change(with_cert(renewed.clone()));
        shows(certs.store(), &renewed).await;
        let taken = start.elapsed();
        assert!(taken < Duration::from_secs(1), "{taken:?}");
    }
    let (connected, accepted) = tokio::join!(peer.connect("localhost", port), incoming.next());
    connected.expect("the new certificate is good");
    accepted.expect("open").expect("a connection");
}

#[tokio::test]
async fn what_cannot_be_loaded_never_replaces_what_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::new("unit-7").expect("a CA");
    let ca = pki.write_ca(folder.path(), "ca").expect("a file");
    let first = issue(&pki, folder.path(), "first");
    let iam = FakeIam::new(State {
        certs: BTreeMap::from([("sm".to_owned(), first.clone())]),
        ..State::default()
    });
    let socket = folder.path().join("iam.sock");
    let _server = iam.start(&socket).await;
    let client = IamClient::local(socket);
    let certs = IamCertStore::open(&client, CertType::Sm, vec![ca.clone()], Vec::new()).await;
    let certs = certs.expect("a store");
    let mut known = certs.certificate();
    for broken in [
        wire::CertInfo {
            cert_url: "file:///nowhere/cert.pem".into(),
            ..first.clone()
        },
        wire::CertInfo {
            key_url: "gopher://key".into(),
            ..first.clone()
        },
        // The key of another certificate.
        wire::CertInfo {
            key_url: issue(&pki, folder.path(), "other").key_url,
            ..first.clone()
        },
    ] {
        iam.change(with_cert(broken.clone()));
        let told = known.wait_for(|followed| {
            let value = followed.value.as_ref();
            value.is_some_and(|cert| {
                cert.cert_url == broken.cert_url && cert.key_url == broken.key_url
            })
        });
        timeout(TIME, told)
            .await
            .expect("in time")
            .expect("followed");
    }
    shows(certs.store(), &first).await;
    let good = issue(&pki, folder.path(), "good");
    iam.change(with_cert(good.clone()));
    shows(certs.store(), &good).await;

    // A daemon that starts while IAM tells nonsense says so.
    iam.change(with_cert(wire::CertInfo {
        cert_url: "gopher://cert".into(),
        ..first.clone()
    }));
    let error = IamCertStore::open(&client, CertType::Sm, vec![ca.clone()], Vec::new()).await;
    assert!(
        matches!(error, Err(OpenCertStoreError::Url { .. })),
        "{error:?}"
    );
    iam.change(with_cert(wire::CertInfo {
        cert_url: "file:///nowhere/cert.pem".into(),
        ..first
    }));
    let error = IamCertStore::open(&client, CertType::Sm, vec![ca], Vec::new()).await;
    assert!(
        matches!(error, Err(OpenCertStoreError::Load { .. })),
        "{error:?}"
    );
}
