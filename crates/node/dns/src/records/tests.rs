use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn settings() -> NetworkSettings {
    NetworkSettings {
        listen: "172.17.0.1:53".parse().unwrap(),
        clients: Clients::new("172.17.0.0".parse().unwrap(), 16),
        zones: vec![name("cameras")],
        upstreams: vec!["192.0.2.1:53".parse().unwrap()],
    }
}

fn hosts() -> Hosts {
    [
        ("web.cameras", "172.17.0.2"),
        ("web.cameras", "fd00::2"),
        ("web", "172.17.0.2"),
        ("store", "172.17.0.3"),
    ]
    .into_iter()
    .map(|(host, address)| (name(host), address.parse().unwrap()))
    .collect()
}

fn packet(question: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    packet.extend(name(question).wire());
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

/// The code and the number of records, or `None` if another server is asked.
fn ask(question: &str, kind: u16) -> Option<(u8, u8)> {
    match decide(
        &settings(),
        &hosts(),
        &packet(question, kind),
        Transport::Udp,
    ) {
        Decision::Answer(answer) => Some((answer[3] & 15, answer[7])),
        Decision::Forward(_) => None,
        Decision::Ignore => panic!("{question} was ignored"),
    }
}

#[test]
fn known_names_are_answered_and_unknown_ones_are_not_spread() {
    const A: u16 = 1;
    const PTR: u16 = 12;
    const TXT: u16 = 16;
    const AAAA: u16 = 28;
    const ANY: u16 = 255;
    let (found, no_record, no_name) = (Some((0, 1)), Some((0, 0)), Some((3, 0)));
    assert_eq!(ask("web.cameras", A), found);
    assert_eq!(ask("WEB.Cameras", AAAA), found);
    assert_eq!(ask("web.cameras", ANY), Some((0, 2)));
    assert_eq!(ask("web", AAAA), no_record);
    assert_eq!(ask("web.cameras", TXT), no_record);
    assert_eq!(ask("2.0.17.172.in-addr.arpa", PTR), found);
    assert_eq!(ask("2.0.17.172.in-addr.arpa", A), no_record);
    assert_eq!(ask("nobody.cameras", A), no_name);
    assert_eq!(ask("cameras", A), no_name);
    assert_eq!(ask("nobody", A), no_name, "a name without a domain");
    assert_eq!(
        ask("9.0.17.172.in-addr.arpa", PTR),
        no_name,
        "an address of the network"
    );
    assert_eq!(ask("example.org", A), None);
    assert_eq!(ask("1.2.0.192.in-addr.arpa", PTR), None);
    let alone = NetworkSettings {
        upstreams: Vec::new(),
        ..settings()
    };
    let packet = packet("example.org", A);
    let Decision::Answer(answer) = decide(&alone, &hosts(), &packet, Transport::Udp) else {
        panic!("nobody else could be asked");
    };
    assert_eq!(answer[3] & 15, 3);
}

#[test]
fn an_address_has_the_name_that_it_was_given_first() {
    let mut hosts = Hosts::new();
    let address = "172.17.0.2".parse().unwrap();
    assert!(hosts.insert(name("first"), address) && hosts.insert(name("second"), address));
    assert_eq!(hosts.names[&address], name("first"));
    assert_eq!(hosts.len(), 2);
}

#[test]
fn clients_are_those_of_the_network() {
    let contains = |network: &str, length, address: &str| {
        Clients::new(network.parse().unwrap(), length).contains(address.parse().unwrap())
    };
    assert!(contains("172.17.0.0", 16, "172.17.255.1"));
    assert!(contains("172.17.0.0", 16, "::ffff:172.17.0.9"));
    assert!(!contains("172.17.0.0", 16, "172.18.0.1"));
    assert!(!contains("172.17.0.0", 16, "fd00::1"));
    assert!(contains("0.0.0.0", 0, "203.0.113.1"));
    assert!(contains("fd00::", 64, "fd00::9") && !contains("fd00::", 64, "fd00:0:0:1::9"));
    assert!(!contains("172.17.0.1", 200, "172.17.0.2"));
}

proptest! {
    #[test]
    fn any_packet_is_decided_on(packet in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Decision::Answer(answer) = decide(&settings(), &hosts(), &packet, Transport::Udp) {
            prop_assert!(answer.len() >= 12 && answer[2] & 0x80 != 0);
            prop_assert!(answer.len() <= packet.len().max(12) + 64, "no use for floods");
        }
    }
}
