//! An IAM of a test's own: it answers from a state that the test sets, and notes what it was asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use muster_api::FILE_DESCRIPTOR_SET;
use muster_api::common::v2::{ArchInfo, ErrorInfo, OsInfo};
use muster_api::iamanager::iam_version_service_server::{
    IamVersionService, IamVersionServiceServer,
};
use muster_api::iamanager::{self, v6 as wire};
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, Streaming, async_trait};
use wire::iam_certificate_service_server::{IamCertificateService, IamCertificateServiceServer};
use wire::iam_nodes_service_server::{IamNodesService, IamNodesServiceServer};
use wire::iam_permissions_service_server::{IamPermissionsService, IamPermissionsServiceServer};
use wire::iam_provisioning_service_server::{IamProvisioningService, IamProvisioningServiceServer};
use wire::iam_public_cert_service_server::{IamPublicCertService, IamPublicCertServiceServer};
use wire::iam_public_current_node_service_server::{
    IamPublicCurrentNodeService, IamPublicCurrentNodeServiceServer,
};
use wire::iam_public_identity_service_server::{
    IamPublicIdentityService, IamPublicIdentityServiceServer,
};
use wire::iam_public_nodes_service_server::{IamPublicNodesService, IamPublicNodesServiceServer};
use wire::iam_public_permissions_service_server::{
    IamPublicPermissionsService, IamPublicPermissionsServiceServer,
};

/// What it says.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) certs: BTreeMap<String, wire::CertInfo>,
    pub(crate) subjects: Vec<String>,
    pub(crate) nodes: BTreeMap<String, wire::NodeInfo>,
    /// Reported inside the answers of calls that have a place for it.
    pub(crate) error: Option<ErrorInfo>,
    /// Streams get their headers with their first message only.
    pub(crate) late_headers: bool,
}

/// A fake IAM. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct FakeIam {
    pub(crate) state: watch::Sender<State>,
    /// The calls, with what they were given.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

type Changes<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl FakeIam {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: watch::Sender::new(state),
            asked: Arc::default(),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(change);
    }

    pub(crate) fn builder(&self) -> ServerBuilder {
        let config = ServerConfig {
            shutdown_grace: Duration::from_millis(50),
            ..ServerConfig::default()
        };
        ServerBuilder::new(config, FILE_DESCRIPTOR_SET)
            .service(IamVersionServiceServer::new(self.clone()))
            .service(IamPublicIdentityServiceServer::new(self.clone()))
            .service(IamPublicCurrentNodeServiceServer::new(self.clone()))
            .service(IamPublicCertServiceServer::new(self.clone()))
            .service(IamPublicPermissionsServiceServer::new(self.clone()))
            .service(IamPublicNodesServiceServer::new(self.clone()))
            .service(IamNodesServiceServer::new(self.clone()))
            .service(IamProvisioningServiceServer::new(self.clone()))
            .service(IamCertificateServiceServer::new(self.clone()))
            .service(IamPermissionsServiceServer::new(self.clone()))
    }

    pub(crate) async fn start(&self, socket: &Path) -> RunningServer<PathBuf> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).expect("a socket");
        let started = self.builder().start_unix(listener, socket.to_owned()).await;
        started.expect("a server")
    }

    fn note(&self, call: String) {
        self.asked.lock().expect("no panic").push(call);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }

    fn now(&self) -> State {
        self.state.borrow().clone()
    }

    /// Each change of a part of the state, from now on.
    async fn changes<T: Clone + PartialEq + Send + 'static>(
        &self,
        part: impl Fn(&State) -> T + Send + 'static,
        wire: impl Fn(&T, &T) -> Vec<T> + Send + 'static,
    ) -> Response<Changes<T>> {
        let mut before = part(&self.state.borrow());
        let late = self.now().late_headers;
        let states = WatchStream::from_changes(self.state.subscribe());
        let mut changes: Changes<T> = Box::pin(states.flat_map(move |state| {
            let now = part(&state);
            let told = if now == before {
                Vec::new()
            } else {
                wire(&before, &now)
            };
            before = now;
            futures_util::stream::iter(told.into_iter().map(Ok))
        }));
        if !late {
            return Response::new(changes);
        }
        match changes.next().await {
            Some(first) => {
                Response::new(Box::pin(futures_util::stream::iter([first]).chain(changes)))
            }
            None => Response::new(changes),
        }
    }
}

pub(crate) fn node(id: &str, state: &str) -> wire::NodeInfo {
    wire::NodeInfo {
        node_id: id.into(),
        node_type: "main".into(),
        os_info: Some(OsInfo {
            os: "linux".into(),
            ..OsInfo::default()
        }),
        cpus: vec![wire::CpuInfo {
            arch_info: Some(ArchInfo {
                architecture: "amd64".into(),
                ..ArchInfo::default()
            }),
            ..wire::CpuInfo::default()
        }],
        state: state.into(),
        ..wire::NodeInfo::default()
    }
}

