//! The rules one by one, and the words in which refusals and notes are said.

use muster_api::domain::{InstanceIdent, NodeId, SubjectId};
use muster_api::servicemanager::v5 as wire;
use muster_network_plan::{
    Allocations, AttachError, Endpoint, NetworkKey, NetworkPlan, NetworkRequest, plan,
};

use crate::world::{allowed, endpoint, exposed, foreign, ident, pool, request};

fn planned(request: &NetworkRequest, allocations: &Allocations) -> NetworkPlan {
    plan(request, allocations).expect("the request does not contradict itself")
}

fn first(endpoints: Vec<Endpoint>) -> NetworkPlan {
    planned(&request(endpoints), &Allocations::default())
}

fn address(plan: &NetworkPlan, ident: &InstanceIdent) -> String {
    plan.instances[ident].ip.to_string()
}

#[test]
fn owners_have_networks_of_their_own_and_nodes_an_address_in_each() {
    let plan = first(vec![
        endpoint("web", 0, "main", "acme"),
        endpoint("web", 1, "left", "acme"),
        endpoint("db", 0, "main", "bolt"),
    ]);
    let of = |node: &str| {
        let networks = &plan.nodes[&NodeId::new(node).unwrap()];
        let networks = networks
            .iter()
            .cloned()
            .map(wire::UpdateNetworkParameters::from);
        let shown = networks.map(|own| {
            format!(
                "{} {} {} {}",
                own.network_id, own.subnet, own.ip, own.vlan_id
            )
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(of("left"), ["acme 172.17.0.0/16 172.17.0.2 1"]);
    assert_eq!(
        of("main"),
        [
            "acme 172.17.0.0/16 172.17.0.3 1",
            "bolt 172.18.0.0/16 172.18.0.2 2"
        ]
    );
    assert_eq!(address(&plan, &ident("web", "subject", 0)), "172.17.0.4");
    assert_eq!(address(&plan, &ident("web", "subject", 1)), "172.17.0.5");
    assert_eq!(address(&plan, &ident("db", "subject", 0)), "172.18.0.3");
}

#[test]
fn an_instance_keeps_its_address_on_another_node_and_after_an_absence() {
    let web = ident("web", "subject", 0);
    let mut own = request(vec![
        endpoint("web", 0, "main", "acme"),
        endpoint("db", 0, "main", "acme"),
    ]);
    let before = planned(&own, &Allocations::default());
    own.endpoints[0].node = NodeId::new("left").unwrap();
    let moved = planned(&own, &before.allocations);
    assert_eq!(address(&moved, &web), address(&before, &web));
    let without = planned(&request(Vec::new()), &moved.allocations);
    assert!(without.instances.is_empty());
    let newcomer = planned(
        &request(vec![endpoint("new", 0, "main", "acme")]),
        &without.allocations,
    );
    let new = address(&newcomer, &ident("new", "subject", 0));
    assert!(
        before
            .instances
            .values()
            .all(|own| own.ip.to_string() != new)
    );
    let back = planned(&own, &newcomer.allocations);
    assert_eq!(address(&back, &web), address(&before, &web));
}

#[test]
fn nodes_without_instances_are_told_so() {
    let mut own = request(vec![endpoint("web", 0, "main", "acme")]);
    own.nodes = vec![foreign("main", &[]), foreign("idle", &[])];
    let plan = planned(&own, &Allocations::default());
    assert_eq!(plan.nodes[&NodeId::new("idle").unwrap()], []);
}

#[test]
fn what_nodes_use_is_avoided_but_nothing_is_renumbered() {
    let mut own = request(vec![endpoint("web", 0, "main", "acme")]);
    own.nodes = vec![foreign("main", &["172.17.0.1/16"])];
    let plan = planned(&own, &Allocations::default());
    assert_eq!(address(&plan, &ident("web", "subject", 0)), "172.18.0.3");
    own.nodes = vec![
        foreign("main", &["172.18.5.0/24"]),
        foreign("other", &["172.18.6.0/24"]),
    ];
    let later = planned(&own, &plan.allocations);
    assert_eq!(address(&later, &ident("web", "subject", 0)), "172.18.0.3");
    let notes: Vec<String> = later.notes.iter().map(ToString::to_string).collect();
    let expected = "node main uses 172.18.5.0/24, which network acme (172.18.0.0/16) has on it too";
    assert_eq!(notes, [expected]);
    // Once nobody is in it, it may change.
    let empty = planned(
        &NetworkRequest {
            endpoints: Vec::new(),
            ..own.clone()
        },
        &later.allocations,
    );
    let back = planned(&own, &empty.allocations);
    assert_eq!(address(&back, &ident("web", "subject", 0)), "172.17.0.3");
    assert!(back.notes.is_empty());
}

#[test]
fn rules_are_for_ports_that_are_both_allowed_and_exposed() {
    let mut worker = endpoint("worker", 0, "main", "acme");
    worker.allowed = vec![allowed("web", "80-90", "tcp"), allowed("web", "53", "udp")];
    let mut web = endpoint("web", 0, "left", "bolt");
    web.exposed = vec![
        exposed("85-99", "tcp"),
        exposed("80-84", "tcp"),
        exposed("53", "udp"),
    ];
    let mut second = endpoint("web", 1, "left", "bolt");
    second.exposed = vec![exposed("80", "tcp"), exposed("80", "udp")];
    let plan = first(vec![worker, web, second]);
    let own = &plan.instances[&ident("worker", "subject", 0)];
    let rules = own
        .rules
        .iter()
        .map(|rule| format!("{} {} {}", rule.dst_ip, rule.dst_port, rule.proto));
    assert_eq!(
        rules.collect::<Vec<_>>(),
        [
            "172.18.0.3 80-90 tcp",
            "172.18.0.3 53 udp",
            "172.18.0.4 80 tcp"
        ]
    );
    assert!(own.rules.iter().all(|rule| rule.src_ip == Some(own.ip)));
    assert!(
        plan.instances[&ident("web", "subject", 0)].rules.is_empty(),
        "answers need no rule"
    );
}

#[test]
fn what_cannot_be_called_is_noted() {
    let mut worker = endpoint("worker", 0, "main", "acme");
    worker.allowed = vec![
        allowed("ghost", "80", "tcp"),
        allowed("web", "81", "tcp"),
        allowed("near", "9", "tcp"),
    ];
    let mut web = endpoint("web", 0, "main", "bolt");
    web.exposed = vec![exposed("80", "tcp")];
    let plan = first(vec![worker, web, endpoint("near", 0, "main", "acme")]);
    let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "worker:subject:0 may call ghost/80/tcp, but ghost has no instance with a network",
            "worker:subject:0 may call web/81/tcp, which web does not expose",
        ]
    );
}

#[test]
fn names_are_those_of_the_field() {
    let mut web = endpoint("web", 0, "main", "acme");
    web.hostname = Some("WWW".to_owned());
    let mut second = endpoint("web", 1, "main", "acme");
    second.hostname = web.hostname.clone();
    let plan = first(vec![web, second]);
    let (network, hosts) = plan.hosts.iter().next().unwrap();
    assert_eq!(network.as_str(), "acme");
    let shown = hosts.iter().map(|(name, addresses)| {
        let addresses = addresses.iter().map(ToString::to_string);
        format!("{name} {}", addresses.collect::<Vec<_>>().join(","))
    });
    let mut expected: Vec<String> = [
        "0.subject.web 172.17.0.3",
        "0.subject.web.acme 172.17.0.3",
        "1.subject.web 172.17.0.4",
        "1.subject.web.acme 172.17.0.4",
        "subject.web 172.17.0.3",
        "subject.web.acme 172.17.0.3",
        "www 172.17.0.3,172.17.0.4",
        "www.acme 172.17.0.3,172.17.0.4",
    ]
    .map(str::to_owned)
    .to_vec();
    for (number, address) in [(0, "172.17.0.3"), (1, "172.17.0.4")] {
        let id = ident("web", "subject", number).instance_id();
        expected.extend([format!("{id} {address}"), format!("{id}.acme {address}")]);
    }
    expected.sort_unstable();
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn nobody_takes_the_name_of_another() {
    let mut thief = endpoint("aaa", 0, "main", "acme");
    thief.hostname = Some("0.subject.web".to_owned());
    let mut copy = endpoint("copy", 0, "main", "acme");
    copy.hostname = Some("www".to_owned());
    let mut web = endpoint("web", 0, "main", "acme");
    web.hostname = Some("www".to_owned());
    let mut odd = endpoint("odd", 0, "main", "acme");
    odd.hostname = Some("not a name".to_owned());
    let plan = first(vec![thief, copy, web, odd]);
    let hosts = plan.hosts.values().next().unwrap();
    let web = plan.instances[&ident("web", "subject", 0)].ip.to_string();
    assert_eq!(
        hosts["0.subject.web"].iter().next().unwrap().to_string(),
        web
    );
    let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "aaa:subject:0 is not known as 0.subject.web in network acme: the name belongs to another one",
            "web:subject:0 is not known as www in network acme: the name belongs to another one",
            "odd:subject:0 cannot be known as not a name: it is no host name",
        ]
    );
}

