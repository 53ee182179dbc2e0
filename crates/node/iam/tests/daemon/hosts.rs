//! Three hosts: the Main Node provisions two Secondary Nodes over the network, one with its keys in a
//! token, the other in files.

use std::fs;
use std::net::SocketAddr;

use futures_util::{StreamExt as _, stream};
use muster_api::iamanager::v6 as wire;
use muster_lab::leaks::Watch;
use muster_lab::net::{Host, Net};
use muster_lab::pki::{CertSpec, Pki};
use muster_node_registry::is_connected;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use wire::iam_nodes_service_client::IamNodesServiceClient as NodesClient;
use wire::iam_outgoing_messages::IamOutgoingMessage;
use wire::iam_provisioning_service_client::IamProvisioningServiceClient as ProvisioningClient;
use wire::iam_public_nodes_service_client::IamPublicNodesServiceClient as PublicNodesClient;

use crate::rig::*;

const LIBRARY: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// A Secondary Node of the Main Node at `main`.
fn secondary(site: &Site, host: &Host, main: &Host) -> Node {
    site.node(host.name())
        .set("publicServerUrl", json!(format!("{}:8090", host.ip())))
        .set("protectedServerUrl", json!(format!("{}:8089", host.ip())))
        .set(
            "mainIamPublicServerUrl",
            json!(format!("{}:8090", main.ip())),
        )
        .set(
            "mainIamProtectedServerUrl",
            json!(format!("{}:8089", main.ip())),
        )
}

/// The same with its keys in a SoftHSM token.
fn with_token(mut node: Node) -> Node {
    let tokens = node.folder.join("tokens");
    fs::create_dir(&tokens).unwrap();
    let config = format!(
        "directories.tokendir = {}\nobjectstore.backend = file\n",
        tokens.display()
    );
    fs::write(node.folder.join("softhsm2.conf"), config).unwrap();
    for module in node.config["certModules"].as_array_mut().unwrap() {
        module["plugin"] = json!("pkcs11module");
        module["params"] = json!({
            "library": LIBRARY,
            "tokenLabel": "muster",
            "userPinPath": node.folder.join("pin"),
        });
    }
    node
}

/// The Main Node's view of a node.
async fn seen(main: &Channel, id: &str) -> Option<wire::NodeInfo> {
    let request = wire::GetNodeInfoRequest {
        node_id: id.to_owned(),
    };
    let answer = PublicNodesClient::new(main.clone())
        .get_node_info(request)
        .await;
    answer.ok().map(tonic::Response::into_inner)
}

/// Waits until the Main Node sees a connected node in this state.
async fn wait_for_state(main: &Channel, id: &str, state: &str) {
    let mut last = None;
    let waited = tokio::time::timeout(TIME, async {
        let mut changes = PublicNodesClient::new(main.clone())
            .subscribe_node_changed(())
            .await
            .unwrap()
            .into_inner();
        while let Some(info) = changes.message().await.unwrap() {
            if info.node_id == id {
                let done = info.state == state && is_connected(&info);
                last = Some(info);
                if done {
                    return;
                }
            }
        }
    });
    assert!(waited.await.is_ok(), "{id} is not {state}: {last:?}");
}

/// What a stranger on the network may not do.
fn strangers_are_refused(host: &Host, site: &Site, public: SocketAddr, protected: SocketAddr) {
    host.run(|| {
        block_on(async {
            for address in [public, protected] {
                assert!(
                    node_state(connect(plain(), address)).await.is_err(),
                    "in the clear"
                );
            }
            let foreign = Pki::new(SYSTEM).unwrap();
            let issued = foreign.issue(&CertSpec::node("main", "cm")).unwrap();
            let files = issued.write_to(site.folder.path(), "foreign").unwrap();
            let tls = mutual(&files.cert, &files.key, &site.path("ca.pem")).await;
            assert!(
                node_state(connect(tls, protected)).await.is_err(),
                "of a foreign authority"
            );

            let sm = connect(site.client(&CertSpec::node("main", "sm")).await, protected);
            let mut sm = ProvisioningClient::new(sm);
            let codes = [
                sm.start_provisioning(wire::StartProvisioningRequest::default())
                    .await
                    .err(),
                sm.finish_provisioning(wire::FinishProvisioningRequest::default())
                    .await
                    .err(),
                sm.deprovision(wire::DeprovisionRequest::default())
                    .await
                    .err(),
                sm.get_cert_types(wire::GetCertTypesRequest::default())
                    .await
                    .err(),
            ];
            for refused in codes {
                assert_eq!(refused.unwrap().code(), Code::PermissionDenied);
            }
            // A node's certificate is for that node.
            let second = connect(
                site.client(&CertSpec::node("second", "iam")).await,
                protected,
            );
            let claim = wire::IamOutgoingMessages {
                iam_outgoing_message: Some(IamOutgoingMessage::NodeInfo(wire::NodeInfo {
                    node_id: "third".into(),
                    node_type: "test".into(),
                    state: "provisioned".into(),
                    os_info: Some(muster_api::common::v2::OsInfo {
                        os: "linux".into(),
                        ..Default::default()
                    }),
                    ..Default::default()
                })),
            };
            let claims = stream::iter([claim]).chain(stream::pending());
            let mut client = PublicNodesClient::new(second);
            let outcome = match client.register_node(claims).await {
                Ok(stream) => stream.into_inner().message().await.err(),
                Err(refused) => Some(refused),
            };
            let refused = outcome.expect("a certificate of another node is refused");
            assert!(refused.message().contains("third"), "{refused}");
        });
    })
    .unwrap();
}

