//! Keys and certificates of nodes at the cloud's word, with real identity managers.

use muster_api::domain::{CertType, NodeState};
use muster_cloud::message::incoming::{
    DeprovisioningRequest, ExpiringCertificate, FinishProvisioningRequest, IssuedCertificate,
    IssuedUnitCertificates, NodeCertificate, NodeSecret, RenewCertificates,
    StartProvisioningRequest, UnitSecrets,
};
use muster_cloud::message::outgoing::{InstalledCertificate, NodeResponse};
use muster_cloud::message::status::NodeState as Told;
use muster_cloud::message::{self, Identity, Outgoing};
use muster_cloud::testing::{Seen, TestCloud};
use serde_json::json;

use super::scene::{Scene, active, alerted, answer, known};
use crate::iam::{Iam, MAIN, PASSWORD, SYSTEM};
use crate::rig::Site;

/// A Unit with an identity manager, whose cloud is protected.
async fn protected() -> (Iam, TestCloud, Site) {
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let cloud = TestCloud::start(SYSTEM, Some(iam.cloud_tls()));
    let site = iam
        .trusted_by(site)
        .set("serviceDiscoveryUrl", json!(cloud.discovery().to_string()))
        .set("unitStatusSendTimeout", json!("100ms"))
        .set("alerts", json!({"sendPeriod": "100ms"}));
    (iam, cloud, site)
}

fn node(name: &str) -> Identity {
    Identity::codename(name)
}

fn start(name: &str) -> StartProvisioningRequest {
    StartProvisioningRequest {
        node: node(name),
        password: PASSWORD.to_owned().into(),
    }
}

/// What is wrong according to an answer about a node.
fn wrong(response: &NodeResponse, name: &str) -> Option<String> {
    assert_eq!(response.node, node(name));
    response.error_info.as_ref().map(|it| it.message.clone())
}

fn told(seen: &Seen, name: &str) -> Option<Told> {
    let nodes = known(seen).nodes.unwrap_or_default();
    let found = nodes
        .into_iter()
        .find(|it| it.identity.name() == Some(name));
    found.map(|it| it.state)
}