#[test]
fn names_of_others_are_known_only_to_those_who_may_call_them() {
    let mut worker = endpoint("worker", 0, "main", "acme");
    worker.allowed = vec![allowed("web", "80", "tcp")];
    let mut web = endpoint("web", 0, "main", "bolt");
    web.exposed = vec![exposed("80", "tcp")];
    web.hostname = Some("www".to_owned());
    let plan = first(vec![worker, web, endpoint("stranger", 0, "main", "cold")]);
    let knows = |network: &str, name: &str| {
        let mut hosts = plan.hosts.iter();
        let (_, hosts) = hosts.find(|(own, _)| own.as_str() == network).unwrap();
        hosts.contains_key(name)
    };
    assert!(knows("acme", "0.subject.web.bolt") && knows("acme", "www") && knows("bolt", "www"));
    assert!(!knows("cold", "0.subject.web.bolt") && !knows("cold", "www"));
    assert!(!knows("bolt", "0.subject.worker"));
}

#[test]
fn exhaustion_is_said_and_does_not_touch_others() {
    let mut own = request(vec![
        endpoint("a", 0, "main", "acme"),
        endpoint("b", 0, "main", "bolt"),
        endpoint("c", 0, "main", "cold"),
    ]);
    own.settings.pool = pool("10.0.0.0/28", 29);
    let plan = planned(&own, &Allocations::default());
    assert_eq!(plan.instances.len(), 2);
    let refused = &plan.refused[&ident("c", "subject", 0)];
    assert_eq!(
        refused.to_string(),
        "no subnet is left for network cold: all 2 of the pool are in use"
    );
    // What somebody gives back goes to whoever waits.
    own.endpoints.remove(0);
    let next = planned(&own, &plan.allocations);
    assert!(next.refused.is_empty());
    assert_eq!(address(&next, &ident("c", "subject", 0)), "10.0.0.3");

    let mut full = request(
        (0..6)
            .map(|number| endpoint("a", number, "main", "acme"))
            .collect(),
    );
    full.settings.pool = pool("10.0.0.0/28", 29);
    let plan = planned(&full, &Allocations::default());
    // Eight addresses, of which network, first host and broadcast are nobody's, and one is the node's.
    assert_eq!(plan.instances.len(), 4);
    let refused: Vec<String> = plan.refused.values().map(ToString::to_string).collect();
    assert_eq!(
        refused,
        ["no address is left in network acme (10.0.0.0/29)"; 2]
    );
}