pub(crate) fn cert(cert_type: &str, serial: u8) -> wire::CertInfo {
    wire::CertInfo {
        r#type: cert_type.into(),
        cert_url: format!("file:///certs/{serial}.pem"),
        key_url: format!("file:///certs/{serial}.key"),
        serial: vec![serial],
        issuer: vec![1, 2],
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[async_trait]
impl IamVersionService for FakeIam {
    async fn get_api_version(&self, _: Request<()>) -> Answer<iamanager::ApiVersion> {
        Ok(Response::new(iamanager::ApiVersion { version: 6 }))
    }
}

#[async_trait]
impl IamPublicIdentityService for FakeIam {
    type SubscribeSubjectsChangedStream = Changes<wire::Subjects>;

    async fn get_system_info(&self, _: Request<()>) -> Answer<wire::SystemInfo> {
        Ok(Response::new(wire::SystemInfo {
            system_id: "unit-7".into(),
            unit_model: "gateway".into(),
            version: "2".into(),
        }))
    }

    async fn get_subjects(&self, _: Request<()>) -> Answer<wire::Subjects> {
        Ok(Response::new(wire::Subjects {
            subjects: self.now().subjects,
        }))
    }

    async fn subscribe_subjects_changed(
        &self,
        _: Request<()>,
    ) -> Answer<Self::SubscribeSubjectsChangedStream> {
        let part = |state: &State| wire::Subjects {
            subjects: state.subjects.clone(),
        };
        Ok(self.changes(part, |_, now| vec![now.clone()]).await)
    }
}

#[async_trait]
impl IamPublicCurrentNodeService for FakeIam {
    type SubscribeCurrentNodeChangedStream = Changes<wire::NodeInfo>;

    async fn get_current_node_info(&self, _: Request<()>) -> Answer<wire::NodeInfo> {
        let main = self.now().nodes.get("main").cloned();
        main.map(Response::new)
            .ok_or_else(|| Status::not_found("no node"))
    }

    async fn subscribe_current_node_changed(
        &self,
        _: Request<()>,
    ) -> Answer<Self::SubscribeCurrentNodeChangedStream> {
        let part = |state: &State| state.nodes.get("main").cloned().unwrap_or_default();
        Ok(self.changes(part, |_, now| vec![now.clone()]).await)
    }
}

#[async_trait]
impl IamPublicCertService for FakeIam {
    type SubscribeCertChangedStream = Changes<wire::CertInfo>;

    async fn get_cert(&self, request: Request<wire::GetCertRequest>) -> Answer<wire::CertInfo> {
        let request = request.into_inner();
        self.note(format!(
            "GetCert {} {:?} {}",
            request.r#type, request.issuer, request.serial
        ));
        let cert = self.now().certs.get(&request.r#type).cloned();
        cert.map(Response::new)
            .ok_or_else(|| Status::not_found("no certificate"))
    }

    async fn subscribe_cert_changed(
        &self,
        request: Request<wire::SubscribeCertChangedRequest>,
    ) -> Answer<Self::SubscribeCertChangedStream> {
        let wanted = request.into_inner().r#type;
        self.note(format!("SubscribeCertChanged {wanted}"));
        let part = move |state: &State| state.certs.get(&wanted).cloned().unwrap_or_default();
        Ok(self.changes(part, |_, now| vec![now.clone()]).await)
    }
}

#[async_trait]
impl IamPublicPermissionsService for FakeIam {
    async fn get_permissions(
        &self,
        request: Request<wire::PermissionsRequest>,
    ) -> Answer<wire::PermissionsResponse> {
        let request = request.into_inner();
        if request.secret != "s3cret" {
            return Err(Status::unauthenticated("nobody's secret"));
        }
        let permissions = BTreeMap::from([(request.functional_server_id, "rw".to_owned())]);
        Ok(Response::new(wire::PermissionsResponse {
            instance: Some(muster_api::common::v2::InstanceIdent {
                item_id: "item".into(),
                subject_id: "subject".into(),
                ..Default::default()
            }),
            permissions: Some(wire::Permissions { permissions }),
        }))
    }
}

#[async_trait]
impl IamPublicNodesService for FakeIam {
    type SubscribeNodeChangedStream = Changes<wire::NodeInfo>;
    type RegisterNodeStream = Changes<wire::IamIncomingMessages>;

    async fn get_all_node_i_ds(&self, _: Request<()>) -> Answer<wire::NodesId> {
        let ids = self.now().nodes.into_keys().collect();
        Ok(Response::new(wire::NodesId { ids }))
    }

    async fn get_node_info(
        &self,
        request: Request<wire::GetNodeInfoRequest>,
    ) -> Answer<wire::NodeInfo> {
        let node = self.now().nodes.get(&request.into_inner().node_id).cloned();
        node.map(Response::new)
            .ok_or_else(|| Status::not_found("no such node"))
    }

    async fn subscribe_node_changed(
        &self,
        _: Request<()>,
    ) -> Answer<Self::SubscribeNodeChangedStream> {
        let mut before = self.now().nodes;
        let states = WatchStream::from_changes(self.state.subscribe());
        let changes = states.flat_map(move |state| {
            let changed = |node: &wire::NodeInfo| before.get(&node.node_id) != Some(node);
            let told: Vec<_> = state
                .nodes
                .values()
                .filter(|node| changed(node))
                .cloned()
                .collect();
            before = state.nodes;
            futures_util::stream::iter(told.into_iter().map(Ok))
        });
        Ok(Response::new(Box::pin(changes)))
    }

    async fn register_node(
        &self,
        _: Request<Streaming<wire::IamOutgoingMessages>>,
    ) -> Answer<Self::RegisterNodeStream> {
        Err(Status::unimplemented("not this fake's"))
    }
}

#[async_trait]
impl IamNodesService for FakeIam {
    async fn pause_node(
        &self,
        request: Request<wire::PauseNodeRequest>,
    ) -> Answer<wire::PauseNodeResponse> {
        self.note(format!("PauseNode {}", request.into_inner().node_id));
        let error = self.now().error;
        Ok(Response::new(wire::PauseNodeResponse { error }))
    }

    async fn resume_node(
        &self,
        request: Request<wire::ResumeNodeRequest>,
    ) -> Answer<wire::ResumeNodeResponse> {
        self.note(format!("ResumeNode {}", request.into_inner().node_id));
        let error = self.now().error;
        Ok(Response::new(wire::ResumeNodeResponse { error }))
    }
}

#[async_trait]
impl IamProvisioningService for FakeIam {
    async fn get_cert_types(
        &self,
        request: Request<wire::GetCertTypesRequest>,
    ) -> Answer<wire::CertTypes> {
        self.note(format!("GetCertTypes {}", request.into_inner().node_id));
        let types = self.now().certs.into_keys().collect();
        Ok(Response::new(wire::CertTypes { types }))
    }

    async fn start_provisioning(
        &self,
        request: Request<wire::StartProvisioningRequest>,
    ) -> Answer<wire::StartProvisioningResponse> {
        let request = request.into_inner();
        self.note(format!(
            "StartProvisioning {} {}",
            request.node_id, request.password
        ));
        let error = self.now().error;
        Ok(Response::new(wire::StartProvisioningResponse { error }))
    }

    async fn finish_provisioning(
        &self,
        request: Request<wire::FinishProvisioningRequest>,
    ) -> Answer<wire::FinishProvisioningResponse> {
        let request = request.into_inner();
        self.note(format!(
            "FinishProvisioning {} {}",
            request.node_id, request.password
        ));
        let error = self.now().error;
        Ok(Response::new(wire::FinishProvisioningResponse { error }))
    }

    async fn deprovision(
        &self,
        request: Request<wire::DeprovisionRequest>,
    ) -> Answer<wire::DeprovisionResponse> {
        let request = request.into_inner();
        self.note(format!(
            "Deprovision {} {}",
            request.node_id, request.password
        ));
        let error = self.now().error;
        Ok(Response::new(wire::DeprovisionResponse { error }))
    }
}

#[async_trait]
impl IamCertificateService for FakeIam {
    async fn create_key(
        &self,
        request: Request<wire::CreateKeyRequest>,
    ) -> Answer<wire::CreateKeyResponse> {
        let request = request.into_inner();
        self.note(format!(
            "CreateKey {} {} {} {}",
            request.node_id, request.r#type, request.subject, request.password
        ));
        Ok(Response::new(wire::CreateKeyResponse {
            csr: "a request".into(),
            error: self.now().error,
            ..wire::CreateKeyResponse::default()
        }))
    }

    async fn apply_cert(
        &self,
        request: Request<wire::ApplyCertRequest>,
    ) -> Answer<wire::ApplyCertResponse> {
        let request = request.into_inner();
        self.note(format!(
            "ApplyCert {} {} {}",
            request.node_id, request.r#type, request.cert
        ));
        Ok(Response::new(wire::ApplyCertResponse {
            cert_info: self.now().certs.get(&request.r#type).cloned(),
            error: self.now().error,
            ..wire::ApplyCertResponse::default()
        }))
    }
}

#[async_trait]
impl IamPermissionsService for FakeIam {
    async fn register_instance(
        &self,
        request: Request<wire::RegisterInstanceRequest>,
    ) -> Answer<wire::RegisterInstanceResponse> {
        let request = request.into_inner();
        let instance = request.instance.unwrap_or_default();
        self.note(format!(
            "RegisterInstance {} {:?}",
            instance.item_id, request.permissions
        ));
        let secret = "s3cret".into();
        Ok(Response::new(wire::RegisterInstanceResponse { secret }))
    }

    async fn unregister_instance(
        &self,
        request: Request<wire::UnregisterInstanceRequest>,
    ) -> Answer<()> {
        let instance = request.into_inner().instance.unwrap_or_default();
        self.note(format!("UnregisterInstance {}", instance.item_id));
        Ok(Response::new(()))
    }
}
