//! The plugin `vis` against a real WebSocket server, which a test moves by hand.

use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use muster_api::domain::SubjectId;
use muster_identifier::{Identifier, IdentifierConfig, Identity, VisConfig, start};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{Alpn, CertStore, FileCertSource, ServerOptions, ServerTls};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

const TIME: Duration = Duration::from_secs(20);
/// How long the client waits for a peer; short, since some tests have it wait in vain.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the vehicle says.
struct Vehicle {
    vin: &'static str,
    model: Option<&'static str>,
    subjects: &'static [&'static str],
}

const VEHICLE: Vehicle = Vehicle {
    vin: "VIN-7",
    model: Some("sedan;3"),
    subjects: &["owner", "driver"],
};

struct Rig {
    listener: TcpListener,
    _identifier: Box<dyn Identifier>,
    identity: watch::Receiver<Identity>,
}

fn vis_config(params: &Value) -> VisConfig {
    let IdentifierConfig::Vis(mut config) = IdentifierConfig::parse("vis", params).expect("valid")
    else {
        unreachable!("vis was asked for")
    };
    config.timeout = PATIENCE;
    config.pauses = (Duration::from_millis(5), Duration::from_millis(40));
    config.ping_after = Duration::from_millis(100);
    config
}

async fn rig() -> Rig {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let params = json!({ "visServer": format!("ws://{address}/vis"), "insecure": true });
    let config = IdentifierConfig::Vis(vis_config(&params));
    let identifier = start(&config).await.expect("an identifier");
    let identity = identifier.subscribe();
    Rig {
        listener,
        _identifier: identifier,
        identity,
    }
}

impl Rig {
    async fn tcp(&self) -> TcpStream {
        let accepted = timeout(TIME, self.listener.accept())
            .await
            .expect("it connects");
        accepted.expect("a connection").0
    }

    async fn socket(&self) -> WebSocketStream<TcpStream> {
        accept_async(self.tcp().await).await.expect("a WebSocket")
    }

    /// A connection whose requests were all answered.
    async fn vehicle(&self, vehicle: &Vehicle) -> WebSocketStream<TcpStream> {
        let mut socket = self.socket().await;
        answer(&mut socket, vehicle).await;
        socket
    }

    async fn wait(&mut self, what: &str, condition: impl FnMut(&Identity) -> bool) -> Identity {
        wait(&mut self.identity, what, condition).await
    }
}

