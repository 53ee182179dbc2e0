//! The server over real sockets: ranges, refusals, clients that stall, and a client that is not ours.
#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_api::domain::Digest;
use muster_file_server::{BlobFolder, FileServer, FileServerConfig, TokenKey};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{Alpn, CertStore, FileCertSource, Insecure, ServerOptions, ServerTls};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn options() -> ServerOptions {
    ServerOptions {
        alpn: Alpn::Http1,
        ..ServerOptions::default()
    }
}

fn plain() -> ServerTls {
    ServerTls::insecure(Insecure::because("a test").unwrap(), options())
}

/// The name is not the content's digest: the server does not read what it gives out, the node checks it.
fn put(folder: &Path, byte: u8, content: &[u8]) -> Digest {
    let digest = Digest::from_sha256([byte; 32]);
    let at = folder.join("blobs/sha256");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join(digest.to_hex()), content).unwrap();
    digest
}

async fn start(folder: &TempDir, tls: &ServerTls, config: FileServerConfig) -> FileServer {
    let blobs = BlobFolder::open(&folder.path().join("blobs")).unwrap();
    let key = TokenKey::open(&folder.path().join("url.key")).unwrap();
    FileServer::start(LOCAL, tls, blobs, key, config)
        .await
        .unwrap()
}

fn config() -> FileServerConfig {
    FileServerConfig::new("127.0.0.1")
}

fn path_of(url: &str) -> &str {
    let host = url.find("127.0.0.1").unwrap();
    &url[host + url[host..].find('/').unwrap()..]
}

/// One request on a connection of its own: the whole answer.
async fn ask(server: &FileServer, head: &str) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.to_lowercase(), answer[end + 4..].to_vec())
}

#[tokio::test]
async fn a_blob_arrives_whole_in_part_and_as_headers() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..200_000_u32).map(|it| (it % 251) as u8).collect();
    let digest = put(folder.path(), 1, &content);
    let server = start(&folder, &plain(), config()).await;
    let url = server.urls().of(&digest);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let path = path_of(&url);

    let (head, body) = ask(&server, &format!("GET {path} HTTP/1.1")).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains(&format!("etag: \"{digest}\"")), "{head}");
    assert_eq!(body, content);

    let rest = format!("GET {path} HTTP/1.1\r\nRange: bytes=150000-");
    let (head, body) = ask(&server, &rest).await;
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert!(
        head.contains("content-range: bytes 150000-199999/200000"),
        "{head}"
    );
    assert_eq!(body, content[150_000..]);

    let beyond = format!("GET {path} HTTP/1.1\r\nRange: bytes=200000-");
    let (head, body) = ask(&server, &beyond).await;
    assert!(head.starts_with("http/1.1 416"), "{head}");
    assert!(head.contains("content-range: bytes */200000"), "{head}");
    assert!(body.is_empty());

    let (head, body) = ask(&server, &format!("HEAD {path} HTTP/1.1")).await;
    assert!(head.contains("content-length: 200000"), "{head}");
    assert!(body.is_empty());
}

#[tokio::test]
async fn nothing_is_given_without_a_good_url() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        put(folder.path(), 1, b"one"),
        put(folder.path(), 2, b"other"),
    );
    let server = start(&folder, &plain(), config()).await;
    let url = server.urls().of(&one);
    let path = path_of(&url);
    for (asked, status) in [
        (path.replace(&one.to_hex(), &other.to_hex()), "403"),
        (path.split('?').next().unwrap().to_owned(), "403"),
        ("/url.key".to_owned(), "404"),
        ("/blobs/sha256/../../url.key".to_owned(), "404"),
        ("/blobs/sha256/%2e%2e/%2e%2e/url.key".to_owned(), "404"),
    ] {
        let (head, body) = ask(&server, &format!("GET {asked} HTTP/1.1")).await;
        assert!(
            head.starts_with(&format!("http/1.1 {status}")),
            "{asked}: {head}"
        );
        assert!(body.is_empty(), "{asked}");
    }
    let gone = server.urls().of(&Digest::from_sha256([3; 32]));
    let (head, _) = ask(&server, &format!("GET {} HTTP/1.1", path_of(&gone))).await;
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

