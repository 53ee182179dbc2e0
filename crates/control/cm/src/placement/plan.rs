//! From a question to places and networks, and from those to what nodes are told. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{
    AosCode, AosError, InstanceIdent, InstanceInfo, ItemType, NetworkParameters, NodeId, Subnet,
};
use muster_balance::{Ledger, Placed, Plan, RequestError};
use muster_desired::seams::{Assignment, NodeShare, Question};
use muster_instance_data::{Needs, Prepared};
use muster_items::MirroredImage;
use muster_network_plan::{
    Allocations, Endpoint, ForeignSubnets, NetworkKey, NetworkPlan, NetworkRequest,
};

use super::surroundings::Surroundings;
use crate::config::parts::NetworksConfig;

/// What was given out by the plans before.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Books {
    /// Users, groups and bindings.
    pub(crate) ledger: Ledger,
    /// Subnets, VLANs and addresses.
    pub(crate) allocations: Allocations,
    /// Instances that are not wanted any more, and since when, in seconds since 1970.
    pub(crate) retired: BTreeMap<InstanceIdent, u64>,
}

/// Why nothing was planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// The balancer refuses the question.
    #[error("instances cannot be placed")]
    Balance(#[source] RequestError),
    /// The network planner refuses the places.
    #[error("instances cannot be connected")]
    Networks(#[source] muster_network_plan::RequestError),
}

/// Places and networks, and what is given out by them.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) networks: Option<NetworkPlan>,
    pub(crate) books: Books,
}

/// Decides. `now` is in seconds since 1970; what was retired before `expired` is forgotten.
pub(crate) fn plan(
    question: &Question,
    around: &Surroundings,
    books: &Books,
    networks: Option<&NetworksConfig>,
    now: u64,
    expired: u64,
) -> Result<(Planned, Vec<InstanceIdent>), PlanError> {
    let request = around.request(question);
    let mut plan = muster_balance::plan(&request, &books.ledger).map_err(PlanError::Balance)?;
    let networks = match networks {
        Some(config) => Some(connect(question, around, &plan, books, config)?),
        None => None,
    };
    let wanted: BTreeSet<&InstanceIdent> = plan.placed.keys().chain(plan.unplaced.keys()).collect();
    let mut retired = books.retired.clone();
    retired.retain(|instance, _| !wanted.contains(instance));
    for instance in plan.removed.keys() {
        retired.entry(instance.clone()).or_insert(now);
    }
    let forgotten: Vec<InstanceIdent> = (retired.iter())
        .filter(|(_, since)| **since < expired)
        .map(|(instance, _)| instance.clone())
        .collect();
    for instance in &forgotten {
        retired.remove(instance);
    }
    if !forgotten.is_empty() {
        let gone: BTreeSet<&InstanceIdent> = forgotten.iter().collect();
        plan.ledger.retain(|instance| !gone.contains(instance));
    }
    let books = Books {
        ledger: plan.ledger.clone(),
        allocations: match &networks {
            Some(networks) => networks.allocations.clone(),
            None => books.allocations.clone(),
        },
        retired,
    };
    let planned = Planned {
        plan,
        networks,
        books,
    };
    Ok((planned, forgotten))
}

fn connect(
    question: &Question,
    around: &Surroundings,
    plan: &Plan,
    books: &Books,
    config: &NetworksConfig,
) -> Result<NetworkPlan, PlanError> {
    let mut endpoints = Vec::new();
    for (instance, placed) in &plan.placed {
        let (Some(image), ItemType::Service) = (around.image(instance, placed), instance.item_type)
        else {
            continue;
        };
        let item = question.items.get(&instance.item_id);
        let owner = item.and_then(|it| it.owner.as_ref());
        endpoints.push(Endpoint {
            instance: instance.clone(),
            node: placed.place.node.clone(),
            network: NetworkKey::of(owner, &instance.subject_id),
            hostname: image.item_config.hostname.clone(),
            exposed: image.image_config.exposed_ports.clone(),
            allowed: image.item_config.allowed_connections.clone(),
        });
    }
    // Nobody gets the address of a server that nodes have to reach.
    let servers = config.dns_servers.iter().filter_map(|it| {
        let bits = if it.is_ipv4() { 32 } else { 128 };
        Subnet::new(*it, bits).ok()
    });
    let servers: Vec<Subnet> = servers.collect();
    let nodes = (around.nodes.iter())
        .map(|(node, _)| ForeignSubnets {
            node: node.clone(),
            subnets: servers.clone(),
        })
        .collect();
    let request = NetworkRequest {
        endpoints,
        nodes,
        dns_servers: config.dns_servers.clone(),
        settings: config.settings.clone(),
    };
    muster_network_plan::plan(&request, &books.allocations).map_err(PlanError::Networks)
}

