//! Where the cloud is: the certificate says so, unless the configuration insists.

use muster_api::domain::CertType;
use muster_cloud::testing::TestCloud;
use muster_lab::pki::CertSpec;
use serde_json::json;

use crate::iam::{Iam, MAIN, SYSTEM};
use crate::rig::Site;

/// Nobody is there.
const NOWHERE: &str = "https://127.0.0.1:1";

/// A certificate that names a cloud.
async fn name(iam: &Iam, cloud: &str) {
    let spec = CertSpec::node(MAIN, "online").localhost().issuer_uri(cloud);
    iam.renew_as(&CertType::Online, &spec).await;
}

/// The host of a cloud, without the path that only the configuration knows.
fn host(cloud: &TestCloud) -> String {
    let address = cloud.discovery();
    format!("https://{}", address.authority().unwrap())
}

fn until_connected(cloud: &TestCloud) {
    cloud.wait("a connection", |seen| seen.connected.then_some(()));
    assert_eq!(cloud.seen().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_names_the_cloud_and_a_renewed_one_leads_elsewhere() {
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let first = TestCloud::start(SYSTEM, Some(iam.cloud_tls()));
    name(&iam, &host(&first)).await;
    let configured = format!("{NOWHERE}/sd/v7/");
    let site = iam
        .trusted_by(site)
        .set("serviceDiscoveryUrl", json!(configured));
    let mut cm = site.start();
    until_connected(&first);

    let second = TestCloud::start(SYSTEM, Some(iam.cloud_tls()));
    name(&iam, &host(&second)).await;
    cm.process
        .wait_for_line(
            "renewed the certificate certificate=online",
            crate::rig::TIME,
        )
        .unwrap();
    // Where it was told to go to does not take it any more, so that it asks again.
    first.behave(|it| it.refuse_websocket = Some(503));
    first.cut();
    until_connected(&second);
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_can_insist_on_its_own_cloud() {
    let site = Site::new();
    let iam = Iam::provisioned(&site).await;
    let cloud = TestCloud::start(SYSTEM, Some(iam.cloud_tls()));
    name(&iam, NOWHERE).await;
    let site = iam
        .trusted_by(site)
        .set("serviceDiscoveryUrl", json!(format!("{NOWHERE}/sd/v7/")))
        .set("overrideServiceDiscoveryUrl", json!(host(&cloud)));
    let cm = site.start();
    until_connected(&cloud);
    cm.end();
}
