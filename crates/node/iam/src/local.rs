//! The eight commands: carried out on this node, or passed on to the node they are for.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_api::common::v2::ErrorInfo;
use muster_api::domain::{AosCode, AosError};
use muster_api::iamanager::v6 as wire;
use muster_keys::{CertHandler, CertType};
use muster_node_registry::{Answer, Command, NodeCommands, Registry};
use muster_tls::NodeId;
use tonic::Status;

use crate::csr;
use crate::identity::Identity;
use crate::provisioning::actor::{ProvisionError, Provisioner};
use crate::provisioning::hook::Password;
use crate::provisioning::phase::Request;

/// Carries commands out on this node, for local callers and for the Main Node's stream alike.
#[derive(Debug)]
pub(crate) struct LocalNode {
    node: NodeId,
    provisioner: Provisioner,
    certs: Arc<CertHandler>,
    identity: Identity,
}

impl LocalNode {
    /// The node `node`.
    pub(crate) fn new(
        node: NodeId,
        provisioner: Provisioner,
        certs: Arc<CertHandler>,
        identity: Identity,
    ) -> Self {
        Self {
            node,
            provisioner,
            certs,
            identity,
        }
    }

    async fn walk(&self, request: Request, password: String) -> Option<ErrorInfo> {
        let password = Password::new(password);
        failure(&self.provisioner.walk(request, password).await)
    }

    fn cert_types(&self) -> wire::CertTypes {
        let types = self.certs.cert_types();
        wire::CertTypes {
            types: types.iter().map(CertType::to_string).collect(),
        }
    }

    async fn create_key(&self, request: wire::CreateKeyRequest) -> wire::CreateKeyResponse {
        // Key stores keep what they need to be opened; the password is for those that do not.
        drop(Password::new(request.password));
        let made = self.make_key(&request.r#type, &request.subject).await;
        let (csr, error) = match made {
            Ok(csr) => (csr, None),
            Err(error) => (String::new(), Some(error.into())),
        };
        wire::CreateKeyResponse {
            node_id: self.node.to_string(),
            r#type: request.r#type,
            csr,
            error,
        }
    }

    async fn make_key(&self, cert_type: &str, subject: &str) -> Result<String, AosError> {
        let cert_type = known_type(cert_type)?;
        let role = self
            .certs
            .config(&cert_type)
            .and_then(|config| config.role.clone());
        let system_id = self.identity.system_id();
        let subject = csr::subject(subject, system_id.as_deref(), &self.node, role.as_ref())
            .map_err(|error| AosError::new(AosCode::WrongState, error.to_string()))?;
        let made = self.provisioner.create_key(cert_type, subject).await;
        made.map_err(|error| AosError::from(&error))
    }

    async fn apply_cert(&self, request: wire::ApplyCertRequest) -> wire::ApplyCertResponse {
        let applied = match known_type(&request.r#type) {
            Ok(cert_type) => self
                .provisioner
                .apply_cert(cert_type, request.cert)
                .await
                .map_err(|error| AosError::from(&error)),
            Err(error) => Err(error),
        };
        let (cert_info, error) = match applied {
            Ok(info) => (Some(info.into()), None),
            Err(error) => (None, Some(error.into())),
        };
        wire::ApplyCertResponse {
            node_id: self.node.to_string(),
            cert_info,
            error,
        }
    }

    async fn answer(&self, command: Command) -> Answer {
        match command {
            Command::StartProvisioningRequest(request) => {
                let error = self.walk(Request::Start, request.password).await;
                Answer::StartProvisioningResponse(wire::StartProvisioningResponse { error })
            }
            Command::GetCertTypesRequest(_) => Answer::CertTypesResponse(self.cert_types()),
            Command::FinishProvisioningRequest(request) => {
                let error = self.walk(Request::Finish, request.password).await;
                Answer::FinishProvisioningResponse(wire::FinishProvisioningResponse { error })
            }
            Command::DeprovisionRequest(request) => {
                let error = self.walk(Request::Deprovision, request.password).await;
                Answer::DeprovisionResponse(wire::DeprovisionResponse { error })
            }
            Command::PauseNodeRequest(_) => {
                let error = self.walk(Request::Pause, String::new()).await;
                Answer::PauseNodeResponse(wire::PauseNodeResponse { error })
            }
            Command::ResumeNodeRequest(_) => {
                let error = self.walk(Request::Resume, String::new()).await;
                Answer::ResumeNodeResponse(wire::ResumeNodeResponse { error })
            }
            Command::CreateKeyRequest(request) => {
                Answer::CreateKeyResponse(self.create_key(request).await)
            }
            Command::ApplyCertRequest(request) => {
                Answer::ApplyCertResponse(self.apply_cert(request).await)
            }
        }
    }
}

impl NodeCommands for LocalNode {
    fn carry_out(&self, command: Command) -> BoxFuture<'_, Answer> {
        self.answer(command).boxed()
    }
}

