//! Who may not come in, and what the log says about it.

use crate::common::{
    Folder, Logs, PATIENCE, TestServer, client, read_alert, server_cert, server_role, until,
    write_in_place,
};
use muster_lab::pki::{CertSpec, ExtendedKeyUsagePurpose, IssuedCert, Pki};
use muster_tls::{CertStore, ClientOptions, ClientTls, FileCertSource};

/// A client with `cert` is refused; gives the one log line about it and the alert the client got.
async fn refusal(pki: &Pki, revoked: bool, cert: &IssuedCert) -> (String, String) {
    let (logs, _guard) = Logs::capture();
    let folder = Folder::new(pki, &server_cert(pki));
    folder.revoke(pki);
    let source = if revoked {
        folder.source_with_crl()
    } else {
        folder.source()
    };
    let server = TestServer::mutual(&CertStore::open(source).await.unwrap()).await;
    let client = client(pki, cert).await;

    let mut io = server.connect(&client).await.unwrap();
    let alert = read_alert(&mut io).await.to_string();
    assert!(
        server.call(&client).await.is_err(),
        "a refused client must not be served"
    );

    let good = pki.issue(&CertSpec::node("node-9", "sm")).unwrap();
    server
        .call(&crate::common::client(pki, &good).await)
        .await
        .expect("the others are still served");

    let lines = until("two refusals", || {
        let lines = logs.with("TLS peer refused");
        (lines.len() >= 2).then_some(lines)
    })
    .await;
    assert_eq!(
        lines.len(),
        2,
        "one line per refused connection: {lines:#?}"
    );
    let line = lines[0].clone();
    assert!(line.contains("WARN"), "{line}");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    assert!(
        line.contains(&format!("serial=\"{}\"", cert.serial)),
        "{line}"
    );
    assert!(line.contains("CN=node-1"), "{line}");
    assert!(line.contains("valid=20"), "{line}");
    (line, alert)
}

#[tokio::test]
async fn a_client_of_another_ca_is_refused() {
    let other = Pki::new("system-2").unwrap();
    let cert = other.issue(&CertSpec::node("node-1", "sm")).unwrap();
    let (line, alert) = refusal(&Pki::new("system-1").unwrap(), false, &cert).await;
    assert!(line.contains("issued by an unknown CA"), "{line}");
    assert!(alert.contains("UnknownCA"), "{alert}");
}

#[tokio::test]
async fn a_client_of_another_ca_with_the_same_name_is_refused() {
    let other = Pki::new("system-1").unwrap();
    let cert = other.issue(&CertSpec::node("node-1", "sm")).unwrap();
    let (line, _) = refusal(&Pki::new("system-1").unwrap(), false, &cert).await;
    assert!(line.contains("unknown CA"), "{line}");
}

#[tokio::test]
async fn an_expired_client_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .issue(&CertSpec::node("node-1", "sm").expired())
        .unwrap();
    let (line, alert) = refusal(&pki, false, &cert).await;
    assert!(line.contains("its certificate has expired"), "{line}");
    assert!(alert.contains("CertificateExpired"), "{alert}");
}

#[tokio::test]
async fn a_client_that_is_not_yet_valid_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .issue(&CertSpec::node("node-1", "sm").not_yet_valid())
        .unwrap();
    let (line, _) = refusal(&pki, false, &cert).await;
    assert!(line.contains("its certificate is not yet valid"), "{line}");
}

#[tokio::test]
async fn a_revoked_client_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki.issue(&CertSpec::node("node-1", "sm")).unwrap();
    pki.revoke(&cert).unwrap();
    let (line, alert) = refusal(&pki, true, &cert).await;
    assert!(line.contains("its certificate is revoked"), "{line}");
    assert!(alert.contains("CertificateRevoked"), "{alert}");
}

#[tokio::test]
async fn a_client_of_a_ca_without_a_revocation_list_is_refused_where_lists_are_used() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .intermediate()
        .unwrap()
        .issue(&CertSpec::node("node-1", "sm"))
        .unwrap();
    let (line, _) = refusal(&pki, true, &cert).await;
    assert!(line.contains("no revocation list covers a CA"), "{line}");
}

