use muster_api::domain::NetworkId;
use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;

use super::*;
use crate::node_network::bridge_name;

fn network(id: &str, address: &str) -> NodeNetwork {
    NodeNetwork {
        id: NetworkId::new(id).unwrap(),
        subnet: "10.1.0.0/16".parse().unwrap(),
        address: address.parse().unwrap(),
        vlan: None,
    }
}

fn link(index: u32, kind: LinkKind) -> Link {
    Link {
        index,
        kind,
        up: true,
        addresses: Vec::new(),
        routes: BTreeSet::new(),
    }
}

fn name(text: &str) -> LinkName {
    LinkName::new(text).unwrap()
}

fn steps(
    network: &NodeNetwork,
    uplink: &Uplink,
    links: &Links,
) -> Result<Vec<LinkStep>, LinkConflict> {
    let instances = BTreeSet::from(["10.1.0.7".parse().unwrap()]);
    let wanted = Wanted {
        network,
        uplink,
        instances: &instances,
    };
    steps_for(&wanted, links)
}

/// What the kernel would do, or the reason why it would refuse.
fn apply(links: &mut Links, step: &LinkStep) -> Result<(), String> {
    let index = links.values().map(|it| it.index).max().unwrap_or(0) + 1;
    let missing = |name: &LinkName| format!("no {name}");
    let fresh = |links: &mut Links, name: &LinkName, kind| {
        let made = Link {
            up: false,
            ..link(index, kind)
        };
        links
            .insert(name.to_string(), made)
            .map_or(Ok(()), |_| Err(format!("{name} is there")))
    };
    fn of<'a>(links: &'a mut Links, name: &LinkName) -> Result<&'a mut Link, String> {
        links
            .get_mut(name.as_str())
            .ok_or_else(|| format!("no {name}"))
    }
    match step {
        LinkStep::MakeBridge(name) => fresh(links, name, LinkKind::Bridge),
        LinkStep::MakeVlan { name, parent, tag } => {
            let parent = links
                .get(parent.as_str())
                .ok_or_else(|| missing(parent))?
                .index;
            let kind = LinkKind::Vlan { parent, tag: *tag };
            if links.values().any(|it| it.kind == kind) {
                return Err(format!("tag {tag} is taken"));
            }
            fresh(links, name, kind)
        }
        LinkStep::AddAddress(name, address, length) => {
            let link = of(links, name)?;
            if link.addresses.contains(&(*address, *length)) {
                return Err("the address is there".into());
            }
            link.addresses.push((*address, *length));
            Ok(())
        }
        LinkStep::RemoveAddress(name, address, length) => {
            let link = of(links, name)?;
            let at = link
                .addresses
                .iter()
                .position(|it| *it == (*address, *length));
            link.addresses.remove(at.ok_or("no such address")?);
            Ok(())
        }
        LinkStep::SetUp(link) => {
            of(links, link)?.up = true;
            Ok(())
        }
        LinkStep::AddRoute { link, to, from } => {
            if !links
                .values()
                .any(|it| it.addresses.iter().any(|own| own.0 == *from))
            {
                return Err(format!("{from} is nobody's"));
            }
            let link = of(links, link)?;
            if !link.up {
                return Err("the link is down".into());
            }
            link.routes
                .insert(*to)
                .then_some(())
                .ok_or_else(|| "the route is there".into())
        }
        LinkStep::RemoveRoute { link, to } => {
            let gone = of(links, link)?.routes.remove(to);
            gone.then_some(()).ok_or_else(|| "no such route".into())
        }
        LinkStep::Remove(name) => {
            let gone = links.remove(name.as_str()).ok_or_else(|| missing(name))?;
            links.retain(
                |_, it| !matches!(it.kind, LinkKind::Vlan { parent, .. } if parent == gone.index),
            );
            Ok(())
        }
    }
}