/// The `error` field for an outcome; none is success.
fn failure(outcome: &Result<(), ProvisionError>) -> Option<ErrorInfo> {
    let error = outcome.as_ref().err()?;
    Some(AosError::from(error).into())
}

/// What is no name of a type is no type that is known.
fn known_type(text: &str) -> Result<CertType, AosError> {
    CertType::new(text).map_err(|error| AosError::new(AosCode::NotFound, error.to_string()))
}

/// Who carries commands out: on the Main Node, whichever node they are for.
#[derive(Debug, Clone)]
pub(crate) enum Commands {
    /// The Main Node's way to every node.
    Main(Registry),
    /// A Secondary Node, which speaks for itself only.
    Secondary(Arc<LocalNode>),
}

impl Commands {
    /// The nodes of the device, where they are known.
    pub(crate) fn registry(&self) -> Option<&Registry> {
        match self {
            Self::Main(registry) => Some(registry),
            Self::Secondary(_) => None,
        }
    }

    async fn command(&self, node: &str, command: Command) -> Result<Answer, AosError> {
        match self {
            Self::Main(registry) => {
                let answer = registry.command(node, command).await;
                answer.map_err(|error| error.to_aos())
            }
            Self::Secondary(local) if node.is_empty() || node == local.node.as_str() => {
                // In a task of its own: it is carried to its end when the caller goes away.
                let local = Arc::clone(local);
                let answer = tokio::spawn(async move { local.answer(command).await }).await;
                answer.map_err(|error| AosError::new(AosCode::Runtime, error.to_string()))
            }
            Self::Secondary(local) => Err(AosError::new(
                AosCode::NotFound,
                format!(
                    "this is the Secondary Node {}; the Main Node reaches {node:?}",
                    local.node
                ),
            )),
        }
    }
}

macro_rules! commands {
    ($($(#[$doc:meta])* $method:ident: $request:ident => $response:ident { $($empty:ident),* },)+) => {
        impl Commands {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Only when the node broke the protocol; failures are in the answer.
                pub(crate) async fn $method(
                    &self,
                    request: wire::$request,
                ) -> Result<wire::$response, Status> {
                    let node = request.node_id.clone();
                    match self.command(&node, Command::$request(request)).await {
                        Ok(Answer::$response(response)) => Ok(response),
                        Ok(_) => Err(Status::internal(format!(
                            "node {node:?} answered something else than {}",
                            stringify!($response)
                        ))),
                        Err(error) => Ok(wire::$response {
                            error: Some(error.into()),
                            $($empty: Default::default(),)*
                        }),
                    }
                }
            )+
        }
    };
}

commands! {
    /// `StartProvisioning`
    start: StartProvisioningRequest => StartProvisioningResponse {},
    /// `FinishProvisioning`
    finish: FinishProvisioningRequest => FinishProvisioningResponse {},
    /// `Deprovision`
    deprovision: DeprovisionRequest => DeprovisionResponse {},
    /// `PauseNode`
    pause: PauseNodeRequest => PauseNodeResponse {},
    /// `ResumeNode`
    resume: ResumeNodeRequest => ResumeNodeResponse {},
    /// `CreateKey`
    create_key: CreateKeyRequest => CreateKeyResponse { node_id, r#type, csr },
    /// `ApplyCert`
    apply_cert: ApplyCertRequest => ApplyCertResponse { node_id, cert_info },
}

impl Commands {
    /// `GetCertTypes`, whose answer has no place for a failure.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn cert_types(
        &self,
        request: wire::GetCertTypesRequest,
    ) -> Result<wire::CertTypes, Status> {
        let node = request.node_id.clone();
        match self
            .command(&node, Command::GetCertTypesRequest(request))
            .await
        {
            Ok(Answer::CertTypesResponse(types)) => Ok(types),
            Ok(_) => Err(Status::internal(format!(
                "node {node:?} answered something else than CertTypes"
            ))),
            Err(error) => Err(Status::failed_precondition(error.message)),
        }
    }
}
