//! Programs against the plain meaning of their filters, on a machine of the test's own.

mod files;
mod machine;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use machine::{Packet, run};

fn access() -> impl Strategy<Value = DeviceAccess> {
    any::<[bool; 3]>().prop_map(|[read, write, mknod]| DeviceAccess { read, write, mknod })
}

fn kind() -> impl Strategy<Value = DeviceKind> {
    prop_oneof![Just(DeviceKind::Block), Just(DeviceKind::Character)]
}

fn device_rule() -> impl Strategy<Value = DeviceRule> {
    let number = || proptest::option::of(0u32..4);
    (kind(), number(), number(), access()).prop_map(|(kind, major, minor, access)| DeviceRule {
        kind,
        major,
        minor,
        access,
    })
}

fn address() -> impl Strategy<Value = IpAddr> {
    // Few bits, so that networks and addresses meet.
    let v4 = any::<[bool; 4]>().prop_map(|[a, b, c, d]| {
        let bits = u32::from(a) << 31 | u32::from(b) << 20 | u32::from(c) << 9 | u32::from(d);
        IpAddr::V4(Ipv4Addr::from_bits(bits))
    });
    let v6 = any::<[bool; 4]>().prop_map(|[a, b, c, d]| {
        let bits = u128::from(a) << 127 | u128::from(b) << 80 | u128::from(c) << 33 | u128::from(d);
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    });
    prop_oneof![v4, v6]
}

fn network() -> impl Strategy<Value = Network> {
    (address(), any::<u8>()).prop_map(|(address, length)| Network { address, length })
}

fn interfaces() -> impl Strategy<Value = Interfaces> {
    let some = || proptest::collection::vec(1u32..4, 0..3);
    prop_oneof![
        Just(Interfaces::Any),
        some().prop_map(Interfaces::Only),
        some().prop_map(Interfaces::Not),
    ]
}

fn bind_rule() -> impl Strategy<Value = BindRule> {
    let family = prop_oneof![Just(Family::V4), Just(Family::V6)];
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let ports = (1u16..6, 0u16..4).prop_map(|(first, more)| Ports {
        first: first * 1000,
        last: first * 1000 + more * 700,
    });
    (
        proptest::option::of(family),
        proptest::option::of(protocol),
        proptest::option::of(ports),
    )
        .prop_map(|(family, protocol, ports)| BindRule {
            family,
            protocol,
            ports,
        })
}

proptest! {
    #[test]
    fn devices_are_judged_alike(
        rules in proptest::collection::vec(device_rule(), 0..6),
        asked in (kind(), (0u32..4, 0u32..4), access()),
    ) {
        let filter = DeviceFilter { rules };
        let (kind, numbers, access) = asked;
        let number = if kind == DeviceKind::Block { 1 } else { 2 };
        let request = [access.bits() << 16 | number, numbers.0, numbers.1];
        let verdict = run(&filter.program().instructions, &request, None).verdict;
        prop_assert_eq!(verdict == 1, filter.allows(kind, numbers, access));
    }

    #[test]
    fn peers_are_judged_alike_and_only_what_passes_is_counted(
        allow in proptest::collection::vec(network(), 0..5),
        deny in proptest::collection::vec(network(), 0..5),
        peer in address(),
        counts in any::<bool>(),
        interfaces in interfaces(),
        interface in 1u32..4,
    ) {
        let lists = |list: &[Network]| list.iter().any(|network| network.contains(peer));
        let by_lists = lists(&allow) || !lists(&deny);
        let filter = TrafficFilter::new(allow, deny, interfaces.clone(), counts).unwrap();
        let anywhere = matches!(interfaces, Interfaces::Any);
        prop_assert!(!anywhere || filter.allows(peer, interface) == by_lists);
        for program in filter.programs() {
            let packet = Packet::with_peer(peer, program.hook == Hook::Ingress);
            let ended = run(&program.instructions, &packet.context(interface), Some(&packet));
            prop_assert_eq!(ended.verdict == 1, filter.allows(peer, interface));
            let counted = u64::from(counts && filter.allows(peer, interface));
            prop_assert_eq!(ended.counted, [counted, counted * packet.length()]);
        }
    }

    #[test]
    fn interfaces_of_several_lists_are_those_that_all_allow(
        one in interfaces(),
        other in interfaces(),
        peer in address(),
    ) {
        let filter = |interfaces| TrafficFilter::new(Vec::new(), Vec::new(), interfaces, false).unwrap();
        let both = filter(one.clone().and(other.clone()));
        let (one, other) = (filter(one), filter(other));
        for interface in 1..5 {
            let expected = one.allows(peer, interface) && other.allows(peer, interface);
            prop_assert_eq!(both.allows(peer, interface), expected);
        }
    }

    #[test]
    fn binds_are_judged_alike(
        allow in proptest::collection::vec(bind_rule(), 0..4),
        deny in proptest::collection::vec(bind_rule(), 0..4),
        port in prop_oneof![(1u16..9).prop_map(|port| port * 500), any::<u16>()],
        tcp in any::<bool>(),
    ) {
        let filter = BindFilter { allow, deny };
        let (protocol, number) = if tcp { (Protocol::Tcp, 6) } else { (Protocol::Udp, 17) };
        for (program, family) in filter.programs().iter().zip([Family::V4, Family::V6]) {
            let mut socket = [0u32; 10];
            socket[6] = port.to_be().into();
            socket[9] = number;
            let verdict = run(&program.instructions, &socket, None).verdict;
            prop_assert_eq!(verdict == 1, filter.allows(family, protocol, port));
        }
    }

    #[test]
    fn rules_of_ports_are_read_without_panic(text in "[a-z0-9:-]{0,20}") {
        let _ = BindRule::parse(&text);
    }
}

