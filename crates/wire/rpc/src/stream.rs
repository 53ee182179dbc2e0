//! The client's end: a stream that reconnects, as its owner sees it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::command::CommandSender;
use crate::connection::{Dial, Keepalive};
use crate::driver::{Driver, Submission, Wiring};
use crate::link::{Epoch, LinkLimits, LinkStats};
use crate::protocol::Protocol;
use crate::slots::{AskError, ReplyKind};
use crate::spool::{Spool, SpoolRunner};

/// Everything that can be set about a reconnecting stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// Bounds of the state machine.
    pub limits: LinkLimits,
    /// HTTP/2 keepalive.
    pub keepalive: Keepalive,
    /// Received messages that wait for the owner; when they are this many, the peer waits.
    pub incoming: usize,
    /// Messages and requests that wait for the driver; when they are this many, senders wait.
    pub commands: usize,
    /// How long a stopped stream waits for the peer to end it too.
    pub linger: Duration,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            limits: LinkLimits::default(),
            keepalive: Keepalive::default(),
            incoming: 64,
            commands: 64,
            linger: Duration::from_secs(1),
        }
    }
}

/// Whether there is a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// Connecting, or waiting to.
    Disconnected,
    /// A stream is open.
    Connected,
    /// Ended for good, or about to.
    Stopping,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The stream was stopped.
    #[error("the message was not sent: the stream was stopped")]
    Stopped,
    /// The message is longer than the peer may be sent.
    #[error("the message has {len} bytes, more than the {limit} allowed")]
    TooLong {
        /// The message's length.
        len: usize,
        /// The limit.
        limit: usize,
    },
}

/// A stream about to be started.
pub struct StreamBuilder<P: Protocol> {
    dial: Arc<dyn Dial>,
    config: StreamConfig,
    hello: Box<dyn FnMut() -> Vec<Bytes> + Send>,
    spool: Option<Arc<dyn Spool>>,
    protocol: std::marker::PhantomData<P>,
}

impl<P: Protocol> fmt::Debug for StreamBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamBuilder")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<P: Protocol> StreamBuilder<P> {
    /// A stream without hello and spool.
    pub fn new(dial: impl Dial, config: StreamConfig) -> Self {
        Self {
            dial: Arc::new(dial),
            config,
            hello: Box::new(Vec::new),
            spool: None,
            protocol: std::marker::PhantomData,
        }
    }

    /// What every new stream begins with: the owner's whole state at that moment. Called by the
    /// driver once per connection; it must not block.
    pub fn hello(mut self, mut snapshot: impl FnMut() -> Vec<P::Out> + Send + 'static) -> Self {
        self.hello = Box::new(move || {
            snapshot()
                .iter()
                .map(|message| message.encode_to_vec().into())
                .collect()
        });
        self
    }

    /// Where durable messages come from.
    pub fn spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.spool = Some(spool);
        self
    }

    /// Starts the driver task. It ends when [`StreamHandle::stop`] is called or every handle is
    /// dropped. Must be called inside a tokio runtime.
    pub fn start(self) -> (StreamHandle<P>, StreamIncoming<P>) {
        let (commands, command_queue) = CommandSender::new(self.config.commands);
        let (incoming_queue, incoming) = mpsc::channel(self.config.incoming);
        let (status_out, status) = watch::channel(LinkStatus::Disconnected);
        let shared = Arc::new(Shared {
            message_bytes: self.config.limits.message_bytes,
            deadline: self.config.limits.slots.deadline,
            offered: Arc::default(),
            stats: Arc::default(),
            stop: CancellationToken::new(),
            status,
        });
        let wiring = Wiring {
            dial: self.dial,
            hello: self.hello,
            spool: self.spool.map(SpoolRunner::new),
            commands: command_queue,
            incoming: incoming_queue,
            offered: Arc::clone(&shared.offered),
            status: status_out,
            stats: Arc::clone(&shared.stats),
            stop: shared.stop.clone(),
        };
        let StreamConfig {
            limits,
            keepalive,
            linger,
            ..
        } = self.config;
        tokio::spawn(Driver::<P>::new(limits, keepalive, linger, wiring).run());
        (
            StreamHandle { commands, shared },
            StreamIncoming { incoming },
        )
    }
}

