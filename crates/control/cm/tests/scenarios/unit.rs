//! A Unit of real nodes: an authority, one or two machines, images, and an operator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use muster_api::domain::{CertType, InstanceIdent, ItemType, NodeId};
use muster_control_api::v1;
use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_iamclient::IamClient;
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::machine::{Binaries, Build};
use muster_lab::pki::{CertSpec, Pki};
use muster_lab::try_poll_for;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use crate::machines::{
    MAIN, Managers, Networks, NodeMachine, PROGRAMS, SECOND, SYSTEM, TIME, connect,
};

const PASSWORD: &str = "correct horse";
/// What every instance does: writes its version and colour down where it may keep something, and stays.
const SCRIPT: &str = r#"if [ -d /storage ]; then
    echo "$(cat /version) $COLOUR" >>/storage/starts
    cat /version >>/state.dat
fi
exec sleep 1000000"#;

/// How an operator sees an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: String,
    pub(crate) version: String,
    pub(crate) state: String,
    /// What is wrong about it.
    pub(crate) why: String,
}

impl Seen {
    /// An instance that is as it should be.
    pub(crate) fn active(node: &str, version: &str) -> Self {
        Self {
            node: node.to_owned(),
            version: version.to_owned(),
            state: "active".to_owned(),
            why: String::new(),
        }
    }
}

/// Instances by item; each has one, of subject `local`.
pub(crate) type Instances = BTreeMap<String, Seen>;

/// A Unit of real nodes.
pub(crate) struct Unit {
    // Machines end before the files that they see go.
    nodes: BTreeMap<&'static str, NodeMachine>,
    pki: RefCell<Pki>,
    runtime: Runtime,
    files: TempDir,
    programs: Binaries,
    networks: Networks,
}

