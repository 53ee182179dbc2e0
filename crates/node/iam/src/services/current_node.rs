//! The node that this daemon runs on.

use muster_api::iamanager::v6 as wire;
use tonic::{Request, Response, Status, async_trait};
use wire::iam_public_current_node_service_server::IamPublicCurrentNodeService;

use super::{Answers, Services, changes};
use crate::authorize::Call;

#[async_trait]
impl IamPublicCurrentNodeService for Services {
    async fn get_current_node_info(
        &self,
        request: Request<()>,
    ) -> Result<Response<wire::NodeInfo>, Status> {
        self.gate.admit(&request, Call::GetCurrentNodeInfo)?;
        let info = self.parts.node.borrow().clone();
        Ok(Response::new(info.into()))
    }

    type SubscribeCurrentNodeChangedStream = Answers<wire::NodeInfo>;

    async fn subscribe_current_node_changed(
        &self,
        request: Request<()>,
    ) -> Result<Response<Answers<wire::NodeInfo>>, Status> {
        self.gate
            .admit(&request, Call::SubscribeCurrentNodeChanged)?;
        let node = self.parts.node.clone();
        Ok(Response::new(changes(node, |info| {
            Some(info.clone().into())
        })))
    }
}
