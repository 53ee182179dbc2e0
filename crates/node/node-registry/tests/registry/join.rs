//! A Secondary Node under a Main Node that ends no streams by itself, as others of the family do.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream;
use muster_api::iamanager::v6 as wire;
use muster_api::iamanager::v6::iam_public_nodes_service_server::{
    IamPublicNodesService, IamPublicNodesServiceServer,
};
use muster_node_registry::{Answer, Command, JoinConfig, JoinLink, JoinPort, JoinTargets, MainEnd};
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use muster_rpc::session::{Session, SessionConfig, SessionIncoming, SessionOutgoing, accept};
use muster_rpc::slots::ReplyKind;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use crate::rig::*;

type Accepted = (Session<MainEnd>, SessionIncoming<MainEnd>);

/// Hands every stream to the test.
struct Port(mpsc::Sender<Accepted>);

#[tonic::async_trait]
impl IamPublicNodesService for Port {
    type RegisterNodeStream = SessionOutgoing<MainEnd>;
    type SubscribeNodeChangedStream = stream::Empty<Result<wire::NodeInfo, Status>>;

    async fn register_node(
        &self,
        request: Request<Streaming<wire::IamOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterNodeStream>, Status> {
        let (session, incoming, outgoing) = accept(request.into_inner(), SessionConfig::default());
        let handed = self.0.send((session, incoming)).await;
        handed.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(outgoing))
    }

    async fn get_all_node_i_ds(&self, _: Request<()>) -> Result<Response<wire::NodesId>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn get_node_info(
        &self,
        _: Request<wire::GetNodeInfoRequest>,
    ) -> Result<Response<wire::NodeInfo>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn subscribe_node_changed(
        &self,
        _: Request<()>,
    ) -> Result<Response<Self::SubscribeNodeChangedStream>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }
}

async fn start_port() -> (RunningServer, mpsc::Receiver<Accepted>) {
    let (streams, accepted) = mpsc::channel(4);
    let server = ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .service(IamPublicNodesServiceServer::new(Port(streams)))
        .start("127.0.0.1:0".parse().unwrap(), &plain_server())
        .await
        .unwrap();
    (server, accepted)
}

fn start(
    device: &std::sync::Arc<Device>,
    [public, protected]: [SocketAddr; 2],
    farewell: Duration,
) -> JoinLink {
    let targets = JoinTargets {
        public: plain_target(public),
        protected: plain_target(protected),
    };
    let config = JoinConfig {
        farewell,
        ..join_config()
    };
    JoinLink::start(
        targets,
        device.info.subscribe(),
        device.clone() as _,
        config,
    )
}

async fn hello(incoming: &mut SessionIncoming<MainEnd>) -> String {
    let message = soon("a description", incoming.recv()).await.unwrap();
    match message.iam_outgoing_message {
        Some(Answer::NodeInfo(info)) => info.state,
        other => panic!("not a description: {other:?}"),
    }
}

async fn ask(session: &Session<MainEnd>, command: Command, kind: &'static str) {
    let message = wire::IamIncomingMessages {
        iam_incoming_message: Some(command),
    };
    let asked = session.ask(message, ReplyKind(kind));
    soon("an answer", asked).await.unwrap();
}

#[tokio::test]
async fn a_node_answers_before_it_moves_and_then_moves_by_itself() {
    let (public, mut publics) = start_port().await;
    let (protected, mut protecteds) = start_port().await;
    let device = Device::new("a", Unprovisioned);
    let ports = [public.address(), protected.address()];
    let link = start(&device, ports, Duration::from_millis(300));
    let (session, mut incoming) = soon("a stream", publics.recv()).await.unwrap();
    assert_eq!(hello(&mut incoming).await, "unprovisioned");
    ask(
        &session,
        finish_provisioning(),
        "FinishProvisioningResponse",
    )
    .await;
    let (_moved, mut described) = soon("the other stream", protecteds.recv()).await.unwrap();
    assert_eq!(hello(&mut described).await, "provisioned");
    // On the port without certificates it never said that it is provisioned.
    assert_eq!(soon("the end", incoming.recv()).await, None);
    joins_on(&link, JoinPort::Protected).await;
    link.stop().await;
}

/// Provisioned by somebody on the node itself: there is no answer that must arrive first.
#[tokio::test]
async fn a_node_that_changes_by_itself_moves_at_once() {
    let (public, mut publics) = start_port().await;
    let (protected, mut protecteds) = start_port().await;
    let device = Device::new("a", Unprovisioned);
    let ports = [public.address(), protected.address()];
    let link = start(&device, ports, Duration::from_hours(1));
    let _first = soon("a stream", publics.recv()).await.unwrap();
    device.set_state(Provisioned);
    let (_session, mut described) = soon("the other stream", protecteds.recv()).await.unwrap();
    assert_eq!(hello(&mut described).await, "provisioned");
    link.stop().await;
}

#[tokio::test]
async fn a_node_that_thinks_better_of_moving_goes_on_where_it_is() {
    let (public, mut publics) = start_port().await;
    let device = Device::new("a", Unprovisioned);
    let ports = [public.address(); 2];
    let link = start(&device, ports, Duration::from_hours(1));
    let (session, mut incoming) = soon("a stream", publics.recv()).await.unwrap();
    assert_eq!(hello(&mut incoming).await, "unprovisioned");
    ask(
        &session,
        finish_provisioning(),
        "FinishProvisioningResponse",
    )
    .await;
    device.set_state(Unprovisioned);
    ask(&session, cert_types(), "CertTypes").await;
    link.stop().await;
}
