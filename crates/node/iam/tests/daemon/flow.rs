//! One node, from nothing to a member and back.

use std::time::{Duration, Instant};

use muster_api::common::v2::InstanceIdent;
use muster_api::iamanager::v6 as wire;
use muster_lab::pki::{CertSpec, Pki};
use serde_json::json;
use tonic::Code;
use wire::iam_permissions_service_client::IamPermissionsServiceClient as PermissionsClient;
use wire::iam_provisioning_service_client::IamProvisioningServiceClient as ProvisioningClient;
use wire::iam_public_identity_service_client::IamPublicIdentityServiceClient as IdentityClient;
use wire::iam_public_permissions_service_client::IamPublicPermissionsServiceClient as LookUpClient;

use crate::rig::*;

fn operator<'a>(
    channel: tonic::transport::Channel,
    site: &'a Site,
    node: &'a Node,
) -> Operator<'a> {
    Operator {
        channel,
        pki: &site.pki,
        target: "",
        node: &node.id,
    }
}

#[test]
fn root_provisions_a_closed_node_over_the_local_socket() {
    let site = Site::new();
    let node = site.node("node-1");
    let mut daemon = node.start();
    block_on(async {
        let local = node.local().await;
        assert_eq!(node_state(local.clone()).await.unwrap(), "unprovisioned");
        assert!(
            !daemon
                .process
                .lines()
                .iter()
                .any(|line| line.text.contains("open port=")),
            "no port is open before there is a certificate"
        );
        operator(local.clone(), &site, &node)
            .provision()
            .await
            .unwrap();
        assert_eq!(node_state(local).await.unwrap(), "provisioned");
        assert_eq!(node.state(), "provisioned\n");

        let (public, protected) = (daemon.address("public"), daemon.address("protected"));
        // Anybody, but with TLS, on the public port.
        let channel = connect(site.anonymous().await, public);
        assert_eq!(node_state(channel.clone()).await.unwrap(), "provisioned");
        let system = IdentityClient::new(channel.clone())
            .get_system_info(())
            .await
            .unwrap();
        assert_eq!(system.into_inner().system_id, SYSTEM);
        let refused = operator(channel, &site, &node).start().await.unwrap_err();
        assert!(refused.contains("not implemented"), "{refused}");

        // Peers with an identity on the protected port, each with its own rights.
        let spec = CertSpec::node("desk", "operator");
        let channel = connect(site.client(&spec).await, protected);
        assert_eq!(
            operator(channel, &site, &node).cert_types().await.unwrap(),
            ["iam", "sm"]
        );
        let sm = connect(
            site.client(&CertSpec::node("node-1", "sm")).await,
            protected,
        );
        assert_eq!(node_state(sm.clone()).await.unwrap(), "provisioned");
        let refused = ProvisioningClient::new(sm)
            .start_provisioning(wire::StartProvisioningRequest::default())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        assert!(
            refused.message().contains("spiffe://unit-7/node/node-1/sm"),
            "{refused}"
        );

        // Nobody else.
        for address in [public, protected] {
            let answer = node_state(connect(plain(), address)).await;
            assert!(answer.is_err(), "in the clear: {answer:?}");
        }
        assert!(
            node_state(connect(site.anonymous().await, protected))
                .await
                .is_err()
        );
        let foreign = Pki::new(SYSTEM).unwrap();
        let issued = foreign.issue(&CertSpec::node("desk", "operator")).unwrap();
        let files = issued.write_to(site.folder.path(), "foreign").unwrap();
        let tls = mutual(&files.cert, &files.key, &site.path("ca.pem")).await;
        assert!(
            node_state(connect(tls, protected)).await.is_err(),
            "of a foreign authority"
        );
    });
    daemon.end();
}

