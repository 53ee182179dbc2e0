//! What a plan costs: 10,000 instances over 1,000 nodes, at first, when nothing changed, when a node is lost, when more is
//! wanted than fits, and when a large Unit gets one on each of 10,000 nodes. Each figure is printed beside its target; one
//! that misses it makes the run fail.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_api::domain::{
    ArchInfo, Digest, ItemId, ItemType, NodeId, OsInfo, RuntimeId, RuntimeInfo, RuntimeType,
    SubjectId,
};
use muster_balance::{
    Capacity, DataPools, Distribution, IdRange, Image, Ledger, Limits, Node, Placement, Plan,
    Reason, Request, Standing, Wanted, explain, plan,
};
use muster_item::{ItemConfig, Platform};

const NODES: usize = 1000;
const ITEMS: usize = 2000;
const TARGET: Duration = Duration::from_millis(200);
const ROUNDS: usize = 5;

/// Nodes of two platforms and ten kinds of labels.
fn node(index: usize) -> Node {
    let mut node = Node::new(NodeId::new(&format!("node-{index:04}")).expect("an id"));
    let runtime_type = RuntimeType::new("runc").expect("a type");
    let arch = ["amd64", "arm64"][index % 2];
    node.runtimes.push(RuntimeInfo {
        runtime_id: RuntimeId::derive(&runtime_type, &node.id),
        runtime_type,
        max_dmips: None,
        allowed_dmips: None,
        total_ram: None,
        allowed_ram: None,
        max_instances: 32,
        os_info: OsInfo::new("linux", "", Vec::new()).expect("an operating system"),
        arch_info: ArchInfo::new(arch, "").expect("an architecture"),
    });
    node.capacity = Capacity {
        cpu: Some(10_000 + index as u64 % 7 * 500),
        ram: Some(8 << 30),
    };
    node.labels.insert(format!("zone-{}", index % 10));
    node.priority = index as u64 % 3;
    node
}

/// Five instances each; some for one platform only, some for one zone only, some spread.
fn wanted(index: usize) -> Wanted {
    let image = |arch: &str, byte| Image {
        manifest: Digest::from_sha256([byte; 32]),
        platform: Some(Platform::new("linux", arch)),
    };
    let mut images = vec![image("amd64", 1)];
    if !index.is_multiple_of(4) {
        images.push(image("arm64", 2));
    }
    let mut wanted = Wanted::new(
        ItemId::new(&format!("item-{index:04}")).expect("an id"),
        SubjectId::new("subject").expect("an id"),
        ItemType::Service,
        images,
        &ItemConfig::default(),
    );
    wanted.count = 5;
    wanted.priority = index as u64 % 10;
    wanted.requested.cpu = Some(200 + index as u64 % 13 * 50);
    wanted.requested.ram = Some((64 + index as u64 % 5 * 64) << 20);
    if index.is_multiple_of(3) {
        wanted.labels.insert(format!("zone-{}", index % 10));
    }
    if index.is_multiple_of(5) {
        wanted.distribution = Distribution::Spread;
    }
    wanted
}

fn request() -> Request {
    Request {
        nodes: (0..NODES).map(node).collect(),
        wanted: (0..ITEMS).map(wanted).collect(),
        running: Placement::new(),
        measured: BTreeMap::new(),
        reason: Reason::NewDesired,
        pools: DataPools::default(),
        limits: Limits {
            uids: IdRange::new(5000, 60_000).expect("a range"),
            gids: IdRange::new(5000, 60_000).expect("a range"),
            ..Limits::default()
        },
    }
}

/// One instance, which asks for nothing, for each of many nodes that take no more.
fn one_for_each() -> Request {
    let mut request = request();
    request.nodes = (0..NODES * 10).map(node).collect();
    for node in &mut request.nodes {
        node.runtimes[0].max_instances = 1;
    }
    let mut wanted = wanted(1);
    wanted.count = request.nodes.len() as u64;
    wanted.requested.cpu = None;
    wanted.requested.ram = None;
    request.wanted = vec![wanted];
    request
}

/// The slowest of several rounds, so that a lucky one does not hide the others.
fn measure(name: &str, request: &Request, ledger: &Ledger, in_time: &mut bool) -> Plan {
    let mut slowest = Duration::ZERO;
    let mut last = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let plan = plan(request, ledger).expect("the request does not contradict itself");
        slowest = slowest.max(start.elapsed());
        last = Some(plan);
    }
    let plan = last.expect("at least one round was run");
    let (placed, moved) = (plan.placed.len(), plan.moves().count());
    let (millis, target) = (slowest.as_secs_f64() * 1e3, TARGET.as_millis());
    let unplaced = plan.unplaced.len();
    println!(
        "{name:<16} {millis:7.1} ms (target {target} ms): {placed} placed, {moved} moved, {unplaced} not"
    );
    *in_time &= slowest <= TARGET;
    plan
}

fn main() -> ExitCode {
    let mut in_time = true;
    let mut request = request();
    let first = measure("first", &request, &Ledger::default(), &mut in_time);
    request.running = first.placement();
    measure("unchanged", &request, &first.ledger, &mut in_time);
    request.reason = Reason::NodeLost(request.nodes[500].id.clone());
    measure("node lost", &request, &first.ledger, &mut in_time);
    request.reason = Reason::NewDesired;
    for node in request.nodes.iter_mut().skip(400) {
        node.standing = Standing::Offline;
    }
    measure("most nodes lost", &request, &first.ledger, &mut in_time);
    let ident = request.wanted[7].ident(0);
    let start = Instant::now();
    let explanation = explain(&request, &first.ledger, &ident).expect("it is wanted");
    let millis = start.elapsed().as_secs_f64() * 1e3;
    println!(
        "{:<16} {millis:7.1} ms: {} nodes",
        "explain",
        explanation.nodes.len()
    );
    let each = one_for_each();
    measure("one for each", &each, &Ledger::default(), &mut in_time);
    match in_time {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
