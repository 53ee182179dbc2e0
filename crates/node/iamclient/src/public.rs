//! Calls of the public port.

use muster_api::domain::{CertType, NodeId, NodeInfo, SubjectId};
use muster_api::iamanager::iam_version_service_client::IamVersionServiceClient;
use muster_api::iamanager::v6 as wire;
use wire::iam_public_cert_service_client::IamPublicCertServiceClient;
use wire::iam_public_current_node_service_client::IamPublicCurrentNodeServiceClient;
use wire::iam_public_identity_service_client::IamPublicIdentityServiceClient;
use wire::iam_public_nodes_service_client::IamPublicNodesServiceClient;
use wire::iam_public_permissions_service_client::IamPublicPermissionsServiceClient;

use crate::client::{Call, IamClient, OF_NODE, SOON};
use crate::error::IamCallError;
use crate::feed::{CertFeed, CurrentNodeFeed, NodesFeed, SubjectsFeed};
use crate::follow::Follow;
use crate::types::{CertInfo, Granted};

/// Calls of the public port.
impl IamClient {
    /// The version of the wire that IAM speaks.
    pub async fn api_version(&self) -> Result<u64, IamCallError> {
        let call = Call::new("GetAPIVersion", "", SOON);
        let mut client = IamVersionServiceClient::new(self.public.clone());
        Ok(call.make(client.get_api_version(())).await?.version)
    }

    /// The device.
    pub async fn system_info(&self) -> Result<wire::SystemInfo, IamCallError> {
        let call = Call::new("GetSystemInfo", "", SOON);
        let mut client = IamPublicIdentityServiceClient::new(self.public.clone());
        call.make(client.get_system_info(())).await
    }

    /// For whom the device works.
    pub async fn subjects(&self) -> Result<Vec<SubjectId>, IamCallError> {
        let call = Call::new("GetSubjects", "", SOON);
        let mut client = IamPublicIdentityServiceClient::new(self.public.clone());
        let subjects = call.make(client.get_subjects(())).await?.subjects;
        let subjects: Result<_, _> = subjects.iter().map(|text| SubjectId::new(text)).collect();
        subjects.map_err(|error| call.unusable(error))
    }

    /// For whom the device works, followed.
    #[must_use]
    pub fn follow_subjects(&self) -> Follow<Vec<SubjectId>> {
        Follow::start(SubjectsFeed(self.clone()))
    }

    /// The node that IAM runs on.
    pub async fn current_node(&self) -> Result<NodeInfo, IamCallError> {
        let call = Call::new("GetCurrentNodeInfo", "", SOON);
        let mut client = IamPublicCurrentNodeServiceClient::new(self.public.clone());
        let node = call.make(client.get_current_node_info(())).await?;
        call.read(node)
    }

    /// The node that IAM runs on, followed.
    #[must_use]
    pub fn follow_current_node(&self) -> Follow<NodeInfo> {
        Follow::start(CurrentNodeFeed(self.clone()))
    }

    /// Where the newest certificate of a type is.
    pub async fn cert(&self, cert_type: &CertType) -> Result<CertInfo, IamCallError> {
        self.cert_by(cert_type, &[], "").await
    }

    /// Where the certificate of a type with this issuer (DER) and serial number (hexadecimal) is.
    pub async fn cert_by(
        &self,
        cert_type: &CertType,
        issuer: &[u8],
        serial: &str,
    ) -> Result<CertInfo, IamCallError> {
        let call = Call::new("GetCert", cert_type, SOON);
        let mut client = IamPublicCertServiceClient::new(self.public.clone());
        let request = wire::GetCertRequest {
            r#type: cert_type.to_string(),
            issuer: issuer.to_owned(),
            serial: serial.to_owned(),
        };
        let cert = call.make(client.get_cert(request)).await?;
        call.read(cert)
    }

    /// Where the newest certificate of a type is, followed.
    #[must_use]
    pub fn follow_cert(&self, cert_type: CertType) -> Follow<CertInfo> {
        Follow::start(CertFeed {
            client: self.clone(),
            cert_type,
        })
    }

    /// What the holder of a secret may do at a functional server.
    pub async fn permissions(&self, secret: &str, server: &str) -> Result<Granted, IamCallError> {
        let call = Call::new("GetPermissions", server, SOON);
        let mut client = IamPublicPermissionsServiceClient::new(self.public.clone());
        let request = wire::PermissionsRequest {
            secret: secret.to_owned(),
            functional_server_id: server.to_owned(),
        };
        let granted = call.make(client.get_permissions(request)).await?;
        call.read(granted)
    }

    /// The nodes of the device. Main Node only, as everything about nodes.
    pub async fn node_ids(&self) -> Result<Vec<NodeId>, IamCallError> {
        let call = Call::new("GetAllNodeIDs", "", SOON);
        let mut client = IamPublicNodesServiceClient::new(self.public.clone());
        let ids = call.make(client.get_all_node_i_ds(())).await?.ids;
        let ids: Result<_, _> = ids.iter().map(|text| NodeId::new(text)).collect();
        ids.map_err(|error| call.unusable(error))
    }

    /// One node of the device.
    pub async fn node(&self, node: &NodeId) -> Result<NodeInfo, IamCallError> {
        let call = Call::new("GetNodeInfo", node, OF_NODE);
        let mut client = IamPublicNodesServiceClient::new(self.public.clone());
        let request = wire::GetNodeInfoRequest {
            node_id: node.to_string(),
        };
        let node = call.make(client.get_node_info(request)).await?;
        call.read(node)
    }

    /// All nodes of the device, followed.
    #[must_use]
    pub fn follow_nodes(&self) -> Follow<std::collections::BTreeMap<NodeId, NodeInfo>> {
        Follow::start(NodesFeed(self.clone()))
    }
}