/// What is written behind the last rule that is looked at might have refused anything.
#[test]
fn a_filter_of_ports_with_too_many_rules_refuses_the_rest() {
    let rule = |port: u16| BindRule::parse(&format!("tcp:{port}")).unwrap();
    let filter = |count: u16| BindFilter {
        allow: vec![rule(1)],
        deny: (2..=count).map(rule).collect(),
    };
    for (count, is_cut) in [(2048, false), (2049, true)] {
        let filter = filter(count);
        assert_eq!(filter.is_cut(), is_cut);
        for (port, allowed) in [(1, true), (2, false), (9000, !is_cut)] {
            assert_eq!(filter.allows(Family::V4, Protocol::Tcp, port), allowed);
            let mut socket = [0u32; 10];
            socket[6] = port.to_be().into();
            socket[9] = 6;
            let program = &filter.programs()[0];
            let verdict = run(&program.instructions, &socket, None).verdict;
            assert_eq!(verdict == 1, allowed, "{port} of {count}");
        }
    }
}

#[test]
fn a_packet_without_an_address_does_not_pass() {
    let deny = vec![Network {
        address: Ipv4Addr::UNSPECIFIED.into(),
        length: 32,
    }];
    let filter = TrafficFilter::new(Vec::new(), deny, Interfaces::Any, false).unwrap();
    let packet = Packet::too_short();
    for program in filter.programs() {
        let ended = run(&program.instructions, &packet.context(1), Some(&packet));
        assert_eq!(ended.verdict, 0);
    }
}

#[test]
fn everything_may_be_reached_in_every_program() {
    // The kernel takes no program with instructions that cannot be reached: what follows a rule for everything is left out.
    let all = |address: IpAddr| Network { address, length: 0 };
    let (v4, v6) = (
        all(Ipv4Addr::UNSPECIFIED.into()),
        all(Ipv6Addr::UNSPECIFIED.into()),
    );
    let filter = TrafficFilter::new(vec![v4, v6], vec![v4, v6], Interfaces::Any, true).unwrap();
    let short = filter.programs()[0].instructions.len();
    let filter =
        TrafficFilter::new(vec![v4, v6], vec![v4, v6, v4, v6], Interfaces::Any, true).unwrap();
    assert_eq!(filter.programs()[0].instructions.len(), short);
}

/// So many networks of which none covers another.
fn networks(count: u16) -> Vec<Network> {
    (0..count)
        .map(|number| Network {
            address: Ipv6Addr::new(0x2001, number, 1, 2, 3, 4, 5, 6).into(),
            length: 121,
        })
        .collect()
}

#[test]
fn too_many_networks_are_refused() {
    let last = networks(1024).last().unwrap().address;
    let most = TrafficFilter::new(networks(1024), networks(1024), Interfaces::Any, true).unwrap();
    // The longest jump fits.
    let packet = Packet::with_peer(last, true);
    let program = &most.programs()[0];
    let ended = run(&program.instructions, &packet.context(1), Some(&packet));
    assert_eq!((ended.verdict, ended.counted[0]), (1, 1));
    let more = TrafficFilter::new(networks(1025), networks(1024), Interfaces::Any, true);
    assert_eq!(more, Err(TooManyNetworks(2049)));
}

#[test]
fn networks_that_others_cover_take_no_place() {
    let all = Network {
        address: Ipv6Addr::UNSPECIFIED.into(),
        length: 0,
    };
    let mut list = [networks(2000), networks(2000)].concat();
    let two = TrafficFilter::new(Vec::new(), list.clone(), Interfaces::Any, false).unwrap();
    let one = TrafficFilter::new(Vec::new(), networks(2000), Interfaces::Any, false).unwrap();
    assert_eq!(two, one);
    list.push(all);
    let covered = TrafficFilter::new(list, Vec::new(), Interfaces::Any, false).unwrap();
    let plain = TrafficFilter::new(vec![all], Vec::new(), Interfaces::Any, false).unwrap();
    assert_eq!(covered, plain);
}

#[test]
fn a_closed_filter_lets_nothing_through() {
    for peer in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        for program in TrafficFilter::closed().programs() {
            let packet = Packet::with_peer(peer, program.hook == Hook::Ingress);
            let ended = run(&program.instructions, &packet.context(1), Some(&packet));
            assert_eq!(ended.verdict, 0);
        }
    }
}

#[test]
fn a_filter_is_named_by_all_settings_that_it_comes_from() {
    let only = Interfaces::Only(vec![1]);
    let filter = TrafficFilter::new(Vec::new(), networks(1), only, true).unwrap();
    for program in filter.programs() {
        assert_eq!(
            program.settings,
            ["IPAddressDeny", "RestrictNetworkInterfaces", "IPAccounting"]
        );
    }
}

#[test]
fn rules_of_ports_are_read() {
    let rule = BindRule::parse("ipv6:udp:1000-2000").unwrap();
    assert_eq!(
        (rule.family, rule.protocol),
        (Some(Family::V6), Some(Protocol::Udp))
    );
    assert_eq!(
        rule.ports,
        Some(Ports {
            first: 1000,
            last: 2000
        })
    );
    assert_eq!(BindRule::parse("any"), Some(BindRule::default()));
    assert_eq!(
        BindRule::parse("tcp").unwrap().protocol,
        Some(Protocol::Tcp)
    );
    for wrong in ["", "0", "9-8", "sctp:1", "65536", "tcp:x"] {
        assert_eq!(BindRule::parse(wrong), None, "{wrong}");
    }
}
