//! Certificates that are renewed while everything runs.

use muster_api::domain::CertType;
use muster_lab::pki::Pki;
use serde_json::json;

use crate::machines::{MAIN, SECOND, SYSTEM};
use crate::unit::{Seen, Unit, require_nodes};

/// How many streams of nodes the controller has ever seen.
fn streams(unit: &Unit) -> usize {
    let journal = unit
        .node(MAIN)
        .run("journalctl --no-pager --quiet -o cat -D /run/log/journal");
    journal
        .lines()
        .filter(|it| it.contains("a node is connected"))
        .count()
}

/// The certificate that a port of the Main Node shows.
fn shown(unit: &Unit, port: u16) -> String {
    let script = format!(
        "openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null | openssl x509 || true"
    );
    unit.node(MAIN).run(&script)
}

/// The first certificate of a chain, as openssl prints it.
fn leaf(chain: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    let (leaf, _) = chain.split_once(end).unwrap();
    format!("{}{end}\n", leaf.replace('\r', ""))
}

#[test]
fn renewed_certificates_reach_everybody_without_cutting_streams_or_restarting_instances() {
    require_nodes!();
    muster_lab::require!(Tool("openssl"), Tool("journalctl"));
    let unit = Unit::boot(&[MAIN, SECOND]);
    let document = |version: &str| {
        json!({
            "items": [unit.item("web", version, &json!({})), unit.item("worker", "1.0.0", &json!({}))],
            "instances": [{"item": "web", "node": SECOND}, {"item": "worker", "node": MAIN}],
        })
    };
    let wanted = |version: &str| {
        [
            ("web", Seen::active(SECOND, version)),
            ("worker", Seen::active(MAIN, "1.0.0")),
        ]
    };
    unit.apply(&document("1.0.0"));
    unit.until_instances(&wanted("1.0.0"));
    let before = unit.pids();
    unit.until("a stream of each node", || {
        (streams(&unit) == 2).then_some(())
    });

    // Another authority takes over: trusted beside the old one, then everybody has a certificate of it.
    let new = Pki::new(SYSTEM).unwrap();
    let new_authority = new.ca_pem().to_owned();
    unit.trust(&format!("{}{new_authority}", unit.authority()));
    unit.sign_with(new);
    let renewed = [unit.renew(MAIN), unit.renew(SECOND)];
    let served = [
        (8093, CertType::Cm),
        (8094, CertType::Cm),
        (8090, CertType::Iam),
    ];
    for (port, cert_type) in served {
        let certificate = leaf(&renewed[0][&cert_type]);
        unit.until(&format!("the new certificate at {port}"), || {
            (shown(&unit, port) == certificate).then_some(())
        });
    }
    assert_eq!(streams(&unit), 2, "a stream was cut");
    assert_eq!(unit.pids(), before);

    // The old authority is nobody. A controller that starts now takes new certificates only, so the Service Managers, which have
    // run all the time, have theirs.
    unit.trust(&new_authority);
    unit.node(MAIN).kill("muster-cm");
    unit.until_instances(&wanted("1.0.0"));
    unit.until("every node connected", || {
        unit.connected().values().all(|it| *it).then_some(())
    });
    assert_eq!(unit.pids(), before);

    // Commands and images take the same way.
    unit.apply(&document("2.0.0"));
    unit.until_instances(&wanted("2.0.0"));
    assert_eq!(unit.pids()[MAIN], before[MAIN]);
}