fn until_told(cloud: &TestCloud, name: &str, state: Told) {
    cloud.wait(&format!("{name} {state:?}"), |seen| {
        (told(seen, name) == Some(state)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_provisioned_and_deprovisioned_by_the_cloud() {
    let (iam, cloud, site) = protected().await;
    let cm = site.start();
    let second = iam.secondary("second");
    iam.until_state("second", NodeState::Unprovisioned).await;
    until_told(&cloud, "second", Told::Unprovisioned);

    let txn = cloud.send(start("second"), Some("start"));
    let Outgoing::StartProvisioning(made) = answer(&cloud, "startProvisioningResponse", "start")
    else {
        panic!("another type");
    };
    assert_eq!((&made.node, made.error_info), (&node("second"), None));
    let mut kinds: Vec<&str> = made.csrs.iter().map(|it| it.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["iam", "sm"]);

    let certificates = made.csrs.iter().map(|it| NodeCertificate {
        kind: it.kind.clone(),
        chain: iam.sign(&it.csr, "second", &it.kind),
    });
    let finish = FinishProvisioningRequest {
        node: node("second"),
        certificates: certificates.collect(),
        password: PASSWORD.to_owned().into(),
    };
    cloud.send(finish.clone(), Some("finish"));
    let Outgoing::FinishProvisioning(done) = answer(&cloud, "finishProvisioningResponse", "finish")
    else {
        panic!("another type");
    };
    assert_eq!(wrong(&done.0, "second"), None);
    iam.until_state("second", NodeState::Provisioned).await;
    until_told(&cloud, "second", Told::Provisioned);
    assert!(cloud.seen().acknowledged.contains(&txn));

    // What cannot be done says why.
    cloud.send(start("second"), Some("again"));
    let Outgoing::StartProvisioning(again) = answer(&cloud, "startProvisioningResponse", "again")
    else {
        panic!("another type");
    };
    assert!(
        again.error_info.is_some() && again.csrs.is_empty(),
        "{again:?}"
    );
    let of_nobody = FinishProvisioningRequest {
        node: node("nobody"),
        ..finish
    };
    cloud.send(of_nobody, Some("nobody"));
    let Outgoing::FinishProvisioning(none) = answer(&cloud, "finishProvisioningResponse", "nobody")
    else {
        panic!("another type");
    };
    assert!(
        wrong(&none.0, "nobody").is_some_and(|it| it.contains("nobody")),
        "{none:?}"
    );

    let leave = DeprovisioningRequest {
        node: node("second"),
        password: PASSWORD.to_owned().into(),
    };
    cloud.send(leave, Some("leave"));
    let Outgoing::Deprovisioning(left) = answer(&cloud, "deprovisioningResponse", "leave") else {
        panic!("another type");
    };
    assert_eq!(wrong(&left.0, "second"), None);
    iam.until_state("second", NodeState::Unprovisioned).await;
    until_told(&cloud, "second", Told::Unprovisioned);
    assert!(!cm.log().contains(PASSWORD));
    cm.end();
    drop(second);
}

fn expiring(kind: message::CertType, name: &str) -> ExpiringCertificate {
    ExpiringCertificate {
        kind,
        node: node(name),
        serial: "1f".to_owned(),
        valid_till: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_by_the_cloud_and_it_is_told_which_are_in_use() {
    let (iam, cloud, site) = protected().await;
    let mut cm = site.start();
    cloud.wait("a connection", |seen| seen.connected.then_some(()));
    let before = iam.client().cert(&CertType::Online).await.unwrap();
    use message::CertType::{Iam as OfIam, Online, Sm};
    let renew = RenewCertificates {
        certificates: vec![
            expiring(Online, MAIN),
            expiring(OfIam, MAIN),
            expiring(Sm, MAIN),
            expiring(Sm, "nobody"),
        ],
        unit_secrets: UnitSecrets {
            version: 7,
            nodes: vec![NodeSecret {
                node: node(MAIN),
                secret: PASSWORD.to_owned().into(),
            }],
        },
    };
    cloud.send(renew, Some("renew"));
    let Outgoing::IssueUnitCertificates(wanted) = answer(&cloud, "issueUnitCertificates", "renew")
    else {
        panic!("another type");
    };
    let kinds: Vec<message::CertType> = wanted.requests.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Online, OfIam, Sm]);
    // A request has no place for what went wrong; an alert has.
    cloud.wait("a complaint", |seen| {
        alerted(seen, "sm certificate of node nobody")
    });

    let mut issued: Vec<IssuedCertificate> = (wanted.requests.iter())
        .map(|it| IssuedCertificate {
            kind: it.kind,
            node: it.node.clone(),
            certificate_chain: iam.sign(&it.csr, MAIN, it.kind.as_str()),
        })
        .collect();
    issued[2].certificate_chain = "no certificate".to_owned();
    cloud.send(
        IssuedUnitCertificates {
            certificates: issued,
        },
        Some("issued"),
    );
    let Outgoing::InstallUnitCertificatesConfirmation(told) =
        answer(&cloud, "installUnitCertificatesConfirmation", "issued")
    else {
        panic!("another type");
    };
    // The identity manager's own last.
    let kinds: Vec<message::CertType> = told.certificates.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Online, Sm, OfIam]);
    let of = |kind| -> &InstalledCertificate {
        told.certificates.iter().find(|it| it.kind == kind).unwrap()
    };
    assert!(
        of(Sm).error_info.is_some() && of(Sm).serial.is_empty(),
        "{told:?}"
    );
    let now = iam.client().cert(&CertType::Online).await.unwrap();
    assert_ne!(now.serial, before.serial);
    assert_eq!(
        (of(Online).serial.as_str(), &of(Online).error_info),
        (hex::encode(&now.serial).as_str(), &None)
    );
    assert_eq!(of(OfIam).error_info, None);

    // The link goes on with the new one.
    cm.process
        .wait_for_line(
            "renewed the certificate certificate=online",
            crate::rig::TIME,
        )
        .unwrap();
    let connections = cloud.seen().connections;
    cloud.cut();
    cloud.wait("another connection", |seen| {
        (seen.connected && seen.connections > connections).then_some(())
    });
    assert_eq!(cloud.seen().problems, Vec::<String>::new());
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_identity_manager_the_cloud_is_told_so_and_the_rest_goes_on() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let _node = site.node("n1");
    // More than are acted upon at a time.
    for number in 0..40 {
        cloud.send(start("n1"), Some(&format!("start-{number}")));
    }
    let renew = RenewCertificates {
        certificates: vec![expiring(message::CertType::Sm, "n1")],
        unit_secrets: UnitSecrets {
            version: 7,
            nodes: Vec::new(),
        },
    };
    cloud.send(renew, Some("renew"));
    let issued = IssuedCertificate {
        kind: message::CertType::Sm,
        node: node("n1"),
        certificate_chain: String::new(),
    };
    cloud.send(
        IssuedUnitCertificates {
            certificates: vec![issued],
        },
        Some("issued"),
    );
    for number in 0..40 {
        let name = format!("start-{number}");
        let Outgoing::StartProvisioning(refused) =
            answer(cloud, "startProvisioningResponse", &name)
        else {
            panic!("another type");
        };
        let why = refused.error_info.unwrap();
        // Not supported.
        assert_eq!(why.aos_code, 12);
        assert!(why.message.contains("identity manager"), "{why:?}");
    }
    let Outgoing::InstallUnitCertificatesConfirmation(told) =
        answer(cloud, "installUnitCertificatesConfirmation", "issued")
    else {
        panic!("another type");
    };
    assert!(told.certificates[0].error_info.is_some());
    cloud.wait("a complaint", |seen| {
        alerted(seen, "sm certificate of node n1")
    });
    assert!(
        cloud.seen().once("issueUnitCertificates").is_empty(),
        "there is nothing to issue"
    );
    cloud.send(scene.wish(&[("web", 1)]), None);
    cloud.wait("an active instance", |seen| active(seen, "web", 1));
    cm.end();
}
