//! The server's end of a bidirectional stream: a session with one peer.
//!
//! A handler calls [`accept`] with the incoming half it received and returns the [`SessionOutgoing`]
//! it got as its response. One task per session owns the request slots, reads the peer and is the
//! only writer; it ends with the stream. Nothing of one session waits for another.
//!
//! A peer that sends faster than its owner takes fills [`SessionConfig::incoming`] and is then held
//! back by HTTP/2 flow control. A peer that does not read fills [`SessionConfig::queue`]; senders
//! then wait, requests run into their deadlines, and closing waits for nobody.
//!
//! What arrived before a connection broke still reaches the owner, possibly after the peer has come
//! back on a new stream. An owner to whom the order across streams matters takes from the old
//! [`SessionIncoming`] to its end before it takes from the new one.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tracing::debug;

use crate::command::{Command, CommandSender, refuse_rest};
use crate::protocol::Protocol;
use crate::slots::{AskError, ReplyFate, ReplyKind, SlotEffect, SlotId, SlotLimits, Slots};

/// Bounds of a session. Messages are counted; each is at most as long as the server decodes.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Request slots.
    pub slots: SlotLimits,
    /// Received messages that wait for the owner.
    pub incoming: usize,
    /// Messages and requests that wait to be written.
    pub queue: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            slots: SlotLimits::default(),
            incoming: 16,
            queue: 32,
        }
    }
}

/// The queue towards HTTP/2: what waits, waits in the task, where a timeout can still withdraw it.
const OUTBOUND: usize = 2;

/// The session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionEnded;

/// Begins a session on a stream that a server's handler received. Must be called inside a tokio
/// runtime.
pub fn accept<P, S>(
    inbound: S,
    config: SessionConfig,
) -> (Session<P>, SessionIncoming<P>, SessionOutgoing<P>)
where
    P: Protocol,
    S: Stream<Item = Result<P::In, Status>> + Send + Unpin + 'static,
{
    let (commands, command_queue) = CommandSender::new(config.queue.max(1));
    let (deliver, incoming) = mpsc::channel(config.incoming.max(1));
    let (outbound, outgoing) = mpsc::channel(OUTBOUND);
    let shared = Arc::new(Shared {
        end: OnceLock::new(),
        close: Notify::new(),
    });
    let task = SessionTask::<P> {
        config,
        slots: Slots::new(config.slots),
        effects: Vec::new(),
        asks: HashMap::new(),
        next_slot: 0,
        queue: VecDeque::new(),
        held: None,
        deliver,
        commands: command_queue,
        started: Instant::now(),
    };
    tokio::spawn(task.run(inbound, outbound, Arc::clone(&shared)));
    let session = Session {
        commands,
        shared: Arc::clone(&shared),
        deadline: config.slots.deadline,
    };
    (
        session,
        SessionIncoming(incoming),
        SessionOutgoing {
            messages: outgoing,
            shared,
        },
    )
}

#[derive(Debug)]
struct Shared {
    /// The status the peer gets at the end, if not OK.
    end: OnceLock<Status>,
    close: Notify,
}

/// Sends on a session. Cheap to clone; the session lives as long as any handle, or the stream.
pub struct Session<P: Protocol> {
    commands: SessionCommands<P>,
    shared: Arc<Shared>,
    deadline: Duration,
}

impl<P: Protocol> Clone for Session<P> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            shared: Arc::clone(&self.shared),
            deadline: self.deadline,
        }
    }
}

impl<P: Protocol> fmt::Debug for Session<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("method", &P::METHOD)
            .finish_non_exhaustive()
    }
}

impl<P: Protocol> Session<P> {
    /// Sends a message. Waits while the queue is full.
    pub async fn send(&self, message: P::Out) -> Result<(), SessionEnded> {
        self.commands
            .send(Box::new(message))
            .await
            .map_err(|_| SessionEnded)
    }

    /// Sends a request and waits for its answer, as long as the configuration says.
    pub async fn ask(&self, request: P::Out, kind: ReplyKind) -> Result<P::In, AskError> {
        self.ask_within(request, kind, self.deadline).await
    }

    /// Sends a request and waits for its answer. The time runs from now, waiting included. Dropping
    /// the future withdraws a request that was not written yet.
    pub async fn ask_within(
        &self,
        request: P::Out,
        kind: ReplyKind,
        patience: Duration,
    ) -> Result<P::In, AskError> {
        let request = Box::new(request);
        let answer = self
            .commands
            .ask(request, kind, patience, AskError::Disconnected)
            .await;
        answer.map(|message| *message)
    }

    /// Ends the session; the peer gets `status` after what was already written, or OK.
    pub fn close(&self, status: Option<Status>) {
        if let Some(status) = status {
            // The first reason counts.
            let _ = self.shared.end.set(status);
        }
        self.shared.close.notify_one();
    }
}

/// What the peer sent, in order, answers to requests left out. Dropping it throws further messages
/// away.
#[derive(Debug)]
pub struct SessionIncoming<P: Protocol>(mpsc::Receiver<Box<P::In>>);

impl<P: Protocol> SessionIncoming<P> {
    /// The next message; nothing when the session has ended.
    pub async fn recv(&mut self) -> Option<P::In> {
        self.0.recv().await.map(|message| *message)
    }
}

/// The response stream of the handler.
#[derive(Debug)]
pub struct SessionOutgoing<P: Protocol> {
    messages: mpsc::Receiver<Box<P::Out>>,
    shared: Arc<Shared>,
}

