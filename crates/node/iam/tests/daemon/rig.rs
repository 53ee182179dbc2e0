//! Nodes to test: a folder, a configuration, a daemon, and clients for it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::common::v2::ErrorInfo;
use muster_api::iamanager::v6 as wire;
use muster_lab::net::Host;
use muster_lab::pki::{CertSpec, Pki};
use muster_lab::program::{Line, Mark, Process, Program};
use muster_rpc::{ChannelConfig, Target, channel};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Insecure, Role, ServerName,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use wire::iam_certificate_service_client::IamCertificateServiceClient as CertificateClient;
use wire::iam_provisioning_service_client::IamProvisioningServiceClient as ProvisioningClient;
use wire::iam_public_current_node_service_client::IamPublicCurrentNodeServiceClient as NodeClient;

/// For whatever takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
pub(crate) const PASSWORD: &str = "correct horse";
pub(crate) const SYSTEM: &str = "unit-7";

/// A folder with an authority, for any number of nodes.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) pki: Pki,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new(SYSTEM).unwrap();
        pki.write_ca(folder.path(), "ca").unwrap();
        pki.write_crl(folder.path(), "ca").unwrap();
        Self { folder, pki }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A node that has nothing yet, whose keys are files: types `iam` and `sm`.
    pub(crate) fn node(&self, id: &str) -> Node {
        let folder = self.path(id);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("node-id"), id).unwrap();
        fs::write(folder.join("system-id"), SYSTEM).unwrap();
        let module = |id: &str| {
            json!({
                "id": id, "plugin": "swmodule", "maxItems": 2,
                "extendedKeyUsage": ["clientAuth", "serverAuth"],
                "params": { "storagePath": folder.join(format!("keys-{id}")) },
            })
        };
        let config = json!({
            "publicServerUrl": "127.0.0.1:0",
            "protectedServerUrl": "127.0.0.1:0",
            "caCert": self.path("ca.pem"),
            "certRevocationLists": [self.path("ca.crl.pem")],
            "workingDir": folder.join("work"),
            "localSocket": folder.join("iam.sock"),
            "nodeInfo": {
                "nodeIDPath": folder.join("node-id"),
                "provisioningStatePath": folder.join("state"),
                "nodeType": "test",
                "maxDMIPS": 1000,
            },
            "identifier": { "plugin": "file", "params": { "systemIDPath": folder.join("system-id") } },
            "certModules": [module("iam"), module("sm")],
        });
        Node {
            id: id.to_owned(),
            folder,
            config,
        }
    }

    /// How a client with a certificate of this site, issued for `spec`, reaches servers.
    pub(crate) async fn client(&self, spec: &CertSpec) -> ClientTls {
        let issued = self.pki.issue(spec).unwrap();
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let files = issued.write_to(&folder, "client").unwrap();
        mutual(&files.cert, &files.key, &self.path("ca.pem")).await
    }

    /// How a client that checks servers but shows nothing reaches them.
    pub(crate) async fn anonymous(&self) -> ClientTls {
        let store = CertStore::open(FileCertSource::trust_only(self.path("ca.pem")));
        let store = store.await.unwrap();
        ClientTls::without_certificate(&store, iam(), ClientOptions::default()).unwrap()
    }
}

pub(crate) async fn mutual(cert: &Path, key: &Path, ca: &Path) -> ClientTls {
    let store = CertStore::open(FileCertSource::mutual(cert, key, ca))
        .await
        .unwrap();
    ClientTls::mutual(&store, iam(), ClientOptions::default()).unwrap()
}

/// A client without TLS.
pub(crate) fn plain() -> ClientTls {
    let permission = Insecure::because("a test").unwrap();
    ClientTls::insecure(&permission, ClientOptions::default())
}

fn iam() -> ServerName {
    ServerName::Spiffe(ExpectedServer::role(Role::Iam))
}

pub(crate) fn connect(tls: ClientTls, address: SocketAddr) -> Channel {
    let target = Target::new(tls, &address.to_string()).unwrap();
    channel(&target, ChannelConfig::default())
}

/// A node's files.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) folder: PathBuf,
    pub(crate) config: Value,
}

impl Node {
    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("iam.sock")
    }

    /// The program as it is started, to be armed or put on a host.
    pub(crate) fn program(&self) -> Program {
        let config = self.folder.join("iam.json");
        fs::write(&config, self.config.to_string()).unwrap();
        Program::new(env!("CARGO_BIN_EXE_muster-iam"))
            .arg("--config")
            .arg(config)
            .arg("--log=debug,h2=info,hyper=info,tower=info")
    }

    pub(crate) fn start(&self) -> Daemon {
        Daemon::start(&self.program())
    }

    pub(crate) fn start_on(&self, host: &Host) -> Daemon {
        Daemon::start(&self.program().on(host))
    }

    pub(crate) fn state(&self) -> String {
        fs::read_to_string(self.folder.join("state")).unwrap_or_default()
    }

    pub(crate) async fn local(&self) -> Channel {
        let address = format!("unix://{}", self.socket().display());
        Endpoint::try_from(address)
            .unwrap()
            .connect()
            .await
            .unwrap()
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) process: Process,
}

impl Daemon {
    pub(crate) fn start(program: &Program) -> Self {
        let mut process = program.start().unwrap();
        process.wait_for_line(" ready", TIME).unwrap();
        Self { process }
    }

    /// Where a port was first opened.
    pub(crate) fn address(&mut self, port: &str) -> SocketAddr {
        let wanted = format!("open port={port} port address=");
        opened_at(&self.process.wait_for_line(&wanted, TIME).unwrap())
    }

