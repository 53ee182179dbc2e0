//! The listeners: discovery, and the WebSocket.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use http::Uri;
use muster_tls::{
    Alpn, CertStore, FileCertSource, IdentityPolicy, Insecure, ServerOptions, ServerTls, TlsIo,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::serve;
use super::{Shared, TOKEN, TestTls};
use crate::message::VERSION;

/// No step of an honest client takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn run(
    shared: Arc<Shared>,
    tls: Option<TestTls>,
    mut stopped: watch::Receiver<bool>,
    ready: &SyncSender<Uri>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        let protected = tls.is_some();
        let server = server(tls).await;
        let discovery = listener().await;
        let socket = listener().await;
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let scheme = |plain: &str, secure: &str| if protected { secure } else { plain }.to_owned();
        let address = format!("{}://127.0.0.1:{}/v7", scheme("ws", "wss"), port(&socket));
        let uri = format!(
            "{}://127.0.0.1:{}/sd/v7/",
            scheme("http", "https"),
            port(&discovery)
        );
        ready
            .send(uri.parse().expect("an address"))
            .expect("whoever starts it waits");
        let mut discovery = server.incoming(discovery);
        let mut socket = server.incoming(socket);
        loop {
            tokio::select! {
                _ = stopped.changed() => return,
                Some(io) = discovery.accept() => {
                    let (shared, address) = (Arc::clone(&shared), address.clone());
                    tokio::spawn(async move {
                        // A client that goes away is its own business.
                        let _answered = timeout(PATIENCE, discover(&shared, io, &address)).await;
                    });
                }
                Some(io) = socket.accept() => {
                    tokio::spawn(serve(Arc::clone(&shared), io));
                }
            }
        }
    });
}

async fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    listener.expect("a port on loopback")
}

async fn server(tls: Option<TestTls>) -> ServerTls {
    let options = ServerOptions {
        alpn: Alpn::Http1,
        ..ServerOptions::default()
    };
    match tls {
        None => {
            let reason = Insecure::because("a cloud for tests").expect("a reason");
            ServerTls::insecure(reason, options)
        }
        Some(files) => {
            let source = FileCertSource::mutual(files.cert, files.key, files.ca);
            let store = CertStore::open(source).await.expect("certificates");
            let policy = IdentityPolicy::spiffe_only().allow_unidentified();
            ServerTls::mutual(&store, policy, options).expect("a TLS server")
        }
    }
}

/// Answers one request and closes, as the Unit asks.
async fn discover(shared: &Shared, mut io: TlsIo, address: &str) -> io::Result<()> {
    let request = read_request(&mut io).await?;
    let (head, body) = request;
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, answer) = shared.change(|state| {
        state.seen.discoveries += 1;
        let expected = json!({
            "version": VERSION, "systemId": shared.system_id, "supportedProtocols": ["wss"],
        });
        if question != expected {
            let problem = format!("discovery was asked {question}");
            state.seen.problems.push(problem);
        }
        let lower = head.to_ascii_lowercase();
        for part in [
            "post /sd/v7/ http/1.1",
            "accept: application/json",
            "content-type: application/json",
        ] {
            if !lower.contains(part) {
                let problem = format!("discovery's request lacks {part}");
                state.seen.problems.push(problem);
            }
        }
        let behaviour = &state.behaviour;
        let mut urls = behaviour.wrong_addresses.clone();
        urls.push(address.to_owned());
        let answer = behaviour.discovery_body.clone();
        (
            behaviour.discovery_status.unwrap_or(200),
            answer.unwrap_or_else(|| {
                json!({
                    "version": VERSION, "systemId": shared.system_id, "nextRequestDelay": 0,
                    "connectionInfo": urls, "authToken": TOKEN, "errorCode": 0,
                })
                .to_string()
            }),
        )
    });
    let response = format!(
        "HTTP/1.1 {status} It\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
        answer.len()
    );
    io.write_all(response.as_bytes()).await?;
    io.shutdown().await
}

/// The head as text, and the body that its length says.
async fn read_request(io: &mut TlsIo) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut part = [0; 1024];
        let count = io.read(&mut part).await?;
        if count == 0 || bytes.len() > 64 * 1024 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..count]);
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
    };
    let body = bytes.split_off(end + 4);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let named = name.eq_ignore_ascii_case("content-length");
        named.then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = body;
    while body.len() < length.unwrap_or(0).min(64 * 1024) {
        let mut part = [0; 1024];
        let count = io.read(&mut part).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        body.extend_from_slice(&part[..count]);
    }
    Ok((head, body))
}
