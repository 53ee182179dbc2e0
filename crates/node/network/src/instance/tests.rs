use muster_api::domain::{ItemId, ItemType, NetworkId, SubjectId, TransportProtocol};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn network() -> NodeNetwork {
    NodeNetwork {
        id: NetworkId::new("net 1").unwrap(),
        subnet: "172.17.0.0/16".parse().unwrap(),
        address: "172.17.0.1".parse().unwrap(),
        vlan: None,
    }
}

fn wish() -> Wish {
    Wish {
        ident: InstanceIdent {
            item_id: ItemId::new("web").unwrap(),
            subject_id: SubjectId::new("driver").unwrap(),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        parameters: NetworkParameters {
            network_id: network().id,
            subnet: "172.17.0.0/16".parse().unwrap(),
            ip: "172.17.0.5".parse().unwrap(),
            dns_servers: vec!["10.0.0.53".parse().unwrap(), "172.17.0.1".parse().unwrap()],
            rules: vec![FirewallRule {
                dst_ip: "172.18.0.3".parse().unwrap(),
                dst_port: "5432".parse().unwrap(),
                proto: TransportProtocol::Tcp,
                src_ip: None,
            }],
        },
        hostname: Some("web".into()),
        exposed: vec![ExposedPort {
            ports: "8080".parse().unwrap(),
            protocol: TransportProtocol::Udp,
        }],
        upload: Some(10_000_000),
        download: None,
    }
}

fn plan(wish: &Wish) -> Result<Plan, PlanError> {
    wish.plan(&network(), SameSubnet::Deny, "/run/ns/x".into())
}

#[test]
fn plugins_are_told_all_that_the_controller_says() {
    let plan = plan(&wish()).unwrap();
    let bridge = network().bridge();
    assert_eq!(
        plan.list.to_value(),
        json!({"cniVersion": "1.0.0", "name": bridge.as_str(), "plugins": [
            {"type": "loopback"},
            {"type": "bridge", "bridge": bridge.as_str(), "isGateway": false, "ipMasq": false, "ipam": {
                "type": "static", "addresses": [{"address": "172.17.0.5/16", "gateway": "172.17.0.1"}],
                "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "bandwidth", "egressRate": 10_000_000, "egressBurst": 524_288},
            {"type": "muster-firewall", "bridge": bridge.as_str(), "subnet": "172.17.0.0/16", "gateway": "172.17.0.1",
             "sameSubnet": false, "exposedPorts": ["8080/udp"], "allowedConnections": [
                {"dstIp": "172.18.0.3", "dstPort": "5432", "proto": "tcp", "srcIp": ""}]},
        ]})
    );
    assert_eq!(
        plan.attachment.container(),
        wish().instance_id().to_string()
    );
}

#[test]
fn the_answer_names_the_bridges_name_server_which_asks_the_others() {
    let plan = plan(&wish()).unwrap();
    let servers: Vec<_> = plan
        .answer
        .name_servers
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(servers, ["172.17.0.1"]);
    assert_eq!(plan.record.name_servers, wish().parameters.dns_servers);
    assert_eq!(plan.answer.hostname, "web");
    assert_eq!(plan.answer.hosts[0].hostname, "web");
    let nameless = Wish {
        hostname: None,
        ..wish()
    };
    let id = nameless.instance_id().to_string();
    assert_eq!(super::tests::plan(&nameless).unwrap().answer.hostname, id);
}

#[test]
fn an_instance_outside_of_the_network_is_refused() {
    let at = |ip: &str| {
        let mut wish = wish();
        wish.parameters.ip = ip.parse().unwrap();
        plan(&wish).unwrap_err().to_string()
    };
    for bad in ["172.18.0.5", "172.17.0.1", "172.17.0.0", "::1"] {
        let text = at(bad);
        assert_eq!(
            text,
            format!("its address {bad} is not one that an instance can have in 172.17.0.0/16")
        );
    }
    let mut other = wish();
    other.parameters.subnet = "172.16.0.0/12".parse().unwrap();
    let text = plan(&other).unwrap_err().to_string();
    assert_eq!(
        text,
        "its subnet 172.16.0.0/12 is not the network's 172.17.0.0/16"
    );
}

proptest! {
    /// Whatever is asked for: the list reads back as the same, rules come last, and speeds are ones that the plugin takes.
    #[test]
    fn every_list_is_one_that_plugins_take(
        upload in option::of(any::<u64>()), download in option::of(any::<u64>()), last in 2_u8..255, hostname in option::of("[a-z]{1,20}")
    ) {
        let mut wish = Wish { upload, download, hostname, ..wish() };
        wish.parameters.ip = [172, 17, 3, last].into();
        let plan = plan(&wish).unwrap();
        let read = NetworkList::parse(plan.record.conflist.as_bytes()).unwrap();
        prop_assert_eq!(&read, &plan.list);
        let kinds: Vec<_> = read.plugins().iter().map(PluginConfig::kind).collect();
        let limited = upload.is_some() || download.is_some();
        let expected: &[&str] = if limited {
            &["loopback", "bridge", "bandwidth", "muster-firewall"]
        } else {
            &["loopback", "bridge", "muster-firewall"]
        };
        prop_assert_eq!(kinds, expected);
        for (direction, asked) in [("egress", upload), ("ingress", download)] {
            let Some(asked) = asked else { continue };
            let number = |what: &str| read.plugins()[2].settings()[&format!("{direction}{what}")].as_u64().unwrap();
            let (rate, burst) = (number("Rate"), number("Burst"));
            prop_assert_eq!(rate, asked.max(LEAST_SPEED));
            // In bytes, both fit what the kernel takes.
            prop_assert!(rate >= 8 && burst >= 8 && burst / 8 < u64::from(u32::MAX));
        }
    }
}
