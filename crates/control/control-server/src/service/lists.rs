//! Lists, a page at a time.

use std::time::SystemTime;

use muster_api::common::v2 as common;
use muster_api::domain::{InstanceFilter, InstanceIdent, ItemId, NetworkId, NodeId};
use muster_control_api::v1;
use muster_telemetry::ErrorChain;
use prost::Message as _;
use tonic::Status;

use super::{ControlServer, invalid, time};
use crate::history::HistoryError;
use crate::state::ItemKey;
use crate::wire;

/// Alerts in one answer, if nobody asks for another number, and at most.
const ALERTS: u64 = 100;
const MOST_ALERTS: u64 = 1000;

impl From<HistoryError> for Status {
    fn from(error: HistoryError) -> Self {
        Self::internal(ErrorChain(&error).to_string())
    }
}

fn bad_token() -> Status {
    invalid("page_token: take it from the answer before, or leave it empty to begin")
}

/// Ids as they stand in a token; nothing for the first page.
fn id_token<T: std::str::FromStr>(token: &[u8]) -> Result<Option<T>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(token).map_err(|_| bad_token())?;
    text.parse().map(Some).map_err(|_| bad_token())
}

fn item_token(token: &[u8]) -> Result<Option<ItemKey>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let item = v1::ItemVersion::decode(token).map_err(|_| bad_token())?;
    let id = item.item_id.parse().map_err(|_| bad_token())?;
    let version = item.version;
    Ok(Some(ItemKey { id, version }))
}

fn instance_token(token: &[u8]) -> Result<Option<InstanceIdent>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let ident = common::InstanceIdent::decode(token).map_err(|_| bad_token())?;
    ident.try_into().map(Some).map_err(|_| bad_token())
}

impl ControlServer {
    pub(super) fn nodes(
        &self,
        request: &v1::ListNodesRequest,
    ) -> Result<v1::ListNodesResponse, Status> {
        let after: Option<NodeId> = id_token(&request.page_token)?;
        Ok(self.parts.view.read(|state| {
            let page = state.list_nodes(after.as_ref(), self.limits.page);
            let nodes = page.keys.iter().filter_map(|id| wire::node(state, id));
            v1::ListNodesResponse {
                nodes: nodes.collect(),
                next_page_token: page.next.map(String::from).unwrap_or_default().into(),
            }
        }))
    }

    pub(super) fn networks(
        &self,
        request: &v1::ListNetworksRequest,
    ) -> Result<v1::ListNetworksResponse, Status> {
        let after: Option<NetworkId> = id_token(&request.page_token)?;
        Ok(self.parts.view.read(|state| {
            let page = state.list_networks(after.as_ref(), self.limits.page);
            let networks = page.keys.iter().filter_map(|id| wire::network(state, id));
            v1::ListNetworksResponse {
                networks: networks.collect(),
                next_page_token: page.next.map(String::from).unwrap_or_default().into(),
            }
        }))
    }

    pub(super) fn items(
        &self,
        request: &v1::ListItemsRequest,
    ) -> Result<v1::ListItemsResponse, Status> {
        let after = item_token(&request.page_token)?;
        Ok(self.parts.view.read(|state| {
            let page = state.list_items(after.as_ref(), self.limits.page);
            let items = page.keys.iter().filter_map(|key| wire::item(state, key));
            let next = page
                .next
                .map(|key| wire::item_version(&key).encode_to_vec());
            v1::ListItemsResponse {
                items: items.collect(),
                next_page_token: next.unwrap_or_default(),
            }
        }))
    }

    pub(super) fn instances(
        &self,
        request: v1::ListInstancesRequest,
    ) -> Result<v1::ListInstancesResponse, Status> {
        let after = instance_token(&request.page_token)?;
        let node: Option<NodeId> = match request.node_id.as_str() {
            "" => None,
            id => Some(id.parse().map_err(invalid)?),
        };
        let filter = request.filter.unwrap_or(common::InstanceFilter {
            instance: -1,
            ..common::InstanceFilter::default()
        });
        let item: Option<ItemId> = match filter.item_id.as_str() {
            "" => None,
            id => Some(id.parse().map_err(invalid)?),
        };
        let filter = InstanceFilter::try_from(filter).map_err(invalid)?;
        Ok(self.parts.view.read(|state| {
            let page = state.list_instances(
                &filter,
                item.as_ref(),
                node.as_ref(),
                after.as_ref(),
                self.limits.page,
            );
            let instances = page
                .keys
                .iter()
                .filter_map(|ident| wire::instance(state, ident));
            let next = page
                .next
                .map(|it| common::InstanceIdent::from(it).encode_to_vec());
            v1::ListInstancesResponse {
                instances: instances.collect(),
                next_page_token: next.unwrap_or_default(),
            }
        }))
    }

    pub(super) async fn alerts(
        &self,
        request: v1::ListAlertsRequest,
    ) -> Result<v1::ListAlertsResponse, Status> {
        let limit = match request.limit {
            0 => ALERTS,
            limit => limit.min(MOST_ALERTS),
        };
        let from = time("from", request.from)?.map(SystemTime::from);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let found = self
            .parts
            .view
            .history()
            .last::<v1::Alert>(from, limit)
            .await?;
        Ok(v1::ListAlertsResponse {
            alerts: found.into_iter().map(|alert| alert.value).collect(),
        })
    }
}
