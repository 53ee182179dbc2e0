//! The task that owns a [`Link`]: carries its actions out and tells it what happened.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::command::{Command, refuse_rest};
use crate::connection::{Dial, Keepalive};
use crate::link::{Action, At, CloseReason, Epoch, Event, Link, LinkLimits, LinkStats, Outgoing};
use crate::peer::{OpenStream, Peer, PeerEvent, StreamBounds};
use crate::protocol::Protocol;
use crate::slots::{AskError, SlotId};
use crate::spool::{Batch, SpoolRunner};
use crate::stream::{LinkStatus, Received};

/// How many commands are taken in before their effects are carried out.
const COMMAND_BATCH: usize = 32;

/// A message, and the only stream it is meant for, if there is one.
pub(crate) type Submission = (Bytes, Option<Epoch>);
pub(crate) type LinkCommand<In> = Command<Submission, Bytes, In>;

pub(crate) struct Wiring<P: Protocol> {
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) hello: Box<dyn FnMut() -> Vec<Bytes> + Send>,
    pub(crate) spool: Option<SpoolRunner>,
    pub(crate) commands: mpsc::Receiver<LinkCommand<P::In>>,
    pub(crate) incoming: mpsc::Sender<Received<P::In>>,
    pub(crate) offered: Arc<tokio::sync::Notify>,
    pub(crate) status: watch::Sender<LinkStatus>,
    pub(crate) stats: Arc<std::sync::Mutex<LinkStats>>,
    pub(crate) stop: CancellationToken,
}

pub(crate) struct Driver<P: Protocol> {
    link: Link,
    limits: LinkLimits,
    keepalive: Keepalive,
    linger: Duration,
    wiring: Wiring<P>,
    peer: Peer<P::In>,
    /// A message that found the owner's queue full. While it is here nothing is read.
    held: Option<Received<P::In>>,
    /// The message that the link is deciding on.
    received: Option<Received<P::In>>,
    asks: HashMap<SlotId, oneshot::Sender<Result<P::In, AskError>>>,
    next_slot: u64,
    started: Instant,
    actions: Vec<Action>,
}

/// What woke the driver.
enum Wake<In> {
    Peer(Epoch, PeerEvent<In>),
    Commands(usize),
    Batch(Batch),
    Delivered,
    Offered,
    Timer,
    Stop,
}

