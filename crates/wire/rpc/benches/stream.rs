//! Messages per second through a reconnecting stream, side by side with a bare tonic stream in the
//! same run, and the memory of an idle server session.
//!
//! `cargo bench -p muster-rpc` prints a table; `MUSTER_BENCH_SESSIONS` sets how many idle sessions are
//! held.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run says so and ends"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_api::servicemanager::v5 as sm;
use muster_api::servicemanager::v5::alert::AlertItem;
use muster_api::servicemanager::v5::sm_outgoing_messages::SmOutgoingMessage as Out;
use muster_api::servicemanager::v5::sm_service_client::SmServiceClient;
use muster_api::servicemanager::v5::sm_service_server::{SmService, SmServiceServer};
use muster_rpc::link::FetchRange;
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use muster_rpc::session::{SessionConfig, SessionOutgoing, accept};
use muster_rpc::slots::ReplyKind;
use muster_rpc::{
    ChannelConfig, Protocol, Spool, SpoolError, StreamBuilder, StreamConfig, Target, channel,
};
use muster_tls::{ClientOptions, ClientTls, Insecure, ServerOptions, ServerTls};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

const MESSAGES: u64 = 100_000;

struct SmEnd;

impl Protocol for SmEnd {
    type Out = sm::SmOutgoingMessages;
    type In = sm::SmIncomingMessages;
    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    fn reply_kind(_: &Self::In) -> Option<ReplyKind> {
        None
    }
}

struct CmEnd;

impl Protocol for CmEnd {
    type Out = sm::SmIncomingMessages;
    type In = sm::SmOutgoingMessages;
    const METHOD: &'static str = SmEnd::METHOD;

    fn reply_kind(message: &Self::In) -> Option<ReplyKind> {
        match message.sm_outgoing_message {
            Some(Out::NodeConfigStatus(_)) => Some(ReplyKind("NodeConfigStatus")),
            _ => None,
        }
    }
}

/// Counts what arrives: with a bare stream, or with a session.
#[derive(Clone, Default)]
struct Counter {
    sessions: bool,
    received: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
}

type Responses = std::pin::Pin<
    Box<dyn tokio_stream::Stream<Item = Result<sm::SmIncomingMessages, Status>> + Send>,
>;

#[tonic::async_trait]
impl SmService for Counter {
    type RegisterSMStream = Responses;

