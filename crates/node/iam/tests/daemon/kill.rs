//! `kill -9` between any two lasting steps, and the interrupted request made again.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;

use muster_fault::Point;
use muster_iam::provisioning::{actor, state_file};
use serde_json::json;

use crate::rig::*;

/// What is asked of the node, in order; every part of the product's persistence has its say.
#[derive(Debug, Clone, Copy)]
enum Request {
    Start,
    Renew(&'static str),
    Finish,
    Deprovision,
}

/// `iam` twice: its second certificate displaces the first.
const STORY: &[Request] = &[
    Request::Start,
    Request::Renew("iam"),
    Request::Renew("sm"),
    Request::Finish,
    Request::Renew("iam"),
    Request::Deprovision,
];

async fn ask(operator: &Operator<'_>, request: Request) -> Result<(), String> {
    match request {
        Request::Start => operator.start().await,
        Request::Renew(cert_type) => operator.renew(cert_type).await.map(drop),
        Request::Finish => operator.finish().await,
        Request::Deprovision => operator.deprovision().await,
    }
}

fn node(site: &Site) -> Node {
    let mut node = site.node("node-1");
    let nothing = json!(["/bin/true"]);
    for key in [
        "startProvisioningCmdArgs",
        "diskEncryptionCmdArgs",
        "finishProvisioningCmdArgs",
        "deprovisionCmdArgs",
    ] {
        node.config[key] = nothing.clone();
    }
    let modules = node.config["certModules"].as_array_mut().unwrap();
    for module in modules.iter_mut() {
        module["maxItems"] = json!(1);
    }
    modules.push(json!({
        "id": "disk", "plugin": "swmodule", "selfSigned": true,
        "params": { "storagePath": node.folder.join("keys-disk") },
    }));
    node
}

/// Kills the daemon at the `nth` time it reaches the point; the interrupted request is made again and
/// the story goes on to its end. Then it is told once more without a disturbance.
fn trial(point: Point, nth: u64) {
    println!("{point}@{nth}: {}", point.doc());
    let site = Site::new();
    let node = node(&site);
    let report = site.path("reached");
    let armed = node
        .program()
        .env("MUSTER_FAULT", format!("{}@{nth}=kill", point.name()))
        .env("MUSTER_FAULT_REPORT", &report);
    let operator = |channel| Operator {
        channel,
        pki: &site.pki,
        target: "",
        node: "node-1",
    };
    let mut daemon = Daemon::start(&armed);
    let interrupted = block_on(async {
        let operator = operator(node.local().await);
        for (index, request) in STORY.iter().enumerate() {
            if ask(&operator, *request).await.is_err() {
                return Some(index);
            }
        }
        None
    });
    let interrupted = interrupted.unwrap_or_else(|| panic!("{point}@{nth} was never reached"));
    let status = daemon.process.wait(TIME).unwrap();
    assert_eq!(status.signal(), Some(9), "{point}@{nth}: {status}");
    let reached = fs::read_to_string(&report).unwrap_or_default();
    assert!(reached.contains(point.name()), "{point}@{nth}: {reached:?}");
    drop(daemon);

    let daemon = node.start();
    block_on(async {
        let operator = operator(node.local().await);
        for request in &STORY[interrupted..] {
            if let Err(error) = ask(&operator, *request).await {
                panic!(
                    "{point}@{nth}: {request:?} after {:?}: {error}",
                    STORY[interrupted]
                );
            }
        }
        assert_eq!(node.state(), "unprovisioned\n", "{point}@{nth}");
        operator.provision().await.unwrap();
        assert_eq!(node_state(node.local().await).await.unwrap(), "provisioned");
    });
    daemon.end();
}

#[test]
fn at_every_step_of_provisioning() {
    for &point in actor::FAULT_POINTS {
        trial(point, 1);
    }
}

/// Started, provisioned, deprovisioning, unprovisioned: four times in the story.
#[test]
fn at_every_change_of_the_state_file() {
    for &point in state_file::FAULT_POINTS {
        for nth in 1..=4 {
            trial(point, nth);
        }
    }
}

/// Keys in files; tokens have such a test of their own.
#[test]
fn at_every_step_of_the_key_stores() {
    let of_tokens = [
        "keys.issuers-stored",
        "keys.pin-recorded",
        "keys.token-made",
        "keys.token-owned",
    ];
    for &point in muster_keys::FAULT_POINTS {
        if !of_tokens.contains(&point.name()) {
            trial(point, 1);
        }
    }
}
