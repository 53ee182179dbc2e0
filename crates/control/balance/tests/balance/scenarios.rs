//! The rules one by one, and the words in which they are explained.

use std::num::NonZeroU64;

use muster_api::domain::{ItemType, ResourceInfo, RuntimeType};
use muster_balance::{
    Amounts, Capacity, Change, DataPools, Distribution, IdRange, Ledger, Plan, Reason, RefusalKind,
    Relief, Request, RequestError, Standing, WhyNot, explain, plan,
};
use muster_item::{BalancingPolicy, Platform};

use crate::world::{node, node_id, place, request, runtime, service};

fn planned(request: &Request) -> Plan {
    plan(request, &Ledger::default()).expect("the request does not contradict itself")
}

/// `item:subject:0@node ...`, and `item:subject:0?` for what runs nowhere.
fn layout(plan: &Plan) -> String {
    let placed = plan.placed.iter();
    let placed = placed.map(|(ident, placed)| {
        format!("{}{}@{}", ident.item_id, ident.instance, placed.place.node)
    });
    let unplaced = plan.unplaced.keys();
    let unplaced = unplaced.map(|ident| format!("{}{}?", ident.item_id, ident.instance));
    let mut all: Vec<String> = placed.chain(unplaced).collect();
    all.sort();
    all.join(" ")
}

#[test]
fn the_node_with_the_highest_priority_then_most_cpu_ram_and_lowest_id_wins() {
    let mut nodes = vec![
        node("a", 10, 10),
        node("b", 20, 10),
        node("c", 20, 30),
        node("d", 20, 30),
    ];
    let wanted = vec![service("web", 1, 1, 1)];
    assert_eq!(
        layout(&planned(&request(nodes.clone(), wanted.clone()))),
        "web0@c"
    );
    nodes[0].priority = 1;
    assert_eq!(layout(&planned(&request(nodes, wanted))), "web0@a");
}

#[test]
fn what_the_system_uses_is_not_given_to_newcomers() {
    let mut busy = node("a", 100, 100);
    busy.system_use = Amounts { cpu: 60, ram: 0 };
    let mut first = request(vec![busy], vec![service("web", 1, 50, 1)]);
    assert_eq!(layout(&planned(&first)), "web0?");
    first
        .running
        .insert(first.wanted[0].ident(0), place("a", "runc"));
    let kept = planned(&first);
    assert_eq!(layout(&kept), "web0@a");
    assert_eq!(kept.placed.values().next().unwrap().change, Change::Kept);
}

#[test]
fn the_preferred_runtime_and_the_best_image_are_taken() {
    let mut own = node("a", 100, 100);
    own.runtimes.push(runtime(&own.id, "crun", "amd64"));
    own.runtimes[1].max_instances = 1;
    let mut wanted = service("web", 2, 1, 1);
    wanted.runtimes = vec![
        RuntimeType::new("crun").unwrap(),
        RuntimeType::new("runc").unwrap(),
    ];
    let mut unsaid = wanted.images[0].clone();
    unsaid.platform = None;
    unsaid.manifest = muster_api::domain::Digest::from_sha256([2; 32]);
    wanted.images.insert(0, unsaid);
    let plan = planned(&request(vec![own], vec![wanted.clone()]));
    assert_eq!(plan.placed[&wanted.ident(0)].place, place("a", "crun"));
    assert_eq!(
        plan.placed[&wanted.ident(1)].place,
        place("a", "runc"),
        "crun is full"
    );
    assert_eq!(
        plan.placed[&wanted.ident(0)].manifest,
        wanted.images[1].manifest
    );
}

#[test]
fn full_nodes_are_passed_over_and_taken_again_when_there_is_room() {
    let mut nodes = vec![node("a", 30, 30), node("b", 20, 20), node("c", 10, 10)];
    for node in &mut nodes {
        node.runtimes[0].max_instances = 1;
    }
    nodes[2].priority = 1;
    let wanted = service("web", 4, 0, 0);
    let mut request = request(nodes, vec![wanted]);
    let first = planned(&request);
    assert_eq!(layout(&first), "web0@c web1@a web2@b web3?");
    // Whoever runs stays, and the newcomer goes to the node that has room now, although it comes last.
    request.running = first.placement();
    request.nodes[1].runtimes[0].max_instances = 2;
    let second = plan(&request, &first.ledger).unwrap();
    assert_eq!(layout(&second), "web0@c web1@a web2@b web3@b");
    assert_eq!(second.moves().count(), 0);
}

