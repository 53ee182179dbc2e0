//! A Service Manager and a Communication Manager reduced to their stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use muster_api::servicemanager::v5 as sm;
use muster_api::servicemanager::v5::alert::AlertItem;
use muster_api::servicemanager::v5::sm_service_server::{SmService, SmServiceServer};
use muster_rpc::link::{BackoffLimits, FetchRange, LinkLimits, WindowLimits};
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use muster_rpc::session::{Session, SessionConfig, SessionIncoming, SessionOutgoing, accept};
use muster_rpc::slots::{ReplyKind, SlotLimits};
use muster_rpc::{Keepalive, ListenAddress, Protocol, Spool, SpoolError, StreamConfig, Target};
use muster_tls::{ClientOptions, ClientTls, Insecure, ServerOptions, ServerTls};
use prost::Message;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

pub(crate) use sm::sm_incoming_messages::SmIncomingMessage as In;
pub(crate) use sm::sm_outgoing_messages::SmOutgoingMessage as Out;

pub(crate) const CONFIG_STATUS: ReplyKind = ReplyKind("NodeConfigStatus");
/// The Service Manager has no requests of its own; these tests let it ask with `LogData` and be
/// answered with `SystemLogRequest`.
pub(crate) const ECHO: ReplyKind = ReplyKind("SystemLogRequest");

pub(crate) struct SmEnd;

impl Protocol for SmEnd {
    type Out = sm::SmOutgoingMessages;
    type In = sm::SmIncomingMessages;
    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    fn reply_kind(message: &Self::In) -> Option<ReplyKind> {
        match message.sm_incoming_message {
            Some(In::SystemLogRequest(_)) => Some(ECHO),
            _ => None,
        }
    }
}

pub(crate) struct CmEnd;

impl Protocol for CmEnd {
    type Out = sm::SmIncomingMessages;
    type In = sm::SmOutgoingMessages;
    const METHOD: &'static str = SmEnd::METHOD;

    fn reply_kind(message: &Self::In) -> Option<ReplyKind> {
        match message.sm_outgoing_message {
            Some(Out::NodeConfigStatus(_)) => Some(CONFIG_STATUS),
            _ => None,
        }
    }
}

pub(crate) fn to_cm(message: Out) -> sm::SmOutgoingMessages {
    sm::SmOutgoingMessages {
        sm_outgoing_message: Some(message),
    }
}

pub(crate) fn to_sm(message: In) -> sm::SmIncomingMessages {
    sm::SmIncomingMessages {
        sm_incoming_message: Some(message),
    }
}

pub(crate) fn hello() -> Vec<sm::SmOutgoingMessages> {
    let info = sm::SmInfo {
        node_id: "node-1".into(),
        ..Default::default()
    };
    vec![
        to_cm(Out::SmInfo(info)),
        to_cm(Out::NodeInstancesStatus(sm::NodeInstancesStatus::default())),
    ]
}

pub(crate) fn alert(text: &str) -> sm::SmOutgoingMessages {
    let item = AlertItem::SystemAlert(sm::SystemAlert {
        message: text.into(),
    });
    to_cm(Out::Alert(sm::Alert {
        timestamp: None,
        alert_item: Some(item),
    }))
}

pub(crate) fn alert_text(message: sm::SmOutgoingMessages) -> Option<String> {
    match message.sm_outgoing_message? {
        Out::Alert(sm::Alert {
            alert_item: Some(AlertItem::SystemAlert(alert)),
            ..
        }) => Some(alert.message),
        _ => None,
    }
}

pub(crate) fn check_config(tag: &str) -> sm::SmIncomingMessages {
    to_sm(In::CheckNodeConfig(sm::CheckNodeConfig {
        node_config: "{}".into(),
        version: tag.into(),
    }))
}

pub(crate) fn config_status(tag: &str) -> sm::SmOutgoingMessages {
    to_cm(Out::NodeConfigStatus(sm::NodeConfigStatus {
        version: tag.into(),
        ..Default::default()
    }))
}

pub(crate) fn config_tag(message: sm::SmOutgoingMessages) -> String {
    match message.sm_outgoing_message {
        Some(Out::NodeConfigStatus(status)) => status.version,
        other => panic!("not an answer: {other:?}"),
    }
}

pub(crate) fn echo_request(tag: &str) -> sm::SmOutgoingMessages {
    to_cm(Out::Log(sm::LogData {
        correlation_id: tag.into(),
        ..Default::default()
    }))
}

pub(crate) fn echo_reply(tag: &str) -> sm::SmIncomingMessages {
    let reply = sm::SystemLogRequest {
        correlation_id: tag.into(),
        ..Default::default()
    };
    to_sm(In::SystemLogRequest(reply))
}

pub(crate) fn echo_tag(message: sm::SmIncomingMessages) -> String {
    match message.sm_incoming_message {
        Some(In::SystemLogRequest(reply)) => reply.correlation_id,
        other => panic!("not an answer: {other:?}"),
    }
}

