//! Every call, with what it sends and answers, and how it fails.

use std::collections::BTreeMap;
use std::error::Error as _;

use muster_api::common::v2::ErrorInfo;
use muster_api::domain::{CertType, InstanceIdent, ItemId, ItemType, NodeId, NodeState, SubjectId};
use muster_iamclient::{IamCallError, IamClient, IamTarget};
use muster_rpc::Target;
use muster_tls::{ClientOptions, ClientTls, Insecure};
use tonic::Code;

use crate::fake::{FakeIam, State, cert, node};

fn state() -> State {
    State {
        certs: BTreeMap::from([("sm".to_owned(), cert("sm", 7))]),
        subjects: vec!["driver".into(), "owner".into()],
        nodes: BTreeMap::from([
            ("main".to_owned(), node("main", "provisioned")),
            ("second".to_owned(), node("second", "paused")),
        ]),
        ..State::default()
    }
}

fn instance() -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn second() -> NodeId {
    NodeId::new("second").expect("an id")
}

#[tokio::test]
async fn the_public_port_answers_domain_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("iam.sock");
    let iam = FakeIam::new(state());
    let _server = iam.start(&socket).await;
    let client = IamClient::new(IamTarget::Unix(socket));

    assert_eq!(client.api_version().await.expect("a version"), 6);
    let system = client.system_info().await.expect("a system");
    assert_eq!(
        (system.system_id.as_str(), system.version.as_str()),
        ("unit-7", "2")
    );
    let subjects = client.subjects().await.expect("subjects");
    assert_eq!(
        subjects.iter().map(SubjectId::as_str).collect::<Vec<_>>(),
        ["driver", "owner"]
    );
    let current = client.current_node().await.expect("a node");
    assert_eq!(
        (current.node_id.as_str(), current.state),
        ("main", NodeState::Provisioned)
    );
    let ids = client.node_ids().await.expect("nodes");
    assert_eq!(
        ids.iter().map(NodeId::as_str).collect::<Vec<_>>(),
        ["main", "second"]
    );
    let node = client.node(&second()).await.expect("a node");
    assert_eq!(node.state, NodeState::Paused);
    let found = client.cert(&CertType::Sm).await.expect("a certificate");
    assert_eq!(
        (found.cert_url.as_str(), found.serial.as_slice()),
        ("file:///certs/7.pem", &[7][..])
    );
    client
        .cert_by(&CertType::Sm, &[1, 2], "07")
        .await
        .expect("a certificate");
    assert_eq!(iam.asked(), ["GetCert sm [] ", "GetCert sm [1, 2] 07"]);
    let granted = client
        .permissions("s3cret", "vis")
        .await
        .expect("permissions");
    assert_eq!(
        (granted.instance, granted.permissions["vis"].as_str()),
        (instance(), "rw")
    );
}

#[tokio::test]
async fn the_protected_port_is_given_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("iam.sock");
    let iam = FakeIam::new(state());
    let _server = iam.start(&socket).await;
    let client = IamClient::local(socket);
    let node = second();

    client.pause_node(&node).await.expect("paused");
    client.resume_node(&node).await.expect("resumed");
    client
        .start_provisioning(&node, "pass")
        .await
        .expect("started");
    assert_eq!(
        client.cert_types(&node).await.expect("types"),
        [CertType::Sm]
    );
    let csr = client
        .create_key(&node, &CertType::Sm, "cn", "pass")
        .await
        .expect("a key");
    assert_eq!(csr, "a request");
    let applied = client
        .apply_cert(&node, &CertType::Sm, "chain")
        .await
        .expect("applied");
    assert_eq!(applied.cert_type, CertType::Sm);
    client
        .finish_provisioning(&node, "pass")
        .await
        .expect("finished");
    client.deprovision(&node, "pass").await.expect("gone");
    let permissions = BTreeMap::from([("Signal".to_owned(), "r".to_owned())]);
    let grants = BTreeMap::from([("vis".to_owned(), permissions)]);
    let secret = client
        .register_instance(&instance(), &grants)
        .await
        .expect("a secret");
    assert_eq!(secret.expose(), "s3cret");
    assert!(!format!("{secret:?}").contains("s3cret"));
    client
        .unregister_instance(&instance())
        .await
        .expect("unregistered");
    assert_eq!(
        iam.asked(),
        [
            "PauseNode second",
            "ResumeNode second",
            "StartProvisioning second pass",
            "GetCertTypes second",
            "CreateKey second sm cn pass",
            "ApplyCert second sm chain",
            "FinishProvisioning second pass",
            "Deprovision second pass",
            r#"RegisterInstance item {"vis": Permissions { permissions: {"Signal": "r"} }}"#,
            "UnregisterInstance item",
        ]
    );
}