impl<P: Protocol> Driver<P> {
    pub(crate) fn new(
        limits: LinkLimits,
        keepalive: Keepalive,
        linger: Duration,
        wiring: Wiring<P>,
    ) -> Self {
        Self {
            link: Link::new(limits, wiring.spool.is_some()),
            limits,
            keepalive,
            linger,
            wiring,
            peer: Peer::Absent,
            held: None,
            received: None,
            asks: HashMap::new(),
            next_slot: 0,
            started: Instant::now(),
            actions: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut commands = Vec::with_capacity(COMMAND_BATCH);
        self.feed(Event::Tick);
        while !self.link.is_stopped() {
            self.publish();
            match self.wake(&mut commands).await {
                Wake::Peer(epoch, event) => self.on_peer(epoch, event),
                Wake::Commands(0) | Wake::Stop => self.feed(Event::Stop),
                Wake::Commands(_) => commands
                    .drain(..)
                    .for_each(|command| self.on_command(command)),
                Wake::Batch(Ok(batch)) => self.feed(Event::Fetched(batch)),
                Wake::Batch(Err(failed)) => {
                    warn!(
                        error = &*failed as &dyn StdError,
                        "the spool cannot be read"
                    );
                    self.feed(Event::FetchFailed);
                }
                Wake::Offered => self.feed(Event::SpoolOffered),
                Wake::Delivered => {}
                Wake::Timer => self.feed(Event::Tick),
            }
        }
        self.publish();
        self.finish().await;
    }

    async fn wake(&mut self, commands: &mut Vec<LinkCommand<P::In>>) -> Wake<P::In> {
        let Wiring {
            commands: queue,
            incoming,
            offered,
            stop,
            spool,
            ..
        } = &mut self.wiring;
        let deadline = self.link.next_deadline();
        let timer = async {
            match deadline.and_then(|at| self.started.checked_add(at)) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let batch = async {
            match spool {
                Some(spool) => spool.next_batch().await,
                None => std::future::pending().await,
            }
        };
        let accepts = self.link.accepts();
        let paused = self.held.is_some();
        tokio::select! {
            () = stop.cancelled() => Wake::Stop,
            (epoch, event) = self.peer.next(paused) => Wake::Peer(epoch, event),
            room = incoming.reserve(), if paused => {
                // Without a receiver nobody wants the message any more.
                if let (Ok(room), Some(message)) = (room, self.held.take()) {
                    room.send(message);
                }
                Wake::Delivered
            }
            count = queue.recv_many(commands, COMMAND_BATCH), if accepts => Wake::Commands(count),
            batch = batch => Wake::Batch(batch),
            () = offered.notified() => Wake::Offered,
            () = timer => Wake::Timer,
        }
    }

    fn on_peer(&mut self, epoch: Epoch, event: PeerEvent<P::In>) {
        match event {
            PeerEvent::Dialled(connection) => {
                let bounds = StreamBounds {
                    outbound: self.limits.wire.messages,
                    message_bytes: self.limits.message_bytes,
                };
                let stream = OpenStream::open(epoch, connection, P::METHOD, bounds);
                self.peer = Peer::Open(Box::new(stream));
                let hello = (self.wiring.hello)();
                self.feed(Event::Dialled { epoch, hello });
                debug!(method = P::METHOD, epoch = epoch.0, "connected");
            }
            PeerEvent::DialFailed(failed) => {
                let origin = self.wiring.dial.origin();
                warn!(error = &failed as &dyn StdError, %origin, "cannot connect, trying again");
                self.feed(Event::DialFailed { epoch });
            }
            PeerEvent::Accepted => {
                info!(method = P::METHOD, epoch = epoch.0, "the stream is open");
                self.feed(Event::Accepted { epoch });
            }
            PeerEvent::Message(message) => {
                let kind = P::reply_kind(&message);
                self.received = Some(Received {
                    message,
                    stream: epoch,
                });
                self.feed(Event::Received { epoch, kind });
                self.received = None;
            }
            PeerEvent::Closed(status) => {
                let error = status.as_ref().map(|status| status as &dyn StdError);
                warn!(
                    method = P::METHOD,
                    epoch = epoch.0,
                    error,
                    "the stream ended"
                );
                self.peer = Peer::Absent;
                self.feed(Event::Closed { epoch });
            }
            // Every event reads the ledger first.
            PeerEvent::Progress => self.feed(Event::Tick),
            PeerEvent::Probed(true) => {
                let ended = self
                    .peer
                    .stream()
                    .is_none_or(|stream| stream.ledger().ended());
                // While the owner is slow the end of the stream may be stuck behind messages that
                // we do not read; then an answer says nothing about the stream.
                let conclusive = !ended && self.held.is_none();
                self.feed(Event::ProbeAnswered { epoch, conclusive });
            }
            PeerEvent::Probed(false) => self.feed(Event::ProbeFailed { epoch }),
        }
    }

    fn on_command(&mut self, command: LinkCommand<P::In>) {
        match command {
            Command::Send((message, only)) => self.feed(Event::Submit { message, only }),
            Command::Ask {
                message,
                kind,
                expires,
                answer,
            } => {
                let slot = SlotId(self.next_slot);
                self.next_slot += 1;
                self.asks.insert(slot, answer);
                let expires = expires.saturating_duration_since(self.started);
                self.feed(Event::Ask {
                    slot,
                    kind,
                    message,
                    expires,
                });
            }
        }
    }

    /// Gives the link an event, after what it must know before, and carries out what follows.
    fn feed(&mut self, event: Event) {
        let at = At {
            now: self.started.elapsed(),
            random: rand::random(),
        };
        let mut actions = std::mem::take(&mut self.actions);
        for (slot, answer) in &self.asks {
            if answer.is_closed() {
                self.link.handle(at, Event::AskerGone(*slot), &mut actions);
            }
        }
        self.asks.retain(|_, answer| !answer.is_closed());
        if let Some(stream) = self.peer.stream() {
            let flushed = Event::Flushed {
                epoch: stream.epoch(),
                total: stream.ledger().written(),
            };
            self.link.handle(at, flushed, &mut actions);
        }
        self.link.handle(at, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action);
        }
        self.actions = actions;
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Dial(epoch) => {
                self.peer = Peer::dial(epoch, Arc::clone(&self.wiring.dial), self.keepalive);
            }
            // The end of a stopped link is orderly; see `finish`.
            Action::Close(_, CloseReason::Stopped) => {}
            Action::Close(epoch, why) => {
                warn!(
                    method = P::METHOD,
                    epoch = epoch.0,
                    error = &why as &dyn StdError,
                    "giving up"
                );
                self.peer = Peer::Absent;
            }
            Action::Write(outgoing) => {
                let (Outgoing::Hello(message)
                | Outgoing::Ephemeral(message)
                | Outgoing::Request { message, .. }
                | Outgoing::Durable { message, .. }) = outgoing;
                if let Some(stream) = self.peer.stream() {
                    stream.write(message);
                }
            }
            Action::Probe(_) => {
                if let Some(stream) = self.peer.stream() {
                    stream.probe();
                }
            }
            Action::Fetch(range) => {
                if let Some(spool) = &mut self.wiring.spool {
                    spool.read(range);
                }
            }
            Action::Confirm(up_to) => {
                if let Some(spool) = &mut self.wiring.spool {
                    spool.confirm(up_to);
                }
            }
            Action::Skip { id, len } => {
                let limit = self.limits.message_bytes;
                error!(
                    id,
                    len, limit, "a spooled message is too long and was passed over"
                );
            }
            Action::Complete(slot) => {
                if let (Some(answer), Some(received)) =
                    (self.asks.remove(&slot), self.received.take())
                {
                    // The asker may have gone.
                    let _ = answer.send(Ok(received.message));
                }
            }
            Action::Deliver => self.deliver(),
            Action::Discard => {
                debug!(method = P::METHOD, "threw a late answer away");
            }
            Action::Fail(slot, why) => {
                if let Some(answer) = self.asks.remove(&slot) {
                    let _ = answer.send(Err(why));
                }
            }
        }
    }