#[test]
fn a_network_is_made_from_nothing_and_then_left_alone() {
    let network = network("a", "10.1.0.1");
    let uplink = Uplink::Vlan {
        parent: name("eth1"),
        tag: 7,
    };
    let mut links = Links::from([("eth1".to_owned(), link(1, LinkKind::Other))]);
    let made = steps(&network, &uplink, &links).unwrap();
    let (bridge, tagged) = (bridge_name(&network.id), vlan_name(&network.id));
    assert_eq!(
        made,
        [
            LinkStep::MakeBridge(bridge.clone()),
            LinkStep::MakeVlan {
                name: tagged.clone(),
                parent: name("eth1"),
                tag: 7
            },
            LinkStep::AddAddress(bridge.clone(), network.address, 32),
            LinkStep::AddAddress(tagged.clone(), network.address, 32),
            LinkStep::SetUp(bridge.clone()),
            LinkStep::SetUp(tagged.clone()),
            LinkStep::AddRoute {
                link: tagged,
                to: ("10.1.0.0".parse().unwrap(), 16),
                from: network.address
            },
            LinkStep::AddRoute {
                link: bridge,
                to: ("10.1.0.7".parse().unwrap(), 32),
                from: network.address
            },
        ]
    );
    for step in &made {
        apply(&mut links, step).unwrap();
    }
    assert_eq!(steps(&network, &uplink, &links), Ok(vec![]));
    for step in steps_to_remove(&network, &links) {
        apply(&mut links, &step).unwrap();
    }
    assert_eq!(links.keys().collect::<Vec<_>>(), ["eth1"]);
}

#[test]
fn a_network_of_one_node_has_its_subnet_on_the_bridge() {
    let network = network("a", "10.1.0.1");
    let bridge = network.bridge();
    let made = steps(&network, &Uplink::None, &Links::new()).unwrap();
    let expected = [
        LinkStep::MakeBridge(bridge.clone()),
        LinkStep::AddAddress(bridge.clone(), network.address, 16),
        LinkStep::SetUp(bridge),
    ];
    assert_eq!(made, expected);
}

#[test]
fn what_is_not_ours_is_in_the_way_and_stays() {
    let network = network("a", "10.1.0.1");
    let bridge = bridge_name(&network.id);
    let links = Links::from([(bridge.to_string(), link(1, LinkKind::Other))]);
    let in_the_way = steps(&network, &Uplink::None, &links).unwrap_err();
    assert_eq!(in_the_way, LinkConflict::NotABridge { link: bridge });
    let absent = steps(&network, &Uplink::Whole(name("eth1")), &Links::new()).unwrap_err();
    assert_eq!(
        absent.to_string(),
        "this node has no link eth1, which the network's uplink is"
    );
}

#[test]
fn strays_are_links_with_derived_names_and_nothing_else() {
    let known = network("a", "10.1.0.1");
    let lost = bridge_name(&NetworkId::new("lost").unwrap());
    let mut links = Links::new();
    for (index, name) in (1..).zip([
        lost.as_str(),
        known.bridge().as_str(),
        "br0",
        "mbr0",
        "mbrXXXXXXXXXXXX",
    ]) {
        links.insert(name.to_owned(), link(index, LinkKind::Bridge));
    }
    links.insert("mbr000000000000".into(), link(9, LinkKind::Other));
    assert_eq!(strays([&known], &links), [lost]);
}

