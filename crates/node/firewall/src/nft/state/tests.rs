use super::*;

const MAPS: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
    {"map": {"family": "inet", "name": "sources", "table": "theirs", "type": "ipv4_addr", "handle": 1, "map": "verdict", "elem": [["10.0.0.1", {"drop": null}]]}},
    {"map": {"family": "inet", "name": "leaving_from", "table": "muster", "type": "ifname", "handle": 8, "map": "verdict",
             "elem": [[{"elem": {"val": "br0", "comment": "172.20.0.0/24 172.20.0.1 masquerade"}}, {"jump": {"target": "leaving"}}],
                      [{"elem": {"val": "br1", "comment": "172.21.0.0/24 172.21.0.1"}}, {"jump": {"target": "leaving"}}]]}},
    {"map": {"family": "inet", "name": "sources", "table": "muster", "type": "ipv4_addr", "handle": 9, "map": "verdict",
             "elem": [[{"elem": {"val": "172.20.0.2", "comment": "a"}}, {"goto": {"target": "out_x"}}]]}},
    {"map": {"family": "inet", "name": "downloads", "table": "muster", "type": "ipv4_addr", "handle": 9, "map": "verdict"}}]}"#;

#[test]
fn state_is_read_from_the_own_table_only() {
    let state = installed(MAPS).unwrap();
    assert!(state.is_complete());
    let masqueraded: Vec<_> = state
        .networks()
        .map(|network| (network.bridge().as_str(), network.is_masqueraded()))
        .collect();
    assert_eq!(masqueraded, [("br0", true), ("br1", false)]);
    let instances: Vec<_> = state
        .instances()
        .map(|(id, at)| (id.as_str(), at.to_string()))
        .collect();
    assert_eq!(instances, [("a", "172.20.0.2".to_owned())]);
    assert_eq!(state.meters().count(), 0);
    assert!(!installed(r#"{"nftables": []}"#).unwrap().is_complete());
}

#[test]
fn what_others_wrote_into_the_table_is_said() {
    for (from, to) in [
        (r#""comment": "a""#, r#""comment": "a b""#),
        (
            r#"{"elem": {"val": "172.20.0.2", "comment": "a"}}"#,
            r#""172.20.0.2""#,
        ),
        ("172.20.0.0/24 172.20.0.1 masquerade", "172.20.0.0/24"),
        (
            "172.20.0.0/24 172.20.0.1 masquerade",
            "172.20.0.0/24 10.0.0.1",
        ),
        ("172.20.0.1 masquerade", "172.20.0.1 something"),
    ] {
        assert!(MAPS.contains(from));
        let error = installed(&MAPS.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(error, ReadStateError::Foreign(_)), "{error:?}");
    }
    for text in ["", "{}", "[]", r#"{"nftables": 1}"#] {
        assert!(
            matches!(installed(text).unwrap_err(), ReadStateError::Json(_)),
            "took {text:?}"
        );
    }
}

#[test]
fn counters_are_read_by_owner() {
    let text = r#"{"nftables": [
        {"counter": {"family": "inet", "name": "in_system", "table": "muster", "handle": 1, "packets": 1, "bytes": 10}},
        {"counter": {"family": "inet", "name": "out_system", "table": "muster", "handle": 2, "packets": 1, "bytes": 20}},
        {"counter": {"family": "ip", "name": "in_system", "table": "muster", "handle": 2, "packets": 1, "bytes": 99}},
        {"counter": {"family": "inet", "name": "in_TAG", "table": "muster", "handle": 3, "packets": 1, "bytes": 30}},
        {"counter": {"family": "inet", "name": "out_TAG", "table": "muster", "handle": 4, "packets": 1, "bytes": 40}},
        {"counter": {"family": "inet", "name": "odd", "table": "muster", "handle": 4, "packets": 1, "bytes": 50}}]}"#;
    let one = InstanceId::new("one").unwrap();
    let counters = counters(&text.replace("TAG", &one.tag())).unwrap();
    let amounts = |download, upload| Amounts { download, upload };
    assert_eq!(counters.system(), amounts(10, 20));
    assert_eq!(counters.instance(&one), Some(amounts(30, 40)));
    assert_eq!(counters.instance(&InstanceId::new("two").unwrap()), None);
}
