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
        controllers: Vec::new(),
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

fn decide_packet(settings: &NetworkSettings, packet: &[u8]) -> Option<Decision> {
    let query = match read(packet) {
        Ok(query) => query,
        Err(answer) => return answer.map(Decision::Answer),
    };
    let hosts = hosts();
    let known = OnNode {
        settings,
        hosts: &hosts,
    };
    let elsewhere = Elsewhere {
        for_own: !settings.controllers.is_empty(),
        for_others: !settings.upstreams.is_empty(),
        otherwise: Code::NoSuchName,
    };
    Some(decide(&query, &known, elsewhere, Transport::Udp))
}

/// The code and the number of records, or `None` if another server is asked.
fn ask(question: &str, kind: u16) -> Option<(u8, u8)> {
    match decide_packet(&settings(), &packet(question, kind)).unwrap() {
        Decision::Answer(answer) => Some((answer[3] & 15, answer[7])),
        Decision::Forward(_) => None,
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
    let Some(Decision::Answer(answer)) = decide_packet(&alone, &packet) else {
        panic!("nobody else could be asked");
    };
    assert_eq!(answer[3] & 15, 3);
}

#[test]
fn own_names_are_asked_for_where_they_are_known_and_nowhere_else() {
    let with_controller = NetworkSettings {
        controllers: vec!["192.0.2.53:53".parse().unwrap()],
        ..settings()
    };
    let realm = |question| match decide_packet(&with_controller, &packet(question, 1)) {
        Some(Decision::Forward(realm)) => realm,
        other => panic!("{question}: {other:?}"),
    };
    for own in ["nobody", "nobody.cameras", "9.0.17.172.in-addr.arpa"] {
        assert_eq!(realm(own), Realm::Own);
    }
    assert_eq!(realm("0.subject.item"), Realm::Anybodys);
    assert_eq!(realm("1.2.0.192.in-addr.arpa"), Realm::Anybodys);
    let known = decide_packet(&with_controller, &packet("web", 1));
    assert!(
        matches!(known, Some(Decision::Answer(_))),
        "nobody is asked"
    );
}

proptest! {
    #[test]
    fn any_packet_is_decided_on(packet in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some(Decision::Answer(answer)) = decide_packet(&settings(), &packet) {
            prop_assert!(answer.len() >= 12 && answer[2] & 0x80 != 0);
            prop_assert!(answer.len() <= packet.len().max(12) + 64, "no use for floods");
        }
    }
}
