//! Sessions are not resumed by either side, however much the other would like to.

use std::sync::Arc;

use muster_lab::pki::{CertSpec, Pki};
use muster_tls::rustls::server::WebPkiClientVerifier;
use muster_tls::rustls::{
    ClientConfig, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion, version,
};
use muster_tls::rustls_pki_types::pem::PemObject as _;
use muster_tls::rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName as TlsName};
use muster_tls::{ClientOptions, ClientTls, IdentityPolicy, ServerOptions, ServerTls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::common::{Folder, client, server_cert, server_role};

struct Material {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
}

fn material(folder: &Folder) -> Material {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(folder.path("ca.pem")).unwrap())
        .unwrap();
    Material {
        chain: vec![CertificateDer::from_pem_file(folder.path("own.crt.pem")).unwrap()],
        key: PrivateKeyDer::from_pem_file(folder.path("own.key.pem")).unwrap(),
        roots: Arc::new(roots),
    }
}

/// A plain rustls client, which resumes wherever it can, connects twice over `version`.
async fn second_handshake(version: &'static SupportedProtocolVersion) -> HandshakeKind {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    let policy = IdentityPolicy::spiffe_only();
    let options = ServerOptions::default();
    let mut incoming = ServerTls::mutual(&store, policy, options)
        .unwrap()
        .incoming(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = incoming.local_addr().unwrap();

    let own = Folder::new(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap());
    let own = material(&own);
    let mut config = ClientConfig::builder_with_protocol_versions(&[version])
        .with_root_certificates(own.roots)
        .with_client_auth_cert(own.chain, own.key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let mut kind = HandshakeKind::Full;
    for _ in 0..2 {
        let tcp = TcpStream::connect(address).await.unwrap();
        let name = TlsName::try_from("localhost").unwrap();
        let mut near = connector.connect(name, tcp).await.unwrap();
        let mut far = incoming.accept().await.unwrap();
        // Tickets would come before this byte.
        far.write_all(b"x").await.unwrap();
        far.flush().await.unwrap();
        near.read_u8().await.unwrap();
        kind = near.get_ref().1.handshake_kind().unwrap();
    }
    kind
}

#[tokio::test]
async fn the_server_resumes_no_tls13_session() {
    assert_ne!(
        second_handshake(&version::TLS13).await,
        HandshakeKind::Resumed
    );
}

#[tokio::test]
async fn the_server_resumes_no_tls12_session() {
    assert_ne!(
        second_handshake(&version::TLS12).await,
        HandshakeKind::Resumed
    );
}

#[tokio::test]
async fn the_client_resumes_no_session() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let own = material(&folder);
    let verifier = WebPkiClientVerifier::builder(own.roots).build().unwrap();
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(own.chain, own.key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = client(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;
    for _ in 0..2 {
        let accept = async {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut far = acceptor.accept(tcp).await.unwrap();
            far.write_all(b"x").await.unwrap();
            far.flush().await.unwrap();
            far
        };
        let connect = async {
            let mut near = client.connect("127.0.0.1", port).await.unwrap();
            near.read_u8().await.unwrap();
        };
        let (far, ()) = tokio::join!(accept, connect);
        assert_ne!(
            far.get_ref().1.handshake_kind(),
            Some(HandshakeKind::Resumed)
        );
    }
}

/// One store, several users: a swap reaches all of them.
#[tokio::test]
async fn servers_and_clients_of_one_store_move_together() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    let server = crate::common::TestServer::mutual(&store).await;
    let client = ClientTls::mutual(&store, server_role(), ClientOptions::default()).unwrap();
    let new = server_cert(&pki);
    folder.install(&new);
    crate::common::swapped(&store, 1).await;
    assert_eq!(server.serial(&client).await, new.serial);
}