impl Unit {
    /// Provisioned and connected.
    pub(crate) fn boot(names: &[&'static str]) -> Self {
        Self::boot_with(names, Networks::Off)
    }

    /// The same; instances may have networks.
    pub(crate) fn boot_with(names: &[&'static str], networks: Networks) -> Self {
        let files = tempfile::tempdir().unwrap();
        let pki = Pki::new(SYSTEM).unwrap();
        for folder in names.iter().chain(&["pki", "images", "content"]) {
            fs::create_dir(files.path().join(folder)).unwrap();
        }
        pki.write_ca(&files.path().join("pki"), "ca").unwrap();
        let features = [
            "muster-core/fault-points",
            "muster-sm/fault-points",
            "muster-cm/fault-points",
        ];
        let programs = Binaries::build(Build::Test, PROGRAMS, &features).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let boot = |name: &&'static str| {
            (
                *name,
                NodeMachine::boot(name, files.path(), &programs, Managers::Identity, networks),
            )
        };
        let unit = Self {
            nodes: names.iter().map(boot).collect(),
            pki: RefCell::new(pki),
            runtime: runtime.unwrap(),
            files,
            programs,
            networks,
        };
        unit.busybox();
        for name in names {
            unit.provision(name);
        }
        if names.len() > 1 {
            unit.plug_in();
        }
        for name in names {
            unit.node(name).start_managers(name);
        }
        unit.until("every node connected", || {
            let connected = unit.connected();
            names
                .iter()
                .all(|name| connected.get(*name) == Some(&true))
                .then_some(())
        });
        unit
    }

    pub(crate) fn node(&self, name: &str) -> &NodeMachine {
        &self.nodes[name]
    }

    /// A file that all nodes see below `/test`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Lays a cable between the nodes.
    pub(crate) fn plug_in(&self) {
        connect(self.node(MAIN), self.node(SECOND));
    }

    /// A power cut: nothing of a node is left but its disk.
    pub(crate) fn switch_off(&mut self, name: &str) {
        self.nodes.remove(name).unwrap();
    }

    /// Boots a node again; nobody lays a cable to it.
    pub(crate) fn switch_on(&mut self, name: &'static str, managers: Managers) {
        let (files, programs) = (self.files.path(), &self.programs);
        let node = NodeMachine::boot(name, files, programs, managers, self.networks);
        self.nodes.insert(name, node);
    }

    // Identity.

    fn iam(&self, node: &str) -> IamClient {
        let _runtime = self.runtime.enter();
        IamClient::local(self.node(node).path("/run/muster/iam.sock"))
    }

    fn provision(&self, node: &str) {
        let (iam, id) = (self.iam(node), node_id(node));
        self.runtime
            .block_on(iam.start_provisioning(&id, PASSWORD))
            .unwrap();
        self.renew(node);
        self.runtime
            .block_on(iam.finish_provisioning(&id, PASSWORD))
            .unwrap();
    }

    /// Gives a node another key and certificate for each of its types, and says the certificates.
    pub(crate) fn renew(&self, node: &str) -> BTreeMap<CertType, String> {
        let (iam, id) = (self.iam(node), node_id(node));
        let types = self.runtime.block_on(iam.cert_types(&id)).unwrap();
        let renewed = types.into_iter().map(|cert_type| {
            let request = self
                .runtime
                .block_on(iam.create_key(&id, &cert_type, "", PASSWORD))
                .unwrap();
            let spec = CertSpec::node(node, cert_type.as_str());
            let chain = self.pki.borrow().sign_request(&request, &spec).unwrap();
            self.runtime
                .block_on(iam.apply_cert(&id, &cert_type, &chain))
                .unwrap();
            (cert_type, chain)
        });
        renewed.collect()
    }

    /// Certificates are signed by this authority from now on; who is trusted is another matter.
    pub(crate) fn sign_with(&self, pki: Pki) {
        self.pki.replace(pki);
    }

    pub(crate) fn authority(&self) -> String {
        self.pki.borrow().ca_pem().to_owned()
    }

    /// These authorities are trusted by all nodes.
    pub(crate) fn trust(&self, authorities: &str) {
        let path = self.file("pki/ca.pem");
        fs::write(path.with_extension("new"), authorities).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    // Images and documents.

    fn busybox(&self) {
        let bin = self.file("content/bin");
        fs::create_dir(&bin).unwrap();
        fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
        for tool in ["sh", "cat", "sleep"] {
            symlink("busybox", bin.join(tool)).unwrap();
        }
    }

    /// An item for a document, with an image of its own.
    pub(crate) fn item(&self, item: &str, version: &str, more: &Value) -> Value {
        let name = format!("images/{item}-{version}");
        if !self.file(&name).exists() {
            fs::write(self.file("content/version"), format!("{version}\n")).unwrap();
            let mut config =
                json!({"runtimes": [{"codename": "runc"}], "quotas": {"pidsLimit": 16}});
            for (key, value) in more.as_object().into_iter().flatten() {
                config[key] = value.clone();
            }
            let order = BuildOrder {
                content: Content::Folder(self.file("content")),
                run: RunSettings {
                    entrypoint: ["/bin/sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
                    env: vec!["PATH=/bin".into()],
                    ..RunSettings::default()
                },
                item_config: Some(config.to_string().into_bytes()),
                platform: Platform::of_this_program(),
                format: LayerFormat::TarGzip,
                name: None,
                output: self.file(&name),
                as_archive: false,
            };
            build(&order).unwrap();
        }
        json!({"id": item, "version": version, "image": {"layout": format!("/test/{name}")}})
    }

    // The operator.

    async fn control(&self) -> ControlServiceClient<Channel> {
        let path = self.node(MAIN).path("/run/muster/cm.sock");
        let endpoint = Endpoint::try_from(format!("unix://{}", path.display())).unwrap();
        ControlServiceClient::new(endpoint.connect_lazy())
    }

    pub(crate) fn apply(&self, document: &Value) {
        let request = v1::ApplyRequest {
            document: document.to_string().into_bytes(),
            format: v1::DocumentFormat::Json.into(),
            name: "/test.json".into(),
            dry_run: false,
        };
        self.runtime
            .block_on(async { self.control().await.apply(request).await })
            .unwrap();
    }

    pub(crate) fn rollback(&self) {
        let request = v1::RollbackRequest::default();
        self.runtime
            .block_on(async { self.control().await.rollback(request).await })
            .unwrap();
    }

    /// Nothing while nobody answers.
    pub(crate) fn instances(&self) -> Instances {
        let request = v1::ListInstancesRequest::default();
        let listed = self
            .runtime
            .block_on(async { self.control().await.list_instances(request).await });
        let instances = listed.map_or_else(|_| Vec::new(), |it| it.into_inner().instances);
        let seen = |it: v1::Instance| {
            let seen = Seen {
                node: it.node_id,
                version: it.version,
                state: it.state,
                why: it.error.map_or_else(String::new, |it| it.message),
            };
            (it.ident.unwrap().item_id, seen)
        };
        instances.into_iter().map(seen).collect()
    }

    /// Nodes, and whether they are connected; nothing while nobody answers.
    pub(crate) fn connected(&self) -> BTreeMap<String, bool> {
        let request = v1::ListNodesRequest::default();
        let listed = self
            .runtime
            .block_on(async { self.control().await.list_nodes(request).await });
        let nodes = listed.map_or_else(|_| Vec::new(), |it| it.into_inner().nodes);
        nodes
            .into_iter()
            .map(|it| (it.node_id, it.connected))
            .collect()
    }

    /// Waits until instances are exactly these, and the program of each is what stays of it.
    #[track_caller]
    pub(crate) fn until_instances(&self, wanted: &[(&str, Seen)]) {
        let all: Instances = wanted
            .iter()
            .map(|(item, seen)| ((*item).to_owned(), seen.clone()))
            .collect();
        self.until(&format!("{all:#?}"), || {
            let stays = |(item, seen): &(&str, Seen)| self.pid(&seen.node, item).is_some();
            (self.instances() == all && wanted.iter().all(stays)).then_some(())
        });
    }

    /// The process of an item's instance on a node.
    pub(crate) fn pid(&self, node: &str, item: &str) -> Option<i32> {
        let id = instance_id(item);
        let pids = self.node(node).pids();
        pids.into_iter()
            .find_map(|(unit, pid)| unit.contains(&id).then_some(pid))
    }

    /// The processes of instances on all nodes.
    pub(crate) fn pids(&self) -> BTreeMap<&'static str, BTreeMap<String, i32>> {
        self.nodes
            .iter()
            .map(|(name, node)| (*name, node.pids()))
            .collect()
    }

    /// Waits until `is` gives something; otherwise says what the nodes have said.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, is: impl FnMut() -> Option<T>) -> T {
        try_poll_for(TIME, is).unwrap_or_else(|| {
            let words = self
                .nodes
                .iter()
                .map(|(name, node)| format!("{name}:\n{}\n", node.last_words()));
            panic!(
                "not {what}, but {:#?}\n{}",
                self.instances(),
                words.collect::<String>()
            )
        })
    }
}

fn node_id(node: &str) -> NodeId {
    node.parse().unwrap()
}

fn instance_id(item: &str) -> String {
    let ident = InstanceIdent {
        item_id: item.parse().unwrap(),
        subject_id: "local".parse().unwrap(),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    };
    ident.instance_id().to_string()
}

/// What these tests need of a machine.
macro_rules! require_nodes {
    () => {
        muster_lab::require!(
            Root,
            Cgroup2,
            Tool("runc"),
            Tool("ip"),
            File("/bin/busybox")
        )
    };
}
pub(crate) use require_nodes;
