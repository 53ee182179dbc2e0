//! Records as bytes: the wire's own messages where there are some, so that what nodes are told is what was kept.

use muster_api::common::v2 as common;
use muster_api::domain::{
    AosError, ConvertError, InstanceIdent, InstanceInfo, InvalidValue, NodeId, RuntimeId,
    fault_from_wire,
};
use muster_api::servicemanager::v5 as wire;
use muster_balance::{Place, Placement};
use prost::Message;

use super::LoadError;
use crate::document::{Document, Item, ItemEntry};
use crate::machine::{Assigned, Fetch, ItemRecord, State, UpdateId, UpdateStep};
use crate::seams::{Assignment, NodeShare};

#[derive(Clone, PartialEq, Message)]
struct StateRecord {
    #[prost(uint64, tag = "1")]
    update: u64,
    #[prost(string, tag = "2")]
    step: String,
    #[prost(bool, tag = "3")]
    done: bool,
    #[prost(message, repeated, tag = "4")]
    items: Vec<FetchRecord>,
    #[prost(message, optional, tag = "5")]
    configuration: Option<common::ErrorInfo>,
    #[prost(message, optional, tag = "6")]
    placement: Option<common::ErrorInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct FetchRecord {
    #[prost(string, tag = "1")]
    item: String,
    #[prost(bool, tag = "2")]
    ready: bool,
    #[prost(message, optional, tag = "3")]
    failed: Option<common::ErrorInfo>,
    /// An entry of a document, as JSON; empty without one.
    #[prost(string, tag = "4")]
    fallback: String,
}

#[derive(Clone, PartialEq, Message)]
struct AssignedRecord {
    #[prost(uint64, tag = "1")]
    by: u64,
    #[prost(message, repeated, tag = "2")]
    nodes: Vec<ShareRecord>,
    #[prost(message, repeated, tag = "3")]
    unplaced: Vec<UnplacedRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct ShareRecord {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(message, repeated, tag = "2")]
    networks: Vec<wire::UpdateNetworkParameters>,
    #[prost(message, repeated, tag = "3")]
    instances: Vec<wire::InstanceInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct UnplacedRecord {
    #[prost(message, optional, tag = "1")]
    instance: Option<common::InstanceIdent>,
    #[prost(message, optional, tag = "2")]
    error: Option<common::ErrorInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct PlacesRecord {
    #[prost(message, repeated, tag = "1")]
    places: Vec<PlaceRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct PlaceRecord {
    #[prost(message, optional, tag = "1")]
    instance: Option<common::InstanceIdent>,
    #[prost(string, tag = "2")]
    node: String,
    #[prost(string, tag = "3")]
    runtime: String,
}

fn error(error: Option<&AosError>) -> Option<common::ErrorInfo> {
    error.cloned().map(Into::into)
}

fn decode<M: Message + Default>(object: &str, bytes: &[u8]) -> Result<M, LoadError> {
    M::decode(bytes).map_err(|source| LoadError::Decode {
        object: object.to_owned(),
        source,
    })
}

fn valid<T>(object: &str, value: Result<T, ConvertError>) -> Result<T, LoadError> {
    value.map_err(|source| LoadError::Invalid {
        object: object.to_owned(),
        source,
    })
}

fn text<T: std::str::FromStr<Err = InvalidValue>>(
    object: &str,
    value: &str,
) -> Result<T, LoadError> {
    value.parse().map_err(|source| LoadError::Value {
        object: object.to_owned(),
        source,
    })
}

pub(super) fn encode_state(state: &State) -> Vec<u8> {
    let items = state.items.iter().map(|(id, record)| FetchRecord {
        item: id.to_string(),
        ready: record.fetch == Fetch::Ready,
        failed: match &record.fetch {
            Fetch::Failed(why) => error(Some(why)),
            Fetch::Wanted | Fetch::Ready => None,
        },
        fallback: (record.fallback.as_ref())
            // An entry of a document has no keys but texts.
            .and_then(|item| serde_json::to_string(&ItemEntry::from(item)).ok())
            .unwrap_or_default(),
    });
    let record = StateRecord {
        update: state.update.0,
        step: state.step.as_str().to_owned(),
        done: state.done,
        items: items.collect(),
        configuration: error(state.configuration.as_ref()),
        placement: error(state.placement.as_ref()),
    };
    record.encode_to_vec()
}

pub(super) fn decode_state(bytes: &[u8]) -> Result<State, LoadError> {
    const OBJECT: &str = "the newest update";
    let record: StateRecord = decode(OBJECT, bytes)?;
    let update = UpdateId(record.update);
    let step = UpdateStep::ALL
        .into_iter()
        .find(|it| it.as_str() == record.step);
    let step = step.ok_or_else(|| LoadError::Unknown {
        object: OBJECT.to_owned(),
        what: "step",
    })?;
    let mut state = State {
        update,
        step,
        done: record.done,
        items: std::collections::BTreeMap::new(),
        configuration: fault_from_wire(record.configuration),
        placement: fault_from_wire(record.placement),
    };
    for item in record.items {
        let fetch = match (item.ready, fault_from_wire(item.failed)) {
            (true, _) => Fetch::Ready,
            (false, Some(why)) => Fetch::Failed(why),
            (false, None) => Fetch::Wanted,
        };
        let fallback = match item.fallback.as_str() {
            "" => None,
            json => Some(fallback(update, json)?),
        };
        let id = text(OBJECT, &item.item)?;
        state.items.insert(id, ItemRecord { fetch, fallback });
    }
    Ok(state)
}

/// An item is checked as part of a document.
fn fallback(update: UpdateId, json: &str) -> Result<Item, LoadError> {
    let entry: ItemEntry =
        serde_json::from_str(json).map_err(|source| LoadError::Parse { update, source })?;
    let document = Document {
        items: vec![entry],
        ..Document::default()
    };
    let desired = document
        .check()
        .map_err(|source| LoadError::Document { update, source })?;
    let mut items = desired.items().values().cloned();
    items.next().ok_or_else(|| LoadError::Unknown {
        object: format!("update {update}"),
        what: "item",
    })
}

pub(super) fn encode_assigned(assigned: &Assigned) -> Vec<u8> {
    let nodes = assigned.assignment.nodes.iter();
    let unplaced = assigned.assignment.unplaced.iter();
    let record = AssignedRecord {
        by: assigned.by.0,
        nodes: nodes
            .map(|(node, share)| ShareRecord {
                node: node.to_string(),
                networks: share.networks.clone(),
                instances: share.instances.iter().cloned().map(Into::into).collect(),
            })
            .collect(),
        unplaced: unplaced
            .map(|(instance, why)| UnplacedRecord {
                instance: Some(instance.clone().into()),
                error: error(Some(why)),
            })
            .collect(),
    };
    record.encode_to_vec()
}

pub(super) fn decode_assigned(bytes: &[u8]) -> Result<Assigned, LoadError> {
    const OBJECT: &str = "the assignment";
    let record: AssignedRecord = decode(OBJECT, bytes)?;
    let mut assignment = Assignment::default();
    for share in record.nodes {
        let node: NodeId = text(OBJECT, &share.node)?;
        let instances = share.instances.into_iter().map(InstanceInfo::try_from);
        let instances: Result<Vec<_>, ConvertError> = instances.collect();
        let share = NodeShare {
            networks: share.networks,
            instances: valid(OBJECT, instances)?,
        };
        assignment.nodes.insert(node, share);
    }
    for unplaced in record.unplaced {
        let instance = InstanceIdent::try_from(unplaced.instance.unwrap_or_default());
        // Nothing is unplaced without a reason.
        if let Some(why) = fault_from_wire(unplaced.error) {
            assignment.unplaced.insert(valid(OBJECT, instance)?, why);
        }
    }
    Ok(Assigned {
        by: UpdateId(record.by),
        assignment,
    })
}

pub(super) fn encode_places(places: &Placement) -> Vec<u8> {
    let places = places.iter().map(|(instance, place)| PlaceRecord {
        instance: Some(instance.clone().into()),
        node: place.node.to_string(),
        runtime: place.runtime.to_string(),
    });
    let record = PlacesRecord {
        places: places.collect(),
    };
    record.encode_to_vec()
}

pub(super) fn decode_places(bytes: &[u8]) -> Result<Placement, LoadError> {
    const OBJECT: &str = "earlier places";
    let record: PlacesRecord = decode(OBJECT, bytes)?;
    let mut places = Placement::new();
    for it in record.places {
        let instance = InstanceIdent::try_from(it.instance.unwrap_or_default());
        let runtime: RuntimeId = text(OBJECT, &it.runtime)?;
        let node: NodeId = text(OBJECT, &it.node)?;
        places.insert(valid(OBJECT, instance)?, Place { node, runtime });
    }
    Ok(places)
}
