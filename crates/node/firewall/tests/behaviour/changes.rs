//! Changes: idempotent, in one step, and nothing but Muster's own.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use muster_firewall::{
    Change, Desired, InstanceId, InstancePolicy, LinkName, Meter, NetworkPolicy,
};

use crate::rig::{Rig, address, network, policy};

fn id(name: &str) -> InstanceId {
    InstanceId::new(name).unwrap()
}

fn meter(name: &str) -> Change {
    Change::PutMeter(Meter {
        instance: id(name),
        address: address(name),
        download_blocked: false,
        upload_blocked: true,
    })
}

/// The rules of the node, without counts and handles.
fn rules(rig: &Rig, backend: &str) -> String {
    let text = match backend {
        "nft" => rig.tool("node", &["nft", "--stateless", "list", "ruleset"], ""),
        other => rig.tool("node", &[&format!("{other}-save")], ""),
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut lines: Vec<&str> = lines
        .map(|line| line.split(" [").next().unwrap_or(line))
        .collect();
    if backend != "nft" {
        lines.sort_unstable();
    }
    lines.join("\n")
}

const FOREIGN: &str = "table inet theirs {\nmap sources { type ipv4_addr : verdict; }\nchain c { type filter hook forward priority 5; }\n}\n";

#[test]
fn changes_are_idempotent_and_leave_others_alone() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        match name {
            "nft" => drop(rig.tool("node", &["nft", "-f", "-"], FOREIGN)),
            other => {
                rig.tool("node", &[other, "-P", "FORWARD", "ACCEPT"], "");
                rig.tool(
                    "node",
                    &[other, "-A", "FORWARD", "-s", "192.0.2.1", "-j", "DROP"],
                    "",
                );
                rig.tool(
                    "node",
                    &[
                        other,
                        "-t",
                        "nat",
                        "-A",
                        "POSTROUTING",
                        "-s",
                        "192.0.2.1",
                        "-j",
                        "MASQUERADE",
                    ],
                    "",
                );
            }
        }
        let empty = rules(&rig, name);
        let apply = |changes: &[Change]| {
            rig.on_node(&firewall, |firewall| firewall.apply(changes))
                .unwrap()
        };

        // To remove what is not there is no error.
        apply(&[
            Change::RemoveInstance(id("a")),
            Change::RemoveMeter(id("a")),
            Change::RemoveNetwork(LinkName::new("br1").unwrap()),
        ]);
        let founded = rules(&rig, name);
        assert_ne!(
            empty, founded,
            "{name}: foundations are laid by the first change"
        );

        let all = [
            Change::PutNetwork(network("br1")),
            Change::PutNetwork(network("br2")),
            Change::PutInstance(policy("a").same_subnet(true)),
            Change::PutInstance(policy("c")),
            meter("a"),
            meter("c"),
        ];
        apply(&all);
        let once = rules(&rig, name);
        apply(&all);
        assert_eq!(
            once,
            rules(&rig, name),
            "{name}: the second time changed something"
        );

        let installed = rig
            .on_node(&firewall, |firewall| firewall.installed())
            .unwrap();
        let instances: Vec<_> = installed
            .instances()
            .map(|(id, at)| (id.to_string(), at))
            .collect();
        assert_eq!(
            instances,
            [
                ("a".to_owned(), address("a")),
                ("c".to_owned(), address("c"))
            ]
        );
        assert_eq!(installed.meters().count(), 2);
        assert_eq!(
            installed.networks().cloned().collect::<Vec<_>>(),
            [network("br1"), network("br2")]
        );
        assert_eq!(
            installed.leftovers(&BTreeSet::from([id("a")])),
            BTreeSet::from([id("c")])
        );

        // Leftovers go, and what goes is gone.
        let gone = BTreeSet::from([id("c"), id("nobody")]);
        let removed = rig
            .on_node(&firewall, |firewall| firewall.remove_instances(&gone))
            .unwrap();
        assert_eq!(removed, BTreeSet::from([id("c")]));
        apply(&[
            Change::RemoveMeter(id("a")),
            Change::RemoveInstance(id("a")),
            Change::RemoveNetwork(LinkName::new("br1").unwrap()),
            Change::RemoveNetwork(LinkName::new("br2").unwrap()),
        ]);
        let nat_chains_stay = |rules: &str| rules.replace(":MUSTER-MASQ -\n", "");
        assert_eq!(
            nat_chains_stay(&founded),
            nat_chains_stay(&rules(&rig, name)),
            "{name}: something stayed"
        );
        rig.on_node(&firewall, |firewall| firewall.clear()).unwrap();
        rig.on_node(&firewall, |firewall| firewall.clear()).unwrap();
        assert_eq!(
            empty,
            rules(&rig, name),
            "{name}: something was left, or something else taken"
        );
    }
}