    fn deliver(&mut self) {
        let Some(message) = self.received.take() else {
            return;
        };
        match self.wiring.incoming.try_send(message) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(message)) => self.held = Some(message),
        }
    }

    fn publish(&self) {
        let status = if self.link.is_stopped() {
            LinkStatus::Stopping
        } else if self.link.is_open() {
            LinkStatus::Connected
        } else {
            LinkStatus::Disconnected
        };
        self.wiring.status.send_if_modified(|current| {
            let changed = *current != status;
            *current = status;
            changed
        });
        let mut stats = self
            .wiring
            .stats
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *stats = self.link.stats();
    }

    /// Ends the stream in order if the peer lets us, and in bounded time if it does not.
    async fn finish(mut self) {
        refuse_rest(&mut self.wiring.commands, AskError::Stopped);
        let Self {
            peer,
            wiring,
            linger,
            ..
        } = &mut self;
        let orderly = async {
            if let Some(stream) = peer.stream() {
                stream.finish();
                while !matches!(stream.next(false).await, PeerEvent::Closed(_)) {}
            }
            if let Some(spool) = &mut wiring.spool {
                spool.finish().await;
            }
        };
        if timeout(*linger, orderly).await.is_err() {
            debug!(
                method = P::METHOD,
                "the peer did not end the stream in time"
            );
        }
    }
}
