//! The wire: one file per service, each handler a check at the [`Gate`] and a call into the daemon.
//!
//! A request that was let in and then fails is answered with an `ErrorInfo` where the response has a
//! field for it, as peers expect, and with a gRPC status elsewhere.

mod cert;
mod current_node;
mod identity;
mod nodes;
mod permissions;
mod provisioning;
mod version;

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use muster_api::FILE_DESCRIPTOR_SET;
use muster_api::iamanager::iam_version_service_server::IamVersionServiceServer;
use muster_api::iamanager::v6 as wire;
use muster_keys::CertHandler;
use muster_permissions::Permissions;
use muster_rpc::server::{ServerBuilder, ServerConfig};
use tokio::sync::watch;
use tonic::Status;

use crate::caller::{Door, Gate};
use crate::identity::Identity;
use crate::local::Commands;

/// The longest question on the public port, where anybody may ask.
const QUESTION: usize = 16 * 1024;
/// The longest message of a node that joins: descriptions above 64 KiB are refused with a reason, and a request for a certificate
/// is shorter.
const DESCRIPTION: usize = 256 * 1024;

/// A stream of answers, as the generated services want it.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the services answer from.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Which device this is.
    pub(crate) identity: Identity,
    /// This node's description.
    pub(crate) node: watch::Receiver<muster_api::domain::NodeInfo>,
    /// Keys and certificates.
    pub(crate) certs: Arc<CertHandler>,
    /// What instances may do, if that is kept here.
    pub(crate) permissions: Option<Permissions>,
    /// Commands, for this node and others.
    pub(crate) commands: Commands,
}

/// All services, at one door.
#[derive(Debug, Clone)]
pub(crate) struct Services {
    gate: Gate,
    parts: Arc<Parts>,
}

impl Services {
    /// The services at the gate's door.
    pub(crate) fn new(gate: Gate, parts: Arc<Parts>) -> Self {
        Self { gate, parts }
    }

    /// A server with the services of this door: the public port has no protected ones. The nodes of
    /// the device are served on its Main Node only.
    pub(crate) fn server(&self, door: Door, config: ServerConfig) -> ServerBuilder {
        use crate::config::Port;
        use wire::iam_certificate_service_server::IamCertificateServiceServer as Certificate;
        use wire::iam_nodes_service_server::IamNodesServiceServer as Nodes;
        use wire::iam_permissions_service_server::IamPermissionsServiceServer as Permissions;
        use wire::iam_provisioning_service_server::IamProvisioningServiceServer as Provisioning;
        use wire::iam_public_cert_service_server::IamPublicCertServiceServer as PublicCert;
        use wire::iam_public_current_node_service_server::IamPublicCurrentNodeServiceServer as PublicNode;
        use wire::iam_public_identity_service_server::IamPublicIdentityServiceServer as PublicIdentity;
        use wire::iam_public_nodes_service_server::IamPublicNodesServiceServer as PublicNodes;
        use wire::iam_public_permissions_service_server::IamPublicPermissionsServiceServer as PublicPermissions;

        let mut server = ServerBuilder::new(config, FILE_DESCRIPTOR_SET)
            .service(IamVersionServiceServer::new(self.clone()).max_decoding_message_size(QUESTION))
            .service(PublicIdentity::new(self.clone()).max_decoding_message_size(QUESTION))
            .service(PublicNode::new(self.clone()).max_decoding_message_size(QUESTION))
            .service(PublicCert::new(self.clone()).max_decoding_message_size(QUESTION));
        if self.parts.permissions.is_some() {
            let permissions = PublicPermissions::new(self.clone());
            server = server.service(permissions.max_decoding_message_size(QUESTION));
        }
        if self.parts.commands.registry().is_some() {
            let nodes = PublicNodes::new(self.clone());
            server = server.service(nodes.max_decoding_message_size(DESCRIPTION));
        }
        if door == Door::Port(Port::Public) {
            return server;
        }
        server = server
            .service(Nodes::new(self.clone()))
            .service(Provisioning::new(self.clone()))
            .service(Certificate::new(self.clone()));
        if self.parts.permissions.is_some() {
            server = server.service(Permissions::new(self.clone()));
        }
        server
    }
}

/// Every later value of `values`, as an answer; a slow reader gets the latest.
fn changes<T, A>(
    values: watch::Receiver<T>,
    answer: impl FnMut(&T) -> Option<A> + Send + 'static,
) -> Answers<A>
where
    T: Send + Sync + 'static,
    A: Send + 'static,
{
    let mut values = values;
    values.mark_unchanged();
    Box::pin(stream::unfold(
        (values, answer),
        |(mut values, mut answer)| async move {
            loop {
                values.changed().await.ok()?;
                let next = answer(&values.borrow_and_update());
                if let Some(next) = next {
                    return Some((Ok(next), (values, answer)));
                }
            }
        },
    ))
}