#[test]
fn an_expired_and_a_revoked_peer_are_refused() {
    let site = Site::new();
    let node = site.node("node-1");
    let mut daemon = node.start();
    block_on(async {
        operator(node.local().await, &site, &node)
            .provision()
            .await
            .unwrap();
        let protected = daemon.address("protected");
        let expired = site
            .client(&CertSpec::node("desk", "operator").expired())
            .await;
        assert!(node_state(connect(expired, protected)).await.is_err());

        let issued = site.pki.issue(&CertSpec::node("desk", "operator")).unwrap();
        let files = issued.write_to(site.folder.path(), "desk").unwrap();
        let tls = mutual(&files.cert, &files.key, &site.path("ca.pem")).await;
        let before = connect(tls.clone(), protected);
        assert_eq!(node_state(before.clone()).await.unwrap(), "provisioned");
        site.pki.revoke(&issued).unwrap();
        site.pki.write_crl(site.folder.path(), "ca").unwrap();
        daemon
            .process
            .wait_for_line("certificates replaced", TIME)
            .unwrap();
        assert!(
            node_state(connect(tls, protected)).await.is_err(),
            "revoked"
        );
        assert_eq!(
            node_state(before).await.unwrap(),
            "provisioned",
            "its old connection goes on"
        );
    });
    daemon.end();
}

#[test]
fn a_port_in_the_clear_becomes_tls_at_once_and_stays_the_same_port() {
    let site = Site::new();
    let node = site
        .node("node-1")
        .set("insecureUntilProvisioned", json!(["public", "protected"]));
    let mut daemon = node.start();
    daemon.process.wait_for_line("INSECURE", TIME).unwrap();
    block_on(async {
        let (public, protected) = (daemon.address("public"), daemon.address("protected"));
        let in_the_clear = connect(plain(), protected);
        let operator = operator(in_the_clear.clone(), &site, &node);
        let refused = operator.deprovision().await.unwrap_err();
        assert!(refused.contains("only TLS gives"), "{refused}");
        operator.provision().await.unwrap();
        let answered = Instant::now();
        daemon.wait_for_mode("protected", "Tls");
        daemon.wait_for_mode("public", "Tls");
        assert!(answered.elapsed() < Duration::from_secs(10));
        assert_eq!(
            (daemon.address("public"), daemon.address("protected")),
            (public, protected)
        );
        let desk = site.client(&CertSpec::node("desk", "operator")).await;
        let desk = connect(desk, protected);
        assert_eq!(node_state(desk.clone()).await.unwrap(), "provisioned");
        assert!(node_state(connect(plain(), public)).await.is_err());
        // A connection that was made in the clear ends with it.
        assert!(node_state(in_the_clear).await.is_err());

        // And back.
        let back = Operator {
            channel: desk,
            ..operator_of(&site, &node).await
        };
        back.deprovision().await.unwrap();
        daemon.wait_for_mode("protected", "Plain");
        assert_eq!(
            node_state(connect(plain(), protected)).await.unwrap(),
            "unprovisioned"
        );
        assert_eq!(node.state(), "unprovisioned\n");
        for cert_type in ["iam", "sm"] {
            let keys = std::fs::read_dir(node.folder.join(format!("keys-{cert_type}")));
            let left: Vec<_> = keys
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path())
                .collect();
            assert!(
                !left
                    .iter()
                    .any(|path| path.to_string_lossy().contains("key")
                        && path.extension().is_some_and(|ext| ext == "pem")),
                "{left:?}"
            );
        }
    });
    daemon.end();
}

async fn operator_of<'a>(site: &'a Site, node: &'a Node) -> Operator<'a> {
    operator(node.local().await, site, node)
}

