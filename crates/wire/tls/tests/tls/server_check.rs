//! Which servers a client takes. The chain is checked whatever the name policy is.

use crate::common::{Folder, TestServer, server_cert};
use muster_lab::pki::{CertSpec, ExtendedKeyUsagePurpose, IssuedCert, Pki};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ConnectTlsError, ExpectedServer, FileCertSource, NodeId,
    Role, ServerName, ServerOptions, ServerTls, SystemId,
};

fn expect(role: Role, system: Option<&str>, node: Option<&str>) -> ServerName {
    ServerName::Spiffe(ExpectedServer {
        role,
        system: system.map(|id| SystemId::new(id).unwrap()),
        node: node.map(|id| NodeId::new(id).unwrap()),
    })
}

/// Every kind of name policy, each satisfied by [`server_cert`].
fn satisfied() -> [ServerName; 3] {
    [
        ServerName::Dns,
        expect(Role::Cm, None, None),
        ServerName::AnyOfCa,
    ]
}

/// What a certificate-less client that trusts `trusted` says about a server with `cert`.
async fn connect(
    trusted: &Pki,
    with_crl: bool,
    cert: &IssuedCert,
    host: &str,
    name: ServerName,
) -> Result<(), ConnectTlsError> {
    let folder = Folder::new(trusted, cert);
    folder.revoke(trusted);
    let tls = ServerTls::server_only(&folder.store().await, ServerOptions::default()).unwrap();
    let server = TestServer::start(&tls, Ok).await;
    let mut source = FileCertSource::trust_only(folder.path("ca.pem"));
    if with_crl {
        source = source.with_crl(folder.path("ca.crl.pem"));
    }
    let store = CertStore::open(source).await.unwrap();
    let client = ClientTls::without_certificate(&store, name, ClientOptions::default()).unwrap();
    let io = client.connect(host, server.address.port()).await?;
    assert_eq!(io.alpn(), Some(&b"h2"[..]));
    Ok(())
}

async fn refused(trusted: &Pki, with_crl: bool, cert: &IssuedCert, words: &str) {
    for name in satisfied() {
        let error = connect(trusted, with_crl, cert, "localhost", name.clone())
            .await
            .unwrap_err();
        let ConnectTlsError::Handshake {
            reason,
            certificate,
            ..
        } = &error
        else {
            panic!("{name:?}: {error}");
        };
        assert!(reason.contains(words), "{name:?}: {reason}");
        assert_eq!(
            certificate.as_ref().unwrap().serial,
            cert.serial,
            "{name:?}"
        );
    }
}

#[tokio::test]
async fn the_right_server_is_taken_under_each_policy() {
    let pki = Pki::new("system-1").unwrap();
    for name in satisfied() {
        connect(&pki, true, &server_cert(&pki), "localhost", name)
            .await
            .unwrap();
    }
    let exact = expect(Role::Cm, Some("system-1"), Some("main"));
    connect(&pki, false, &server_cert(&pki), "127.0.0.1", exact)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_of_another_ca_is_refused_under_each_policy() {
    let pki = Pki::new("system-1").unwrap();
    let cert = server_cert(&Pki::new("system-2").unwrap());
    refused(&pki, false, &cert, "unknown CA").await;
    refused(&pki, true, &cert, "unknown CA").await;
}

#[tokio::test]
async fn an_expired_server_is_refused_under_each_policy() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .issue(&CertSpec::node("main", "cm").localhost().expired())
        .unwrap();
    refused(&pki, false, &cert, "has expired").await;
}

#[tokio::test]
async fn a_revoked_server_is_refused_under_each_policy() {
    let pki = Pki::new("system-1").unwrap();
    let cert = server_cert(&pki);
    pki.revoke(&cert).unwrap();
    refused(&pki, true, &cert, "is revoked").await;
}

#[tokio::test]
async fn a_client_certificate_is_no_server_certificate_under_any_policy() {
    let pki = Pki::new("system-1").unwrap();
    let spec = CertSpec::node("main", "cm")
        .localhost()
        .extended_key_usage([ExtendedKeyUsagePurpose::ClientAuth]);
    refused(
        &pki,
        false,
        &pki.issue(&spec).unwrap(),
        "for another purpose",
    )
    .await;
}

/// The same faults with a host name that does not match either: no fault may hide behind another.
#[tokio::test]
async fn a_wrong_name_hides_no_other_fault() {
    let pki = Pki::new("system-1").unwrap();
    let revoked = pki.issue(&CertSpec::node("main", "cm")).unwrap();
    pki.revoke(&revoked).unwrap();
    let expired = pki.issue(&CertSpec::node("main", "cm").expired()).unwrap();
    let foreign = Pki::new("system-2")
        .unwrap()
        .issue(&CertSpec::node("main", "cm"))
        .unwrap();
    for cert in [revoked, expired, foreign] {
        for name in satisfied() {
            let result = connect(&pki, true, &cert, "localhost", name.clone()).await;
            assert!(
                matches!(result, Err(ConnectTlsError::Handshake { .. })),
                "{name:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_with_another_spiffe_id_is_refused() {
    let pki = Pki::new("system-1").unwrap();
    let cert = server_cert(&pki);
    for name in [
        expect(Role::Iam, None, None),
        expect(Role::Cm, Some("system-2"), None),
        expect(Role::Cm, None, Some("other")),
    ] {
        let error = connect(&pki, false, &cert, "localhost", name)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("it is spiffe://system-1/node/main/cm, expected was"),
            "{error}"
        );
    }
    let nameless = pki
        .issue(&CertSpec::node("main", "cm").without_spiffe().localhost())
        .unwrap();
    let error = connect(
        &pki,
        false,
        &nameless,
        "localhost",
        expect(Role::Cm, None, None),
    )
    .await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("without a SPIFFE id")
    );
}

#[tokio::test]
async fn a_server_with_another_host_name_is_refused_where_it_counts() {
    let pki = Pki::new("system-1").unwrap();
    let cert = pki
        .issue(&CertSpec::node("main", "cm").dns("elsewhere.example"))
        .unwrap();
    let error = connect(&pki, false, &cert, "localhost", ServerName::Dns)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is for another name"), "{error}");
    connect(&pki, false, &cert, "localhost", ServerName::AnyOfCa)
        .await
        .unwrap();
    connect(
        &pki,
        false,
        &cert,
        "localhost",
        expect(Role::Cm, None, None),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn an_unreachable_or_silent_server_is_an_error_in_time() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let options = ClientOptions {
        connect_deadline: std::time::Duration::from_millis(200),
        ..ClientOptions::default()
    };
    let client = ClientTls::mutual(&folder.store().await, ServerName::AnyOfCa, options).unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let late = client.connect("127.0.0.1", port).await.unwrap_err();
    assert!(matches!(late, ConnectTlsError::Late { .. }), "{late}");
    drop(silent);
    let gone = client.connect("127.0.0.1", port).await.unwrap_err();
    assert!(matches!(gone, ConnectTlsError::Reach { .. }), "{gone}");
}
