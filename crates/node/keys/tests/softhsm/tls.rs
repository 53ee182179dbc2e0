//! Mutual TLS with keys in a token on both sides.

use std::sync::Arc;
use std::time::Duration;

use muster_keys::{CertHandler, CertInfo, UrlCertSource};
use muster_lab::pki::Pki;
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, IdentityPolicy, Role, ServerName,
    ServerOptions, ServerTls, TlsIo,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::fixture::{Place, renew, with_token};

const PATIENCE: Duration = Duration::from_secs(30);

/// One side of a connection: what it shows, and how that is changed.
struct Side {
    source: UrlCertSource,
    store: CertStore,
}

impl Side {
    async fn new(place: &Place, pki: &Pki, info: &CertInfo) -> Self {
        let ca = pki.write_ca(&place.folder, "ca").unwrap();
        let crl = Vec::new();
        let source = UrlCertSource::new(&info.cert_url, &info.key_url, vec![ca], crl).unwrap();
        let store = CertStore::open(source.clone()).await.unwrap();
        Self { source, store }
    }

    async fn swap(&self, info: &CertInfo) {
        self.source.set_urls(&info.cert_url, &info.key_url).unwrap();
        let generation = self.store.reload().await.unwrap();
        let own = generation.material().own.as_ref().unwrap();
        assert_eq!(own.summary().serial, info.serial_hex());
    }
}

/// A server that says everything back, and tells whose certificate each client showed.
struct Echo {
    port: u16,
    clients: mpsc::Receiver<String>,
}

impl Echo {
    async fn start(side: &Side) -> Self {
        let policy = IdentityPolicy::spiffe_only();
        let tls = ServerTls::mutual(&side.store, policy, ServerOptions::default()).unwrap();
        let mut incoming = tls.incoming(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let port = incoming.local_addr().unwrap().port();
        let (tell, clients) = mpsc::channel(256);
        tokio::spawn(async move {
            while let Some(mut io) = incoming.accept().await {
                let peer = io.info().peer();
                let _ = tell.send(peer.certificate().unwrap().serial.clone()).await;
                tokio::spawn(async move {
                    let mut buffer = [0; 64];
                    while let Ok(read @ 1..) = io.read(&mut buffer).await {
                        io.write_all(&buffer[..read]).await.unwrap();
                    }
                });
            }
        });
        Self { port, clients }
    }

    async fn connect(&mut self, client: &ClientTls) -> (TlsIo, String) {
        let io = tokio::time::timeout(PATIENCE, client.connect("127.0.0.1", self.port));
        let io = io.await.unwrap().unwrap();
        let shown = tokio::time::timeout(PATIENCE, self.clients.recv());
        (io, shown.await.unwrap().unwrap())
    }
}

async fn talk(io: &mut TlsIo, words: &str) {
    io.write_all(words.as_bytes()).await.unwrap();
    let mut answer = vec![0; words.len()];
    let read = tokio::time::timeout(PATIENCE, io.read_exact(&mut answer));
    read.await.unwrap().unwrap();
    assert_eq!(answer, words.as_bytes());
}

fn client_tls(side: &Side) -> ClientTls {
    let iam = ServerName::Spiffe(ExpectedServer::role(Role::Iam));
    ClientTls::mutual(&side.store, iam, ClientOptions::default()).unwrap()
}

fn server_serial(io: &TlsIo) -> String {
    io.info().peer().certificate().unwrap().serial.clone()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

fn handler(place: &Place) -> Arc<CertHandler> {
    let rsa = place.config("iam", |raw| {
        raw.algorithm = "rsa".into();
        raw.max_items = 2;
    });
    let ec = place.config("sm", |raw| raw.max_items = 2);
    let handler = place.open(vec![rsa, ec]);
    for cert_type in handler.cert_types() {
        handler.set_owner(&cert_type, "").unwrap();
    }
    Arc::new(handler)
}

#[test]
fn server_and_client_sign_inside_the_token() {
    with_token("tls::server_and_client_sign_inside_the_token", |place| {
        let root = Pki::new("system-1").unwrap();
        let pki = root.intermediate().unwrap();
        let handler = handler(place);
        run(async {
            // RSA on the server's side, then on the client's.
            let server_cert = renew(&handler, &pki, "iam");
            let client_cert = renew(&handler, &pki, "sm");
            let server = Side::new(place, &root, &server_cert).await;
            let client = Side::new(place, &root, &client_cert).await;
            let mut echo = Echo::start(&server).await;
            let (mut io, shown) = echo.connect(&client_tls(&client)).await;
            assert_eq!(shown, client_cert.serial_hex());
            assert_eq!(server_serial(&io), server_cert.serial_hex());
            talk(&mut io, "hello").await;
            let back = Side::new(place, &root, &server_cert).await;
            let (_io, shown) = echo.connect(&client_tls(&back)).await;
            assert_eq!(shown, server_cert.serial_hex());
        });
    });
}

#[test]
fn renewal_reaches_new_connections_and_a_hundred_open_ones_go_on() {
    with_token(
        "tls::renewal_reaches_new_connections_and_a_hundred_open_ones_go_on",
        |place| {
            let root = Pki::new("system-1").unwrap();
            let pki = root.intermediate().unwrap();
            let handler = handler(place);
            run(async {
                let server = Side::new(place, &root, &renew(&handler, &pki, "iam")).await;
                let client = Side::new(place, &root, &renew(&handler, &pki, "sm")).await;
                let tls = client_tls(&client);
                let mut echo = Echo::start(&server).await;
                let mut open = Vec::new();
                for _ in 0..100 {
                    open.push(echo.connect(&tls).await.0);
                }
                // The first certificates are gone from the token after the second round.
                for round in 0..3 {
                    let (server_cert, client_cert) =
                        (renew(&handler, &pki, "iam"), renew(&handler, &pki, "sm"));
                    server.swap(&server_cert).await;
                    client.swap(&client_cert).await;
                    for io in &mut open {
                        talk(io, "still here").await;
                    }
                    let (mut io, shown) = echo.connect(&tls).await;
                    assert_eq!(shown, client_cert.serial_hex(), "round {round}");
                    assert_eq!(
                        server_serial(&io),
                        server_cert.serial_hex(),
                        "round {round}"
                    );
                    talk(&mut io, "new here").await;
                }
            });
        },
    );
}

#[test]
fn a_swap_to_nowhere_keeps_the_certificate_in_use() {
    with_token(
        "tls::a_swap_to_nowhere_keeps_the_certificate_in_use",
        |place| {
            let root = Pki::new("system-1").unwrap();
            let handler = handler(place);
            run(async {
                let info = renew(&handler, &root, "iam");
                let server = Side::new(place, &root, &info).await;
                let client = Side::new(place, &root, &renew(&handler, &root, "sm")).await;
                let mut echo = Echo::start(&server).await;
                let nowhere = info.cert_url.replacen("id=%", "id=%00%", 1);
                server.source.set_urls(&nowhere, &nowhere).unwrap();
                server.store.reload().await.unwrap_err();
                let (io, _) = echo.connect(&client_tls(&client)).await;
                assert_eq!(server_serial(&io), info.serial_hex());
            });
        },
    );
}
