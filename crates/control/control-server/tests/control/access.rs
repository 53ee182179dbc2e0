use muster_control_api::v1;
use muster_control_server::{Access, Grant, Limits, Permission};
use muster_lab::pki::{CertSpec, Pki};
use muster_rpc::{ChannelConfig, Target, channel};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, IdentityPolicy, Insecure,
    Role, ServerName, ServerOptions, ServerTls, SystemId,
};
use tonic::{Code, Status};

use crate::rig::{Client, Rig, refused};

const SYSTEM: &str = "system-1";

async fn store(pki: &Pki, rig: &Rig, stem: &str, spec: &CertSpec) -> CertStore {
    let folder = rig.folder.path();
    let files = pki.issue(spec).unwrap().write_to(folder, stem).unwrap();
    let source = FileCertSource::mutual(files.cert, files.key, folder.join("ca.pem"));
    CertStore::open(source).await.unwrap()
}

/// What becomes of a look, of a read and of a change.
async fn try_all(client: &mut Client) -> [Result<(), Status>; 3] {
    let pause = v1::SetNodePausedRequest {
        node_id: "n1".to_owned(),
        paused: true,
    };
    [
        client
            .get_overview(v1::GetOverviewRequest {})
            .await
            .map(drop),
        client.get_desired(v1::GetDesiredRequest {}).await.map(drop),
        client.set_node_paused(pause).await.map(drop),
    ]
}

#[tokio::test]
async fn over_tls_the_certificate_decides() {
    let grants = vec![
        Grant {
            who: format!("spiffe://{SYSTEM}/node/desk/viewer")
                .parse()
                .unwrap(),
            may: Permission::View,
        },
        Grant {
            who: format!("spiffe://{SYSTEM}/node/desk/reader")
                .parse()
                .unwrap(),
            may: Permission::Read,
        },
    ];
    let access = Access::local_only().operators_of(SystemId::new(SYSTEM).unwrap(), grants);
    let rig = Rig::start(tempfile::tempdir().unwrap(), Limits::default(), access).await;
    let pki = Pki::new(SYSTEM).unwrap();
    pki.write_ca(rig.folder.path(), "ca").unwrap();
    let own = store(&pki, &rig, "cm", &CertSpec::node("main", "cm").localhost()).await;
    let tls = ServerTls::mutual(
        &own,
        IdentityPolicy::spiffe_only(),
        ServerOptions::default(),
    );
    let server = rig
        .server
        .serve_tcp("127.0.0.1:0".parse().unwrap(), &tls.unwrap())
        .await;
    let server = server.unwrap();

    for (role, allowed) in [
        ("operator", 3),
        ("reader", 2),
        ("viewer", 1),
        ("sm", 0),
        ("nodemgr", 0),
    ] {
        let store = store(&pki, &rig, role, &CertSpec::node("desk", role)).await;
        let name = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        let tls = ClientTls::mutual(&store, name, ClientOptions::default()).unwrap();
        let target = Target::new(tls, &server.address().to_string()).unwrap();
        let mut client = Client::new(channel(&target, ChannelConfig::default()));
        for (number, answer) in try_all(&mut client).await.into_iter().enumerate() {
            match number < allowed {
                true => answer.unwrap_or_else(|status| panic!("{role}: {status}")),
                false => {
                    let why = refused(answer, Code::PermissionDenied);
                    assert!(why.contains(&format!("/desk/{role} may not call")), "{why}");
                }
            }
        }
    }
    assert_eq!(rig.fake.asked(), ["pause n1 true"], "the operator's alone");
    server.shutdown().await;
    rig.end().await;
}

#[tokio::test]
async fn a_port_without_tls_opens_nothing() {
    let access = Access::local_only().operators_of(SystemId::new(SYSTEM).unwrap(), Vec::new());
    let rig = Rig::start(tempfile::tempdir().unwrap(), Limits::default(), access).await;
    let why = Insecure::because("a test of what it refuses").unwrap();
    let tls = ServerTls::insecure(why.clone(), ServerOptions::default());
    let server = rig
        .server
        .serve_tcp("127.0.0.1:0".parse().unwrap(), &tls)
        .await
        .unwrap();
    let tls = ClientTls::insecure(&why, ClientOptions::default());
    let target = Target::new(tls, &server.address().to_string()).unwrap();
    let mut client = Client::new(channel(&target, ChannelConfig::default()));
    for answer in try_all(&mut client).await {
        refused(answer, Code::Unauthenticated);
    }
    server.shutdown().await;
    rig.end().await;
}
