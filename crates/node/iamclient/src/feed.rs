//! The values that can be followed.

use std::collections::BTreeMap;

use muster_api::domain::{CertType, NodeId, NodeInfo, SubjectId};
use muster_api::iamanager::v6 as wire;
use wire::iam_public_cert_service_client::IamPublicCertServiceClient;
use wire::iam_public_current_node_service_client::IamPublicCurrentNodeServiceClient;
use wire::iam_public_identity_service_client::IamPublicIdentityServiceClient;
use wire::iam_public_nodes_service_client::IamPublicNodesServiceClient;

use crate::client::IamClient;
use crate::error::IamCallError;
use crate::follow::{Feed, FeedFuture, Opened};
use crate::types::CertInfo;
use muster_telemetry::ErrorChain;

pub(crate) struct CertFeed {
    pub(crate) client: IamClient,
    pub(crate) cert_type: CertType,
}

impl Feed for CertFeed {
    type Value = CertInfo;
    type Change = wire::CertInfo;

    fn name(&self) -> String {
        format!("certificate {}", self.cert_type)
    }

    fn changes(&self) -> FeedFuture<'_, Opened<wire::CertInfo>> {
        let mut client = IamPublicCertServiceClient::new(self.client.public.clone());
        let request = wire::SubscribeCertChangedRequest {
            r#type: self.cert_type.to_string(),
        };
        Box::pin(async move { client.subscribe_cert_changed(request).await })
    }

    fn ask(&self) -> FeedFuture<'_, Result<CertInfo, IamCallError>> {
        Box::pin(self.client.cert(&self.cert_type))
    }

    fn apply(
        &self,
        _before: Option<&CertInfo>,
        change: wire::CertInfo,
    ) -> Result<Option<CertInfo>, String> {
        CertInfo::try_from(change)
            .map(Some)
            .map_err(|error| ErrorChain(&error).to_string())
    }
}

pub(crate) struct SubjectsFeed(pub(crate) IamClient);

impl Feed for SubjectsFeed {
    type Value = Vec<SubjectId>;
    type Change = wire::Subjects;

    fn name(&self) -> String {
        "subjects".to_owned()
    }

    fn changes(&self) -> FeedFuture<'_, Opened<wire::Subjects>> {
        let mut client = IamPublicIdentityServiceClient::new(self.0.public.clone());
        Box::pin(async move { client.subscribe_subjects_changed(()).await })
    }

    fn ask(&self) -> FeedFuture<'_, Result<Vec<SubjectId>, IamCallError>> {
        Box::pin(self.0.subjects())
    }

    fn apply(
        &self,
        _before: Option<&Vec<SubjectId>>,
        change: wire::Subjects,
    ) -> Result<Option<Vec<SubjectId>>, String> {
        let subjects: Result<_, _> = change
            .subjects
            .iter()
            .map(|text| SubjectId::new(text))
            .collect();
        subjects
            .map(Some)
            .map_err(|error| ErrorChain(&error).to_string())
    }
}

pub(crate) struct CurrentNodeFeed(pub(crate) IamClient);

impl Feed for CurrentNodeFeed {
    type Value = NodeInfo;
    type Change = wire::NodeInfo;

    fn name(&self) -> String {
        "current node".to_owned()
    }

    fn changes(&self) -> FeedFuture<'_, Opened<wire::NodeInfo>> {
        let mut client = IamPublicCurrentNodeServiceClient::new(self.0.public.clone());
        Box::pin(async move { client.subscribe_current_node_changed(()).await })
    }

    fn ask(&self) -> FeedFuture<'_, Result<NodeInfo, IamCallError>> {
        Box::pin(self.0.current_node())
    }

    fn apply(
        &self,
        _before: Option<&NodeInfo>,
        change: wire::NodeInfo,
    ) -> Result<Option<NodeInfo>, String> {
        NodeInfo::try_from(change)
            .map(Some)
            .map_err(|error| ErrorChain(&error).to_string())
    }
}

pub(crate) struct NodesFeed(pub(crate) IamClient);

impl Feed for NodesFeed {
    type Value = BTreeMap<NodeId, NodeInfo>;
    type Change = wire::NodeInfo;

    fn name(&self) -> String {
        "nodes".to_owned()
    }

    fn changes(&self) -> FeedFuture<'_, Opened<wire::NodeInfo>> {
        let mut client = IamPublicNodesServiceClient::new(self.0.public.clone());
        Box::pin(async move { client.subscribe_node_changed(()).await })
    }

    fn ask(&self) -> FeedFuture<'_, Result<BTreeMap<NodeId, NodeInfo>, IamCallError>> {
        Box::pin(async move {
            let mut nodes = BTreeMap::new();
            for id in self.0.node_ids().await? {
                let node = self.0.node(&id).await?;
                nodes.insert(id, node);
            }
            Ok(nodes)
        })
    }

    fn apply(
        &self,
        before: Option<&BTreeMap<NodeId, NodeInfo>>,
        change: wire::NodeInfo,
    ) -> Result<Option<BTreeMap<NodeId, NodeInfo>>, String> {
        let node = NodeInfo::try_from(change).map_err(|error| ErrorChain(&error).to_string())?;
        Ok(before.map(|before| {
            let mut nodes = before.clone();
            nodes.insert(node.node_id.clone(), node);
            nodes
        }))
    }
}
