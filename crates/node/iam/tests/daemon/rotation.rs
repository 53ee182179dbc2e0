//! Renewal under load: no stream breaks, everybody is told, and new connections see the new certificate.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use muster_api::iamanager::v6 as wire;
use muster_lab::pki::CertSpec;
use muster_tls::ClientTls;
use tonic::Streaming;
use wire::iam_nodes_service_client::IamNodesServiceClient as NodesClient;
use wire::iam_public_cert_service_client::IamPublicCertServiceClient as CertClient;
use wire::iam_public_current_node_service_client::IamPublicCurrentNodeServiceClient as NodeClient;

use crate::rig::*;

const STREAMS: usize = 100;
/// The promise is a second; a busy machine that runs other tests gets more.
const SOON: Duration = Duration::from_secs(5);

/// A connection of its own with a stream of certificate changes and one of node changes.
async fn open(
    tls: ClientTls,
    address: SocketAddr,
) -> (Streaming<wire::CertInfo>, Streaming<wire::NodeInfo>) {
    let channel = connect(tls, address);
    let request = wire::SubscribeCertChangedRequest {
        r#type: "iam".into(),
    };
    let certs = CertClient::new(channel.clone())
        .subscribe_cert_changed(request)
        .await;
    let nodes = NodeClient::new(channel)
        .subscribe_current_node_changed(())
        .await;
    (certs.unwrap().into_inner(), nodes.unwrap().into_inner())
}

/// The serial number that a new connection is shown.
async fn shown(tls: &ClientTls, address: SocketAddr) -> Vec<u8> {
    let io = tls
        .connect(&address.ip().to_string(), address.port())
        .await
        .unwrap();
    let leaf = io.peer_certificates().unwrap()[0].clone();
    let facts = muster_tls::CertFacts::from_der(&leaf).unwrap();
    facts.summary.serial.into_bytes()
}

#[test]
fn a_hundred_streams_outlive_the_renewal_of_every_certificate() {
    let site = Site::new();
    let node = site.node("node-1");
    let mut daemon = node.start();
    block_on(async {
        let operator = Operator {
            channel: node.local().await,
            pki: &site.pki,
            target: "",
            node: "node-1",
        };
        operator.provision().await.unwrap();
        let (public, protected) = (daemon.address("public"), daemon.address("protected"));
        let desk = site.client(&CertSpec::node("desk", "operator")).await;
        let anonymous = site.anonymous().await;
        let mut streams = join_all((0..STREAMS / 2).map(|index| {
            if index % 2 == 0 {
                open(desk.clone(), protected)
            } else {
                open(anonymous.clone(), public)
            }
        }))
        .await;
        let before = (
            shown(&desk, protected).await,
            shown(&anonymous, public).await,
        );

        let info = operator.renew("iam").await.unwrap();
        let applied = Instant::now();
        let told = join_all(streams.iter_mut().map(|(certs, _)| certs.message()));
        let told = tokio::time::timeout(SOON, told)
            .await
            .expect("everybody is told soon");
        println!("told {} streams after {:?}", told.len(), applied.elapsed());
        for message in told {
            assert_eq!(message.unwrap().unwrap().serial, info.serial);
        }
        let served = async {
            loop {
                let now = (
                    shown(&desk, protected).await,
                    shown(&anonymous, public).await,
                );
                if now.0 != before.0 && now.1 != before.1 {
                    assert_eq!(now.0, now.1);
                    return;
                }
                // Each attempt is a handshake, so this waits for the daemon and not for a while.
                assert!(
                    applied.elapsed() < SOON,
                    "new connections see the old certificate"
                );
            }
        };
        served.await;
        println!("served after {:?}", applied.elapsed());
        operator.renew("sm").await.unwrap();

        // Every stream still carries: a change of the node reaches all of them.
        let pause = wire::PauseNodeRequest::default();
        NodesClient::new(operator.channel.clone())
            .pause_node(pause)
            .await
            .unwrap();
        let told = join_all(streams.iter_mut().map(|(_, nodes)| nodes.message()));
        let told = tokio::time::timeout(SOON, told)
            .await
            .expect("every stream carries");
        for message in told {
            assert_eq!(message.unwrap().unwrap().state, "paused");
        }
    });
    daemon.end();
}
