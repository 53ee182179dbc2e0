//! A real tonic server on loopback, clients for it, and what was logged meanwhile.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_lab::pki::{CertSpec, IssuedCert, Pki};
use muster_tls::{
    CertMaterial, CertSource, CertStore, ClientOptions, ClientTls, ConnectTlsError, ExpectedServer,
    FileCertSource, IdentityPolicy, LoadCertError, Role, ServerName, ServerOptions, ServerTls,
    TlsIo,
};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};
use tracing_subscriber::fmt::MakeWriter;

/// Nothing here takes longer on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Log lines of this thread, and so of a current-thread runtime on it.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Logs {
    pub(crate) fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let logs = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(logs.clone())
            .finish();
        (logs, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn with(&self, words: &str) -> Vec<String> {
        self.lines()
            .into_iter()
            .filter(|line| line.contains(words))
            .collect()
    }

    /// Waits for the first line with these words.
    pub(crate) async fn wait_for(&self, words: &str) -> String {
        until(words, || self.with(words).into_iter().next()).await
    }
}

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Polls until there is something, or the test has waited long enough.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "waited in vain for: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A folder with one process's certificate files.
pub(crate) struct Folder {
    pub(crate) dir: TempDir,
}

impl Folder {
    pub(crate) fn new(pki: &Pki, cert: &IssuedCert) -> Self {
        let folder = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        folder.trust(pki);
        folder.install(cert);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn install(&self, cert: &IssuedCert) {
        cert.write_to(self.dir.path(), "own").unwrap();
    }

    pub(crate) fn trust(&self, pki: &Pki) {
        pki.write_ca(self.dir.path(), "ca").unwrap();
    }

    pub(crate) fn revoke(&self, pki: &Pki) {
        pki.write_crl(self.dir.path(), "ca").unwrap();
    }

    pub(crate) fn source(&self) -> FileCertSource {
        FileCertSource::mutual(
            self.path("own.crt.pem"),
            self.path("own.key.pem"),
            self.path("ca.pem"),
        )
    }

    pub(crate) fn source_with_crl(&self) -> FileCertSource {
        self.source().with_crl(self.path("ca.crl.pem"))
    }

    pub(crate) async fn store(&self) -> CertStore {
        CertStore::open(self.source()).await.unwrap()
    }
}

pub(crate) fn write_in_place(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Waits until the store has moved on from generation `number`.
pub(crate) async fn swapped(store: &CertStore, number: u64) {
    let mut changes = store.subscribe();
    let moved = changes.wait_for(|generation| generation.number() > number);
    tokio::time::timeout(PATIENCE, moved)
        .await
        .expect("certificates were not swapped")
        .unwrap();
}

/// What a handler does with a request before it is served.
pub(crate) type Gate = fn(Request<()>) -> Result<Request<()>, Status>;

/// A running tonic server with health and reflection; ended on drop.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    pub(crate) async fn start(tls: &ServerTls, gate: Gate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let incoming = tls.incoming(listener);
        let address = incoming.local_addr().unwrap();
        let (_, health) = tonic_health::server::health_reporter();
        let health = tonic::service::interceptor::InterceptedService::new(health, gate);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .unwrap();
        let serving = Server::builder()
            .add_service(health)
            .add_service(reflection)
            .serve_with_incoming(incoming);
        Self {
            address,
            task: tokio::spawn(async { serving.await.unwrap() }),
        }
    }

    pub(crate) async fn mutual(store: &CertStore) -> Self {
        let policy = IdentityPolicy::spiffe_only();
        let tls = ServerTls::mutual(store, policy, ServerOptions::default()).unwrap();
        Self::start(&tls, Ok).await
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(format!("https://localhost:{}", self.address.port())).unwrap()
    }

    pub(crate) async fn channel(
        &self,
        client: &ClientTls,
    ) -> Result<Channel, tonic::transport::Error> {
        self.endpoint()
            .connect_with_connector(client.connector())
            .await
    }

    /// One call over a new connection.
    pub(crate) async fn call(&self, client: &ClientTls) -> Result<(), Box<dyn std::error::Error>> {
        let channel = self.channel(client).await?;
        HealthClient::new(channel)
            .check(HealthCheckRequest::default())
            .await?;
        Ok(())
    }

    pub(crate) async fn connect(&self, client: &ClientTls) -> Result<TlsIo, ConnectTlsError> {
        client.connect("127.0.0.1", self.address.port()).await
    }

    /// Serial number of the certificate a new connection sees.
    pub(crate) async fn serial(&self, client: &ClientTls) -> String {
        let io = self.connect(client).await.unwrap();
        io.info().peer().certificate().unwrap().serial.clone()
    }
}

pub(crate) fn server_role() -> ServerName {
    ServerName::Spiffe(ExpectedServer::role(Role::Cm))
}

/// Files that are not watched, so that they may go once they are loaded.
#[derive(Debug)]
struct Unwatched(FileCertSource);

impl CertSource for Unwatched {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        self.0.load()
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A client whose certificate never changes.
pub(crate) async fn client(pki: &Pki, cert: &IssuedCert) -> ClientTls {
    let folder = Folder::new(pki, cert);
    let store = CertStore::open(Unwatched(folder.source())).await.unwrap();
    ClientTls::mutual(&store, server_role(), ClientOptions::default()).unwrap()
}

pub(crate) fn server_cert(pki: &Pki) -> IssuedCert {
    pki.issue(&CertSpec::node("main", "cm").localhost())
        .unwrap()
}

/// What a client reads from a server that refused it: the alert, as an error.
pub(crate) async fn read_alert(io: &mut TlsIo) -> std::io::Error {
    let read = tokio::time::timeout(PATIENCE, io.read_u8())
        .await
        .expect("no answer");
    read.expect_err("the server let the client in")
}

/// A bidirectional stream that can be asked whether it still works.
pub(crate) struct Conversation {
    ask: mpsc::Sender<ServerReflectionRequest>,
    answers: Streaming<ServerReflectionResponse>,
}

impl Conversation {
    pub(crate) async fn open(channel: Channel) -> Self {
        let (ask, questions) = mpsc::channel(1);
        let questions = tokio_stream::wrappers::ReceiverStream::new(questions);
        let mut client = ServerReflectionClient::new(channel);
        let answers = client
            .server_reflection_info(questions)
            .await
            .unwrap()
            .into_inner();
        Self { ask, answers }
    }

    /// Sends one message and waits for the answer to it.
    pub(crate) async fn exchange(&mut self, word: &str) {
        let question = ServerReflectionRequest {
            host: word.to_owned(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        self.ask.send(question).await.expect("the stream has ended");
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await;
        let answer = answer
            .expect("no answer")
            .unwrap()
            .expect("the stream has ended");
        assert_eq!(answer.original_request.unwrap().host, word);
    }
}
