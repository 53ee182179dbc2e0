//! What the driver of a link holds towards its peer: an attempt, or an open stream.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::{Request, Status, Streaming};

use crate::connection::{BoxFuture, Connection, Dial, DialError, Keepalive};
use crate::ledger::Ledger;
use crate::link::Epoch;
use crate::protocol::EncodedCodec;

/// What the peer, or the way to it, did.
#[derive(Debug)]
pub(crate) enum PeerEvent<In> {
    Dialled(Connection),
    DialFailed(DialError),
    Accepted,
    Message(In),
    /// The stream is over; nothing when the peer ended it without an error.
    Closed(Option<Status>),
    Progress,
    Probed(bool),
}

#[derive(Default)]
pub(crate) enum Peer<In> {
    #[default]
    Absent,
    Dialling(Epoch, BoxFuture<Result<Connection, DialError>>),
    Open(Box<OpenStream<In>>),
}

impl<In: Message + Default + 'static> Peer<In> {
    pub(crate) fn dial(epoch: Epoch, dial: Arc<dyn Dial>, keepalive: Keepalive) -> Self {
        Self::Dialling(
            epoch,
            Box::pin(async move { Connection::open(&*dial, keepalive).await }),
        )
    }

    pub(crate) fn stream(&mut self) -> Option<&mut OpenStream<In>> {
        match self {
            Self::Open(stream) => Some(stream),
            Self::Absent | Self::Dialling(..) => None,
        }
    }

    /// The next thing that happens. May be dropped and called again. With `paused`, messages are
    /// left in the stream, and so held back at the peer.
    pub(crate) async fn next(&mut self, paused: bool) -> (Epoch, PeerEvent<In>) {
        match self {
            Self::Absent => pending().await,
            Self::Dialling(epoch, attempt) => {
                let event = match attempt.await {
                    Ok(connection) => PeerEvent::Dialled(connection),
                    Err(error) => PeerEvent::DialFailed(error),
                };
                let epoch = *epoch;
                *self = Self::Absent;
                (epoch, event)
            }
            Self::Open(stream) => (stream.epoch, stream.next(paused).await),
        }
    }
}

/// The answer to the call that opened the stream, then what it carries.
enum Inbound<In> {
    Calling(BoxFuture<Result<Streaming<In>, Status>>),
    Streaming(Box<Streaming<In>>),
}

pub(crate) struct OpenStream<In> {
    epoch: Epoch,
    outbound: Option<mpsc::Sender<Bytes>>,
    inbound: Inbound<In>,
    probe: Option<BoxFuture<bool>>,
    connection: Connection,
}

/// The bounds a stream is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamBounds {
    /// The link never hands over more messages than this before the ledger has seen them leave.
    pub(crate) outbound: usize,
    pub(crate) message_bytes: usize,
}

impl<In: Message + Default + 'static> OpenStream<In> {
    /// Opens the stream without waiting for the peer's headers: some servers send them only with
    /// their first message, and that may depend on what we say first.
    pub(crate) fn open(
        epoch: Epoch,
        connection: Connection,
        method: &'static str,
        bounds: StreamBounds,
    ) -> Self {
        let (outbound, messages) = mpsc::channel(bounds.outbound);
        let mut client = Grpc::with_origin(connection.service(), connection.origin())
            .max_decoding_message_size(bounds.message_bytes)
            .max_encoding_message_size(bounds.message_bytes);
        let call = async move {
            client
                .ready()
                .await
                .map_err(|error| Status::from_error(Box::new(error)))?;
            let request = Request::new(ReceiverStream::new(messages));
            let path = PathAndQuery::from_static(method);
            let response = client.streaming(request, path, EncodedCodec::new()).await?;
            Ok(response.into_inner())
        };
        let inbound = Inbound::Calling(Box::pin(call));
        Self {
            epoch,
            outbound: Some(outbound),
            inbound,
            probe: None,
            connection,
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.connection.ledger()
    }

    pub(crate) fn write(&self, message: Bytes) {
        if let Some(outbound) = &self.outbound {
            // Never full: the link's credit is the channel's capacity. Closed: the stream is over,
            // which arrives as an event of its own.
            let _ = outbound.try_send(message);
        }
    }

    pub(crate) fn probe(&mut self) {
        self.probe = Some(self.connection.probe());
    }

    /// Ends our half after what was written; the peer sees an orderly end.
    pub(crate) fn finish(&mut self) {
        self.outbound = None;
    }

    pub(crate) async fn next(&mut self, paused: bool) -> PeerEvent<In> {
        let Self {
            inbound,
            probe,
            connection,
            ..
        } = self;
        tokio::select! {
            // Messages before everything that may end the stream: what arrived is delivered.
            biased;
            event = inbound.next(), if !paused => event,
            answered = run_probe(probe) => PeerEvent::Probed(answered),
            () = connection.ledger().progress() => PeerEvent::Progress,
            // Reading notices the end by itself; while it is paused nobody would.
            () = connection.closed(), if paused => PeerEvent::Closed(None),
        }
    }
}

async fn run_probe(probe: &mut Option<BoxFuture<bool>>) -> bool {
    let Some(running) = probe else {
        return pending().await;
    };
    let answered = running.await;
    *probe = None;
    answered
}

impl<In: Message + Default + 'static> Inbound<In> {
    async fn next(&mut self) -> PeerEvent<In> {
        match self {
            Self::Calling(call) => match call.await {
                Ok(stream) => {
                    *self = Self::Streaming(Box::new(stream));
                    PeerEvent::Accepted
                }
                Err(status) => PeerEvent::Closed(Some(status)),
            },
            Self::Streaming(stream) => match stream.message().await {
                Ok(Some(message)) => PeerEvent::Message(message),
                Ok(None) => PeerEvent::Closed(None),
                Err(status) => PeerEvent::Closed(Some(status)),
            },
        }
    }
}
