//! Where certificates and keys of this node are.

use std::sync::Arc;

use muster_api::iamanager::v6 as wire;
use muster_keys::{CertInfo, CertType, FindCertError};
use muster_telemetry::ErrorChain;
use tonic::{Request, Response, Status, async_trait};
use tracing::error;
use wire::iam_public_cert_service_server::IamPublicCertService;

use super::{Answers, Services, changes};
use crate::authorize::Call;

fn cert_type(text: String) -> Result<CertType, Status> {
    CertType::new(text).map_err(|error| Status::not_found(error.to_string()))
}

fn refuse(error: &FindCertError) -> Status {
    let message = ErrorChain(error).to_string();
    match error {
        FindCertError::UnknownType { .. } | FindCertError::NotFound { .. } => {
            Status::not_found(message)
        }
        _ => {
            error!(error = message, "a certificate cannot be looked up");
            Status::internal(message)
        }
    }
}

#[async_trait]
impl IamPublicCertService for Services {
    async fn get_cert(
        &self,
        request: Request<wire::GetCertRequest>,
    ) -> Result<Response<wire::CertInfo>, Status> {
        self.gate.admit(&request, Call::GetCert)?;
        let asked = request.into_inner();
        let cert_type = cert_type(asked.r#type)?;
        let certs = Arc::clone(&self.parts.certs);
        let found = tokio::task::spawn_blocking(move || {
            certs.cert(&cert_type, Some(&asked.issuer), Some(&asked.serial))
        });
        let found = found
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
        found
            .map(|info| Response::new(info.into()))
            .map_err(|error| refuse(&error))
    }

    type SubscribeCertChangedStream = Answers<wire::CertInfo>;

    async fn subscribe_cert_changed(
        &self,
        request: Request<wire::SubscribeCertChangedRequest>,
    ) -> Result<Response<Answers<wire::CertInfo>>, Status> {
        self.gate.admit(&request, Call::SubscribeCertChanged)?;
        let cert_type = cert_type(request.into_inner().r#type)?;
        let newest = self
            .parts
            .certs
            .subscribe(&cert_type)
            .map_err(|error| refuse(&error))?;
        // The wire has no word for a certificate that is gone.
        let answer = |info: &Option<CertInfo>| info.clone().map(Into::into);
        Ok(Response::new(changes(newest, answer)))
    }
}
