//! Any bytes as a question to a network's name server.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_dns::{Clients, Hosts, NetworkSettings, answer_packet};

static SETTINGS: LazyLock<NetworkSettings> = LazyLock::new(|| NetworkSettings {
    listen: ([172, 17, 0, 1], 53).into(),
    clients: Clients::new([172, 17, 0, 0].into(), 16),
    zones: vec!["cameras".parse().expect("a name")],
    controllers: Vec::new(),
    upstreams: vec![([192, 0, 2, 1], 53).into()],
});

static HOSTS: LazyLock<Hosts> = LazyLock::new(|| {
    let web = "web.cameras".parse().expect("a name");
    let many = (0..=255).map(|host| ("many".parse().expect("a name"), [172, 17, 1, host].into()));
    many.chain([(web, [172, 17, 0, 2].into())]).collect()
});

fuzz_target!(|packet: &[u8]| {
    let Some(answer) = answer_packet(&SETTINGS, &HOSTS, packet) else {
        return;
    };
    assert!(answer.len() >= 12 && answer.len() <= 1232);
    assert_eq!(answer[..2], packet[..2]);
    assert!(answer[2] & 0x80 != 0);
    // An answer is none to itself, so two servers cannot talk for ever.
    assert!(answer_packet(&SETTINGS, &HOSTS, &answer).is_none());
});
