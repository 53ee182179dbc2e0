//! What handlers know about a peer, by certificate, by mapping, and without either.

use crate::common::{Folder, Gate, Logs, TestServer, client, server_cert, server_role};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{
    Allow, CertField, CertStore, ClientOptions, ClientTls, Condition, FileCertSource,
    IdentityOrigin, IdentityPolicy, Insecure, MappedIdentity, MappingRule, NodeId, Pattern, Role,
    ServerOptions, ServerTls, SystemId, Take, TlsConnectInfo, TlsSetupError, peer_identity,
};
use tonic::{Code, Status};

async fn mutual(folder: &Folder, policy: IdentityPolicy, gate: Gate) -> TestServer {
    let store = folder.store().await;
    let tls = ServerTls::mutual(&store, policy, ServerOptions::default()).unwrap();
    TestServer::start(&tls, gate).await
}

/// The status that a call ends with, if it is the handler's.
async fn status(server: &TestServer, client: &ClientTls) -> Status {
    *server
        .call(client)
        .await
        .unwrap_err()
        .downcast::<Status>()
        .expect("the call was not made")
}

fn aos_rule() -> MappingRule {
    MappingRule::new(
        Condition {
            field: CertField::IssuerCn,
            pattern: Pattern::Glob("*".into()),
        },
        MappedIdentity {
            system: Take::Fixed(SystemId::new("foreign-1").unwrap()),
            node: Take::From(CertField::SubjectCn),
            role: Role::Sm,
        },
    )
    .and(Condition {
        field: CertField::SubjectO,
        pattern: Pattern::Exact("Aos".into()),
    })
}

#[tokio::test]
async fn handlers_see_identity_address_and_serial() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = mutual(&folder, IdentityPolicy::spiffe_only(), |request| {
        let info = request
            .extensions()
            .get::<TlsConnectInfo>()
            .expect("no connection facts");
        let peer = peer_identity(&request)?;
        Err(Status::aborted(format!(
            "{} {} {}",
            peer.id,
            info.peer_addr().ip(),
            info.peer().certificate().unwrap().serial
        )))
    })
    .await;
    let cert = pki
        .intermediate()
        .unwrap()
        .issue(&CertSpec::node("node-1", "sm"))
        .unwrap();
    let seen = status(&server, &client(&pki, &cert).await).await;
    assert_eq!(
        seen.message(),
        format!("spiffe://system-1/node/node-1/sm 127.0.0.1 {}", cert.serial)
    );
}

#[tokio::test]
async fn a_role_that_is_not_allowed_is_denied_in_words() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = mutual(&folder, IdentityPolicy::spiffe_only(), |request| {
        Allow::roles([Role::Iam, Role::Cm]).authorize(&request)?;
        Ok(request)
    })
    .await;
    let sm = pki.issue(&CertSpec::node("node-1", "sm")).unwrap();
    let denied = status(&server, &client(&pki, &sm).await).await;
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(
        denied
            .message()
            .contains("spiffe://system-1/node/node-1/sm"),
        "{denied}"
    );
    assert!(
        denied
            .message()
            .contains("it lacks one of the roles iam, cm"),
        "{denied}"
    );
    let iam = pki.issue(&CertSpec::node("node-1", "iam")).unwrap();
    server.call(&client(&pki, &iam).await).await.unwrap();
}

#[tokio::test]
async fn certificates_of_a_foreign_pki_are_mapped() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let policy = IdentityPolicy::spiffe_only().with_rules([aos_rule()]);
    let server = mutual(&folder, policy, |request| {
        let peer = peer_identity(&request)?;
        assert_eq!(peer.origin, IdentityOrigin::Rule(0));
        Allow::roles([Role::Sm])
            .on_node(NodeId::new("board-7").unwrap())
            .authorize(&request)?;
        Ok(request)
    })
    .await;
    let foreign = |cn: &str, o: &str| {
        pki.issue(
            &CertSpec::node("x", "x")
                .without_spiffe()
                .common_name(cn)
                .organization(o),
        )
        .unwrap()
    };
    server
        .call(&client(&pki, &foreign("board-7", "Aos")).await)
        .await
        .unwrap();
    let other = status(&server, &client(&pki, &foreign("board-8", "Aos")).await).await;
    assert_eq!(other.code(), Code::PermissionDenied);
    assert!(
        other.message().contains("a place on node board-7"),
        "{other}"
    );

    assert!(
        server
            .call(&client(&pki, &foreign("board-7", "Else")).await)
            .await
            .is_err()
    );
    logs.wait_for("no mapping rule matches").await;
    assert!(
        server
            .call(&client(&pki, &foreign("board 7", "Aos")).await)
            .await
            .is_err()
    );
    let line = logs.wait_for("cannot be a node id").await;
    assert!(line.contains("board 7"), "{line}");
}

