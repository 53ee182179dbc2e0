//! Which networks to have, given those that the controller wants and those that are known. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{NetworkId, Subnet};

use crate::node_network::{NodeNetwork, contains};

/// A network as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) network: NodeNetwork,
    /// Whether the controller wants it; else it only waits for its last instance.
    pub(crate) wanted: bool,
}

/// What to do about the controller's list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UpdatePlan {
    /// These are wanted: written down, then made or brought into line.
    pub(crate) have: Vec<NodeNetwork>,
    /// Not wanted, but instances are in them: they go with the last one.
    pub(crate) retire: Vec<NetworkId>,
    /// Not wanted by anybody.
    pub(crate) remove: Vec<NetworkId>,
    /// These cannot be, beside others of the list. What is known under such an id stays as it is.
    pub(crate) refused: Vec<NetworkConflict>,
}

/// Two networks of the list cannot both be on one node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network {network} is not made: it has {what} as network {other}, which comes before it")]
pub struct NetworkConflict {
    /// The one that is left out.
    pub network: NetworkId,
    /// What they share.
    pub what: &'static str,
    /// The other one.
    pub other: NetworkId,
}

/// Decides. Of two networks that exclude each other, the earlier one of the list wins. Those that the list names without
/// saying what they are stay as they are.
pub(crate) fn update(
    known: &BTreeMap<NetworkId, Known>,
    wanted: Vec<NodeNetwork>,
    unreadable: BTreeSet<NetworkId>,
    used: &BTreeSet<NetworkId>,
) -> UpdatePlan {
    let mut plan = UpdatePlan::default();
    let mut named = unreadable;
    for network in wanted {
        named.insert(network.id.clone());
        let conflict = plan.have.iter().find_map(|other| conflict(&network, other));
        match conflict {
            Some(conflict) => plan.refused.push(conflict),
            None => plan.have.push(network),
        }
    }
    for id in known.keys().filter(|id| !named.contains(*id)) {
        if used.contains(id) {
            plan.retire.push(id.clone());
        } else {
            plan.remove.push(id.clone());
        }
    }
    plan
}

fn conflict(network: &NodeNetwork, other: &NodeNetwork) -> Option<NetworkConflict> {
    let what = if network.id == other.id {
        "the same id"
    } else if overlap(network.subnet, other.subnet) {
        "addresses of the same subnet"
    } else if network.vlan.is_some() && network.vlan == other.vlan {
        "the same VLAN"
    } else if network.bridge() == other.bridge() {
        "the same bridge name"
    } else {
        return None;
    };
    Some(NetworkConflict {
        network: network.id.clone(),
        what,
        other: other.id.clone(),
    })
}

fn overlap(one: Subnet, two: Subnet) -> bool {
    contains(one, two.address()) || contains(two, one.address())
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn network(id: u8, subnet: u8, vlan: u16) -> NodeNetwork {
        NodeNetwork {
            id: NetworkId::new(&format!("n{id}")).unwrap(),
            subnet: format!("10.{subnet}.0.0/16").parse().unwrap(),
            address: [10, subnet, 0, 1].into(),
            vlan: (vlan > 0).then_some(vlan),
        }
    }

    fn known(networks: impl IntoIterator<Item = NodeNetwork>) -> BTreeMap<NetworkId, Known> {
        let known = |network: NodeNetwork| {
            (
                network.id.clone(),
                Known {
                    network,
                    wanted: true,
                },
            )
        };
        networks.into_iter().map(known).collect()
    }

    #[test]
    fn networks_come_stay_retire_and_go() {
        let (one, two, three) = (network(1, 1, 0), network(2, 2, 0), network(3, 3, 0));
        let known = known([one.clone(), two.clone(), three.clone()]);
        let used = BTreeSet::from([two.id.clone(), one.id.clone()]);
        let list = vec![one.clone(), network(4, 4, 0)];
        let plan = update(&known, list.clone(), BTreeSet::new(), &used);
        assert_eq!(plan.have, [one, network(4, 4, 0)]);
        assert_eq!(
            (plan.retire, plan.remove),
            (vec![two.id], vec![three.id.clone()])
        );
        let plan = update(&known, list, BTreeSet::from([three.id]), &used);
        assert_eq!(plan.remove, []);
    }

    #[test]
    fn of_two_that_exclude_each_other_the_first_one_is_made() {
        let wanted = vec![
            network(1, 1, 5),
            network(2, 1, 0),
            network(3, 3, 5),
            network(1, 9, 0),
        ];
        let plan = update(&BTreeMap::new(), wanted, BTreeSet::new(), &BTreeSet::new());
        assert_eq!(plan.have, [network(1, 1, 5)]);
        let said: Vec<_> = plan.refused.iter().map(ToString::to_string).collect();
        assert_eq!(
            said[0],
            "network n2 is not made: it has addresses of the same subnet as network n1, which comes before it"
        );
        assert!(
            said[1].contains("the same VLAN") && said[2].contains("the same id"),
            "{said:?}"
        );
    }

    proptest! {
        /// Every network is decided about once; used ones are never removed; what is had can be together; a second round
        /// of the same list changes nothing more.
        #[test]
        fn every_network_has_one_fate(
            before in btree_map(0_u8..6, (0_u8..6, 0_u16..3), 0..6),
            list in vec((0_u8..6, 0_u8..6, 0_u16..3), 0..8),
            used in btree_set(0_u8..6, 0..4),
        ) {
            let known = known(before.iter().map(|(id, (subnet, vlan))| network(*id, *subnet, *vlan)));
            let wanted: Vec<_> = list.iter().map(|(id, subnet, vlan)| network(*id, *subnet, *vlan)).collect();
            let used: BTreeSet<_> = used.iter().map(|id| network(*id, 0, 0).id).collect();
            let plan = update(&known, wanted.clone(), BTreeSet::new(), &used);
            prop_assert!(plan.remove.iter().all(|id| !used.contains(id)));
            prop_assert!(plan.retire.iter().all(|id| used.contains(id)));
            for (at, one) in plan.have.iter().enumerate() {
                for two in &plan.have[at + 1..] {
                    prop_assert!(conflict(one, two).is_none());
                }
            }
            prop_assert_eq!(plan.have.len() + plan.refused.len(), wanted.len());
            for id in known.keys() {
                let named = wanted.iter().any(|it| it.id == *id);
                let goes = plan.retire.contains(id) || plan.remove.contains(id);
                prop_assert!(named != goes, "{}", id);
            }
            let mut after: BTreeMap<_, _> = known.clone();
            after.retain(|id, _| !plan.remove.contains(id));
            for network in &plan.have {
                after.insert(network.id.clone(), Known { network: network.clone(), wanted: true });
            }
            let again = update(&after, wanted, BTreeSet::new(), &used);
            prop_assert_eq!(&again.have, &plan.have);
            prop_assert!(again.remove.is_empty());
        }
    }
}
