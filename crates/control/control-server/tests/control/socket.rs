use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use muster_control_api::v1;
use muster_control_server::ServeControlError;
use muster_rpc::BindSocketError;

use crate::rig::{Rig, client};

#[tokio::test]
async fn the_socket_is_its_owners_and_goes_with_the_server() {
    let rig = Rig::new().await;
    let path = rig.socket.path();
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.permissions().mode() & 0o7777, 0o600);
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    let folder = rig.end().await;
    assert!(!path.exists());
    assert!(folder.path().join("run").is_dir(), "the folder was made");
}

#[tokio::test]
async fn what_a_killed_daemon_left_is_replaced() {
    let rig = Rig::new().await;
    let path = rig.folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the listener is gone, its file is not");
    let socket = rig.server.serve_unix(&path).await.unwrap();
    let mut client = client(path.clone()).await;
    client
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap();
    socket.shutdown().await;
    assert!(!path.exists());
    rig.end().await;
}

#[tokio::test]
async fn what_is_in_use_or_no_socket_is_left_alone() {
    let rig = Rig::new().await;
    let refused = rig.server.serve_unix(&rig.socket.path()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            ServeControlError::Bind(BindSocketError::InUse { .. })
        ),
        "{refused}"
    );
    rig.client()
        .await
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap();

    let file = rig.folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    let refused = rig.server.serve_unix(&file).await.unwrap_err();
    assert!(
        matches!(
            refused,
            ServeControlError::Bind(BindSocketError::NoSocket { .. })
        ),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let below = file.join("control.sock");
    let refused = rig.server.serve_unix(&below).await.unwrap_err();
    assert!(
        matches!(
            refused,
            ServeControlError::Bind(BindSocketError::Folder { .. })
        ),
        "{refused}"
    );
    rig.end().await;
}
