//! Provisioning and certificates, of this node and, through the Main Node, of others.

use muster_api::iamanager::v6 as wire;
use tonic::{Request, Response, Status, async_trait};
use wire::iam_certificate_service_server::IamCertificateService;
use wire::iam_provisioning_service_server::IamProvisioningService;

use super::Services;
use crate::authorize::Call;

#[async_trait]
impl IamProvisioningService for Services {
    async fn get_cert_types(
        &self,
        request: Request<wire::GetCertTypesRequest>,
    ) -> Result<Response<wire::CertTypes>, Status> {
        self.gate.admit(&request, Call::GetCertTypes)?;
        let types = self.parts.commands.cert_types(request.into_inner()).await?;
        Ok(Response::new(types))
    }

    async fn start_provisioning(
        &self,
        request: Request<wire::StartProvisioningRequest>,
    ) -> Result<Response<wire::StartProvisioningResponse>, Status> {
        self.gate.admit(&request, Call::StartProvisioning)?;
        let response = self.parts.commands.start(request.into_inner()).await?;
        Ok(Response::new(response))
    }

    async fn finish_provisioning(
        &self,
        request: Request<wire::FinishProvisioningRequest>,
    ) -> Result<Response<wire::FinishProvisioningResponse>, Status> {
        self.gate.admit(&request, Call::FinishProvisioning)?;
        let response = self.parts.commands.finish(request.into_inner()).await?;
        Ok(Response::new(response))
    }

    async fn deprovision(
        &self,
        request: Request<wire::DeprovisionRequest>,
    ) -> Result<Response<wire::DeprovisionResponse>, Status> {
        self.gate.admit(&request, Call::Deprovision)?;
        let response = self
            .parts
            .commands
            .deprovision(request.into_inner())
            .await?;
        Ok(Response::new(response))
    }
}

#[async_trait]
impl IamCertificateService for Services {
    async fn create_key(
        &self,
        request: Request<wire::CreateKeyRequest>,
    ) -> Result<Response<wire::CreateKeyResponse>, Status> {
        self.gate.admit(&request, Call::CreateKey)?;
        let response = self.parts.commands.create_key(request.into_inner()).await?;
        Ok(Response::new(response))
    }

    async fn apply_cert(
        &self,
        request: Request<wire::ApplyCertRequest>,
    ) -> Result<Response<wire::ApplyCertResponse>, Status> {
        self.gate.admit(&request, Call::ApplyCert)?;
        let response = self.parts.commands.apply_cert(request.into_inner()).await?;
        Ok(Response::new(response))
    }
}
