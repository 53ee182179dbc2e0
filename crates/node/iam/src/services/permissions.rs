//! What instances may do: registered by the Service Manager, asked for by functional servers.

use muster_api::domain::InstanceIdent;
use muster_api::iamanager::v6 as wire;
use muster_permissions::{Grants, LookUpError, Permissions, RegisterError};
use muster_telemetry::ErrorChain;
use tonic::{Code, Request, Response, Status, async_trait};
use tracing::error;
use wire::iam_permissions_service_server::IamPermissionsService;
use wire::iam_public_permissions_service_server::IamPublicPermissionsService;

use super::Services;
use crate::authorize::Call;

impl Services {
    fn permissions(&self) -> Result<&Permissions, Status> {
        let kept = self.parts.permissions.as_ref();
        kept.ok_or_else(|| Status::unimplemented("enablePermissionsHandler is off on this node"))
    }
}

/// A failure of this daemon is logged; one of the caller's is its own business.
fn refuse(code: Code, error: &(dyn std::error::Error + 'static)) -> Status {
    let message = ErrorChain(error).to_string();
    if code == Code::Internal {
        error!(error = message, "permissions are not served");
    }
    Status::new(code, message)
}

#[async_trait]
impl IamPublicPermissionsService for Services {
    async fn get_permissions(
        &self,
        request: Request<wire::PermissionsRequest>,
    ) -> Result<Response<wire::PermissionsResponse>, Status> {
        self.gate.admit(&request, Call::GetPermissions)?;
        let asked = request.into_inner();
        let granted = self
            .permissions()?
            .look_up(&asked.secret, &asked.functional_server_id)
            .await
            .map_err(|error| {
                let code = match &error {
                    LookUpError::UnknownSecret => Code::Unauthenticated,
                    LookUpError::NotGranted { .. } => Code::PermissionDenied,
                    LookUpError::Unreadable { .. } | LookUpError::Store(_) => Code::Internal,
                };
                refuse(code, &error)
            })?;
        Ok(Response::new(granted.into()))
    }
}

/// Which instance a request is about.
fn instance(wire: Option<muster_api::common::v2::InstanceIdent>) -> Result<InstanceIdent, Status> {
    let wire = wire.ok_or_else(|| Status::invalid_argument("the request names no instance"))?;
    InstanceIdent::try_from(wire).map_err(|error| Status::invalid_argument(error.to_string()))
}

#[async_trait]
impl IamPermissionsService for Services {
    async fn register_instance(
        &self,
        request: Request<wire::RegisterInstanceRequest>,
    ) -> Result<Response<wire::RegisterInstanceResponse>, Status> {
        self.gate.admit(&request, Call::RegisterInstance)?;
        let asked = request.into_inner();
        let instance = instance(asked.instance)?;
        let grants = Grants::try_from(asked.permissions)
            .map_err(|error| Status::invalid_argument(ErrorChain(&error).to_string()))?;
        let secret = self
            .permissions()?
            .register(&instance, &grants)
            .await
            .map_err(|error| {
                let code = match &error {
                    RegisterError::OverLimit { .. } => Code::ResourceExhausted,
                    RegisterError::Randomness { .. } | RegisterError::Store { .. } => {
                        Code::Internal
                    }
                };
                refuse(code, &error)
            })?;
        Ok(Response::new(wire::RegisterInstanceResponse {
            secret: secret.expose().to_owned(),
        }))
    }

    async fn unregister_instance(
        &self,
        request: Request<wire::UnregisterInstanceRequest>,
    ) -> Result<Response<()>, Status> {
        self.gate.admit(&request, Call::UnregisterInstance)?;
        let instance = instance(request.into_inner().instance)?;
        // An instance that is not registered is as good as one that was just unregistered.
        self.permissions()?
            .unregister(&instance)
            .await
            .map_err(|error| refuse(Code::Internal, &error))?;
        Ok(Response::new(()))
    }
}
