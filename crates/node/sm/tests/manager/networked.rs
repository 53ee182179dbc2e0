//! Instances with a network and a resource, and a manager that dies while it gives or takes either.

use muster_lab::instances::Pids;
use muster_lab::try_poll_for;
use serde_json::{Value, json};

use crate::rig::{Rig, TIME};
use crate::sets::{one, set};

/// Where the manager can die while it makes and removes networks, attaches and detaches instances, gives resources and takes them
/// back, counts traffic, and writes any of it down.
fn points() -> Vec<&'static str> {
    let all = [
        muster_network::FAULT_POINTS,
        muster_network::PLUGIN_FAULT_POINTS,
        muster_traffic::FAULT_POINTS,
        muster_resource::FAULT_POINTS,
        muster_store::FAULT_POINTS,
    ];
    // A database is made, set aside or closed, and vanished instances are noticed, before or after all that happens here; when a
    // log has grown is not for this test to say. Those are the crates' own tests' business.
    let elsewhere = [
        "store.new-",
        "store.migration-",
        "store.aside-",
        "store.closing",
        "store.checkpoint",
        "resource.sort",
    ];
    let names = all
        .iter()
        .flat_map(|list| list.iter().map(|point| point.name()));
    names
        .filter(|name| !elsewhere.iter().any(|start| name.starts_with(start)))
        .collect()
}

/// The network that instances are in, and one of this round.
fn networks(round: usize) -> Value {
    json!([
        {"networkId": "net", "subnet": "172.30.1.0/24", "ip": "172.30.1.1"},
        {"networkId": format!("other{round}"), "subnet": "172.30.2.0/24", "ip": "172.30.2.1"},
    ])
}

fn addresses() -> Value {
    let address = |ip| json!({"networkId": "net", "subnet": "172.30.1.0/24", "ip": ip});
    json!({"item00": address("172.30.1.2"), "item01": address("172.30.1.3")})
}

/// Waits until the node has these traces of networks and no others.
#[track_caller]
fn wait_for_network_traces(rig: &Rig, expected: &str, when: &str) {
    let mut seen = String::new();
    let found = try_poll_for(TIME, || {
        seen = rig.network_traces();
        (seen == expected).then_some(())
    });
    assert!(found.is_some(), "{when}: {seen}\ninstead of {expected}");
}

#[test]
fn a_manager_killed_at_any_point_of_a_network_leaves_no_link_rule_or_namespace() {
    muster_lab::require!(
        Root,
        Cgroup2,
        Tool("runc"),
        Tool("nft"),
        File("/usr/lib/cni/bridge"),
        File("/bin/busybox"),
        File("/usr/lib/python3/dist-packages/grpc_tools")
    );
    let points = points();
    let mut rig = Rig::boot_equipped(2);
    let (none, no_links) = (rig.traces_at_rest(), rig.network_traces());
    rig.networks = Some((networks(0), addresses()));
    rig.run_set(&set([(0, 0), (1, 0)]));
    let (two, links) = (rig.traces_at_rest(), rig.network_traces());
    assert_ne!(links, no_links);
    let bystander: Pids = one(&rig.pids(), &rig);
    for (index, name) in points.iter().enumerate() {
        rig.arm(name);
        // Item 1 is replaced by the other version, and a network by another one.
        rig.networks = Some((networks(index + 1), addresses()));
        rig.run_set(&set([(0, 0), (1, (index + 1) % 2)]));
        assert!(rig.disarm(), "{name} was never reached");
        let now = rig.pids();
        assert_eq!(now.len(), 2, "{name}: {now:?}");
        for (unit, pid) in &bystander {
            assert_eq!(now.get(unit), Some(pid), "{name}: a bystander was touched");
        }
        wait_for_network_traces(&rig, &links, name);
        rig.wait_for_traces(&two, name);
    }
    rig.networks = Some((json!([]), json!({})));
    rig.run_set(&set([]));
    wait_for_network_traces(&rig, &no_links, "in the end");
    rig.wait_for_traces(&none, "in the end");
}