async fn wait(
    identity: &mut watch::Receiver<Identity>,
    what: &str,
    mut condition: impl FnMut(&Identity) -> bool,
) -> Identity {
    let latest = identity.clone();
    match timeout(TIME, identity.wait_for(|identity| condition(identity))).await {
        Ok(identity) => identity.expect("the task runs").clone(),
        Err(_) => panic!("{what}: {:?}", *latest.borrow()),
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    vehicle: &Vehicle,
) {
    for _ in 0..4 {
        let request = request(socket).await;
        let id = &request["requestId"];
        let reply = match (request["action"].as_str(), request["path"].as_str()) {
            (Some("subscribe"), Some("Attribute.Aos.Subjects")) => {
                json!({ "action": "subscribe", "requestId": id, "subscriptionId": "s1" })
            }
            (Some("get"), Some("Attribute.Aos.Subjects")) => {
                json!({ "action": "get", "requestId": id, "value": vehicle.subjects })
            }
            (Some("get"), Some("Attribute.Vehicle.VehicleIdentification.VIN")) => json!({
                "action": "get", "requestId": id,
                "value": { "Attribute.Vehicle.VehicleIdentification.VIN": vehicle.vin },
            }),
            (Some("get"), Some("Attribute.Aos.UnitModel")) => match vehicle.model {
                Some(model) => json!({ "action": "get", "requestId": id, "value": model }),
                None => json!({ "action": "get", "requestId": id, "error": { "number": 404 } }),
            },
            _ => panic!("{request}"),
        };
        send(socket, &reply).await;
    }
}

async fn request<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>) -> Value {
    loop {
        let message = timeout(TIME, socket.next())
            .await
            .expect("a message in time");
        match message.expect("an open socket").expect("a message") {
            Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn send<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>, message: &Value) {
    socket
        .send(Message::text(message.to_string()))
        .await
        .expect("sent");
}

fn names(identity: &Identity) -> Vec<&str> {
    identity.subjects.iter().map(SubjectId::as_str).collect()
}

fn settled(identity: &Identity) -> bool {
    identity.system.is_some() && identity.problem.is_none()
}

#[tokio::test]
async fn a_vehicle_tells_who_it_is_and_for_whom_it_drives() {
    let mut rig = rig().await;
    let mut socket = rig.vehicle(&VEHICLE).await;
    let identity = rig
        .wait("an identity", |identity| {
            settled(identity) && identity.subjects.len() == 2
        })
        .await;
    let system = identity.system.clone().expect("a system");
    assert_eq!(
        (
            system.system_id.as_str(),
            system.unit_model.as_str(),
            system.version.as_str()
        ),
        ("VIN-7", "sedan", "3")
    );
    assert_eq!(names(&identity), ["driver", "owner"]);
    for (subjects, expected) in [
        (json!(["guest"]), &["guest"][..]),
        (
            json!({ "Attribute.Aos.Subjects": ["b", "a", "x/y"] }),
            &["a", "b"][..],
        ),
        (json!([]), &[][..]),
    ] {
        let change = json!({ "action": "subscription", "subscriptionId": "s1", "value": subjects });
        send(&mut socket, &change).await;
        rig.wait("the change", |identity| names(identity) == expected)
            .await;
    }
}

#[tokio::test]
async fn a_vehicle_without_a_model_is_one() {
    let mut rig = rig().await;
    let vehicle = Vehicle {
        model: None,
        ..VEHICLE
    };
    let _socket = rig.vehicle(&vehicle).await;
    let identity = rig.wait("an identity", settled).await;
    assert_eq!(identity.system.expect("a system").unit_model, "");
}

#[tokio::test]
async fn a_cut_leaves_what_was_known_and_missed_changes_come_with_the_next_connection() {
    let mut rig = rig().await;
    for round in 0..5 {
        let socket = rig.vehicle(&VEHICLE).await;
        let identity = rig
            .wait("an identity", |identity| {
                settled(identity) && identity.subjects.len() == 2
            })
            .await;
        assert_eq!(names(&identity), ["driver", "owner"], "round {round}");
        drop(socket);
        let identity = rig
            .wait("the loss", |identity| identity.problem.is_some())
            .await;
        assert_eq!(names(&identity), ["driver", "owner"]);
        assert!(identity.system.is_some());
    }
    let changed = Vehicle {
        subjects: &["guest"],
        ..VEHICLE
    };
    let _socket = rig.vehicle(&changed).await;
    rig.wait("the guest", |identity| {
        settled(identity) && names(identity) == ["guest"]
    })
    .await;
}

#[tokio::test]
async fn garbage_in_every_layer_ends_the_connection_and_nothing_else() {
    let mut rig = rig().await;
    drop(rig.vehicle(&VEHICLE).await);
    // Not HTTP.
    let mut tcp = rig.tcp().await;
    tcp.write_all(&[0xff; 2000]).await.expect("sent");
    drop(tcp);
    // HTTP, but no WebSocket.
    let mut tcp = rig.tcp().await;
    tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno")
        .await
        .expect("sent");
    drop(tcp);
    // Not JSON, not VISS, too long, not text, broken frames.
    for text in ["{", "[1,2]", "{\"action\":\"get\"}", &"[".repeat(200_000)] {
        let mut socket = rig.socket().await;
        socket.send(Message::text(text)).await.expect("sent");
        expect_end(&mut socket).await;
    }
    let mut socket = rig.socket().await;
    // The client gives up while this is being sent.
    let _ = socket.send(Message::text("x".repeat(3 << 20))).await;
    expect_end(&mut socket).await;
    let mut socket = rig.socket().await;
    socket
        .get_mut()
        .write_all(&[0x8f, 0xff, 0xff, 0x01])
        .await
        .expect("sent");
    expect_end(&mut socket).await;
    // Answers that cannot be used.
    for reply in [
        json!({ "action": "get", "requestId": "2", "value": "bad\u{0}id" }),
        json!({ "action": "get", "requestId": "2", "value": { "other": 1 } }),
        json!({ "action": "subscribe", "requestId": "1", "error": { "number": 403, "reason": "forbidden" } }),
    ] {
        let mut socket = rig.socket().await;
        send(&mut socket, &reply).await;
        expect_end(&mut socket).await;
    }
    let identity = rig
        .wait("the last reason", |identity| {
            identity
                .problem
                .as_ref()
                .is_some_and(|problem| problem.contains("403 forbidden"))
        })
        .await;
    assert_eq!(
        names(&identity),
        ["driver", "owner"],
        "what was known stays"
    );
    let _socket = rig.vehicle(&VEHICLE).await;
    rig.wait("recovery", settled).await;
}

/// Reads what the client sends until it ends the connection.
async fn expect_end(socket: &mut WebSocketStream<TcpStream>) {
    let drained = async { while let Some(Ok(_)) = socket.next().await {} };
    timeout(TIME, drained)
        .await
        .expect("the client ends the connection");
}

#[tokio::test]
async fn a_peer_that_stalls_anywhere_is_given_up() {
    let mut rig = rig().await;
    // Silent before the handshake.
    let mut silent = rig.tcp().await;
    let mut request = Vec::new();
    timeout(TIME, silent.read_to_end(&mut request))
        .await
        .expect("given up")
        .expect("closed");
    assert!(String::from_utf8_lossy(&request).contains("Upgrade: websocket"));
    // Half of the answers.
    let mut half = rig.socket().await;
    send(
        &mut half,
        &json!({ "action": "get", "requestId": "2", "value": "VIN-7" }),
    )
    .await;
    expect_end(&mut half).await;
    let identity = rig
        .wait("a reason", |identity| identity.problem.is_some())
        .await;
    assert_eq!(identity.system, None);
    assert!(
        identity
            .problem
            .expect("a reason")
            .contains("did not answer within")
    );
    // Settled, and then neither data nor pongs: the server stops reading.
    let frozen = rig.vehicle(&VEHICLE).await;
    rig.wait("an identity", settled).await;
    let identity = rig
        .wait("the freeze", |identity| identity.problem.is_some())
        .await;
    assert!(identity.system.is_some());
    drop(frozen);
    // A server that answers pings is kept, however long it has nothing to say.
    let mut socket = rig.vehicle(&VEHICLE).await;
    rig.wait("an identity", settled).await;
    for _ in 0..4 {
        let message = timeout(TIME, socket.next()).await.expect("a ping in time");
        let message = message.expect("open").expect("a message");
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
    }
    assert!(settled(&rig.identity.borrow()));
}

async fn tls_server(folder: &Path, pki: &Pki) -> muster_tls::Incoming {
    let issued = pki
        .issue(&CertSpec::node("ivi", "vis").dns("localhost"))
        .expect("a certificate");
    let files = issued.write_to(folder, "vis").expect("files");
    let store = CertStore::open(FileCertSource::own_only(files.cert, files.key))
        .await
        .expect("a store");
    let options = ServerOptions {
        alpn: Alpn::Http1,
        ..ServerOptions::default()
    };
    let server = ServerTls::server_only(&store, options).expect("a server");
    server.incoming(TcpListener::bind("127.0.0.1:0").await.expect("a port"))
}

#[tokio::test]
async fn only_a_server_of_the_ca_is_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pki, stranger) = (
        Pki::new("unit-7").expect("a CA"),
        Pki::new("unit-8").expect("a CA"),
    );
    let ca = pki.write_ca(folder.path(), "ca").expect("a file");
    let mut incoming = tls_server(folder.path(), &pki).await;
    let port = incoming.local_addr().expect("an address").port();
    let params = |ca: &Path, host: &str| json!({ "visServer": format!("wss://{host}:{port}"), "caCertFile": ca });
    let start = async |params: Value| start(&IdentifierConfig::Vis(vis_config(&params))).await;

    let identifier = start(params(&ca, "localhost"))
        .await
        .expect("an identifier");
    let accepted = timeout(TIME, incoming.next()).await.expect("it connects");
    let mut socket = accept_async(accepted.expect("open").expect("TLS"))
        .await
        .expect("a WebSocket");
    answer(&mut socket, &VEHICLE).await;
    wait(&mut identifier.subscribe(), "an identity", settled).await;
    drop(identifier);

    let other = stranger.write_ca(folder.path(), "other").expect("a file");
    // Of another CA, and under another name than its certificate's.
    for params in [params(&other, "localhost"), params(&ca, "127.0.0.1")] {
        let identifier = start(params).await.expect("an identifier");
        let identity = wait(&mut identifier.subscribe(), "a refusal", |identity| {
            identity.problem.is_some()
        })
        .await;
        assert_eq!(identity.system, None);
        let problem = identity.problem.expect("a problem");
        assert!(problem.contains("no TLS connection"), "{problem}");
    }
    let missing = params(&folder.path().join("none.pem"), "localhost");
    let error = start(missing).await.expect_err("no CA");
    assert!(error.to_string().contains("none.pem"), "{error}");
}
