//! `SMService` as the network sees it: who may call, and a handler for every stream.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use muster_api::domain::{Digest, NodeId};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::session::{self, SessionOutgoing};
use muster_telemetry::ErrorChain;
use muster_tls::{Allow, Peer, Role, TlsConnectInfo, peer_identity};
use tonic::{Code, Request, Response, Status, Streaming, async_trait};
use tracing::warn;
use wire::sm_service_server::SmService;

use crate::handler::{DecodeProblem, Handler};
use crate::protocol::{ControllerEnd, certified};
use crate::refusal::StreamRefused;
use crate::shared::Shared;
use crate::stream::NodeStream;

/// The service, for a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SmEndpoint {
    shared: Arc<Shared>,
    allow: Arc<Allow>,
}

/// Who makes a call.
struct Caller {
    address: SocketAddr,
    /// Nothing on a port without certificates.
    certified: Option<NodeId>,
}

impl SmEndpoint {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            allow: Arc::new(Allow::roles([Role::Sm])),
        }
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let info = request.extensions().get::<TlsConnectInfo>();
        let info = info.ok_or_else(|| Status::unauthenticated("nothing is known of the peer"))?;
        let address = info.peer_addr();
        if matches!(info.peer(), Peer::Insecure) {
            return Ok(Caller {
                address,
                certified: None,
            });
        }
        let identity = peer_identity(request)?;
        self.allow.check(identity)?;
        let node = certified(&identity.id.node).ok_or_else(|| {
            let node = &identity.id.node;
            Status::permission_denied(format!("the certificate's {node} cannot be a node's id"))
        })?;
        Ok(Caller {
            address,
            certified: Some(node),
        })
    }

    /// Only a node that is connected has a reason to ask where things are.
    fn check_connected(&self, caller: &Caller) -> Result<(), Status> {
        let connected = match &caller.certified {
            Some(node) => self.shared.routes.get(node).is_some(),
            None => self.shared.routes.any_from(caller.address.ip()),
        };
        if connected {
            return Ok(());
        }
        let who = match &caller.certified {
            Some(node) => format!("node {node}"),
            None => format!("{}", caller.address.ip()),
        };
        Err(Status::permission_denied(format!(
            "{who} asks for blobs and has no stream; register first"
        )))
    }
}

/// What the decoder cannot read comes as a status of its own; what the transport cannot carry has the transport's error inside.
fn is_of_the_decoder(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Internal | Code::OutOfRange | Code::Unimplemented
    ) && status.source().is_none()
}

#[async_trait]
impl SmService for SmEndpoint {
    type RegisterSMStream = SessionOutgoing<ControllerEnd>;

    async fn register_sm(
        &self,
        request: Request<Streaming<wire::SmOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterSMStream>, Status> {
        let Caller { address, certified } = self.caller(&request)?;
        let shared = &self.shared;
        let check = || {
            if shared.stop.is_cancelled() {
                return Err(StreamRefused::Stopping);
            }
            certified
                .as_ref()
                .map_or(Ok(()), |node| shared.check_quarantine(node))
        };
        if let Err(refused) = check() {
            let status = Status::from(&refused);
            shared.note(address, certified.as_ref(), refused);
            return Err(status);
        }
        let decode_problem = DecodeProblem::default();
        let noted = Arc::clone(&decode_problem);
        let inbound = request.into_inner().inspect_err(move |status| {
            if is_of_the_decoder(status) {
                // A stream ends with its first error.
                let _ = noted.set(status.message().to_owned());
            }
        });
        let (session, incoming, outgoing) = session::accept(inbound, shared.limits.session());
        let stream = NodeStream::new(shared.next_stream(), address, certified, session);
        let handler = Handler {
            shared: Arc::clone(shared),
            stream: Arc::new(stream),
            incoming,
            decode_problem,
        };
        let kill = shared.kill.clone();
        let run = async move {
            kill.run_until_cancelled(handler.run()).await;
        };
        shared.handlers.spawn(run);
        Ok(Response::new(outgoing))
    }

    async fn get_blobs_infos(
        &self,
        request: Request<wire::BlobsInfosRequest>,
    ) -> Result<Response<wire::BlobsInfos>, Status> {
        let caller = self.caller(&request)?;
        self.check_connected(&caller)?;
        let digests = request.into_inner().digests;
        let limit = self.shared.limits.digests;
        if digests.len() > limit {
            return Err(Status::resource_exhausted(format!(
                "{} digests in one request, more than the {limit} allowed; ask for fewer at a time",
                digests.len()
            )));
        }
        let mut urls = Vec::with_capacity(digests.len());
        for digest in digests {
            // What is no digest is no digest of a blob here: the wire has one word for both.
            let digest: Digest = digest
                .parse()
                .map_err(|error| Status::internal(format!("there is no such blob: {error}")))?;
            let found = self.shared.blobs.url(caller.certified.as_ref(), digest);
            urls.push(found.await.map_err(|error| {
                warn!(address = %caller.address, error = %ErrorChain(&error), "cannot tell a node where a blob is");
                Status::internal(ErrorChain(&error).to_string())
            })?);
        }
        Ok(Response::new(wire::BlobsInfos { urls }))
    }
}