#[test]
fn spread_lays_instances_over_nodes() {
    let nodes = || vec![node("a", 100, 100), node("b", 50, 50), node("c", 40, 40)];
    let mut wanted = service("web", 4, 1, 1);
    assert_eq!(
        layout(&planned(&request(nodes(), vec![wanted.clone()]))),
        "web0@a web1@a web2@a web3@a"
    );
    wanted.distribution = Distribution::Spread;
    assert_eq!(
        layout(&planned(&request(nodes(), vec![wanted]))),
        "web0@a web1@b web2@c web3@a"
    );
}

#[test]
fn the_important_come_first_and_displace_as_few_as_needed() {
    let nodes = vec![node("a", 10, 100), node("b", 10, 100)];
    let mut small = service("small", 2, 3, 1);
    small.priority = 1;
    let mut medium = service("medium", 1, 8, 1);
    medium.priority = 2;
    let first = planned(&request(nodes.clone(), vec![small.clone(), medium.clone()]));
    assert_eq!(layout(&first), "medium0@a small0@b small1@b");

    let mut large = service("large", 1, 9, 1);
    large.priority = 3;
    let mut second = request(
        nodes.clone(),
        vec![small.clone(), medium.clone(), large.clone()],
    );
    second.running = first.placement();
    let now = plan(&second, &first.ledger).unwrap();
    assert_eq!(
        layout(&now),
        "large0@a medium0@b small0? small1?",
        "one goes rather than two"
    );

    // Equals do not displace each other.
    second.wanted[2].priority = 1;
    assert_eq!(
        layout(&plan(&second, &first.ledger).unwrap()),
        "large0? medium0@a small0@b small1@b"
    );
}

#[test]
fn a_lost_node_moves_what_it_had_and_nothing_comes_back() {
    let mut own = request(
        vec![node("a", 10, 10), node("b", 9, 9)],
        vec![service("web", 2, 2, 2)],
    );
    let first = planned(&own);
    assert_eq!(layout(&first), "web0@a web1@b");
    own.running = first.placement();
    own.reason = Reason::NodeLost(node_id("a"));
    let second = plan(&own, &first.ledger).unwrap();
    assert_eq!(layout(&second), "web0@b web1@b");
    assert_eq!(second.moves().count(), 1);
    own.running = second.placement();
    own.reason = Reason::ConfigChange;
    assert_eq!(
        layout(&plan(&own, &second.ledger).unwrap()),
        "web0@b web1@b"
    );
    assert_eq!(
        first.placed[&own.wanted[0].ident(0)].uid,
        second.placed[&own.wanted[0].ident(0)].uid
    );
}

#[test]
fn paused_and_absent_nodes_keep_what_they_have_and_get_nothing() {
    for standing in [Standing::Paused, Standing::Away] {
        let mut own = request(
            vec![node("a", 10, 10), node("b", 5, 5)],
            vec![service("web", 1, 2, 2)],
        );
        let first = planned(&own);
        assert_eq!(layout(&first), "web0@a");
        own.running = first.placement();
        own.nodes[0].standing = standing;
        // Nothing may be known about a node that is away.
        own.nodes[0].runtimes.clear();
        own.wanted[0].count = 2;
        let second = plan(&own, &first.ledger).unwrap();
        assert_eq!(layout(&second), "web0@a web1@b");
        assert_eq!(second.placed[&own.wanted[0].ident(0)].change, Change::Kept);
    }
}

#[test]
fn who_is_bound_waits_for_its_node() {
    for kind in [ItemType::Service, ItemType::Component] {
        let mut wanted = service("web", 1, 2, 2);
        wanted.kind = kind;
        wanted.policy = BalancingPolicy::Disabled;
        let mut own = request(
            vec![node("a", 10, 10), node("b", 5, 5)],
            vec![wanted.clone()],
        );
        let first = planned(&own);
        own.nodes[0].standing = Standing::Offline;
        own.running = first.placement();
        let second = plan(&own, &first.ledger).unwrap();
        assert_eq!(layout(&second), "web0?");
        // The binding outlives the absence, though nothing runs any more.
        own.running = second.placement();
        own.nodes[0].standing = Standing::Ready;
        own.nodes[1].priority = 9;
        assert_eq!(layout(&plan(&own, &second.ledger).unwrap()), "web0@a");
        // A pin moves services only.
        own.wanted[0].pin = Some(node_id("b"));
        let pinned = plan(&own, &second.ledger).unwrap();
        let expected = if kind == ItemType::Service {
            "web0@b"
        } else {
            "web0?"
        };
        assert_eq!(layout(&pinned), expected);
        // A node that left the Unit binds nobody.
        own.wanted[0].pin = None;
        own.nodes.remove(0);
        assert_eq!(layout(&plan(&own, &second.ledger).unwrap()), "web0@b");
    }
}

