//! Which version of the wire is spoken.

use muster_api::iamanager::ApiVersion;
use muster_api::iamanager::iam_version_service_server::IamVersionService;
use tonic::{Request, Response, Status, async_trait};

use super::Services;
use crate::authorize::Call;

/// `iamanager.v6`.
const VERSION: u64 = 6;

#[async_trait]
impl IamVersionService for Services {
    async fn get_api_version(&self, request: Request<()>) -> Result<Response<ApiVersion>, Status> {
        self.gate.admit(&request, Call::GetApiVersion)?;
        Ok(Response::new(ApiVersion { version: VERSION }))
    }
}
