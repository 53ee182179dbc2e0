//! Certificates, CAs and revocation lists change under running servers and clients.

use std::os::unix::fs::symlink;

use crate::common::{
    Conversation, Folder, Logs, TestServer, client, read_alert, server_cert, server_role, swapped,
    until, write_in_place,
};
use muster_lab::pki::{CertSpec, IssuedCert, Pki};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, FileCertSource, IdentityPolicy, ReloadError,
    ServerOptions, ServerTls,
};

fn sm(pki: &Pki, node: &str) -> IssuedCert {
    pki.issue(&CertSpec::node(node, "sm")).unwrap()
}

#[tokio::test]
async fn a_new_server_certificate_serves_new_connections_and_running_streams_go_on() {
    let pki = Pki::new("system-1").unwrap();
    let (old, new) = (server_cert(&pki), server_cert(&pki));
    let folder = Folder::new(&pki, &old);
    let store = folder.store().await;
    let server = TestServer::mutual(&store).await;
    let client = client(&pki, &sm(&pki, "node-1")).await;
    assert_eq!(server.serial(&client).await, old.serial);
    let mut stream = Conversation::open(server.channel(&client).await.unwrap()).await;
    stream.exchange("before").await;

    folder.install(&new);
    swapped(&store, 1).await;

    assert_eq!(server.serial(&client).await, new.serial);
    stream.exchange("after").await;
    server.call(&client).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_open_streams_survive_rotations() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    let server = TestServer::mutual(&store).await;
    let client = client(&pki, &sm(&pki, "node-1")).await;
    // Every stream has a connection of its own.
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(Conversation::open(server.channel(&client).await.unwrap()).await);
    }
    for round in 1..=3 {
        let new = server_cert(&pki);
        folder.install(&new);
        for stream in &mut streams[..50] {
            stream.exchange("while it changes").await;
        }
        swapped(&store, round).await;
        for stream in &mut streams {
            stream.exchange("after it changed").await;
        }
        assert_eq!(server.serial(&client).await, new.serial);
    }
}

#[tokio::test]
async fn a_new_client_certificate_is_shown_by_new_connections() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server_store = folder.store().await;
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&server_store, policy, ServerOptions::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut incoming = tls.incoming(listener);
    let port = incoming.local_addr().unwrap().port();

    let (old, new) = (sm(&pki, "node-1"), sm(&pki, "node-2"));
    let own = Folder::new(&pki, &old);
    let store = own.store().await;
    let client = ClientTls::mutual(&store, server_role(), ClientOptions::default()).unwrap();
    let mut seen = Vec::new();
    for round in 0..2 {
        let _io = client.connect("127.0.0.1", port).await.unwrap();
        let accepted = incoming.accept().await.unwrap();
        let peer = accepted.info().peer();
        seen.push((
            peer.certificate().unwrap().serial.clone(),
            peer.identity().unwrap().id.node.to_string(),
        ));
        if round == 0 {
            own.install(&new);
            swapped(&store, 1).await;
        }
    }
    assert_eq!(
        seen,
        [(old.serial, "node-1".into()), (new.serial, "node-2".into())]
    );
}

#[tokio::test]
async fn a_new_ca_lets_its_own_in_and_the_old_ones_out() {
    let (logs, _guard) = Logs::capture();
    let (old, new) = (Pki::new("system-1").unwrap(), Pki::new("system-2").unwrap());
    let folder = Folder::new(&old, &server_cert(&old));
    let store = folder.store().await;
    let server = TestServer::mutual(&store).await;
    // Both clients trust the old CA, which certifies the server all along.
    let of_old = client(&old, &sm(&old, "node-1")).await;
    let of_new = client(&old, &sm(&new, "node-2")).await;
    let mut stream = Conversation::open(server.channel(&of_old).await.unwrap()).await;
    stream.exchange("before").await;
    assert!(server.call(&of_new).await.is_err());

    folder.trust(&new);
    swapped(&store, 1).await;

    server.call(&of_new).await.unwrap();
    let mut refused = server.connect(&of_old).await.unwrap();
    assert!(
        read_alert(&mut refused)
            .await
            .to_string()
            .contains("UnknownCA")
    );
    logs.wait_for("CN=node-1").await;
    stream.exchange("after").await;
}

#[tokio::test]
async fn a_new_revocation_list_binds_the_next_connection() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    folder.revoke(&pki);
    let store = CertStore::open(folder.source_with_crl()).await.unwrap();
    let server = TestServer::mutual(&store).await;
    let cert = sm(&pki, "node-1");
    let client = client(&pki, &cert).await;
    // Called before: a session that could be resumed would be one now.
    server.call(&client).await.unwrap();

    pki.revoke(&cert).unwrap();
    folder.revoke(&pki);
    swapped(&store, 1).await;

    let mut io = server.connect(&client).await.unwrap();
    assert!(
        read_alert(&mut io)
            .await
            .to_string()
            .contains("CertificateRevoked")
    );
}