#[test]
fn the_oldest_of_what_was_given_back_is_used_first() {
    let members = |names: &[&str]| {
        let endpoints = names.iter().map(|name| endpoint(name, 0, "main", "acme"));
        let mut request = request(endpoints.collect());
        request.settings.pool = pool("10.0.0.0/29", 29);
        request
    };
    let mut allocations = Allocations::default();
    // The node has .2, a and b have .3 and .4. The last two take what is left.
    for names in [&["a", "b"][..], &["b", "c"], &["c", "d"]] {
        allocations = planned(&members(names), &allocations).allocations;
    }
    let plan = planned(&members(&["c", "d", "e"]), &allocations);
    assert_eq!(address(&plan, &ident("e", "subject", 0)), "10.0.0.3");
}

#[test]
fn an_owner_and_a_subject_of_one_name_do_not_share_a_network() {
    let mut guest = endpoint("guest", 0, "main", "acme");
    guest.instance = ident("guest", "acme", 0);
    guest.network = NetworkKey::of(None, &SubjectId::new("acme").unwrap());
    let alone = first(vec![guest.clone()]);
    assert_eq!(alone.instances.len(), 1);
    let plan = first(vec![endpoint("web", 0, "main", "acme"), guest]);
    assert_eq!(plan.instances.len(), 1);
    let refused = &plan.refused[&ident("guest", "acme", 0)];
    assert!(matches!(refused, AttachError::NetworkNameTaken { .. }));
}

