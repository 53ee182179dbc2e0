//! Sends requests over a channel, many at once, and finds the answers that belong to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::packet::{self, Malformed, Reply, Request, Status, kind};
use crate::error::BoxError;
use crate::ssh::link::{Hold, Session};

/// How many requests wait to be sent.
const QUEUE: usize = 128;

/// How much is read or written by one request, if the server does not say; and at most.
const USUAL: u64 = 32 * 1024;
const MOST: u64 = 255 * 1024;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("the connection was lost")]
    Lost,
    #[error(transparent)]
    Status(Status),
    #[error(transparent)]
    Malformed(Malformed),
}

type Waiting = Arc<Mutex<HashMap<u32, oneshot::Sender<Reply>>>>;

/// A conversation with a machine's SFTP server.
#[derive(Debug)]
pub(super) struct Client {
    requests: mpsc::Sender<Bytes>,
    waiting: Waiting,
    last_id: AtomicU32,
    /// How much is read by one request.
    pub(super) read_length: u32,
    /// How much is written by one request.
    pub(super) write_length: u32,
    /// Whether a rename may replace what is there.
    pub(super) replaces: bool,
    _alive: DropGuard,
}

impl Client {
    /// Greets the server of a session.
    pub(super) async fn start(session: Session) -> Result<Self, BoxError> {
        let Session { channel, hold } = session;
        let (mut read, write) = channel.split();
        write.request_subsystem(true, "sftp").await?;
        let mut buffer = BytesMut::new();
        write.data_bytes(packet::init()).await?;
        let version = loop {
            if let Some(packet) = packet::next(&mut buffer)? {
                break packet;
            }
            match read.wait().await {
                Some(ChannelMsg::Data { data }) => buffer.extend_from_slice(&data),
                Some(ChannelMsg::Failure) => return Err("the server has no SFTP".into()),
                Some(ChannelMsg::Close) | None => return Err("the connection was closed".into()),
                Some(_) => {}
            }
        };
        let extensions = packet::version(version)?;
        let has = |name: &str| extensions.iter().any(|it| it == name);
        let (requests, queue) = mpsc::channel(QUEUE);
        let alive = CancellationToken::new();
        let waiting = Waiting::default();
        let conversation = Conversation {
            read,
            write,
            buffer,
            waiting: Arc::clone(&waiting),
            _hold: hold,
        };
        tokio::spawn(conversation.run(queue, alive.clone()));
        let mut client = Self {
            requests,
            waiting,
            last_id: AtomicU32::new(0),
            read_length: length(USUAL),
            write_length: length(USUAL),
            replaces: has("posix-rename@openssh.com"),
            _alive: alive.drop_guard(),
        };
        if has("limits@openssh.com") {
            let asked = client.ask(kind::EXTENDED, |it| it.text(b"limits@openssh.com"));
            if let Reply::Extended(limits) = asked.await? {
                let (read, write) = packet::limits(limits)?;
                client.read_length = length(read);
                client.write_length = length(write);
            }
        }
        Ok(client)
    }

    /// Whether another conversation has to be begun.
    pub(super) fn is_over(&self) -> bool {
        self.requests.is_closed()
    }

    /// Asks for something and waits for the answer. Requests are sent in the order in which these are first polled.
    pub(super) async fn ask(
        &self,
        kind: u8,
        fill: impl FnOnce(Request) -> Request,
    ) -> Result<Reply, RequestError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let request = fill(Request::new(kind, id)).finish();
        self.lock().insert(id, answer);
        // Whoever stops waiting leaves nothing behind.
        let forgotten = Forgotten { client: self, id };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| RequestError::Lost)?;
        let reply = answered.await.map_err(|_| RequestError::Lost)?;
        drop(forgotten);
        match reply {
            Reply::Status(status) if status.code != Status::OK => Err(RequestError::Status(status)),
            reply => Ok(reply),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, oneshot::Sender<Reply>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn length(said: u64) -> u32 {
    // Zero says that there is no limit.
    let said = if said == 0 { MOST } else { said.min(MOST) };
    u32::try_from(said).unwrap_or(u32::MAX)
}

struct Forgotten<'a> {
    client: &'a Client,
    id: u32,
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.client.lock().remove(&self.id);
    }
}

/// The task's side of a conversation.
struct Conversation {
    read: ChannelReadHalf,
    write: ChannelWriteHalf<Msg>,
    buffer: BytesMut,
    waiting: Waiting,
    _hold: Hold,
}

impl Conversation {
    async fn run(mut self, mut queue: mpsc::Receiver<Bytes>, alive: CancellationToken) {
        let write = &self.write;
        // Writing must not wait for reading, nor the other way round: the server may be waiting for either.
        let send = async {
            while let Some(request) = queue.recv().await {
                if write.data_bytes(request).await.is_err() {
                    break;
                }
            }
        };
        let receive = receive(&mut self.read, &mut self.buffer, &self.waiting);
        tokio::select! {
            () = alive.cancelled() => {}
            () = send => {}
            received = receive => if let Err(error) = received {
                tracing::warn!(%error, "an SFTP server is not understood");
            },
        }
        drop(queue);
        // The machine may be gone.
        let _ = self.write.close().await;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clear();
    }
}

async fn receive(
    read: &mut ChannelReadHalf,
    buffer: &mut BytesMut,
    waiting: &Waiting,
) -> Result<(), Malformed> {
    loop {
        while let Some(packet) = packet::next(buffer)? {
            let (id, reply) = packet::reply(packet)?;
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = waiting.remove(&id) {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(reply);
            }
        }
        match read.wait().await {
            Some(ChannelMsg::Data { data }) => buffer.extend_from_slice(&data),
            Some(ChannelMsg::Close | ChannelMsg::Eof) | None => return Ok(()),
            Some(_) => {}
        }
    }
}