/// What each placed instance keeps on disk; those that keep nothing are left out.
pub(crate) fn needs(around: &Surroundings, plan: &Plan) -> Vec<(InstanceIdent, Needs)> {
    let mut needs = Vec::new();
    for (instance, placed) in &plan.placed {
        let Some(image) = around.image(instance, placed) else {
            continue;
        };
        let quotas = &image.item_config.quotas;
        let limit = |quota: Option<u64>| quota.filter(|it| *it > 0);
        let (storage, state) = (limit(quotas.storage_limit), limit(quotas.state_limit));
        if storage.is_some() || state.is_some() {
            let need = Needs {
                uid: placed.uid.as_raw(),
                gid: placed.gid.as_raw(),
                storage,
                state,
            };
            needs.push((instance.clone(), need));
        }
    }
    needs
}

/// What nodes are told.
pub(crate) fn assignment(
    question: &Question,
    around: &Surroundings,
    planned: &Planned,
    mut prepared: BTreeMap<InstanceIdent, Result<Prepared, AosError>>,
) -> Assignment {
    let mut assignment = Assignment::default();
    let mut shares: BTreeMap<NodeId, NodeShare> = BTreeMap::new();
    if let Some(networks) = &planned.networks {
        for (node, own) in networks.nodes.iter().filter(|(_, own)| !own.is_empty()) {
            let share = shares.entry(node.clone()).or_default();
            share.networks = own.iter().cloned().map(Into::into).collect();
        }
    }
    let refused = |instance: &InstanceIdent| {
        let refused = &planned.networks.as_ref()?.refused;
        let error = refused.get(instance)?;
        Some(AosError::new(AosCode::OutOfRange, error.to_string()))
    };
    for (instance, placed) in &planned.plan.placed {
        let data = prepared
            .remove(instance)
            .unwrap_or_else(|| Ok(Prepared::default()));
        let data = match (data, refused(instance)) {
            (Err(error), _) | (Ok(_), Some(error)) => {
                assignment.unplaced.insert(instance.clone(), error);
                continue;
            }
            (Ok(data), None) => data,
        };
        let network = planned.networks.as_ref();
        let network = network.and_then(|it| it.instances.get(instance)).cloned();
        let image = around.image(instance, placed);
        let share = shares.entry(placed.place.node.clone()).or_default();
        share
            .instances
            .push(info(question, image, instance, placed, data, network));
    }
    let unplaced = planned.plan.unplaced.iter();
    assignment.unplaced.extend(unplaced.map(|(instance, why)| {
        let error = AosError::new(AosCode::NotFound, why.to_string());
        (instance.clone(), error)
    }));
    assignment.unplaced.extend(unreadable(question, around));
    assignment.nodes = shares;
    assignment
}

/// So many instances of an item that cannot be read are listed.
const LISTED: u64 = 1000;

fn unreadable<'a>(
    question: &'a Question,
    around: &'a Surroundings,
) -> impl Iterator<Item = (InstanceIdent, AosError)> + 'a {
    let wanted = question.desired.instances().iter();
    wanted.flat_map(move |(key, instances)| {
        let item = question.items.get(&key.item);
        let error = around.unreadable.get(&key.item);
        let known = item.zip(error).into_iter();
        known.flat_map(move |(item, error)| {
            let numbers = 0..instances.count.min(LISTED);
            numbers.map(move |instance| {
                let ident = InstanceIdent {
                    item_id: key.item.clone(),
                    subject_id: key.subject.clone(),
                    instance,
                    item_type: item.kind,
                    preinstalled: false,
                };
                (ident, error.clone())
            })
        })
    })
}

fn info(
    question: &Question,
    image: Option<&MirroredImage>,
    instance: &InstanceIdent,
    placed: &Placed,
    data: Prepared,
    network: Option<NetworkParameters>,
) -> InstanceInfo {
    let item = question.items.get(&instance.item_id);
    let wanted = question.desired.instances();
    let key = muster_desired::InstancesKey {
        item: instance.item_id.clone(),
        subject: instance.subject_id.clone(),
    };
    InstanceInfo {
        instance: instance.clone(),
        version: item.map_or_else(String::new, |it| it.version.clone()),
        manifest_digest: placed.manifest,
        owner_id: item.and_then(|it| it.owner.clone()),
        runtime_id: placed.place.runtime.clone(),
        uid: placed.uid,
        gid: placed.gid,
        priority: wanted.get(&key).map_or(0, |it| it.priority),
        storage_path: data.storage,
        state_path: data.state,
        env_vars: question.desired.env_of(instance),
        network,
        alert_rules: image.map_or_else(Default::default, |it| it.item_config.alert_rules.clone()),
    }
}