proptest! {
    /// Whatever is there: the steps can be carried out in their order, what is made is then right, a second look finds
    /// nothing to do, removal leaves nothing of it, and what belongs to others is not touched.
    #[test]
    fn steps_lead_to_a_network_that_needs_none(
        found in btree_map(0_usize..5, (0_u16..4, any::<bool>(), btree_set(0_u8..4, 0..3), btree_set(0_u8..4, 0..3)), 0..5),
        which in 0_u8..3, moved in any::<bool>(), instances in btree_set(5_u8..9, 0..4)
    ) {
        let network = network("a", if moved { "10.1.0.1" } else { "10.1.0.2" });
        let names = [
            network.bridge().to_string(), vlan_name(&network.id).to_string(), "eth1".into(), "eth2".into(), "br0".into(),
        ];
        let mut links = Links::new();
        for (at, (tag, up, addresses, routes)) in found {
            let kind = match at {
                0 | 4 => LinkKind::Bridge,
                1 => LinkKind::Vlan { parent: 3, tag },
                _ => LinkKind::Other,
            };
            let length = |it: u8| if it == 3 { 16 } else { 32 };
            let addresses = addresses.into_iter().map(|it| ([10, 1, 0, it].into(), length(it))).collect();
            let mut routes: BTreeSet<Destination> =
                routes.into_iter().map(|it| ([10, 1, 0, if it == 3 { 0 } else { it + 4 }].into(), length(it))).collect();
            routes.insert(([192, 168, 0, 0].into(), 16));
            let index = u32::try_from(at).unwrap() + 1;
            links.insert(names[at].clone(), Link { index, kind, up, addresses, routes });
        }
        // A sub-link cannot be there without the one below.
        if !links.contains_key("eth1") {
            links.remove(&names[1]);
        }
        let uplink = match which {
            0 => Uplink::None,
            1 => Uplink::Whole(name("eth2")),
            _ => Uplink::Vlan { parent: name("eth1"), tag: 2 },
        };
        let instances: BTreeSet<IpAddr> = instances.into_iter().map(|it| [10, 1, 0, it].into()).collect();
        let wanted = Wanted { network: &network, uplink: &uplink, instances: &instances };
        let before = links.clone();
        let Ok(steps) = steps_for(&wanted, &links) else {
            let needed = ["", "eth2", "eth1"][usize::from(which)];
            prop_assert!(!links.contains_key(needed), "refused without a reason");
            return Ok(());
        };
        for step in &steps {
            apply(&mut links, step).map_err(TestCaseError::fail)?;
        }
        prop_assert_eq!(steps_for(&wanted, &links), Ok(vec![]));
        let ways = |to: &Destination| -> Vec<&str> {
            links.iter().filter(|(_, it)| it.routes.contains(to)).map(|(name, _)| name.as_str()).collect()
        };
        let bridge = &links[&names[0]];
        prop_assert!(bridge.up);
        let out = [None, Some("eth2"), Some(names[1].as_str())][usize::from(which)];
        prop_assert_eq!(ways(&([10, 1, 0, 0].into(), 16)), out.into_iter().collect::<Vec<_>>());
        if let Some(uplink) = out {
            prop_assert!(links[uplink].addresses.contains(&(network.address, 32)) && links[uplink].up);
        }
        if let Some(tagged) = links.get(&names[1]) {
            prop_assert_eq!(&tagged.addresses, &[(network.address, 32)]);
        }
        prop_assert_eq!(&bridge.addresses, &[(network.address, if out.is_some() { 32 } else { 16 })]);
        for it in 5_u8..9 {
            let known = out.is_some() && instances.contains(&[10, 1, 0, it].into());
            let expected: &[&str] = if known { &[names[0].as_str()] } else { &[] };
            prop_assert_eq!(ways(&([10, 1, 0, it].into(), 32)), expected);
        }
        for step in steps_to_remove(&network, &links) {
            apply(&mut links, &step).map_err(TestCaseError::fail)?;
        }
        let own = |it: &(IpAddr, u8)| *it == (network.address, 32);
        for (name, mut link) in before {
            if names[..2].contains(&name) {
                prop_assert!(!links.contains_key(&name));
                continue;
            }
            link.routes.retain(|to| to.0 == IpAddr::from([192, 168, 0, 0]));
            link.addresses.retain(|it| !own(it));
            let after = &links[&name];
            prop_assert_eq!((&after.routes, &after.addresses), (&link.routes, &link.addresses), "{}", name);
        }
    }
}