#[test]
fn an_address_has_one_owner_and_an_instance_one_address() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        let apply = |changes: &[Change]| {
            rig.on_node(&firewall, |firewall| firewall.apply(changes))
                .unwrap()
        };
        let at = |name: &str, at: &str| {
            let id = InstanceId::new(name).unwrap();
            let address = address(at).into();
            Change::PutInstance(InstancePolicy::new(id, &network("br1"), address).unwrap())
        };
        let meter_at = |name: &str, at: &str| {
            Change::PutMeter(Meter {
                instance: id(name),
                address: address(at),
                download_blocked: false,
                upload_blocked: false,
            })
        };
        apply(&[
            Change::PutNetwork(network("br1")),
            at("a", "a"),
            at("b", "b"),
            meter_at("a", "a"),
            meter_at("b", "b"),
        ]);
        // In one step, each other's.
        apply(&[
            at("a", "b"),
            at("b", "a"),
            meter_at("a", "b"),
            meter_at("b", "a"),
        ]);
        apply(&[at("a", "e"), meter_at("a", "e")]);
        let installed = rig
            .on_node(&firewall, |firewall| firewall.installed())
            .unwrap();
        let expected = [(id("a"), address("e")), (id("b"), address("a"))];
        let instances: Vec<_> = installed
            .instances()
            .map(|(id, at)| (id.clone(), at))
            .collect();
        let meters: Vec<_> = installed
            .meters()
            .map(|(id, at)| (id.clone(), at))
            .collect();
        assert_eq!(instances, expected, "{name}");
        assert_eq!(meters, expected, "{name}");
        // An unwanted network and unwanted instances go; the other way round as well.
        let desired = Desired::default();
        rig.on_node(&firewall, |firewall| firewall.reconcile(&desired))
            .unwrap();
        let installed = rig
            .on_node(&firewall, |firewall| firewall.installed())
            .unwrap();
        assert_eq!(
            installed.instances().count() + installed.networks().count(),
            0,
            "{name}"
        );
        assert_eq!(
            installed.meters().count(),
            2,
            "{name}: meters are not the network manager's"
        );
    }
}

/// Processes that change rules at the same time neither fail nor undo each other.
#[test]
fn concurrent_changes_do_not_collide() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        std::thread::scope(|scope| {
            let names = ["a", "b", "e"];
            let threads = names.map(|name| {
                let (rig, firewall) = (&rig, &firewall);
                scope.spawn(move || {
                    for _ in 0..5 {
                        let put = [
                            Change::PutNetwork(network("br1")),
                            Change::PutInstance(policy(name)),
                            meter(name),
                        ];
                        rig.on_node(firewall, |firewall| firewall.apply(&put))
                            .unwrap();
                        let remove = [Change::RemoveInstance(id(name))];
                        rig.on_node(firewall, |firewall| firewall.apply(&remove))
                            .unwrap();
                        rig.on_node(firewall, |firewall| firewall.apply(&put))
                            .unwrap();
                    }
                })
            });
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
        let installed = rig
            .on_node(&firewall, |firewall| firewall.installed())
            .unwrap();
        assert_eq!(installed.instances().count(), 3, "{name}");
        assert_eq!(installed.meters().count(), 3, "{name}");
    }
}

/// Somebody else's script throws all rules away: the next reconciliation brings them back.
#[test]
fn lost_rules_come_back() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for (name, firewall) in crate::backends() {
        let rig = Rig::new();
        let desired = Desired {
            networks: vec![network("br1")],
            instances: vec![policy("a")],
        };
        rig.on_node(&firewall, |firewall| firewall.reconcile(&desired))
            .unwrap();
        let before = rules(&rig, name);
        match name {
            "nft" => drop(rig.tool("node", &["nft", "flush", "ruleset"], "")),
            other => {
                // Jumps to Muster's chains only: the chains themselves are still there.
                rig.tool("node", &[other, "-F", "FORWARD"], "");
                rig.tool("node", &[other, "-t", "nat", "-F", "POSTROUTING"], "");
            }
        }
        assert_ne!(before, rules(&rig, name), "{name}");
        rig.on_node(&firewall, |firewall| firewall.reconcile(&desired))
            .unwrap();
        assert_eq!(before, rules(&rig, name), "{name}");
    }
}

