//! Small Units, written briefly or made at random.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use muster_api::domain::{
    ArchInfo, Digest, InstanceIdent, ItemId, ItemType, NodeId, OsInfo, Percent, ResourceInfo,
    RuntimeId, RuntimeInfo, RuntimeType, SubjectId,
};
use muster_balance::{
    Amounts, Capacity, DataPools, Distribution, IdRange, Image, Limits, Node, Place, Placement,
    Ratio, Ratios, Reason, Request, Standing, Wanted,
};
use muster_item::{BalancingPolicy, ItemConfig, Platform};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn node_id(name: &str) -> NodeId {
    NodeId::new(name).expect("test ids keep the rules")
}

pub(crate) fn runtime(node: &NodeId, kind: &str, arch: &str) -> RuntimeInfo {
    let runtime_type = RuntimeType::new(kind).expect("test types keep the rules");
    RuntimeInfo {
        runtime_id: RuntimeId::derive(&runtime_type, node),
        runtime_type,
        max_dmips: None,
        allowed_dmips: None,
        total_ram: None,
        allowed_ram: None,
        max_instances: 0,
        os_info: OsInfo::new("linux", "", Vec::new()).expect("an operating system"),
        arch_info: ArchInfo::new(arch, "").expect("an architecture"),
    }
}

/// A node with one runtime, `runc` on amd64.
pub(crate) fn node(name: &str, cpu: u64, ram: u64) -> Node {
    let mut node = Node::new(node_id(name));
    node.capacity = Capacity {
        cpu: Some(cpu),
        ram: Some(ram),
    };
    node.runtimes.push(runtime(&node.id, "runc", "amd64"));
    node
}

/// A service that asks for this much.
pub(crate) fn service(item: &str, count: u64, cpu: u64, ram: u64) -> Wanted {
    let image = Image {
        manifest: Digest::from_sha256([1; 32]),
        platform: Some(Platform::new("linux", "amd64")),
    };
    let mut wanted = Wanted::new(
        ItemId::new(item).expect("test ids keep the rules"),
        SubjectId::new("subject").expect("test ids keep the rules"),
        ItemType::Service,
        vec![image],
        &ItemConfig::default(),
    );
    wanted.count = count;
    wanted.requested.cpu = Some(cpu);
    wanted.requested.ram = Some(ram);
    wanted
}

pub(crate) fn request(nodes: Vec<Node>, wanted: Vec<Wanted>) -> Request {
    Request {
        nodes,
        wanted,
        running: Placement::new(),
        measured: BTreeMap::new(),
        reason: Reason::NewDesired,
        pools: DataPools::default(),
        limits: Limits::default(),
    }
}

pub(crate) fn place(node: &str, kind: &str) -> Place {
    let node = node_id(node);
    let kind = RuntimeType::new(kind).expect("test types keep the rules");
    Place {
        runtime: RuntimeId::derive(&kind, &node),
        node,
    }
}

pub(crate) fn all_idents(request: &Request) -> Vec<InstanceIdent> {
    let wanted = request.wanted.iter();
    wanted
        .flat_map(|wanted| (0..wanted.count).map(|number| wanted.ident(number)))
        .collect()
}

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
const LABELS: [&str; 2] = ["fast", "safe"];
const RESOURCES: [&str; 2] = ["gpu", "can"];
const RUNTIMES: [&str; 2] = ["runc", "crun"];
const ARCHES: [&str; 2] = ["amd64", "arm64"];

fn strings(from: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    let all = btree_set(select(from), 0..=from.len());
    all.prop_map(|set| set.into_iter().map(str::to_owned).collect())
}

fn few(from: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    prop_oneof![4 => Just(BTreeSet::new()), 1 => strings(from)]
}

fn standing() -> impl Strategy<Value = Standing> {
    prop_oneof![
        8 => Just(Standing::Ready),
        1 => Just(Standing::Paused),
        1 => Just(Standing::Away),
        1 => Just(Standing::Offline),
        1 => Just(Standing::NotMember),
    ]
}

fn amount() -> impl Strategy<Value = Option<NonZeroU64>> {
    option::weighted(0.3, 1_u64..60).prop_map(|amount| amount.and_then(NonZeroU64::new))
}

prop_compose! {
    fn any_runtime(kind: &'static str)(
        arch in select(&ARCHES[..]),
        allowed_dmips in amount(),
        allowed_ram in amount(),
        max_instances in prop_oneof![2 => Just(0_u64), 1 => 1_u64..4],
    ) -> RuntimeInfo {
        let mut info = runtime(&node_id("unnamed"), kind, arch);
        info.allowed_dmips = allowed_dmips;
        info.allowed_ram = allowed_ram;
        info.max_instances = max_instances;
        info
    }
}