impl<P: Protocol> Stream for SessionOutgoing<P> {
    type Item = Result<P::Out, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // tonic ends the stream with the first error, so this is polled no further after it.
        self.messages.poll_recv(cx).map(|message| match message {
            Some(message) => Some(Ok(*message)),
            None => self.shared.end.get().cloned().map(Err),
        })
    }
}

enum Queued<Out> {
    Message(Box<Out>),
    Request(SlotId),
}

type SessionCommands<P> =
    CommandSender<Box<<P as Protocol>::Out>, Box<<P as Protocol>::Out>, Box<<P as Protocol>::In>>;
type SessionCommand<P> =
    Command<Box<<P as Protocol>::Out>, Box<<P as Protocol>::Out>, Box<<P as Protocol>::In>>;

type Answer<In> = oneshot::Sender<Result<Box<In>, AskError>>;

struct SessionTask<P: Protocol> {
    config: SessionConfig,
    slots: Slots<Box<P::Out>>,
    effects: Vec<SlotEffect>,
    asks: HashMap<SlotId, Answer<P::In>>,
    next_slot: u64,
    queue: VecDeque<Queued<P::Out>>,
    /// A message that found the owner's queue full. While it is here nothing is read.
    held: Option<Box<P::In>>,
    deliver: mpsc::Sender<Box<P::In>>,
    commands: mpsc::Receiver<SessionCommand<P>>,
    started: Instant,
}

impl<P: Protocol> SessionTask<P> {
    async fn run<S>(
        mut self,
        mut inbound: S,
        outbound: mpsc::Sender<Box<P::Out>>,
        shared: Arc<Shared>,
    ) where
        S: Stream<Item = Result<P::In, Status>> + Unpin,
    {
        let deliver = self.deliver.clone();
        let mut writable = true;
        loop {
            self.tick();
            let paused = self.held.is_some();
            let deadline = self.slots.next_deadline();
            tokio::select! {
                () = shared.close.notified() => break,
                // The transport dropped the response: the connection is gone. What the peer sent
                // before is read to its end, because the peer may know that it arrived.
                () = outbound.closed(), if writable => {
                    writable = false;
                    self.disconnect();
                }
                received = inbound.next(), if !paused => match received {
                    Some(Ok(message)) => self.receive(message),
                    Some(Err(status)) => {
                        debug!(method = P::METHOD, %status, "the session's stream broke");
                        break;
                    }
                    None => break,
                },
                room = deliver.reserve(), if paused => {
                    // Without a receiver nobody wants the message any more.
                    if let (Ok(room), Some(message)) = (room, self.held.take()) {
                        room.send(message);
                    }
                }
                command = self.commands.recv(), if writable && self.queue.len() < self.config.queue => {
                    match command {
                        Some(command) => self.take(command),
                        None => break,
                    }
                }
                room = outbound.reserve(), if writable && !self.queue.is_empty() => {
                    if let (Ok(room), Some(message)) = (room, self.next_outgoing()) {
                        room.send(message);
                    }
                }
                () = sleep_until(self.started + deadline.unwrap_or_default()),
                    if deadline.is_some() => {}
            }
        }
        self.disconnect();
    }

    fn disconnect(&mut self) {
        self.slots
            .fail_all(AskError::Disconnected, &mut self.effects);
        self.settle();
        self.queue.clear();
        refuse_rest(&mut self.commands, AskError::Disconnected);
    }

    fn tick(&mut self) {
        for (slot, answer) in &self.asks {
            if answer.is_closed() {
                self.slots.abandon(*slot, &mut self.effects);
            }
        }
        self.asks.retain(|_, answer| !answer.is_closed());
        self.slots.tick(self.started.elapsed(), &mut self.effects);
        self.settle();
    }

    fn take(&mut self, command: SessionCommand<P>) {
        match command {
            Command::Send(message) => self.queue.push_back(Queued::Message(message)),
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
                self.slots
                    .ask(slot, kind, expires, message, &mut self.effects);
                self.settle();
            }
        }
    }

    fn receive(&mut self, message: P::In) {
        let fate = match P::reply_kind(&message) {
            Some(kind) => self.slots.reply(kind, &mut self.effects),
            None => ReplyFate::Unsolicited,
        };
        match fate {
            ReplyFate::Answers(slot) => {
                if let Some(answer) = self.asks.remove(&slot) {
                    // The asker may have gone.
                    let _ = answer.send(Ok(Box::new(message)));
                }
            }
            ReplyFate::Late => debug!(method = P::METHOD, "threw a late answer away"),
            ReplyFate::Unsolicited => match self.deliver.try_send(Box::new(message)) {
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                Err(mpsc::error::TrySendError::Full(message)) => self.held = Some(message),
            },
        }
        self.settle();
    }

    fn settle(&mut self) {
        for effect in self.effects.drain(..) {
            match effect {
                SlotEffect::Write(slot) => self.queue.push_back(Queued::Request(slot)),
                SlotEffect::Fail(slot, why) => {
                    if let Some(answer) = self.asks.remove(&slot) {
                        let _ = answer.send(Err(why));
                    }
                }
            }
        }
    }

    fn next_outgoing(&mut self) -> Option<Box<P::Out>> {
        while let Some(queued) = self.queue.pop_front() {
            match queued {
                Queued::Message(message) => return Some(message),
                // A request that timed out or was abandoned meanwhile is not written.
                Queued::Request(slot) => {
                    if let Some(message) = self.slots.begin_write(slot) {
                        return Some(message);
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
