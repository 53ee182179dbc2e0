use proptest::prelude::*;

use super::*;
use crate::decide::{Decision, Elsewhere, decide, read};
use crate::message::{Code, Transport};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn hosts(pairs: &[(&str, &str)]) -> Hosts {
    pairs
        .iter()
        .map(|(host, at)| (name(host), ip(at)))
        .collect()
}

/// Two networks that both have a `web`; instances of the second may call `store` of the first.
fn names() -> UnitNames {
    let mut names = UnitNames::new();
    let cameras = hosts(&[
        ("web", "172.17.0.2"),
        ("web.cameras", "172.17.0.2"),
        ("store", "172.17.0.3"),
    ]);
    names.insert("cameras", Clients::new(ip("172.17.0.0"), 16), cameras);
    let doors = hosts(&[
        ("web", "172.18.0.2"),
        ("web.doors", "172.18.0.2"),
        ("store", "172.17.0.3"),
    ]);
    names.insert("doors", Clients::new(ip("172.18.0.0"), 16), doors);
    names
}

/// What a question for an address gives: addresses, or the answer's code.
fn ask(names: &UnitNames, source: &str, asker: Option<&str>, question: &str) -> Result<String, u8> {
    let mut packet = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    packet.extend(name(question).wire());
    packet.extend([0, 1, 0, 1]);
    if let Some(asker) = asker {
        let network = Clients::new(ip(asker), 16);
        packet = read(&packet).unwrap().on_behalf_of(network);
    }
    let query = read(&packet).unwrap();
    let elsewhere = Elsewhere {
        for_own: false,
        for_others: false,
        otherwise: Code::Refused,
    };
    let seen = names.seen_by(ip(source), query.asker());
    let Decision::Answer(answer) = decide(&query, &seen, elsewhere, Transport::Udp) else {
        panic!("nobody else could be asked");
    };
    if answer[3] & 15 != 0 {
        return Err(answer[3] & 15);
    }
    let end = 12 + query.question().len();
    // An answer is a pointer, kind, class, time, length and address.
    let records = answer[end..].chunks_exact(16).take(answer[7].into());
    let texts = records.map(|it| format!("{}.{}.{}.{}", it[12], it[13], it[14], it[15]));
    Ok(texts.collect::<Vec<_>>().join(" "))
}

const NODE: &str = "10.0.0.7";
const NO_SUCH_NAME: u8 = 3;
const REFUSED: u8 = 5;

#[test]
fn an_asker_sees_the_names_of_its_own_network() {
    let names = names();
    for (source, asker) in [(NODE, Some("172.17.0.0")), ("172.17.0.9", None)] {
        let ask = |question| ask(&names, source, asker, question);
        assert_eq!(ask("web").as_deref(), Ok("172.17.0.2"));
        assert_eq!(ask("store").as_deref(), Ok("172.17.0.3"));
        assert_eq!(ask("web.doors"), Err(NO_SUCH_NAME), "another network's");
    }
    let other = |question| ask(&names, NODE, Some("172.18.0.0"), question);
    assert_eq!(other("web").as_deref(), Ok("172.18.0.2"));
    assert_eq!(
        other("store").as_deref(),
        Ok("172.17.0.3"),
        "it may call it"
    );
    assert_eq!(other("web.cameras"), Err(NO_SUCH_NAME));
}

#[test]
fn a_member_of_a_network_speaks_for_no_other() {
    let said = ask(&names(), "172.17.0.9", Some("172.18.0.0"), "web");
    assert_eq!(said.as_deref(), Ok("172.17.0.2"));
}

#[test]
fn whoever_is_in_no_network_is_told_what_has_one_meaning() {
    let names = names();
    for asker in [None, Some("192.168.0.0")] {
        let ask = |question| ask(&names, NODE, asker, question);
        assert_eq!(ask("web"), Err(NO_SUCH_NAME), "two have it");
        assert_eq!(ask("store").as_deref(), Ok("172.17.0.3"));
        assert_eq!(ask("web.cameras").as_deref(), Ok("172.17.0.2"));
        assert_eq!(ask("web.doors").as_deref(), Ok("172.18.0.2"));
    }
}

#[test]
fn what_is_not_the_units_is_refused_and_what_is_and_is_not_there_does_not_exist() {
    let names = names();
    let ask = |question| ask(&names, NODE, Some("172.17.0.0"), question);
    assert_eq!(ask("nobody"), Err(NO_SUCH_NAME));
    assert_eq!(ask("nobody.cameras"), Err(NO_SUCH_NAME));
    assert_eq!(ask("9.0.18.172.in-addr.arpa"), Err(NO_SUCH_NAME));
    assert_eq!(ask("example.org"), Err(REFUSED));
    assert_eq!(ask("9.0.0.10.in-addr.arpa"), Err(REFUSED));
    assert_eq!(ask("2.0.17.172.in-addr.arpa").as_deref(), Ok(""));
}

proptest! {
    /// Whatever networks there are, nobody is told an address of another network that the own one does not list.
    #[test]
    fn networks_are_told_apart(
        tables in prop::collection::vec(prop::collection::vec((0u8..6, 0u8..4, 2u8..6), 0..12), 1..4),
        asking in 0usize..4,
        question in 0u8..6,
    ) {
        let mut names = UnitNames::new();
        let mut own = BTreeSet::new();
        for (number, table) in tables.iter().enumerate() {
            let subnet = |number: usize| Clients::new([172, 17 + u8::try_from(number).unwrap(), 0, 0].into(), 16);
            let pairs = table.iter().map(|(host, network, at)| (format!("h{host}"), IpAddr::from([172, 17 + network, 0, *at])));
            let pairs: Vec<_> = pairs.collect();
            if number == asking {
                own = pairs.iter().filter(|(host, _)| *host == format!("h{question}")).map(|(_, at)| at.to_string()).collect();
            }
            let hosts = pairs.into_iter().map(|(host, at)| (name(&host), at)).collect();
            names.insert(&format!("n{number}"), subnet(number), hosts);
        }
        prop_assume!(asking < tables.len());
        let asker = format!("172.{}.0.0", 17 + asking);
        let told = ask(&names, NODE, Some(&asker), &format!("h{question}"));
        let told: BTreeSet<String> = match told {
            Ok(text) => text.split(' ').map(str::to_owned).collect(),
            Err(code) => { prop_assert_eq!(code, NO_SUCH_NAME); BTreeSet::new() }
        };
        prop_assert_eq!(told, own);
    }
}