#[test]
fn every_request_can_be_repeated() {
    let site = Site::new();
    let node = site.node("node-1");
    let daemon = node.start();
    block_on(async {
        let operator = operator_of(&site, &node).await;
        let refused = operator.create_key("iam").await.unwrap_err();
        assert!(
            refused.contains("code 9") && refused.contains("StartProvisioning"),
            "{refused}"
        );
        let refused = operator.finish().await.unwrap_err();
        assert!(refused.contains("code 9"), "{refused}");
        operator.deprovision().await.unwrap();

        operator.start().await.unwrap();
        operator.start().await.unwrap();
        assert_eq!(node.state(), "unprovisioned\nstarted\n");
        let refused = operator.finish().await.unwrap_err();
        assert!(refused.contains("no certificate of type iam"), "{refused}");
        let refused = operator.create_key("nonsense").await.unwrap_err();
        assert!(
            refused.contains("code 5") && refused.contains("nonsense"),
            "{refused}"
        );

        let csr = operator.create_key("iam").await.unwrap();
        assert_eq!(operator.create_key("iam").await.unwrap(), csr);
        let chain = site
            .pki
            .sign_request(&csr, &CertSpec::node("node-1", "iam"))
            .unwrap();
        let refused = operator.apply("sm", chain.clone()).await.unwrap_err();
        assert!(refused.contains("code 6"), "{refused}");
        let first = operator.apply("iam", chain.clone()).await.unwrap();
        assert_eq!(operator.apply("iam", chain).await.unwrap(), first);

        operator.finish().await.unwrap();
        operator.finish().await.unwrap();
        let refused = operator.start().await.unwrap_err();
        assert!(refused.contains("deprovision it first"), "{refused}");
        operator.deprovision().await.unwrap();
        operator.deprovision().await.unwrap();
        operator.provision().await.unwrap();
    });
    daemon.end();
}

#[test]
fn a_failing_hook_is_told_and_the_request_can_be_repeated() {
    let site = Site::new();
    let node = site.node("node-1");
    let gate = node.folder.join("gate");
    let seen = node.folder.join("seen");
    let script = format!(
        "cat >>{seen}; echo \" $MUSTER_HOOK\" >>{seen}; test -e {gate} || {{ echo the gate is shut >&2; exit 7; }}",
        seen = seen.display(),
        gate = gate.display()
    );
    let hook = json!(["/bin/sh", "-c", script]);
    let node = node
        .set("startProvisioningCmdArgs", hook.clone())
        .set("diskEncryptionCmdArgs", hook.clone())
        .set("finishProvisioningCmdArgs", hook.clone())
        .set("deprovisionCmdArgs", hook);
    let daemon = node.start();
    block_on(async {
        let operator = operator_of(&site, &node).await;
        let failed = operator.start().await.unwrap_err();
        assert!(
            failed.contains("the gate is shut") && failed.contains("exit status: 7"),
            "{failed}"
        );
        assert_eq!(node.state(), "");
        std::fs::write(&gate, "").unwrap();
        operator.start().await.unwrap();
        operator.renew("iam").await.unwrap();
        std::fs::remove_file(&gate).unwrap();
        assert!(
            operator
                .finish()
                .await
                .unwrap_err()
                .contains("the gate is shut")
        );
        assert_eq!(node.state(), "unprovisioned\nstarted\n");
        std::fs::write(&gate, "").unwrap();
        operator.finish().await.unwrap();
        std::fs::remove_file(&gate).unwrap();
        assert!(
            operator
                .deprovision()
                .await
                .unwrap_err()
                .contains("the gate is shut")
        );
        assert_eq!(node.state(), "provisioned\n", "nothing was taken away");
        std::fs::write(&gate, "").unwrap();
        operator.deprovision().await.unwrap();
    });
    let seen = std::fs::read_to_string(seen).unwrap();
    let expected = [
        "start hook",
        "start hook",
        "disk encryption hook",
        "finish hook",
        "finish hook",
        "deprovision hook",
        "deprovision hook",
    ];
    let expected: String = expected.map(|hook| format!("{PASSWORD} {hook}\n")).concat();
    assert_eq!(seen, expected);
    let log = daemon.process.lines();
    assert!(
        !log.iter().any(|line| line.text.contains(PASSWORD)),
        "the password is in the log"
    );
    daemon.end();
}