#[tokio::test]
async fn an_intermediate_ca_works_once_every_ca_of_the_chain_has_a_list() {
    let pki = Pki::new("system-1").unwrap();
    let below = pki.intermediate().unwrap();
    let (good, bad) = (
        CertSpec::node("node-1", "sm"),
        CertSpec::node("node-2", "sm"),
    );
    let (good, bad) = (below.issue(&good).unwrap(), below.issue(&bad).unwrap());
    below.revoke(&bad).unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let lists = pki.crl_pem().unwrap() + &below.crl_pem().unwrap();
    write_in_place(&folder.path("ca.crl.pem"), &lists);
    let store = CertStore::open(folder.source_with_crl()).await.unwrap();
    let server = TestServer::mutual(&store).await;
    server.call(&client(&pki, &good).await).await.unwrap();
    let mut io = server.connect(&client(&pki, &bad).await).await.unwrap();
    let alert = read_alert(&mut io).await.to_string();
    assert!(alert.contains("CertificateRevoked"), "{alert}");
}

#[tokio::test]
async fn a_certificate_for_another_purpose_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let spec =
        CertSpec::node("node-1", "sm").extended_key_usage([ExtendedKeyUsagePurpose::ServerAuth]);
    let (line, alert) = refusal(&pki, false, &pki.issue(&spec).unwrap()).await;
    assert!(line.contains("for another purpose"), "{line}");
    assert!(alert.contains("UnsupportedCertificate"), "{alert}");
}

#[tokio::test]
async fn a_client_without_an_identity_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .issue(&CertSpec::node("node-1", "sm").without_spiffe())
        .unwrap();
    let (line, alert) = refusal(&pki, false, &cert).await;
    assert!(
        line.contains("no SPIFFE id and no mapping rule matches"),
        "{line}"
    );
    assert!(alert.contains("AccessDenied"), "{alert}");
}

#[tokio::test]
async fn a_client_with_two_identities_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let spec = CertSpec::node("node-1", "sm").extra_uri("spiffe://system-1/node/node-1/cm");
    let (line, _) = refusal(&pki, false, &pki.issue(&spec).unwrap()).await;
    assert!(
        line.contains("has 2 SPIFFE ids, exactly one is allowed"),
        "{line}"
    );
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = TestServer::mutual(&folder.store().await).await;
    let store = CertStore::open(FileCertSource::trust_only(folder.path("ca.pem")))
        .await
        .unwrap();
    let client =
        ClientTls::without_certificate(&store, server_role(), ClientOptions::default()).unwrap();
    let mut io = server.connect(&client).await.unwrap();
    let alert = read_alert(&mut io).await.to_string();
    assert!(alert.contains("CertificateRequired"), "{alert}");
    let line = logs.wait_for("TLS peer refused").await;
    assert!(line.contains("it presented no certificate"), "{line}");
    assert!(server.call(&client).await.is_err());
}

#[tokio::test]
async fn a_client_without_tls_is_refused() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = TestServer::mutual(&folder.store().await).await;
    let mut tcp = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    tcp.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    let line = logs.wait_for("TLS peer refused").await;
    assert!(line.contains("it does not speak TLS"), "{line}");
}

#[tokio::test]
async fn a_client_that_refuses_the_server_is_named_too() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let other = Pki::new("system-2").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = TestServer::mutual(&folder.store().await).await;
    let client = client(&other, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;
    let error = server.connect(&client).await.unwrap_err().to_string();
    assert!(
        error.contains("its certificate was issued by an unknown CA"),
        "{error}"
    );
    let line = logs.wait_for("TLS peer refused").await;
    assert!(
        line.contains("it refused the certificate of this side"),
        "{line}"
    );
}

#[tokio::test]
async fn a_flood_of_refusals_is_counted_and_not_all_written() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = TestServer::mutual(&folder.store().await).await;
    let cert = pki
        .issue(&CertSpec::node("node-1", "sm").expired())
        .unwrap();
    let client = client(&pki, &cert).await;
    for _ in 0..40 {
        let mut io = server.connect(&client).await.unwrap();
        read_alert(&mut io).await;
    }
    let lines = logs.with("TLS peer refused");
    assert!((20..40).contains(&lines.len()), "{} lines", lines.len());
    // The next line, or at the latest the periodic report, owns up to the rest.
    let owned_up = until("a count of suppressed lines", || {
        let all = logs.with("suppressed=");
        let counted: usize = all
            .iter()
            .map(|line| line.split("suppressed=").nth(1).unwrap())
            .map(|rest| {
                rest.split_whitespace()
                    .next()
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
            })
            .sum();
        (counted + logs.with("TLS peer refused").len() == 40).then_some(counted)
    })
    .await;
    assert!(owned_up > 0);
}