#[tokio::test]
async fn half_a_replacement_keeps_the_old_certificate_until_the_other_half_comes() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let (old, new) = (server_cert(&pki), server_cert(&pki));
    let folder = Folder::new(&pki, &old);
    let store = folder.store().await;
    let server = TestServer::mutual(&store).await;
    let client = client(&pki, &sm(&pki, "node-1")).await;

    write_in_place(&folder.path("own.crt.pem"), &new.cert_pem);
    let line = logs.wait_for("the old ones stay in use").await;
    assert!(
        line.contains("does not belong to the certificate"),
        "{line}"
    );
    assert!(line.contains("own.key.pem"), "{line}");
    assert_eq!(server.serial(&client).await, old.serial);

    let half = &new.cert_pem[..new.cert_pem.len() / 2];
    write_in_place(&folder.path("own.crt.pem"), half);
    logs.wait_for("is not well-formed PEM").await;
    assert_eq!(server.serial(&client).await, old.serial);

    std::fs::remove_file(folder.path("own.crt.pem")).unwrap();
    logs.wait_for("cannot read").await;
    assert_eq!(server.serial(&client).await, old.serial);
    assert_eq!(store.current().number(), 1);

    write_in_place(&folder.path("own.key.pem"), &new.key_pem);
    write_in_place(&folder.path("own.crt.pem"), &new.cert_pem);
    swapped(&store, 1).await;
    assert_eq!(server.serial(&client).await, new.serial);
}

#[tokio::test]
async fn files_behind_swapped_links_and_replaced_folders_are_followed() {
    let pki = Pki::new("system-1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut certs = Vec::new();
    for version in ["v1", "v2", "v3"] {
        let folder = dir.path().join(version);
        std::fs::create_dir(&folder).unwrap();
        pki.write_ca(&folder, "ca").unwrap();
        let cert = server_cert(&pki);
        cert.write_to(&folder, "own").unwrap();
        certs.push(cert);
    }
    // The way volumes are projected into containers: one link is swapped, the others go through it.
    symlink("v1", dir.path().join("data")).unwrap();
    for name in ["own.crt.pem", "own.key.pem", "ca.pem"] {
        symlink(format!("data/{name}"), dir.path().join(name)).unwrap();
    }
    let source = FileCertSource::mutual(
        dir.path().join("own.crt.pem"),
        dir.path().join("own.key.pem"),
        dir.path().join("ca.pem"),
    );
    let store = CertStore::open(source).await.unwrap();
    let serial = || {
        store
            .current()
            .material()
            .own
            .as_ref()
            .unwrap()
            .summary()
            .serial
            .clone()
    };
    assert_eq!(serial(), certs[0].serial);

    symlink("v2", dir.path().join("next")).unwrap();
    std::fs::rename(dir.path().join("next"), dir.path().join("data")).unwrap();
    swapped(&store, 1).await;
    assert_eq!(serial(), certs[1].serial);

    // The folder behind the link goes and comes back with other content.
    std::fs::remove_dir_all(dir.path().join("v2")).unwrap();
    std::fs::rename(dir.path().join("v3"), dir.path().join("v2")).unwrap();
    swapped(&store, 2).await;
    assert_eq!(serial(), certs[2].serial);
}

#[tokio::test]
async fn a_folder_that_was_gone_is_noticed_when_it_comes_back() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("tls");
    let fill = |cert: &IssuedCert| {
        std::fs::create_dir(&inner).unwrap();
        pki.write_ca(&inner, "ca").unwrap();
        cert.write_to(&inner, "own").unwrap();
    };
    let (old, new) = (server_cert(&pki), server_cert(&pki));
    fill(&old);
    let source = FileCertSource::mutual(
        inner.join("own.crt.pem"),
        inner.join("own.key.pem"),
        inner.join("ca.pem"),
    );
    let store = CertStore::open(source).await.unwrap();
    std::fs::remove_dir_all(&inner).unwrap();
    logs.wait_for("the old ones stay in use").await;
    fill(&new);
    swapped(&store, 1).await;
    assert_eq!(
        store
            .current()
            .material()
            .own
            .as_ref()
            .unwrap()
            .summary()
            .serial,
        new.serial
    );
}

#[tokio::test]
async fn what_is_not_a_change_is_not_a_generation() {
    let pki = Pki::new("system-1").unwrap();
    let (old, new) = (server_cert(&pki), server_cert(&pki));
    let folder = Folder::new(&pki, &old);
    let store = folder.store().await;
    // The same content again, and noise beside it; then a real change, which comes second.
    folder.install(&old);
    write_in_place(&folder.path("noise"), "x");
    folder.install(&new);
    swapped(&store, 1).await;
    assert_eq!(store.current().number(), 2);
    assert_eq!(
        store
            .current()
            .material()
            .own
            .as_ref()
            .unwrap()
            .summary()
            .serial,
        new.serial
    );
}

#[tokio::test]
async fn a_reload_by_hand_says_what_came_of_it() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    assert_eq!(store.reload().await.unwrap().number(), 2);
    write_in_place(&folder.path("ca.pem"), "no certificate in here");
    let error = store.reload().await.unwrap_err();
    assert!(matches!(error, ReloadError::Load(_)), "{error}");
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("ca.pem")
    );
    assert_eq!(store.current().number(), 2);
}

#[tokio::test]
async fn the_watcher_ends_with_the_store() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    let mut changes = store.subscribe();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    assert_eq!(tasks(), 1);
    drop(store);
    assert!(
        changes.changed().await.is_err(),
        "the watcher must drop its side of the channel"
    );
    until("the watcher's end", || (tasks() == 0).then_some(())).await;
}
