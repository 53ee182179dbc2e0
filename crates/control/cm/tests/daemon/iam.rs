//! The identity manager of the Main Node: the real one, provisioned by an authority of the test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_api::domain::{CertType, NodeId, NodeState};
use muster_cloud::testing::TestTls;
use muster_iamclient::IamClient;
use muster_lab::machine::{Binaries, Build};
use muster_lab::pki::{CertSpec, IssuedCert, Pki};
use muster_lab::program::{Process, Program};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Role, ServerName,
};
use serde_json::{Value, json};

use crate::rig::{Site, TIME};

pub(crate) const SYSTEM: &str = "unit-7";
pub(crate) const PASSWORD: &str = "correct horse";
/// The node that it is on.
pub(crate) const MAIN: &str = "main";

/// An identity manager with its files; it may be killed and started again at the same addresses.
pub(crate) struct Iam {
    pub(crate) folder: PathBuf,
    programs: Binaries,
    pki: Pki,
    config: Value,
    process: Option<Process>,
    pub(crate) public: SocketAddr,
    pub(crate) protected: SocketAddr,
}

fn opened(process: &mut Process, port: &str) -> SocketAddr {
    let line = process.wait_for_line(&format!("open port={port} port address="), TIME);
    let line = line.unwrap();
    let (_, rest) = line.text.split_once("address=").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// A node's own, in `folder`, below the authority in `site`, with certificates of these types.
fn configuration(folder: &Path, site: &Path, types: &[&str]) -> Value {
    fs::write(folder.join("system-id"), SYSTEM).unwrap();
    let module = |id: &&str| {
        json!({
            "id": id, "plugin": "swmodule", "maxItems": 2,
            "extendedKeyUsage": ["clientAuth", "serverAuth"],
            "params": {"storagePath": folder.join(format!("keys-{id}"))},
        })
    };
    json!({
        "publicServerUrl": "127.0.0.1:0",
        "protectedServerUrl": "127.0.0.1:0",
        "caCert": site.join("ca.pem"),
        "workingDir": folder.join("work"),
        "localSocket": folder.join("iam.sock"),
        "nodeInfo": {
            "nodeIDPath": folder.join("node-id"),
            "provisioningStatePath": folder.join("state"),
            "nodeType": "test",
            "maxDMIPS": 10000,
        },
        "identifier": {"plugin": "file", "params": {"systemIDPath": folder.join("system-id")}},
        "certModules": types.iter().map(module).collect::<Vec<_>>(),
    })
}

impl Iam {
    /// Starts and provisions one in the site's folder.
    pub(crate) async fn provisioned(site: &Site) -> Self {
        let folder = site.path("iam");
        fs::create_dir(&folder).unwrap();
        let pki = Pki::new(SYSTEM).unwrap();
        pki.write_ca(&folder, "ca").unwrap();
        fs::write(folder.join("node-id"), MAIN).unwrap();
        let config = configuration(&folder, &folder, &["iam", "cm", "sm", "online"]);
        let programs = Binaries::build(Build::Test, &[("muster-iam", "muster-iam")], &[]);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut iam = Self {
            folder,
            programs: programs.unwrap(),
            pki,
            config,
            process: None,
            public: nowhere,
            protected: nowhere,
        };
        iam.start();
        iam.provision().await;
        // With its certificates it opens its ports anew; from now on they stay where they are.
        iam.kill9();
        iam.start();
        let process = iam.process.as_mut().unwrap();
        iam.public = opened(process, "public");
        iam.protected = opened(process, "protected");
        iam.config["publicServerUrl"] = iam.public.to_string().into();
        iam.config["protectedServerUrl"] = iam.protected.to_string().into();
        iam
    }

    pub(crate) fn start(&mut self) {
        self.process = Some(self.started(&self.folder, &self.config));
    }

    fn started(&self, folder: &Path, config: &Value) -> Process {
        let path = folder.join("iam.json");
        fs::write(&path, config.to_string()).unwrap();
        let program = Program::new(self.programs.path("muster-iam"))
            .arg("--config")
            .arg(path);
        let mut process = program.start().unwrap();
        process.wait_for_line(" ready", TIME).unwrap();
        process
    }

    pub(crate) fn kill9(&mut self) {
        self.process.take().unwrap().kill9().unwrap();
    }

    /// How an operator of the node speaks to it.
    pub(crate) fn client(&self) -> IamClient {
        IamClient::local(self.folder.join("iam.sock"))
    }

    async fn provision(&self) {
        let (client, node) = (self.client(), MAIN.parse::<NodeId>().unwrap());
        client.start_provisioning(&node, PASSWORD).await.unwrap();
        for cert_type in client.cert_types(&node).await.unwrap() {
            self.renew(&cert_type).await;
        }
        client.finish_provisioning(&node, PASSWORD).await.unwrap();
    }

    /// A new key and certificate of a type.
    pub(crate) async fn renew(&self, cert_type: &CertType) {
        let spec = CertSpec::node(MAIN, &cert_type.to_string()).localhost();
        self.renew_as(cert_type, &spec).await;
    }

    /// The same, with a certificate that says something else.
    pub(crate) async fn renew_as(&self, cert_type: &CertType, spec: &CertSpec) {
        let (client, node) = (self.client(), MAIN.parse::<NodeId>().unwrap());
        let csr = client
            .create_key(&node, cert_type, "", PASSWORD)
            .await
            .unwrap();
        let chain = self.pki.sign_request(&csr, spec).unwrap();
        client.apply_cert(&node, cert_type, &chain).await.unwrap();
    }

    /// A certificate for the key of a request, as a chain.
    pub(crate) fn sign(&self, csr: &str, node: &str, role: &str) -> String {
        let spec = CertSpec::node(node, role).localhost();
        self.pki.sign_request(csr, &spec).unwrap()
    }

    /// What a cloud needs to be trusted by this Unit, and to trust it.
    pub(crate) fn cloud_tls(&self) -> TestTls {
        let spec = CertSpec::node("cloud", "cloud")
            .without_spiffe()
            .localhost();
        let issued = self.pki.issue(&spec).unwrap();
        let files = issued.write_to(&self.folder, "cloud").unwrap();
        TestTls {
            cert: files.cert,
            key: files.key,
            ca: self.folder.join("ca.pem"),
        }
    }

    /// The identity manager of another node, which has nothing yet and knows this one.
    pub(crate) fn secondary(&self, id: &str) -> Process {
        let folder = self.folder.join(id);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("node-id"), id).unwrap();
        let mut config = configuration(&folder, &self.folder, &["iam", "sm"]);
        config["mainIamPublicServerUrl"] = self.public.to_string().into();
        config["mainIamProtectedServerUrl"] = self.protected.to_string().into();
        self.started(&folder, &config)
    }

    /// Waits until the node is known in this state.
    pub(crate) async fn until_state(&self, node: &str, state: NodeState) {
        let node: NodeId = node.parse().unwrap();
        let deadline = Instant::now() + TIME;
        loop {
            let known = self.client().node(&node).await;
            if known.as_ref().is_ok_and(|it| it.state == state) {
                return;
            }
            assert!(Instant::now() < deadline, "not {state:?}: {known:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The site's daemon, with this identity manager.
    pub(crate) fn trusted_by(&self, site: Site) -> Site {
        site.set("insecure", json!(""))
            .set("iamPublicServerUrl", json!(self.public.to_string()))
            .set("iamProtectedServerUrl", json!(self.protected.to_string()))
            .set("caCert", json!(self.folder.join("ca.pem")))
    }

    /// A certificate of a node, with its key.
    pub(crate) fn issue(&self, node: &str, role: &str) -> IssuedCert {
        self.pki.issue(&CertSpec::node(node, role)).unwrap()
    }

    /// Files of a node's own certificate, and of the authority.
    pub(crate) fn certificate(&self, node: &str, role: &str) -> (PathBuf, PathBuf, PathBuf) {
        let issued = self.issue(node, role);
        let files = issued
            .write_to(&self.folder, &format!("{node}-{role}"))
            .unwrap();
        (files.cert, files.key, self.folder.join("ca.pem"))
    }

    /// How a node's Service Manager reaches the controller.
    pub(crate) async fn manager_tls(&self, node: &str) -> ClientTls {
        let (cert, key, ca) = self.certificate(node, "sm");
        let store = CertStore::open(FileCertSource::mutual(cert, key, ca))
            .await
            .unwrap();
        let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        ClientTls::mutual(&store, server, ClientOptions::default()).unwrap()
    }
}
