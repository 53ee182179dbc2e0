//! Certificates of the authority in real TLS connections of muster-tls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_pki::files::{Access, write};
use muster_pki::jiff::Timestamp;
use muster_pki::{Authority, IssuedKeyPair, Profile, Reason};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ConnectTlsError, ExpectedServer, FileCertSource,
    IdentityPolicy, Role, ServerName, ServerOptions, ServerTls,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

struct Files {
    cert: PathBuf,
    key: PathBuf,
}

fn put(folder: &Path, name: &str, pair: &IssuedKeyPair) -> Files {
    let files = Files {
        cert: folder.join(format!("{name}.crt.pem")),
        key: folder.join(format!("{name}.key.pem")),
    };
    write(&files.cert, pair.cert.chain_pem.as_bytes(), Access::Public).expect("certificate");
    write(&files.key, pair.key_pem.as_bytes(), Access::Secret).expect("key");
    files
}

async fn store(files: &Files, authority: &Authority) -> CertStore {
    let source = FileCertSource::mutual(&files.cert, &files.key, authority.root_file())
        .with_crl(authority.lists_file());
    CertStore::open(source).await.expect("usable files")
}

/// One round trip: what the server said after it had seen the client's certificate.
async fn greet(server: &CertStore, client: &CertStore) -> Result<String, String> {
    let options = ServerOptions::default();
    let server =
        ServerTls::mutual(server, IdentityPolicy::spiffe_only(), options).expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut incoming = server.incoming(listener);
    let port = incoming.local_addr().expect("an address").port();
    let serve = tokio::spawn(async move {
        use futures_util::StreamExt as _;
        while let Some(Ok(mut io)) = incoming.next().await {
            let who = io
                .info()
                .peer()
                .identity()
                .map(|identity| identity.id.to_string());
            let _ = io.write_all(who.unwrap_or_default().as_bytes()).await;
            let _ = io.shutdown().await;
        }
    });
    let name = ServerName::Spiffe(ExpectedServer::role(Role::Iam));
    let options = ClientOptions::default();
    let client = ClientTls::mutual(client, name, options).expect("a client");
    let talk = async {
        let mut io = client
            .connect("127.0.0.1", port)
            .await
            .map_err(|error: ConnectTlsError| error.to_string())?;
        let mut text = String::new();
        io.read_to_string(&mut text)
            .await
            .map_err(|error| error.to_string())?;
        Ok(text)
    };
    let said = talk.await;
    serve.abort();
    said
}

#[tokio::test]
async fn nodes_and_operators_know_each_other_until_one_is_revoked() {
    let place = tempfile::tempdir().expect("a folder");
    let now = Timestamp::now();
    let system = "plant-7".parse().expect("an id");
    let mut authority = Authority::init(&place.path().join("pki"), &system, now)
        .expect("made")
        .authority;
    let issue = |authority: &mut Authority, id: &str, name: &str| {
        let pair = authority
            .issue_with_key(&Profile::new(id.parse().expect("an id")), now)
            .expect("issued");
        (put(place.path(), name, &pair), pair.cert.serial)
    };
    let (iam, _) = issue(&mut authority, "spiffe://plant-7/node/main/iam", "iam");
    let (desk, desk_serial) = issue(
        &mut authority,
        "spiffe://plant-7/node/desk/operator",
        "desk",
    );
    assert_eq!(
        fs::metadata(&desk.key).expect("key").permissions().mode() & 0o777,
        0o600
    );

    let server = store(&iam, &authority).await;
    let client = store(&desk, &authority).await;
    assert_eq!(
        greet(&server, &client).await.as_deref(),
        Ok("spiffe://plant-7/node/desk/operator")
    );
    // An operator is no server.
    let refused = greet(&client, &client).await.expect_err("clientAuth only");
    assert!(refused.contains("127.0.0.1"), "{refused}");

    authority
        .revoke(&[desk_serial], Reason::CessationOfOperation, now)
        .expect("revoked");
    let server = store(&iam, &authority).await;
    let client = store(&desk, &authority).await;
    let refused = greet(&server, &client).await.expect_err("revoked");
    assert!(refused.to_lowercase().contains("revoked"), "{refused}");
}