#[test]
fn pausing_is_for_members_and_survives_a_restart() {
    let site = Site::new();
    let node = site.node("node-1");
    let mut daemon = node.start();
    let pause = |channel| async {
        use wire::iam_nodes_service_client::IamNodesServiceClient;
        let request = wire::PauseNodeRequest {
            node_id: String::new(),
        };
        let answer = IamNodesServiceClient::new(channel)
            .pause_node(request)
            .await;
        ok(answer.unwrap().into_inner().error)
    };
    block_on(async {
        let refused = pause(node.local().await).await.unwrap_err();
        assert!(
            refused.contains("code 9") && refused.contains("not provisioned"),
            "{refused}"
        );
        operator_of(&site, &node).await.provision().await.unwrap();
        pause(node.local().await).await.unwrap();
        assert_eq!(node_state(node.local().await).await.unwrap(), "paused");
    });
    daemon.process.kill9().unwrap();
    daemon.process.restart().unwrap();
    daemon.process.wait_for_line(" ready", TIME).unwrap();
    block_on(async {
        use wire::iam_nodes_service_client::IamNodesServiceClient;
        let local = node.local().await;
        assert_eq!(node_state(local.clone()).await.unwrap(), "paused");
        let request = wire::ResumeNodeRequest {
            node_id: "node-1".into(),
        };
        let answer = IamNodesServiceClient::new(local.clone())
            .resume_node(request)
            .await;
        ok(answer.unwrap().into_inner().error).unwrap();
        assert_eq!(node_state(local).await.unwrap(), "provisioned");
    });
    daemon.end();
}

#[test]
fn permissions_are_for_the_service_manager_of_this_node_and_end_with_its_membership() {
    let site = Site::new();
    let node = site.node("node-1");
    let mut daemon = node.start();
    block_on(async {
        operator_of(&site, &node).await.provision().await.unwrap();
        let (public, protected) = (daemon.address("public"), daemon.address("protected"));
        let request = wire::RegisterInstanceRequest {
            instance: Some(InstanceIdent {
                item_id: "navigation".into(),
                subject_id: "driver".into(),
                instance: 0,
                ..Default::default()
            }),
            permissions: [(
                "vis".to_owned(),
                wire::Permissions {
                    permissions: [("Signal".to_owned(), "r".to_owned())].into(),
                },
            )]
            .into(),
        };
        let stranger = site.client(&CertSpec::node("node-2", "sm")).await;
        let refused = PermissionsClient::new(connect(stranger, protected))
            .register_instance(request.clone())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let sm = site.client(&CertSpec::node("node-1", "sm")).await;
        let mut sm = PermissionsClient::new(connect(sm, protected));
        let secret = sm
            .register_instance(request.clone())
            .await
            .unwrap()
            .into_inner()
            .secret;
        let again = sm
            .register_instance(request)
            .await
            .unwrap()
            .into_inner()
            .secret;
        assert_eq!(secret, again);
        let ask = async |secret: &str| {
            let mut client = LookUpClient::new(connect(site.anonymous().await, public));
            let request = wire::PermissionsRequest {
                secret: secret.to_owned(),
                functional_server_id: "vis".to_owned(),
            };
            client.get_permissions(request).await
        };
        let granted = ask(&secret).await.unwrap().into_inner();
        assert_eq!(granted.permissions.unwrap().permissions["Signal"], "r");
        assert_eq!(
            ask("guess").await.unwrap_err().code(),
            Code::Unauthenticated
        );
        let log = daemon.process.lines();
        assert!(
            !log.iter().any(|line| line.text.contains(&secret)),
            "the secret is in the log"
        );

        let operator = operator_of(&site, &node).await;
        let mark = daemon.process.mark();
        operator.deprovision().await.unwrap();
        operator.provision().await.unwrap();
        let public = daemon.address_after(mark, "public");
        let gone = LookUpClient::new(connect(site.anonymous().await, public))
            .get_permissions(wire::PermissionsRequest {
                secret,
                functional_server_id: "vis".to_owned(),
            })
            .await;
        assert_eq!(gone.unwrap_err().code(), Code::Unauthenticated);
    });
    daemon.end();
}