#[test]
fn an_alert_moves_the_least_important_that_suffice() {
    let mut vital = service("vital", 1, 10, 1);
    vital.priority = 9;
    let wanted = vec![vital, service("large", 1, 30, 1), service("small", 1, 5, 1)];
    let mut own = request(
        vec![node("a", 100, 100), node("b", 80, 100)],
        wanted.clone(),
    );
    for wanted in &wanted {
        own.running.insert(wanted.ident(0), place("a", "runc"));
    }
    own.measured
        .insert(wanted[0].ident(0), Amounts { cpu: 60, ram: 1 });
    own.nodes[0].system_use.cpu = 10;
    let relief = |cpu| {
        let target = Capacity {
            cpu: Some(cpu),
            ram: None,
        };
        Reason::QuotaAlert(vec![Relief {
            node: node_id("a"),
            target,
        }])
    };
    // 10 + 60 + 30 + 5 are in use.
    own.reason = relief(80);
    assert_eq!(layout(&planned(&own)), "large0@b small0@a vital0@a");
    own.reason = relief(74);
    assert_eq!(layout(&planned(&own)), "large0@b small0@b vital0@a");
    own.reason = relief(110);
    assert_eq!(layout(&planned(&own)), "large0@a small0@a vital0@a");
    // Nobody has room for what it really uses, so it stays.
    own.measured
        .insert(wanted[1].ident(0), Amounts { cpu: 81, ram: 1 });
    own.reason = relief(151);
    assert_eq!(layout(&planned(&own)), "large0@a small0@b vital0@a");
}

#[test]
fn data_is_reserved_for_the_whole_unit_and_stays_reserved() {
    let mut wanted = service("db", 3, 1, 1);
    wanted.quotas.storage_limit = Some(100);
    let mut own = request(vec![node("a", 10, 10)], vec![wanted]);
    own.pools = DataPools {
        storage: Some(120),
        ..DataPools::default()
    };
    let first = planned(&own);
    assert_eq!(layout(&first), "db0@a db1@a db2?");
    let why = &first.unplaced[&own.wanted[0].ident(2)];
    assert_eq!(*why, WhyNot::Storage { need: 50, free: 20 });
    assert_eq!(
        why.to_string(),
        "it needs 50 bytes of storage, and 20 are left"
    );
    // Without a place its data is still there.
    own.nodes[0].standing = Standing::Offline;
    let second = plan(&own, &first.ledger).unwrap();
    own.nodes[0].standing = Standing::Ready;
    own.wanted[0].count = 4;
    assert_eq!(
        layout(&plan(&own, &second.ledger).unwrap()),
        "db0@a db1@a db2? db3?"
    );
}

#[test]
fn numbers_for_users_run_out_with_a_word() {
    let mut own = request(vec![node("a", 10, 10)], vec![service("web", 3, 1, 1)]);
    own.limits.uids = IdRange::new(100, 101).unwrap();
    let plan = planned(&own);
    assert_eq!(layout(&plan), "web0@a web1@a web2?");
    let why = plan.unplaced.values().next().unwrap();
    assert_eq!(why.to_string(), "all 2 user ids are taken");
}

#[test]
fn resources_are_shared_as_often_as_they_may() {
    let mut own = node("a", 10, 10);
    let count = NonZeroU64::new(2);
    own.resources = vec![
        ResourceInfo::new("gpu", count).unwrap(),
        ResourceInfo::new("bus", None).unwrap(),
    ];
    let mut wanted = service("web", 3, 1, 1);
    wanted.resources = ["bus".to_owned(), "gpu".to_owned()].into();
    let own = request(vec![own], vec![wanted]);
    let plan = planned(&own);
    assert_eq!(layout(&plan), "web0@a web1@a web2?");
    assert_eq!(
        plan.unplaced.values().next().unwrap().to_string(),
        "no node can take it: 1 node: a resource it asks for is in use"
    );
}