/// Short times, so that tests of what happens after them are short too.
pub(crate) fn quick() -> StreamConfig {
    StreamConfig {
        limits: LinkLimits {
            backoff: BackoffLimits {
                floor: Duration::from_millis(2),
                first: Duration::from_millis(10),
                ceiling: Duration::from_millis(20),
                healthy_after: Duration::from_millis(100),
            },
            dial_timeout: Duration::from_millis(500),
            slots: SlotLimits {
                deadline: Duration::from_secs(5),
                ..SlotLimits::default()
            },
            window: WindowLimits {
                probe_delay: Duration::from_millis(5),
                ..WindowLimits::default()
            },
            ..LinkLimits::default()
        },
        keepalive: Keepalive {
            interval: Duration::from_millis(500),
            timeout: Duration::from_millis(500),
        },
        ..StreamConfig::default()
    }
}

fn insecure() -> Insecure {
    Insecure::because("a test on loopback").unwrap()
}

pub(crate) fn client_tls() -> ClientTls {
    ClientTls::insecure(&insecure(), ClientOptions::default())
}

pub(crate) fn server_tls() -> ServerTls {
    ServerTls::insecure(insecure(), ServerOptions::default())
}

pub(crate) fn target(address: std::net::SocketAddr) -> Target {
    Target::new(client_tls(), &address.to_string()).unwrap()
}

pub(crate) type Accepted = (Session<CmEnd>, SessionIncoming<CmEnd>);

/// Hands every stream to the test.
struct Cm {
    streams: mpsc::Sender<Accepted>,
    config: SessionConfig,
}

#[tonic::async_trait]
impl SmService for Cm {
    type RegisterSMStream = SessionOutgoing<CmEnd>;

    async fn register_sm(
        &self,
        request: Request<Streaming<sm::SmOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterSMStream>, Status> {
        let (session, incoming, outgoing) = accept(request.into_inner(), self.config);
        let handed = self.streams.send((session, incoming)).await;
        handed.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(outgoing))
    }

    async fn get_blobs_infos(
        &self,
        request: Request<sm::BlobsInfosRequest>,
    ) -> Result<Response<sm::BlobsInfos>, Status> {
        let urls = request.into_inner().digests;
        Ok(Response::new(sm::BlobsInfos { urls }))
    }
}

pub(crate) async fn start_cm(
    config: ServerConfig,
    sessions: SessionConfig,
) -> (RunningServer, mpsc::Receiver<Accepted>) {
    start_cm_at(
        "127.0.0.1:0".parse().unwrap(),
        &server_tls(),
        config,
        sessions,
    )
    .await
}

pub(crate) async fn start_cm_at(
    address: ListenAddress,
    tls: &ServerTls,
    config: ServerConfig,
    sessions: SessionConfig,
) -> (RunningServer, mpsc::Receiver<Accepted>) {
    let (streams, accepted) = mpsc::channel(16);
    let service = SmServiceServer::new(Cm {
        streams,
        config: sessions,
    });
    let server = ServerBuilder::new(config, muster_api::FILE_DESCRIPTOR_SET)
        .service(service)
        .start(address, tls)
        .await
        .unwrap();
    (server, accepted)
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within twenty seconds")
}

/// Waits for a condition without blocking the runtime.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let patience = Duration::from_secs(30);
    assert!(
        tokio::time::timeout(patience, waiting).await.is_ok(),
        "not in time: {what}"
    );
}

/// A spool in memory that checks what the link may not do.
#[derive(Default)]
pub(crate) struct MemorySpool(Mutex<SpoolState>);

#[derive(Default)]
struct SpoolState {
    messages: BTreeMap<u64, Bytes>,
    last: u64,
    confirmed: u64,
}

impl MemorySpool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn append(&self, message: impl FnOnce(u64) -> sm::SmOutgoingMessages) -> u64 {
        let mut state = self.0.lock().unwrap();
        state.last += 1;
        let id = state.last;
        state
            .messages
            .insert(id, message(id).encode_to_vec().into());
        id
    }

    pub(crate) fn confirmed(&self) -> u64 {
        self.0.lock().unwrap().confirmed
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().messages.len()
    }
}

impl Spool for MemorySpool {
    fn read(&self, range: FetchRange) -> Result<Vec<(u64, Bytes)>, SpoolError> {
        let state = self.0.lock().unwrap();
        let mut bytes = 0;
        let batch = state.messages.range(range.after + 1..).take(range.messages);
        Ok(batch
            .take_while(|(_, message)| {
                let first = bytes == 0;
                bytes += message.len();
                first || bytes <= range.bytes
            })
            .map(|(id, message)| (*id, message.clone()))
            .collect())
    }

    fn confirm(&self, up_to: u64) -> Result<(), SpoolError> {
        let mut state = self.0.lock().unwrap();
        assert!(up_to > state.confirmed && up_to <= state.last);
        state.confirmed = up_to;
        state.messages.retain(|id, _| *id > up_to);
        Ok(())
    }
}