#[test]
fn the_main_node_provisions_two_others_over_the_network() {
    muster_lab::require!(Root, NetNs, File(LIBRARY));
    muster_lab::alone!();
    let before = Watch::own().take().unwrap();
    let site = Site::new();
    let net = Net::new(&["main", "second", "third"]).unwrap();
    let host = net.host("main");
    let (public, protected) = (
        SocketAddr::from((host.ip(), 8090)),
        SocketAddr::from((host.ip(), 8089)),
    );
    let main = site
        .node("main")
        .set("publicServerUrl", json!(public.to_string()))
        .set("protectedServerUrl", json!(protected.to_string()));
    let second = with_token(secondary(&site, net.host("second"), host));
    let third = secondary(&site, net.host("third"), host);

    let main_daemon = main.start_on(host);
    let conf = second.folder.join("softhsm2.conf");
    let program = second
        .program()
        .env("SOFTHSM2_CONF", &conf)
        .on(net.host("second"));
    let second_daemon = Daemon::start(&program);
    let third_daemon = third.start_on(net.host("third"));

    block_on(async {
        let channel = main.local().await;
        let operator = |target| Operator {
            channel: channel.clone(),
            pki: &site.pki,
            target,
            node: if target.is_empty() { "main" } else { target },
        };
        operator("").provision().await.unwrap();
        for node in ["second", "third"] {
            wait_for_state(&channel, node, "unprovisioned").await;
            operator(node).provision().await.unwrap();
            wait_for_state(&channel, node, "provisioned").await;
        }
        let ids = PublicNodesClient::new(channel.clone())
            .get_all_node_i_ds(())
            .await
            .unwrap();
        assert_eq!(ids.into_inner().ids, ["main", "second", "third"]);

        // Renewal, pause and resume go the same way, over the protected port now.
        let renewed = operator("second").renew("iam").await.unwrap();
        assert!(renewed.key_url.starts_with("pkcs11:"), "{renewed:?}");
        let pause = wire::PauseNodeRequest {
            node_id: "second".into(),
        };
        let paused = NodesClient::new(channel.clone())
            .pause_node(pause.clone())
            .await
            .unwrap();
        ok(paused.into_inner().error).unwrap();
        assert_eq!(seen(&channel, "second").await.unwrap().state, "paused");
        let resume = wire::ResumeNodeRequest {
            node_id: "second".into(),
        };
        let resumed = NodesClient::new(channel.clone())
            .resume_node(resume)
            .await
            .unwrap();
        ok(resumed.into_inner().error).unwrap();
        let unknown = wire::PauseNodeRequest {
            node_id: "fourth".into(),
        };
        let refused = NodesClient::new(channel.clone())
            .pause_node(unknown)
            .await
            .unwrap();
        assert!(
            ok(refused.into_inner().error)
                .unwrap_err()
                .starts_with("code 5")
        );
    });
    for folder in [&second, &third] {
        assert_eq!(folder.state(), "provisioned\n");
    }
    strangers_are_refused(net.host("third"), &site, public, protected);

    block_on(async {
        // A node that leaves the device joins again as a stranger.
        let channel = main.local().await;
        let operator = Operator {
            channel: channel.clone(),
            pki: &site.pki,
            target: "third",
            node: "third",
        };
        operator.deprovision().await.unwrap();
        wait_for_state(&channel, "third", "unprovisioned").await;
    });
    assert_eq!(third.state(), "unprovisioned\n");
    third_daemon.end();
    second_daemon.end();
    main_daemon.end();
    drop(net);
    drop(site);
    before.assert_unchanged(TIME);
}