prop_compose! {
    fn any_node(name: &'static str)(
        standing in standing(),
        priority in 0_u64..3,
        labels in strings(&LABELS),
        resources in vec((select(&RESOURCES[..]), 0_u64..3), 0..3),
        runtimes in (option::weighted(0.9, any_runtime("runc")), option::weighted(0.5, any_runtime("crun"))),
        cpu in option::weighted(0.9, 0_u64..100),
        ram in option::weighted(0.9, 0_u64..100),
        system_use in (0_u64..30, 0_u64..30),
        ratio in prop_oneof![2 => Just(50.0), 1 => 0.0..100.0],
    ) -> Node {
        let mut node = Node::new(node_id(name));
        node.standing = standing;
        node.priority = priority;
        node.labels = labels;
        let resources: BTreeMap<_, _> = resources.into_iter().collect();
        let resource = |(name, count)| ResourceInfo::new(name, NonZeroU64::new(count));
        node.resources = resources.into_iter().filter_map(|pair| resource(pair).ok()).collect();
        for mut runtime in [runtimes.0, runtimes.1].into_iter().flatten() {
            runtime.runtime_id = RuntimeId::derive(&runtime.runtime_type, &node.id);
            node.runtimes.push(runtime);
        }
        node.capacity = Capacity { cpu, ram };
        node.system_use = Amounts { cpu: system_use.0, ram: system_use.1 };
        let ratio = Ratio::from(Percent::new(ratio).expect("a percentage"));
        node.ratios = Ratios { cpu: ratio, ram: ratio };
        node
    }
}

prop_compose! {
    fn any_wanted(number: usize)(
        kind in prop_oneof![6 => Just(ItemType::Service), 1 => Just(ItemType::Component)],
        policy in prop_oneof![5 => Just(BalancingPolicy::Enabled), 1 => Just(BalancingPolicy::Disabled)],
        spread in prop::bool::weighted(0.3),
        count in 0_u64..5,
        priority in 0_u64..4,
        pin in option::weighted(0.1, select(&NAMES[..])),
        labels in few(&LABELS),
        resources in few(&RESOURCES),
        runtimes in vec(select(&RUNTIMES[..]), 1..3),
        arches in btree_set(option::weighted(0.9, select(&ARCHES[..])), 1..3),
        needs in (option::of(0_u64..50), option::of(0_u64..50), option::of(0_u64..60), option::of(0_u64..60)),
        data in (option::of(0_u64..40), option::of(0_u64..40)),
    ) -> Wanted {
        let item = format!("item{}", number / 2);
        let mut wanted = service(&item, count, 0, 0);
        wanted.subject = SubjectId::new(&format!("subject{}", number % 2)).expect("an id");
        wanted.kind = kind;
        wanted.policy = policy;
        wanted.distribution = if spread { Distribution::Spread } else { Distribution::Best };
        wanted.priority = priority;
        wanted.pin = pin.map(node_id);
        wanted.labels = labels;
        wanted.resources = resources;
        let runtimes = runtimes.into_iter().map(RuntimeType::new);
        wanted.runtimes = runtimes.filter_map(Result::ok).collect();
        let images = arches.into_iter().zip(1_u8..);
        wanted.images = images.map(|(arch, byte)| Image {
            manifest: Digest::from_sha256([byte; 32]),
            platform: arch.map(|arch| Platform::new("linux", arch)),
        }).collect();
        wanted.requested.cpu = needs.0;
        wanted.requested.ram = needs.1;
        wanted.quotas.cpu_dmips_limit = needs.2;
        wanted.quotas.ram_limit = needs.3;
        wanted.requested.storage = data.0;
        wanted.quotas.state_limit = data.1;
        wanted
    }
}

/// Where instances run that nobody planned.
fn any_running() -> impl Strategy<Value = Vec<(usize, u64, &'static str, &'static str)>> {
    let one = (
        0_usize..8,
        0_u64..5,
        select(&NAMES[..]),
        select(&RUNTIMES[..]),
    );
    prop_oneof![1 => Just(Vec::new()), 2 => vec(one, 0..20)]
}

prop_compose! {
    fn made_request()(
        nodes in NAMES.map(|name| any_node(name).boxed()).to_vec(),
        how_many in 1_usize..=5,
        wanted in (0_usize..8).map(|number| any_wanted(number).boxed()).collect::<Vec<_>>(),
        listed in 0_usize..=8,
        running in any_running(),
        measured in vec((0_usize..8, 0_u64..5, 0_u64..60, 0_u64..60), 0..10),
        accounts in prop_oneof![4 => Just(10_000_u32), 1 => 5000_u32..5008],
        pools in (option::weighted(0.3, 0_u64..300), option::weighted(0.3, 0_u64..300)),
    ) -> Request {
        let mut wanted = wanted;
        wanted.truncate(listed);
        let mut request = request(nodes.into_iter().take(how_many).collect(), wanted);
        for (item, number, node, kind) in running {
            if let Some(wanted) = request.wanted.get(item) {
                request.running.insert(wanted.ident(number), place(node, kind));
            }
        }
        for (item, number, cpu, ram) in measured {
            if let Some(wanted) = request.wanted.get(item) {
                request.measured.insert(wanted.ident(number), Amounts { cpu, ram });
            }
        }
        request.limits.uids = IdRange::new(5000, accounts).expect("a range");
        request.pools = DataPools { storage: pools.0, state: pools.1, ..DataPools::default() };
        request
    }
}

/// Boxed at every step: the parts are many, and test threads have small stacks.
pub(crate) fn any_request() -> BoxedStrategy<Request> {
    made_request().boxed()
}