#[test]
fn damaged_allocations_are_refused() {
    let network = |owner: &str, subnet: &str, vlan: u16, leases: &str| {
        format!(
            r#"{{"of":{{"owner":"{owner}"}},"subnet":"{subnet}","vlan":{vlan},"next":"10.0.0.2","leases":[{leases}]}}"#
        )
    };
    let read = |networks: &[String]| {
        let text = format!(r#"{{"generation":1,"networks":[{}]}}"#, networks.join(","));
        serde_json::from_str::<Allocations>(&text).map_err(|error| error.to_string())
    };
    let lease = |ip: &str, node: &str| format!(r#"{{"ip":"{ip}","holder":{{"node":"{node}"}}}}"#);
    let good = network("a", "10.0.0.0/24", 1, &lease("10.0.0.2", "main"));
    assert!(read(std::slice::from_ref(&good)).is_ok());
    let cases = [
        (
            vec![good.clone(), network("b", "10.0.0.0/16", 2, "")],
            "given out twice",
        ),
        (
            vec![good.clone(), network("b", "10.1.0.0/16", 1, "")],
            "given out twice",
        ),
        (
            vec![network("a", "10.0.0.0/24", 4095, "")],
            "has 4095 as its VLAN",
        ),
        (
            vec![network("a", "10.0.0.1/24", 1, "")],
            "the subnet of network a is invalid",
        ),
        (
            vec![network("a", "10.0.0.0/31", 1, "")],
            "the subnet of network a is invalid",
        ),
        (
            vec![network("a", "10.0.0.0/24", 1, &lease("10.0.1.2", "main"))],
            "10.0.1.2 is not one of a host",
        ),
        (
            vec![network("a", "10.0.0.0/24", 1, &lease("10.0.0.255", "main"))],
            "10.0.0.255 is not one of a host",
        ),
        (
            vec![network("a", "10.0.0.0/24", 1, &lease("10.0.0.2", "a/b"))],
            "hold an invalid id",
        ),
        (
            vec![network(
                "a",
                "10.0.0.0/24",
                1,
                &format!("{},{}", lease("10.0.0.2", "x"), lease("10.0.0.2", "y")),
            )],
            "given out twice",
        ),
    ];
    for (networks, expected) in cases {
        let error = read(&networks).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn contradictions_are_refused_by_name() {
    let twice = request(vec![
        endpoint("web", 0, "main", "acme"),
        endpoint("web", 0, "left", "acme"),
    ]);
    let error = plan(&twice, &Allocations::default()).unwrap_err();
    assert_eq!(error.to_string(), "instance web:subject:0 is listed twice");
    let mut twice = request(Vec::new());
    twice.nodes = vec![foreign("main", &[]), foreign("main", &[])];
    let error = plan(&twice, &Allocations::default()).unwrap_err();
    assert_eq!(error.to_string(), "node main is listed twice");
}