/// A set of changes of which one is impossible changes nothing.
#[test]
fn a_refused_change_changes_nothing() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    let firewall = &crate::backends()[0].1;
    let networks = [
        Change::PutNetwork(network("br1")),
        Change::PutInstance(policy("a")),
    ];
    rig.on_node(firewall, |firewall| firewall.apply(&networks))
        .unwrap();
    let before = rules(&rig, "nft");
    // Two networks cannot share addresses.
    let bridge = LinkName::new("br2").unwrap();
    let within = NetworkPolicy::new(
        bridge,
        "172.20.0.0/28".parse().unwrap(),
        "172.20.0.1".parse().unwrap(),
    );
    let changes = [
        Change::PutInstance(policy("b")),
        Change::PutNetwork(within.unwrap()),
    ];
    let refused = rig.on_node(firewall, |firewall| firewall.apply(&changes));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the network of br2, 172.20.0.0/28, shares addresses with that of br1, 172.20.0.0/24"
    );
    assert_eq!(before, rules(&rig, "nft"));
    // What the kernel refuses is refused as a whole, too: here, somebody has put a rule of their own into our table.
    let break_in = "add rule inet muster forward jump out_9e8a3b2c1d0f4e5a\n";
    let tag = before
        .split("chain out_")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    rig.tool(
        "node",
        &["nft", "-f", "-"],
        &break_in.replace("9e8a3b2c1d0f4e5a", tag),
    );
    let broken = rules(&rig, "nft");
    let changes = [
        Change::PutInstance(policy("b")),
        Change::RemoveInstance(id("a")),
    ];
    let refused = rig.on_node(firewall, |firewall| firewall.apply(&changes));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "cannot change the rules of the nft packet filter"
    );
    assert_eq!(broken, rules(&rig, "nft"));
    // A bridge that is not there cannot be kept apart, so it gets no rules that would only seem to hold.
    let missing = NetworkPolicy::new(
        LinkName::new("br9").unwrap(),
        "172.22.0.0/24".parse().unwrap(),
        "172.22.0.1".parse().unwrap(),
    );
    let refused = rig.on_node(firewall, |firewall| {
        firewall.apply(&[Change::PutNetwork(missing.unwrap())])
    });
    let error = refused.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot keep the ports of the bridge br9 apart"
    );
    assert_eq!(broken, rules(&rig, "nft"));
}

/// Meters are read every few seconds, for as long as a node runs. The bounds leave room for a test build on a busy machine.
#[test]
fn five_hundred_instances_are_written_and_read_quickly() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    let firewall = &crate::backends()[0].1;
    let large = NetworkPolicy::new(
        LinkName::new("br1").unwrap(),
        "172.20.0.0/16".parse().unwrap(),
        "172.20.0.1".parse().unwrap(),
    )
    .unwrap();
    let mut changes = vec![Change::PutNetwork(large.clone())];
    for number in 0..500u16 {
        let address = Ipv4Addr::from_bits(0xac14_0100 + u32::from(number));
        let instance = id(&format!("instance-{number}"));
        let policy = InstancePolicy::new(instance.clone(), &large, address.into()).unwrap();
        changes.push(Change::PutInstance(policy.same_subnet(true)));
        changes.push(Change::PutMeter(Meter {
            instance,
            address,
            download_blocked: false,
            upload_blocked: false,
        }));
    }
    let began = Instant::now();
    rig.on_node(firewall, |firewall| firewall.apply(&changes))
        .unwrap();
    let written = began.elapsed();
    let read = || {
        let began = Instant::now();
        let installed = rig
            .on_node(firewall, |firewall| firewall.installed())
            .unwrap();
        assert_eq!(
            (installed.instances().count(), installed.meters().count()),
            (500, 500)
        );
        let counters = rig
            .on_node(firewall, |firewall| firewall.counters())
            .unwrap();
        assert!(counters.instance(&id("instance-499")).is_some());
        began.elapsed()
    };
    let fastest = (0..10).map(|_| read()).min().unwrap();
    println!("500 instances written in {written:?}, read in {fastest:?}");
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    assert!(written < Duration::from_secs(10), "{written:?}");
}