#[tokio::test]
async fn a_url_outlives_a_restart_and_not_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let digest = put(folder.path(), 1, b"one");
    let short = FileServerConfig {
        url_lifetime: Duration::ZERO,
        ..config()
    };
    let server = start(&folder, &plain(), config()).await;
    let url = server.urls().of(&digest);
    drop(server);
    let server = start(&folder, &plain(), short).await;
    let (head, _) = ask(&server, &format!("GET {} HTTP/1.1", path_of(&url))).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");

    let expired = server.urls().of(&digest);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let (head, _) = ask(&server, &format!("GET {} HTTP/1.1", path_of(&expired))).await;
        if head.starts_with("http/1.1 403") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{head}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn clients_that_stall_are_cut_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let digest = put(folder.path(), 1, &vec![7; 64 << 20]);
    let patience = FileServerConfig {
        patience: Duration::from_millis(300),
        ..config()
    };
    let server = start(&folder, &plain(), patience).await;
    let url = server.urls().of(&digest);
    let path = path_of(&url);

    // One says nothing, one asks and does not read.
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    let mut deaf = TcpStream::connect(server.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();

    let (head, body) = ask(&server, &format!("GET {path} HTTP/1.1")).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(body.len(), 64 << 20);

    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        let mut rest = Vec::new();
        // Whether it ends in order or by a reset is the system's business.
        let _ = silent.read_to_end(&mut rest).await;
        // Nobody reads on this side, so only an attempt to write shows that the other side is gone.
        while deaf.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _ = deaf.read_to_end(&mut rest).await;
        rest.len()
    });
    let got = ended.await.expect("both connections end");
    assert!(got < 64 << 20, "the deaf client got all {got} bytes");
}

#[tokio::test]
async fn one_peer_cannot_take_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let digest = put(folder.path(), 1, b"one");
    let narrow = FileServerConfig {
        connections_per_peer: 2,
        ..config()
    };
    let server = start(&folder, &plain(), narrow).await;
    let url = server.urls().of(&digest);
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", path_of(&url));
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        held.push(connection);
    }
    let mut third = TcpStream::connect(server.address()).await.unwrap();
    let mut answer = Vec::new();
    let _ = third.write_all(request.as_bytes()).await;
    let _ = third.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "a third connection was served");
}

#[tokio::test]
async fn curl_fetches_and_resumes_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let content = vec![42; 300_000];
    let digest = put(folder.path(), 1, &content);
    let pki = Pki::new("unit-1").unwrap();
    let files = pki
        .issue(&CertSpec::node("main", "cm").localhost())
        .unwrap()
        .write_to(folder.path(), "cm")
        .unwrap();
    let ca = pki.write_ca(folder.path(), "ca").unwrap();
    let store = CertStore::open(FileCertSource::own_only(&files.cert, &files.key))
        .await
        .unwrap();
    let tls = ServerTls::server_only(&store, options()).unwrap();
    let server = start(&folder, &tls, config()).await;
    let url = server.urls().of(&digest);
    assert!(url.starts_with("https://"), "{url}");

    let out = folder.path().join("out");
    fs::write(&out, &content[..100_000]).unwrap();
    let curl = tokio::task::spawn_blocking({
        let out = out.clone();
        move || {
            Command::new("curl")
                .args(["-sSf", "-C", "-", "--cacert"])
                .arg(&ca)
                .arg("-o")
                .arg(&out)
                .arg(&url)
                .output()
                .unwrap()
        }
    });
    let done = curl.await.unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert_eq!(fs::read(&out).unwrap(), content);
}