#[tokio::test]
async fn an_unidentified_peer_comes_in_only_by_policy_and_stays_unidentified() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let open = mutual(
        &folder,
        IdentityPolicy::spiffe_only().allow_unidentified(),
        Ok,
    )
    .await;
    let guarded = mutual(
        &folder,
        IdentityPolicy::spiffe_only().allow_unidentified(),
        |request| {
            peer_identity(&request)?;
            Ok(request)
        },
    )
    .await;
    let cert = pki
        .issue(&CertSpec::node("node-1", "sm").without_spiffe())
        .unwrap();
    let client = client(&pki, &cert).await;
    open.call(&client).await.unwrap();
    let refused = status(&guarded, &client).await;
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("CN=node-1"), "{refused}");

    // Without any certificate, no policy lets a client into a mutual port.
    let store = CertStore::open(FileCertSource::trust_only(folder.path("ca.pem")))
        .await
        .unwrap();
    let bare =
        ClientTls::without_certificate(&store, server_role(), ClientOptions::default()).unwrap();
    assert!(open.call(&bare).await.is_err());
}

#[tokio::test]
async fn a_public_port_serves_clients_without_certificate_and_without_identity() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let own = FileCertSource::own_only(folder.path("own.crt.pem"), folder.path("own.key.pem"));
    let store = CertStore::open(own).await.unwrap();
    let tls = ServerTls::server_only(&store, ServerOptions::default()).unwrap();
    let open = TestServer::start(&tls, Ok).await;
    let guarded = TestServer::start(&tls, |request| {
        peer_identity(&request)?;
        Ok(request)
    })
    .await;
    let trust = CertStore::open(FileCertSource::trust_only(folder.path("ca.pem")))
        .await
        .unwrap();
    let bare =
        ClientTls::without_certificate(&trust, server_role(), ClientOptions::default()).unwrap();
    open.call(&bare).await.unwrap();
    assert_eq!(status(&guarded, &bare).await.code(), Code::Unauthenticated);

    let mutual = ServerTls::mutual(
        &store,
        IdentityPolicy::spiffe_only(),
        ServerOptions::default(),
    );
    assert!(matches!(mutual, Err(TlsSetupError::NoTrust { .. })));
    let client = ClientTls::mutual(&trust, server_role(), ClientOptions::default());
    assert!(matches!(client, Err(TlsSetupError::NoCertificate { .. })));
}

#[tokio::test]
async fn insecure_mode_warns_with_its_reason_and_identifies_nobody() {
    let (logs, _guard) = Logs::capture();
    assert!(Insecure::because("  ").is_err());
    let permission = Insecure::because("provisioning window").unwrap();
    let tls = ServerTls::insecure(permission.clone(), ServerOptions::default());
    let open = TestServer::start(&tls, Ok).await;
    let line = logs.wait_for("INSECURE: a server").await;
    assert!(
        line.contains("WARN") && line.contains("provisioning window"),
        "{line}"
    );
    let guarded = TestServer::start(&tls, |request| {
        peer_identity(&request)?;
        Ok(request)
    })
    .await;
    let client = ClientTls::insecure(&permission, ClientOptions::default());
    logs.wait_for("INSECURE: a client").await;
    open.call(&client).await.unwrap();
    let refused = status(&guarded, &client).await;
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("insecure"), "{refused}");
}
