//! The identity manager of the Main Node: the real one, provisioned by an authority of the test.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use muster_api::domain::{CertType, NodeId};
use muster_iamclient::IamClient;
use muster_lab::machine::{Binaries, Build};
use muster_lab::pki::{CertSpec, IssuedCert, Pki};
use muster_lab::program::{Process, Program};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Role, ServerName,
};
use serde_json::{Value, json};

use crate::rig::{Site, TIME};

const SYSTEM: &str = "unit-7";
const PASSWORD: &str = "correct horse";
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

impl Iam {
    /// Starts and provisions one in the site's folder.
    pub(crate) async fn provisioned(site: &Site) -> Self {
        let folder = site.path("iam");
        fs::create_dir(&folder).unwrap();
        let pki = Pki::new(SYSTEM).unwrap();
        pki.write_ca(&folder, "ca").unwrap();
        fs::write(folder.join("node-id"), MAIN).unwrap();
        fs::write(folder.join("system-id"), SYSTEM).unwrap();
        let module = |id: &str| {
            json!({
                "id": id, "plugin": "swmodule", "maxItems": 2,
                "extendedKeyUsage": ["clientAuth", "serverAuth"],
                "params": {"storagePath": folder.join(format!("keys-{id}"))},
            })
        };
        let config = json!({
            "publicServerUrl": "127.0.0.1:0",
            "protectedServerUrl": "127.0.0.1:0",
            "caCert": folder.join("ca.pem"),
            "workingDir": folder.join("work"),
            "localSocket": folder.join("iam.sock"),
            "nodeInfo": {
                "nodeIDPath": folder.join("node-id"),
                "provisioningStatePath": folder.join("state"),
                "nodeType": "test",
                "maxDMIPS": 10000,
            },
            "identifier": {"plugin": "file", "params": {"systemIDPath": folder.join("system-id")}},
            "certModules": [module("iam"), module("cm"), module("sm")],
        });
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
        let config = self.folder.join("iam.json");
        fs::write(&config, self.config.to_string()).unwrap();
        let program = Program::new(self.programs.path("muster-iam"))
            .arg("--config")
            .arg(config);
        let mut process = program.start().unwrap();
        process.wait_for_line(" ready", TIME).unwrap();
        self.process = Some(process);
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
        let (client, node) = (self.client(), MAIN.parse::<NodeId>().unwrap());
        let csr = client
            .create_key(&node, cert_type, "", PASSWORD)
            .await
            .unwrap();
        let spec = CertSpec::node(MAIN, &cert_type.to_string()).localhost();
        let chain = self.pki.sign_request(&csr, &spec).unwrap();
        client.apply_cert(&node, cert_type, &chain).await.unwrap();
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
