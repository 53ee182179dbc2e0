//! Mutual TLS, and nothing less.

use muster_cloud::ConnectionState;
use muster_cloud::testing::{TestCloud, TestTls, samples};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{CertStore, ClientTls, FileCertSource, ServerName};
use tempfile::TempDir;

use crate::rig::{LONG, SYSTEM, Unit, options, plain, settings};

struct Certificates {
    cloud: TestTls,
    unit: FileCertSource,
    _folder: TempDir,
}

fn certificates() -> Certificates {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::new(SYSTEM).expect("an authority");
    let ca = pki.write_ca(folder.path(), "ca").expect("written");
    let issue = |spec: &CertSpec, stem: &str| {
        let issued = pki.issue(spec).expect("issued");
        issued.write_to(folder.path(), stem).expect("written")
    };
    let cloud = issue(
        &CertSpec::node("cloud", "cm").without_spiffe().localhost(),
        "cloud",
    );
    let unit = issue(&CertSpec::node("main", "cm"), "unit");
    Certificates {
        cloud: TestTls {
            cert: cloud.cert,
            key: cloud.key,
            ca: ca.clone(),
        },
        unit: FileCertSource::mutual(unit.cert, unit.key, ca),
        _folder: folder,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_go_both_ways_over_mutual_tls() {
    let certificates = certificates();
    let cloud = TestCloud::start(SYSTEM, Some(certificates.cloud.clone()));
    let store = CertStore::open(certificates.unit.clone())
        .await
        .expect("certificates");
    let tls = ClientTls::mutual(&store, ServerName::Dns, options()).expect("a client");
    let mut unit = Unit::start(settings(&cloud), tls).await;
    unit.link
        .send(samples::numbered(1), None)
        .await
        .expect("kept");
    cloud.send(samples::desired_status(), None);
    unit.delivery().await.accept();
    unit.drained().await;
    assert_eq!(cloud.seen().once("stateRequest").len(), 1);
    assert_eq!(cloud.seen().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_protected_link_is_not_made_unprotected_and_a_foreign_cloud_gets_nothing() {
    let ours = certificates();
    let foreign = certificates();
    let store = CertStore::open(ours.unit.clone())
        .await
        .expect("certificates");
    let tls = ClientTls::mutual(&store, ServerName::Dns, options()).expect("a client");

    // A cloud of another authority.
    let other = TestCloud::start(SYSTEM, Some(foreign.cloud.clone()));
    let unit = Unit::start(settings(&other), tls.clone()).await;
    away_because(&unit, "TLS").await;
    assert_eq!(other.seen().discoveries, 0);
    unit.stop().await;

    // The right discovery, which names an unprotected address.
    let plain_cloud = TestCloud::start(SYSTEM, None);
    let cloud = TestCloud::start(SYSTEM, Some(ours.cloud.clone()));
    let address = plain_cloud.discovery().to_string().replace("http:", "ws:");
    cloud.behave(|it| {
        let body = format!(
            r#"{{"version":7,"systemId":"{SYSTEM}","connectionInfo":["{address}"],"authToken":"t"}}"#
        );
        it.discovery_body = Some(body);
    });
    let unit = Unit::start(settings(&cloud), tls).await;
    away_because(&unit, "protected").await;
    assert_eq!(plain_cloud.seen().connections, 0);
    unit.stop().await;

    // Without a certificate only what says that it is unprotected is spoken to.
    let unit = Unit::start(settings(&cloud), plain()).await;
    away_because(&unit, "protected").await;
}

async fn away_because(unit: &Unit, words: &str) {
    let mut connection = unit.link.connection();
    let away = connection.wait_for(|it| match it {
        ConnectionState::Away { problem } => problem.as_ref().is_some_and(|it| it.contains(words)),
        ConnectionState::Connected => false,
    });
    let away = tokio::time::timeout(LONG, away).await;
    away.expect("in time").expect("the link runs");
}
