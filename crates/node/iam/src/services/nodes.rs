//! The nodes of the device.

use futures_util::stream;
use muster_api::iamanager::v6 as wire;
use muster_node_registry::{MainEnd, PeerKind, Registry};
use muster_rpc::session::SessionOutgoing;
use tonic::{Request, Response, Status, Streaming, async_trait};
use wire::iam_nodes_service_server::IamNodesService;
use wire::iam_public_nodes_service_server::IamPublicNodesService;

use super::{Answers, Services};
use crate::authorize::{Call, Caller};

impl Services {
    fn registry(&self) -> Result<&Registry, Status> {
        let registry = self.parts.commands.registry();
        registry.ok_or_else(|| Status::unimplemented("nodes are served by the Main Node"))
    }
}

#[async_trait]
impl IamPublicNodesService for Services {
    async fn get_all_node_i_ds(
        &self,
        request: Request<()>,
    ) -> Result<Response<wire::NodesId>, Status> {
        self.gate.admit(&request, Call::GetAllNodeIds)?;
        let ids = self.registry()?.ids();
        Ok(Response::new(wire::NodesId {
            ids: ids.into_iter().map(String::from).collect(),
        }))
    }

    async fn get_node_info(
        &self,
        request: Request<wire::GetNodeInfoRequest>,
    ) -> Result<Response<wire::NodeInfo>, Status> {
        self.gate.admit(&request, Call::GetNodeInfo)?;
        let asked = request.into_inner().node_id;
        match self.registry()?.info(&asked) {
            Some(record) => Ok(Response::new(record.to_wire())),
            None => Err(Status::not_found(format!("no node {asked:?} is known"))),
        }
    }

    type SubscribeNodeChangedStream = Answers<wire::NodeInfo>;

    /// Begins with every node that is known.
    async fn subscribe_node_changed(
        &self,
        request: Request<()>,
    ) -> Result<Response<Answers<wire::NodeInfo>>, Status> {
        self.gate.admit(&request, Call::SubscribeNodeChanged)?;
        let changes = self.registry()?.subscribe();
        let answers = stream::unfold(changes, |mut changes| async {
            let record = changes.next().await?;
            Some((Ok(record.to_wire()), changes))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    type RegisterNodeStream = SessionOutgoing<MainEnd>;

    async fn register_node(
        &self,
        request: Request<Streaming<wire::IamOutgoingMessages>>,
    ) -> Result<Response<SessionOutgoing<MainEnd>>, Status> {
        let peer = match self.gate.admit(&request, Call::RegisterNode)? {
            Caller::Identified(peer) => PeerKind::Protected { node: peer.id.node },
            Caller::Public | Caller::UnprotectedPort | Caller::LocalRoot => PeerKind::Public,
        };
        let stream = self.registry()?.accept(request.into_inner(), peer);
        stream
            .map(Response::new)
            .map_err(|refused| Status::from(&refused))
    }
}

#[async_trait]
impl IamNodesService for Services {
    async fn pause_node(
        &self,
        request: Request<wire::PauseNodeRequest>,
    ) -> Result<Response<wire::PauseNodeResponse>, Status> {
        self.gate.admit(&request, Call::PauseNode)?;
        Ok(Response::new(
            self.parts.commands.pause(request.into_inner()).await?,
        ))
    }

    async fn resume_node(
        &self,
        request: Request<wire::ResumeNodeRequest>,
    ) -> Result<Response<wire::ResumeNodeResponse>, Status> {
        self.gate.admit(&request, Call::ResumeNode)?;
        Ok(Response::new(
            self.parts.commands.resume(request.into_inner()).await?,
        ))
    }
}