    async fn register_sm(
        &self,
        request: Request<Streaming<sm::SmOutgoingMessages>>,
    ) -> Result<Response<Responses>, Status> {
        let mut inbound = request.into_inner();
        let received = Arc::clone(&self.received);
        self.open.fetch_add(1, Ordering::Relaxed);
        if self.sessions {
            let (session, mut incoming, outgoing): (_, _, SessionOutgoing<CmEnd>) =
                accept(inbound, SessionConfig::default());
            tokio::spawn(async move {
                while incoming.recv().await.is_some() {
                    received.fetch_add(1, Ordering::Relaxed);
                }
                drop(session);
            });
            return Ok(Response::new(Box::pin(outgoing)));
        }
        let (hold, outgoing) = mpsc::channel::<Result<sm::SmIncomingMessages, Status>>(1);
        tokio::spawn(async move {
            while let Ok(Some(_)) = inbound.message().await {
                received.fetch_add(1, Ordering::Relaxed);
            }
            drop(hold);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn get_blobs_infos(
        &self,
        _: Request<sm::BlobsInfosRequest>,
    ) -> Result<Response<sm::BlobsInfos>, Status> {
        Ok(Response::new(sm::BlobsInfos::default()))
    }
}

fn alert() -> sm::SmOutgoingMessages {
    let item = AlertItem::SystemAlert(sm::SystemAlert {
        message: "x".repeat(200),
    });
    let alert = sm::Alert {
        timestamp: None,
        alert_item: Some(item),
    };
    sm::SmOutgoingMessages {
        sm_outgoing_message: Some(Out::Alert(alert)),
    }
}

fn insecure() -> Insecure {
    Insecure::because("a benchmark on loopback").unwrap()
}

async fn serve(counter: Counter) -> RunningServer {
    ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .service(SmServiceServer::new(counter))
        .start(
            "127.0.0.1:0".parse().unwrap(),
            &ServerTls::insecure(insecure(), ServerOptions::default()),
        )
        .await
        .unwrap()
}

fn target(server: &RunningServer) -> Target {
    let tls = ClientTls::insecure(&insecure(), ClientOptions::default());
    Target::new(tls, &server.address().to_string()).unwrap()
}

async fn arrived(counter: &Counter, count: u64) {
    while counter.received.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

async fn bare() -> f64 {
    let counter = Counter::default();
    let server = serve(counter.clone()).await;
    let mut client = SmServiceClient::new(channel(&target(&server), ChannelConfig::default()));
    let (messages, outgoing) = mpsc::channel(64);
    // The answer's headers come when the server's handler has returned.
    let call = tokio::spawn(async move { client.register_sm(ReceiverStream::new(outgoing)).await });
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        messages.send(alert()).await.unwrap();
    }
    arrived(&counter, MESSAGES).await;
    let rate = MESSAGES as f64 / begin.elapsed().as_secs_f64();
    drop(messages);
    drop(call.await);
    server.shutdown().await;
    rate
}

async fn ephemeral() -> f64 {
    let counter = Counter {
        sessions: true,
        ..Counter::default()
    };
    let server = serve(counter.clone()).await;
    let (handle, _incoming) =
        StreamBuilder::<SmEnd>::new(target(&server), StreamConfig::default()).start();
    let mut status = handle.status();
    status
        .wait_for(|status| *status == muster_rpc::LinkStatus::Connected)
        .await
        .unwrap();
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        handle.send(&alert()).await.unwrap();
    }
    arrived(&counter, MESSAGES).await;
    let rate = MESSAGES as f64 / begin.elapsed().as_secs_f64();
    handle.stop().await;
    server.shutdown().await;
    rate
}

/// As many equal messages as are asked for; only the position is kept.
struct Endless {
    message: Bytes,
    confirmed: AtomicU64,
}

impl Spool for Endless {
    fn read(&self, range: FetchRange) -> Result<Vec<(u64, Bytes)>, SpoolError> {
        let fitting = (range.bytes / self.message.len()).clamp(1, range.messages);
        let ids = range.after + 1..=MESSAGES;
        Ok(ids
            .take(fitting)
            .map(|id| (id, self.message.clone()))
            .collect())
    }

    fn confirm(&self, up_to: u64) -> Result<(), SpoolError> {
        self.confirmed.store(up_to, Ordering::Relaxed);
        Ok(())
    }
}

async fn durable() -> f64 {
    let counter = Counter {
        sessions: true,
        ..Counter::default()
    };
    let server = serve(counter.clone()).await;
    let message = alert().encode_to_vec().into();
    let spool = Arc::new(Endless {
        message,
        confirmed: AtomicU64::new(0),
    });
    let begin = Instant::now();
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(&server), StreamConfig::default())
        .spool(Arc::clone(&spool) as _)
        .start();
    // All but a last window are confirmed at full speed; that one waits for its probe's delay.
    arrived(&counter, MESSAGES).await;
    let rate = MESSAGES as f64 / begin.elapsed().as_secs_f64();
    handle.stop().await;
    server.shutdown().await;
    rate
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

/// A session alone, without any transport: what this crate adds per peer.
async fn session_alone(count: u64) -> u64 {
    let mut held = Vec::with_capacity(usize::try_from(count).unwrap());
    let before = resident_bytes();
    for _ in 0..count {
        let inbound = tokio_stream::pending::<Result<sm::SmOutgoingMessages, Status>>();
        held.push(accept::<CmEnd, _>(inbound, SessionConfig::default()));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    resident_bytes().saturating_sub(before) / count
}

/// Client and server in one process: both ends of each connection, and the session.
async fn session_with_transport(count: u64) -> u64 {
    let counter = Counter {
        sessions: true,
        ..Counter::default()
    };
    let server = serve(counter.clone()).await;
    let mut held = Vec::new();
    let before = resident_bytes();
    for _ in 0..count {
        let stream = StreamBuilder::<SmEnd>::new(target(&server), StreamConfig::default());
        held.push(stream.start());
    }
    while counter.open.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let used = resident_bytes().saturating_sub(before) / count;
    for (handle, _) in held {
        drop(handle);
    }
    server.shutdown().await;
    used
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let sessions = std::env::var("MUSTER_BENCH_SESSIONS").ok();
        let sessions = sessions.and_then(|text| text.parse().ok()).unwrap_or(2000);
        // Memory first: nothing has grown the heap yet.
        let alone = session_alone(sessions).await;
        let both_ends = session_with_transport(sessions).await;
        let bare = bare().await;
        println!(
            "{:<44} {:>12} {:>7}",
            "200-byte messages, client to server", "messages/s", "ratio"
        );
        for (name, rate) in [
            ("bare tonic stream", bare),
            ("muster-rpc, ephemeral", ephemeral().await),
            ("muster-rpc, durable and confirmed", durable().await),
        ] {
            println!("{name:<44} {rate:>12.0} {:>7.2}", rate / bare);
        }
        println!("{:<44} {alone:>12} bytes", "idle session, alone");
        println!(
            "{:<44} {both_ends:>12} bytes",
            "idle session, connection and client included"
        );
    });
}
