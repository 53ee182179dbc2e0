//! What a question about places is answered from: nodes, items, configuration, subjects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::domain::{AosError, Digest, InstanceIdent, ItemId, NodeId, SubjectId};
use muster_balance::{
    Amounts, Capacity, Image, Limits, Node, Placed, Ratio, Ratios, Reason, Request, Standing,
    Wanted,
};
use muster_desired::seams::Question;
use muster_item::ItemConfig;
use muster_items::{Described, MirroredImage};
use muster_unit_config::UnitConfig;

use crate::nodes::table::NodeRecord;

/// What is known of an item that is here.
#[derive(Debug, Clone)]
pub(crate) struct ItemFacts(Described);

impl ItemFacts {
    pub(crate) fn new(described: Described) -> Self {
        Self(described)
    }

    /// The image that was chosen, or else the first.
    pub(crate) fn image(&self, manifest: Option<&Digest>) -> Option<&MirroredImage> {
        let images = &self.0.images;
        let chosen = images
            .iter()
            .find(|it| Some(&it.manifest_digest) == manifest);
        chosen.or(images.first())
    }

    /// What is said around an item before an image of it is chosen. Images of one item do not differ in it.
    fn config(&self) -> ItemConfig {
        let first = self.image(None);
        first.map_or_else(ItemConfig::default, |it| it.item_config.clone())
    }

    fn images(&self) -> Vec<Image> {
        let images = self.0.images.iter();
        images
            .map(|it| Image {
                manifest: it.manifest_digest,
                platform: it.platform.clone(),
            })
            .collect()
    }
}

/// Everything beside the question.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// Every node that is known.
    pub(crate) nodes: Vec<(NodeId, NodeRecord)>,
    /// The Unit's configuration.
    pub(crate) unit_config: Option<Arc<UnitConfig>>,
    /// The items that can run.
    pub(crate) items: BTreeMap<ItemId, ItemFacts>,
    /// Items that should be here and cannot be read.
    pub(crate) unreadable: BTreeMap<ItemId, AosError>,
    /// Subjects that the Unit itself says are there.
    pub(crate) subjects: BTreeSet<SubjectId>,
    /// Users, groups and instances that may be handed out.
    pub(crate) handed_out: Limits,
}

impl Surroundings {
    /// Whether anything runs for the subject now.
    fn is_active(&self, question: &Question, subject: &SubjectId) -> bool {
        let known = question.desired.subjects().get(subject);
        let must_be_here = known.is_some_and(|it| it.reported_from_unit);
        !must_be_here || self.subjects.contains(subject)
    }

    /// The image of a placed instance.
    pub(crate) fn image(
        &self,
        instance: &InstanceIdent,
        placed: &Placed,
    ) -> Option<&MirroredImage> {
        let facts = self.items.get(&instance.item_id)?;
        facts.image(Some(&placed.manifest))
    }

    /// What the balancer is asked.
    pub(crate) fn request(&self, question: &Question) -> Request {
        Request {
            nodes: self.nodes(question),
            wanted: self.wanted(question),
            running: question.running.clone(),
            measured: self.measured(question),
            reason: question.reason.clone(),
            pools: muster_balance::DataPools::default(),
            limits: self.handed_out.clone(),
        }
    }

    fn nodes(&self, question: &Question) -> Vec<Node> {
        let described: BTreeMap<&NodeId, &NodeRecord> =
            self.nodes.iter().map(|(id, record)| (id, record)).collect();
        let ids: BTreeSet<&NodeId> = described
            .keys()
            .copied()
            .chain(question.nodes.keys())
            .collect();
        ids.into_iter()
            .map(|id| {
                let mut node = match described.get(id) {
                    Some(record) => self.node(id, record),
                    None => Node::new(id.clone()),
                };
                let is_member = described.get(id).is_none_or(|it| it.is_member());
                node.standing = match question.nodes.get(id) {
                    _ if !is_member => Standing::NotMember,
                    Some(standing) => *standing,
                    None => Standing::Offline,
                };
                node
            })
            .collect()
    }

    fn node(&self, id: &NodeId, record: &NodeRecord) -> Node {
        let mut node = Node::new(id.clone());
        if let Some(sm) = &record.sm {
            node.runtimes.clone_from(&sm.runtimes);
            node.resources.clone_from(&sm.resources);
        }
        node.capacity = record.capacity();
        node.system_use = record.system_use();
        if let Some(config) = &self.unit_config {
            let config = config.for_node(id, &record.node_type()).config;
            let ratio = |percent: Option<_>| percent.map_or(Ratio::HALF, Ratio::from);
            node.ratios = Ratios {
                cpu: ratio(config.resource_ratios.cpu),
                ram: ratio(config.resource_ratios.ram),
            };
            node.labels = config.labels;
            node.priority = config.priority;
        }
        node
    }

    fn wanted(&self, question: &Question) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (key, instances) in question.desired.instances() {
            let (Some(item), Some(facts)) =
                (question.items.get(&key.item), self.items.get(&key.item))
            else {
                continue;
            };
            if !self.is_active(question, &key.subject) {
                continue;
            }
            let (id, subject) = (key.item.clone(), key.subject.clone());
            let mut one = Wanted::new(id, subject, item.kind, facts.images(), &facts.config());
            one.count = instances.count;
            one.priority = instances.priority;
            one.labels.clone_from(&instances.labels);
            one.pin.clone_from(&instances.pin);
            one.distribution = instances.distribution;
            wanted.push(one);
        }
        wanted
    }

    fn measured(&self, question: &Question) -> BTreeMap<InstanceIdent, Amounts> {
        let usages = self.nodes.iter().filter_map(|(_, it)| it.usage.as_ref());
        let instances = usages.flat_map(|it| &it.instances);
        let mut measured: BTreeMap<InstanceIdent, Amounts> = instances
            .map(|it| {
                let amounts = Amounts {
                    cpu: it.data.cpu,
                    ram: it.data.ram,
                };
                (it.instance.clone(), amounts)
            })
            .collect();
        // Whoever has to leave a node weighs something, also if nobody has measured it yet.
        for (instance, place) in &question.running {
            if is_emptied(&question.reason, &place.node) {
                let amounts = measured.entry(instance.clone()).or_default();
                amounts.cpu = amounts.cpu.max(1);
                amounts.ram = amounts.ram.max(1);
            }
        }
        measured
    }
}

/// Whether nothing shall be left on the node.
fn is_emptied(reason: &Reason, node: &NodeId) -> bool {
    let nothing = Capacity {
        cpu: Some(0),
        ram: Some(0),
    };
    match reason {
        Reason::QuotaAlert(reliefs) => {
            (reliefs.iter()).any(|it| it.node == *node && it.target == nothing)
        }
        _ => false,
    }
}
