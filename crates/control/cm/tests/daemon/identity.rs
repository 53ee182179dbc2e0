//! With certificates: the real identity manager, away, back, and with new ones.

use std::time::{Duration, Instant};

use muster_api::domain::{CertType, NodeId, NodeState};
use serde_json::json;

use crate::iam::{Iam, MAIN};
use crate::rig::{Instances, Site, TIME};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_starts_without_its_identity_manager_and_goes_on_when_it_comes() {
    let site = Site::new();
    let mut iam = Iam::provisioned(&site).await;
    let site = iam.trusted_by(site);
    iam.kill9();

    // Operators are served, nodes are not, and it says why.
    let mut cm = site.start_unserved();
    cm.process
        .wait_for_line("waiting for the identity manager", TIME)
        .unwrap();
    assert!(cm.nodes().await.is_empty());
    cm.apply(&site.document(&[("web", "1.0.0", 1)])).await;

    iam.start();
    site.wait_until_served(&mut cm);
    let node = site.node_with_tls(MAIN, iam.manager_tls(MAIN).await);
    cm.until_active(1).await;
    let shown = &cm.nodes().await[MAIN];
    assert!(shown.is_main);
    assert_eq!(
        (shown.node_type.as_str(), shown.state.as_str()),
        ("test", "provisioned")
    );

    // Without it again: nothing that runs is touched, and what is there can be changed.
    let running = node.running();
    iam.kill9();
    cm.apply(&site.document(&[("web", "1.0.0", 2)])).await;
    cm.until_active(2).await;
    assert_eq!(
        node.start_of("web:local:0"),
        Some(running["web:local:0"].start)
    );
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_paused_by_the_identity_manager_and_certificates_change_under_the_stream() {
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let site = iam.trusted_by(site);
    let mut cm = site.start();
    let node = site.node_with_tls(MAIN, iam.manager_tls(MAIN).await);
    cm.apply(&site.document(&[("web", "1.0.0", 1)])).await;
    cm.until_active(1).await;

    let mut more = site.document(&[("web", "1.0.0", 2)]);
    more["nodes"] = json!([{"id": MAIN, "paused": true}]);
    cm.apply(&more).await;
    let unplaced = |now: &Instances| now.len() == 2 && now["web:local:1"].state == "unplaced";
    cm.until("one without a place", unplaced).await;
    let main: NodeId = MAIN.parse().unwrap();
    let state = iam.client().node(&main).await.unwrap().state;
    assert_eq!(state, NodeState::Paused);
    // Resumed behind the daemon's back: it hears of it.
    iam.client().resume_node(&main).await.unwrap();
    let mut resumed = site.document(&[("web", "1.0.0", 2)]);
    resumed["nodes"] = json!([{"id": MAIN, "paused": false}]);
    cm.apply(&resumed).await;
    cm.until_active(2).await;

    // A new certificate: the stream goes on, and the next one is made with it.
    let running = node.running();
    iam.renew(&CertType::Cm).await;
    cm.process
        .wait_for_line("certificates replaced", TIME)
        .unwrap();
    assert_eq!(cm.until_active(2).await.len(), 2);
    node.set_online(false);
    cm.until("away", |now| now.values().all(|it| it.state == "away"))
        .await;
    node.set_online(true);
    cm.until_active(2).await;
    assert_eq!(node.running(), running);
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_speaks_for_another_is_refused_and_told_of() {
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let site = iam.trusted_by(site);
    let cm = site.start();
    let _liar = site.node_with_tls("victim", iam.manager_tls("liar").await);
    let alerts = async || {
        let request = muster_control_api::v1::ListAlertsRequest::default();
        let answer = cm.control().await.list_alerts(request).await.unwrap();
        answer.into_inner().alerts
    };
    let deadline = Instant::now() + TIME;
    let mut found = alerts().await;
    while found.is_empty() {
        assert!(Instant::now() < deadline, "{}", cm.last_words());
        tokio::time::sleep(Duration::from_millis(20)).await;
        found = alerts().await;
    }
    let alert = (found[0].kind.as_str(), found[0].node_id.as_str());
    assert_eq!(alert, ("core", "liar"), "{found:#?}");
    assert!(!cm.nodes().await.contains_key("victim"));
    cm.end();
}