#[tokio::test]
async fn failures_name_the_call_the_object_and_the_reason_and_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("iam.sock");
    let iam = FakeIam::new(state());
    let client = IamClient::local(&socket);

    let away = client.system_info().await.expect_err("nobody there");
    assert!(away.is_unreachable(), "{away:?}");

    let _server = iam.start(&socket).await;
    let refused = client
        .permissions("wr0ng", "vis")
        .await
        .expect_err("nobody's secret");
    assert_eq!(refused.code(), Some(Code::Unauthenticated));
    assert_eq!(refused.to_string(), "GetPermissions(vis) failed");
    assert!(!format!("{refused:?}").contains("wr0ng"));

    iam.change(|state| {
        state.error = Some(ErrorInfo {
            aos_code: 9,
            exit_code: 0,
            message: "not now".into(),
        });
    });
    let second = second();
    let failed = [
        client.pause_node(&second).await.expect_err("refused"),
        client.resume_node(&second).await.expect_err("refused"),
        client
            .start_provisioning(&second, "p4ss")
            .await
            .expect_err("refused"),
        client
            .finish_provisioning(&second, "p4ss")
            .await
            .expect_err("refused"),
        client
            .deprovision(&second, "p4ss")
            .await
            .expect_err("refused"),
        client
            .create_key(&second, &CertType::Sm, "", "p4ss")
            .await
            .expect_err("refused"),
        client
            .apply_cert(&second, &CertType::Sm, "chain")
            .await
            .expect_err("refused"),
    ];
    for error in &failed {
        assert!(
            matches!(error, IamCallError::NotCarriedOut { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("second"), "{error}");
        let reason = error.source().expect("a reason").to_string();
        assert_eq!(reason, "wrong state: not now");
        assert!(!format!("{error:?}").contains("p4ss"), "{error:?}");
    }

    iam.change(|state| {
        state.subjects = vec!["a/b".into()];
        state.certs.insert("sm".into(), cert("", 1));
        state.nodes.insert("main".into(), node("main", "confused"));
    });
    for error in [
        client.subjects().await.expect_err("not a subject"),
        client.cert(&CertType::Sm).await.expect_err("not a type"),
        client.current_node().await.expect_err("not a state"),
    ] {
        assert!(matches!(error, IamCallError::Answer { .. }), "{error:?}");
    }
    let unknown = client
        .node(&NodeId::new("third").expect("an id"))
        .await
        .expect_err("unknown");
    assert_eq!(unknown.code(), Some(Code::NotFound));
    assert!(!unknown.is_unreachable());
}

#[tokio::test]
async fn without_the_protected_port_its_calls_say_so() {
    let client = IamClient::new(IamTarget::Unix("/nonexistent/iam.sock".into()));
    let error = client.pause_node(&second()).await.expect_err("no port");
    assert_eq!(
        error.to_string(),
        "PauseNode needs IAM's protected port, which this client was not given"
    );
}

#[tokio::test]
async fn over_tcp_as_well() {
    let iam = FakeIam::new(state());
    let permission = Insecure::because("a test on the loopback").expect("a reason");
    let tls = muster_tls::ServerTls::insecure(permission.clone(), Default::default());
    let server = iam
        .builder()
        .start("127.0.0.1:0".parse().expect("an address"), &tls)
        .await;
    let server = server.expect("a server");
    let tls = ClientTls::insecure(&permission, ClientOptions::default());
    let target = Target::new(tls, &server.address().to_string()).expect("a target");
    let client =
        IamClient::new(IamTarget::Tcp(target.clone())).with_protected(IamTarget::Tcp(target));
    assert_eq!(
        client.system_info().await.expect("a system").system_id,
        "unit-7"
    );
    client.pause_node(&second()).await.expect("paused");
}