#[derive(Debug)]
struct Shared {
    message_bytes: usize,
    deadline: Duration,
    offered: Arc<Notify>,
    stats: Arc<Mutex<LinkStats>>,
    stop: CancellationToken,
    status: watch::Receiver<LinkStatus>,
}

/// Sends on a reconnecting stream. Cheap to clone; the stream lives as long as any handle.
pub struct StreamHandle<P: Protocol> {
    commands: CommandSender<Submission, Bytes, P::In>,
    shared: Arc<Shared>,
}

impl<P: Protocol> Clone for StreamHandle<P> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<P: Protocol> fmt::Debug for StreamHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamHandle")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl<P: Protocol> StreamHandle<P> {
    /// Sends an ephemeral message: dropped (and counted) while there is no stream, not repeated if
    /// it breaks. Waits while the queue is full.
    pub async fn send(&self, message: &P::Out) -> Result<(), SendError> {
        self.submit(message, None).await
    }

    /// Sends what a message received on `stream` asked for. If that stream has been replaced the
    /// message is dropped (and counted): on another stream, where answers are told apart only by
    /// their type, it would pass for the answer to another request.
    pub async fn reply(&self, stream: Epoch, message: &P::Out) -> Result<(), SendError> {
        self.submit(message, Some(stream)).await
    }

    async fn submit(&self, message: &P::Out, only: Option<Epoch>) -> Result<(), SendError> {
        let limit = self.shared.message_bytes;
        let len = message.encoded_len();
        if len > limit {
            return Err(SendError::TooLong { len, limit });
        }
        let message = message.encode_to_vec().into();
        self.commands
            .send((message, only))
            .await
            .map_err(|_| SendError::Stopped)
    }

    /// Sends a request and waits for its answer, as long as the configuration says.
    pub async fn ask(&self, request: &P::Out, kind: ReplyKind) -> Result<P::In, AskError> {
        self.ask_within(request, kind, self.shared.deadline).await
    }

    /// Sends a request and waits for its answer. The time runs from now, waiting included. Dropping
    /// the future withdraws a request that was not written yet.
    pub async fn ask_within(
        &self,
        request: &P::Out,
        kind: ReplyKind,
        patience: Duration,
    ) -> Result<P::In, AskError> {
        let limit = self.shared.message_bytes;
        let len = request.encoded_len();
        if len > limit {
            return Err(AskError::TooLong { kind, len, limit });
        }
        let request = request.encode_to_vec().into();
        self.commands
            .ask(request, kind, patience, AskError::Stopped)
            .await
    }

    /// Tells the link that its spool has new messages.
    pub fn spool_offered(&self) {
        self.shared.offered.notify_one();
    }

    /// The current state, and every change of it.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.shared.status.clone()
    }

    /// What the link counted so far.
    pub fn stats(&self) -> LinkStats {
        *self
            .shared
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream for good and waits until its tasks are gone: at most
    /// [`StreamConfig::linger`], whatever the peer does.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        let mut status = self.shared.status.clone();
        // The driver holds the sender until it ends.
        while status.changed().await.is_ok() {}
    }
}

/// A message of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<In> {
    /// The message.
    pub message: In,
    /// The stream it came on, for [`StreamHandle::reply`].
    pub stream: Epoch,
}

/// What the peer sent, in order, answers to requests left out. Dropping it throws further messages
/// away.
#[derive(Debug)]
pub struct StreamIncoming<P: Protocol> {
    incoming: mpsc::Receiver<Received<P::In>>,
}

impl<P: Protocol> StreamIncoming<P> {
    /// The next message; nothing after the stream was stopped.
    pub async fn recv(&mut self) -> Option<Received<P::In>> {
        self.incoming.recv().await
    }
}