    /// Where a port was opened after `mark`.
    pub(crate) fn address_after(&mut self, mark: Mark, port: &str) -> SocketAddr {
        let wanted = format!("open port={port} port address=");
        let line = self.process.wait_for_line_after(mark, &wanted, TIME);
        opened_at(&line.unwrap())
    }

    /// Waits until a port is served in this way.
    pub(crate) fn wait_for_mode(&mut self, port: &str, mode: &str) {
        let wanted = format!("open port={port} port");
        let mark = self.process.mark();
        let now = |lines: Vec<Line>| {
            let last = lines
                .into_iter()
                .rev()
                .find(|line| line.text.contains(&wanted));
            last.is_some_and(|line| line.text.contains(&format!("mode={mode}")))
        };
        if !now(self.process.lines()) {
            let what = format!("{port} port in mode {mode}");
            let is = |line: &Line| line.text.contains(&wanted) && line.text.contains(mode);
            self.process
                .wait_for_line_where(mark, &what, TIME, is)
                .unwrap();
        }
    }

    pub(crate) fn end(mut self) {
        let status = self.process.terminate(TIME).unwrap();
        assert!(status.success(), "{status}");
    }
}

fn opened_at(line: &Line) -> SocketAddr {
    let (_, rest) = line.text.split_once("address=").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Fails with the text of a response's error.
pub(crate) fn ok(error: Option<ErrorInfo>) -> Result<(), String> {
    match error {
        None => Ok(()),
        Some(error) if error.aos_code == 0 && error.exit_code == 0 => Ok(()),
        Some(error) => Err(format!("code {}: {}", error.aos_code, error.message)),
    }
}

/// One step of provisioning after the other, for one node.
pub(crate) struct Operator<'a> {
    pub(crate) channel: Channel,
    pub(crate) pki: &'a Pki,
    /// In requests; empty for the node that is asked.
    pub(crate) target: &'a str,
    /// In certificates.
    pub(crate) node: &'a str,
}

impl Operator<'_> {
    fn provisioning(&self) -> ProvisioningClient<Channel> {
        ProvisioningClient::new(self.channel.clone())
    }

    fn certificates(&self) -> CertificateClient<Channel> {
        CertificateClient::new(self.channel.clone())
    }

    pub(crate) async fn start(&self) -> Result<(), String> {
        let request = wire::StartProvisioningRequest {
            node_id: self.target.to_owned(),
            password: PASSWORD.to_owned(),
        };
        let answer = self.provisioning().start_provisioning(request).await;
        ok(answer
            .map_err(|status| status.to_string())?
            .into_inner()
            .error)
    }

    pub(crate) async fn cert_types(&self) -> Result<Vec<String>, String> {
        let request = wire::GetCertTypesRequest {
            node_id: self.target.to_owned(),
        };
        let answer = self.provisioning().get_cert_types(request).await;
        Ok(answer
            .map_err(|status| status.to_string())?
            .into_inner()
            .types)
    }

    pub(crate) async fn create_key(&self, cert_type: &str) -> Result<String, String> {
        let request = wire::CreateKeyRequest {
            node_id: self.target.to_owned(),
            r#type: cert_type.to_owned(),
            password: PASSWORD.to_owned(),
            subject: String::new(),
        };
        let answer = self.certificates().create_key(request).await;
        let answer = answer.map_err(|status| status.to_string())?.into_inner();
        ok(answer.error)?;
        assert_eq!(
            (answer.node_id.as_str(), answer.r#type.as_str()),
            (self.node, cert_type)
        );
        Ok(answer.csr)
    }

    pub(crate) async fn apply(
        &self,
        cert_type: &str,
        chain: String,
    ) -> Result<wire::CertInfo, String> {
        let request = wire::ApplyCertRequest {
            node_id: self.target.to_owned(),
            r#type: cert_type.to_owned(),
            cert: chain,
        };
        let answer = self.certificates().apply_cert(request).await;
        let answer = answer.map_err(|status| status.to_string())?.into_inner();
        ok(answer.error)?;
        answer.cert_info.ok_or_else(|| "no certificate".to_owned())
    }

    /// A new key with its certificate.
    pub(crate) async fn renew(&self, cert_type: &str) -> Result<wire::CertInfo, String> {
        let csr = self.create_key(cert_type).await?;
        let spec = CertSpec::node(self.node, cert_type);
        let chain = self
            .pki
            .sign_request(&csr, &spec)
            .map_err(|error| error.to_string())?;
        self.apply(cert_type, chain).await
    }

    pub(crate) async fn finish(&self) -> Result<(), String> {
        let request = wire::FinishProvisioningRequest {
            node_id: self.target.to_owned(),
            password: PASSWORD.to_owned(),
        };
        let answer = self.provisioning().finish_provisioning(request).await;
        ok(answer
            .map_err(|status| status.to_string())?
            .into_inner()
            .error)
    }

    pub(crate) async fn deprovision(&self) -> Result<(), String> {
        let request = wire::DeprovisionRequest {
            node_id: self.target.to_owned(),
            password: PASSWORD.to_owned(),
        };
        let answer = self.provisioning().deprovision(request).await;
        ok(answer
            .map_err(|status| status.to_string())?
            .into_inner()
            .error)
    }

    /// The whole flow.
    pub(crate) async fn provision(&self) -> Result<(), String> {
        self.start().await?;
        for cert_type in self.cert_types().await? {
            self.renew(&cert_type).await?;
        }
        self.finish().await
    }
}

/// The state a node reports of itself; the code of the refusal when it does not answer.
pub(crate) async fn node_state(channel: Channel) -> Result<String, Code> {
    let answer = NodeClient::new(channel).get_current_node_info(()).await;
    answer
        .map(|info| info.into_inner().state)
        .map_err(|status| status.code())
}

/// Runs a test's asynchronous part; sockets are made on the calling thread's host.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}