#[test]
fn every_node_says_why() {
    let mut nodes = vec![
        node("arm", 100, 100),
        node("best", 90, 100),
        node("bare", 90, 100),
        node("full", 1, 100),
        node("less", 80, 100),
        node("off", 90, 100),
        node("other", 90, 100),
        node("paused", 90, 100),
        node("plain", 90, 100),
    ];
    for node in &mut nodes {
        node.labels.insert("fast".to_owned());
    }
    nodes[0].runtimes = vec![runtime(&nodes[0].id, "runc", "arm64")];
    nodes[2].runtimes.clear();
    nodes[5].standing = Standing::Offline;
    nodes[6].runtimes = vec![runtime(&nodes[6].id, "rootfs", "amd64")];
    nodes[7].standing = Standing::Paused;
    nodes[8].labels.clear();
    let mut wanted = service("web", 1, 10, 1);
    wanted.labels.insert("fast".to_owned());
    let mut own = request(nodes, vec![wanted]);
    let ident = own.wanted[0].ident(0);
    let explanation = explain(&own, &Ledger::default(), &ident).unwrap();
    let expected = "web:subject:0
  arm: refused: runtime runc: runs linux/arm64, images are for linux/amd64
  bare: refused: has no runtime
  best: chosen: no other node fits better
  full: refused: 10 DMIPS needed, 1 free
  less: passed over: has 80 DMIPS free, the chosen one 90
  off: refused: is offline
  other: refused: runtime rootfs: not one of the wanted types (crun, runc)
  paused: refused: is paused and gets nothing new
  plain: refused: lacks the label fast";
    assert_eq!(explanation.to_string(), expected);
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["instance"], "web:subject:0");
    assert_eq!(json["nodes"][2]["verdict"]["because"]["reason"], "best");
    assert_eq!(json["nodes"][3]["verdict"]["why"]["kind"], "cpu");

    own.wanted[0].requested.cpu = Some(95);
    let plan = planned(&own);
    let why = &plan.unplaced[&ident];
    let expected = "no node can take it: 3 nodes: not enough CPU, \
        1 node: not a platform it has an image for, 1 node: without a runtime of a wanted type, \
        1 node: without any runtime, 1 node: without a label it asks for, 1 node: paused, 1 node: offline";
    assert_eq!(why.to_string(), expected);
    let WhyNot::NoNode { refusals } = why else {
        panic!("no node takes it")
    };
    assert_eq!(refusals.count(RefusalKind::Cpu), 3);
    let explained = explain(&own, &Ledger::default(), &ident).unwrap();
    assert_eq!(explained.unplaced.as_ref(), Some(why));
}

#[test]
fn nodes_of_another_platform_take_the_image_that_is_for_them() {
    let mut arm = node("arm", 100, 100);
    arm.runtimes = vec![runtime(&arm.id, "runc", "arm64")];
    let mut wanted = service("web", 1, 1, 1);
    let mut other = wanted.images[0].clone();
    other.platform = Some(Platform::new("linux", "arm64"));
    other.manifest = muster_api::domain::Digest::from_sha256([7; 32]);
    wanted.images.push(other.clone());
    let plan = planned(&request(vec![arm], vec![wanted.clone()]));
    assert_eq!(plan.placed[&wanted.ident(0)].manifest, other.manifest);
}

#[test]
fn contradictions_are_refused_by_name() {
    let own = || request(vec![node("a", 1, 1)], vec![service("web", 1, 1, 1)]);
    let refusal = |request: &Request| plan(request, &Ledger::default()).unwrap_err();
    let mut twice = own();
    twice.nodes.push(node("a", 2, 2));
    assert_eq!(refusal(&twice).to_string(), "node a is listed twice");
    let mut twice = own();
    twice.wanted.push(service("web", 3, 1, 1));
    assert_eq!(
        refusal(&twice).to_string(),
        "item web is wanted twice for subject subject"
    );
    let mut many = own();
    many.wanted[0].count = u64::MAX;
    assert!(matches!(
        refusal(&many),
        RequestError::TooManyInstances { .. }
    ));
    let mut bare = own();
    bare.wanted[0].images.clear();
    assert_eq!(refusal(&bare).to_string(), "item web has no image");
    let unknown = service("other", 1, 1, 1).ident(0);
    let error = explain(&own(), &Ledger::default(), &unknown).unwrap_err();
    assert_eq!(error.to_string(), "instance other:subject:0 is not wanted");
}

#[test]
fn what_is_no_longer_wanted_is_removed() {
    let mut own = request(vec![node("a", 9, 9)], vec![service("web", 2, 1, 1)]);
    let first = planned(&own);
    own.running = first.placement();
    own.wanted[0].count = 1;
    let second = plan(&own, &first.ledger).unwrap();
    assert_eq!(layout(&second), "web0@a");
    let removed: Vec<u64> = second.removed.keys().map(|ident| ident.instance).collect();
    assert_eq!(removed, [1]);
}
