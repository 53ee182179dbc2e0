//! One connection, from its handshake to its end.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use jiff::Timestamp;
use muster_store::StoreError;
use muster_telemetry::ErrorChain;
use muster_tls::TlsIo;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};
use tracing::{debug, warn};
use uuid::Uuid;

use super::inbox::Answer;
use super::{Driver, Pending, Request};
use crate::database::{Class, Due, Row};
use crate::fault::{ACKNOWLEDGED, REMOVED, SENT, TAKEN};
use crate::link::ConnectionState;
use crate::message::incoming::BlobUrls;
use crate::message::telemetry::Alert;
use crate::message::{
    Body, Envelope, Identity, Incoming, Outgoing, ReadMessageError, ack_data, envelope, nack_data,
};
use crate::window::Slot;

/// Short answers to the cloud that wait to be written; while there are more, nothing is read.
const ANSWERS: usize = 256;
/// Requests at a time.
const REQUESTS: usize = 64;
/// When a database that failed is asked again.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the cloud closed the connection")]
    Closed,
    #[error("the WebSocket failed")]
    WebSocket(#[source] Box<tungstenite::Error>),
    #[error("the cloud did not take a message within {after:?}")]
    Stalled { after: Duration },
    #[error("the cloud did not answer a ping within {after:?}")]
    Silent { after: Duration },
}

/// What a connection knows beside what outlives it.
struct Connection {
    answers: VecDeque<Message>,
    heard: Instant,
    pinged: Option<Instant>,
    /// There may be kept messages that are not taken.
    more: bool,
    /// There may be kept alerts, or monitoring, that are not taken, and when they are due.
    alerts: (bool, Instant),
    monitoring: (bool, Instant),
    store_again: Option<Instant>,
    /// Types of messages that were not understood and are reported.
    reported: BTreeSet<String>,
}

impl Driver {
    pub(super) async fn session(&mut self, socket: WebSocketStream<TlsIo>) -> SessionError {
        let (sink, mut frames) = socket.split();
        let (out, queue) = mpsc::channel(1);
        let mut writer = std::pin::pin!(write(sink, queue, self.settings.io_timeout));
        let mut here = self.begin().await;
        self.connected.send_replace(ConnectionState::Connected);
        loop {
            let now = Instant::now();
            if let Some(since) = here.pinged
                && now >= since + self.settings.io_timeout
            {
                let after = self.settings.io_timeout;
                return SessionError::Silent { after };
            }
            if here.pinged.is_none() && now >= here.heard + self.settings.ping_after {
                here.answers.push_back(Message::Ping(Vec::new().into()));
                here.pinged = Some(now);
            }
            self.fill(&mut here, now).await;
            let ready = !here.answers.is_empty() || self.window.next(now).is_some();
            let wake = self.wake(&here, now);
            let news = self.news.notified();
            tokio::select! {
                end = &mut writer => return end,
                permit = out.reserve(), if ready => {
                    // Without a place the writer has ended, which is seen above.
                    if let (Ok(permit), Some(message)) = (permit, self.outgoing(&mut here).await) {
                        permit.send(message);
                        muster_fault::hit(SENT);
                    }
                }
                frame = frames.next(), if here.answers.len() < ANSWERS => {
                    here.heard = Instant::now();
                    here.pinged = None;
                    match frame {
                        Some(Ok(Message::Binary(bytes))) => self.receive(&mut here, &bytes).await,
                        Some(Ok(Message::Close(_))) | None => return SessionError::Closed,
                        // Pings are answered by the library, texts are no part of the protocol.
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return SessionError::WebSocket(Box::new(error)),
                    }
                }
                (txn, answer) = self.inbox.verdict() => self.answer(&mut here, &txn, answer),
                Some(request) = self.requests.recv(), if self.pending.len() < REQUESTS => self.ask(request),
                Ok(()) = self.statuses.changed() => {}
                () = news => here.news(),
                () = sleep_until(wake) => {}
            }
        }
    }

    async fn begin(&mut self) -> Connection {
        let now = Instant::now();
        let told = self
            .outbox
            .report_losses(&self.access.node, Timestamp::now())
            .await;
        let mut here = Connection {
            answers: VecDeque::new(),
            heard: now,
            pinged: None,
            more: true,
            alerts: (true, now),
            monitoring: (true, now),
            store_again: None,
            reported: BTreeSet::new(),
        };
        if let Err(error) = told {
            here.store_failed(&error);
        }
        self.reporter.connected();
        self.window.remove(Slot::Status);
        self.prune();
        for (id, pending) in &self.pending {
            self.window.add(Slot::Request(*id), pending.txn.clone());
        }
        here
    }

    /// When to look again if nothing happens.
    fn wake(&self, here: &Connection, now: Instant) -> Instant {
        let ping = match here.pinged {
            Some(since) => since + self.settings.io_timeout,
            None => here.heard + self.settings.ping_after,
        };
        // Without room nothing more can be on its way before an acknowledgement.
        let taking = (self.window.room() > 0).then(|| {
            let due = |(waiting, at): (bool, Instant)| waiting.then_some(at);
            let again = here.store_again.unwrap_or(now);
            let first = due(here.alerts)
                .into_iter()
                .chain(due(here.monitoring))
                .min();
            let first = if here.more { Some(again) } else { first };
            first.map(|it| it.max(again))
        });
        let others = [
            taking.flatten(),
            self.window.deadline(now),
            self.reporter.deadline(),
        ];
        let later = others.into_iter().flatten().filter(|it| *it > now);
        later.chain([ping]).min().unwrap_or(ping)
    }

    /// Takes what can be on its way.
    async fn fill(&mut self, here: &mut Connection, now: Instant) {
        if !self.window.contains(Slot::Status) {
            let newest = self.statuses.borrow().clone();
            if let Some(status) = self.reporter.next(&newest, now) {
                self.status = Outgoing::UnitStatus(status).data(None);
                self.window.add(Slot::Status, Uuid::new_v4().to_string());
            }
        }
        let room = self.window.room();
        let due = Due {
            alerts: here.alerts.0 && here.alerts.1 <= now,
            monitoring: here.monitoring.0 && here.monitoring.1 <= now,
        };
        let anything = here.more || due.alerts || due.monitoring;
        if room == 0 || !anything || here.store_again.is_some_and(|it| it > now) {
            return;
        }
        let taken = match self.outbox.take(due, room).await {
            Ok(taken) => taken,
            Err(error) => return here.store_failed(&error),
        };
        muster_fault::hit(TAKEN);
        here.store_again = None;
        here.more = taken.len() >= room;
        let none_of = |class| !taken.iter().any(|it| it.class == class);
        if due.alerts && none_of(Class::Alerts) {
            here.alerts = (false, now + self.settings.alerts_period);
        }
        if due.monitoring && none_of(Class::Monitoring) {
            here.monitoring = (false, now + self.settings.monitoring_period);
        }
        for message in taken {
            self.window.add(Slot::Row(message.id), message.txn);
        }
    }

    /// The next message to write.
    async fn outgoing(&mut self, here: &mut Connection) -> Option<Message> {
        if let Some(answer) = here.answers.pop_front() {
            return Some(answer);
        }
        let now = Instant::now();
        let (slot, txn) = self.window.next(now)?;
        let txn = txn.to_owned();
        let data = match slot {
            Slot::Status => Some(self.status.clone()),
            Slot::Request(id) => self.pending.get(&id).map(|it| it.data.clone()),
            Slot::Row(id) => match self.outbox.body(id).await {
                Ok(body) => body,
                Err(error) => {
                    // It is tried again as if the cloud had refused it.
                    here.store_failed(&error);
                    self.window.sent(slot, now);
                    self.window.refused(&txn, Some(STORE_AGAIN), now);
                    return None;
                }
            },
        };
        let Some(data) = data else {
            self.window.remove(slot);
            return None;
        };
        self.window.sent(slot, now);
        Some(self.envelope(&txn, &data))
    }

    fn envelope(&self, txn: &str, data: &str) -> Message {
        let text = envelope(&self.access.system_id, txn, Timestamp::now(), data);
        Message::Binary(text.into_bytes().into())
    }

    fn ask(&mut self, request: Request) {
        self.prune();
        self.last_request += 1;
        let correlation = Uuid::new_v4().to_string();
        let pending = Pending {
            txn: Uuid::new_v4().to_string(),
            data: request.message.data(Some(&correlation)),
            correlation,
            answer: request.answer,
        };
        self.window
            .add(Slot::Request(self.last_request), pending.txn.clone());
        self.pending.insert(self.last_request, pending);
    }

    async fn receive(&mut self, here: &mut Connection, bytes: &[u8]) {
        let message = match Envelope::from_cloud(bytes, &self.access.system_id) {
            Ok(message) => message,
            Err(error) => {
                if here.reported.insert("envelope".to_owned()) {
                    warn!(error = %ErrorChain(&error), "a message of the cloud is refused");
                }
                return;
            }
        };
        self.reconnect.settled();
        let Envelope {
            txn,
            correlation,
            body,
        } = message;
        match body {
            Ok(Body::Ack) => self.acknowledged(here, &txn).await,
            Ok(Body::Nack { retry_after }) => {
                let after = retry_after.map(Duration::from_millis);
                self.window.refused(&txn, after, Instant::now());
            }
            Ok(Body::Message(Incoming::BlobUrls(answer))) => {
                self.answered(correlation.as_deref(), answer);
                self.answer(here, &txn, Answer::Ack);
            }
            Ok(Body::Message(message)) => {
                let answer = self.inbox.receive(txn.clone(), correlation, message);
                self.answer(here, &txn, answer);
            }
            Err(error) => {
                self.not_understood(here, &error).await;
                self.answer(here, &txn, Answer::Ack);
            }
        }
    }

    fn answer(&self, here: &mut Connection, txn: &str, answer: Answer) {
        let data = match answer {
            Answer::Ack => ack_data(),
            Answer::Nack(after) => nack_data(after),
            Answer::Later => return,
        };
        here.answers.push_back(self.envelope(txn, &data));
    }

    async fn acknowledged(&mut self, here: &mut Connection, txn: &str) {
        match self.window.acknowledged(txn) {
            Some(Slot::Row(id)) => {
                muster_fault::hit(ACKNOWLEDGED);
                if let Err(error) = self.outbox.remove(id).await {
                    // It is sent once more, under the same name.
                    here.store_failed(&error);
                    self.window.add(Slot::Row(id), txn.to_owned());
                }
                muster_fault::hit(REMOVED);
            }
            Some(Slot::Status) => self.reporter.acknowledged(),
            // Its answer is what is waited for.
            Some(Slot::Request(_)) => {}
            None => debug!("the cloud acknowledged what was not sent"),
        }
    }

    fn answered(&mut self, correlation: Option<&str>, answer: BlobUrls) {
        let asked = |pending: &Pending| Some(pending.correlation.as_str()) == correlation;
        let found = self.pending.iter().find(|(_, pending)| asked(pending));
        let Some(id) = found.map(|(id, _)| *id) else {
            debug!("the cloud answered what was not asked");
            return;
        };
        self.window.remove(Slot::Request(id));
        if let Some(pending) = self.pending.remove(&id) {
            // Whoever asked may have gone.
            let _told = pending.answer.send(answer.items);
        }
    }

    /// What cannot be understood would not be the next time either: the cloud is told so, once for each type.
    async fn not_understood(&mut self, here: &mut Connection, error: &ReadMessageError) {
        let about = match error {
            ReadMessageError::Unknown { .. } => "unknown".to_owned(),
            ReadMessageError::Content { message_type, .. } => message_type.clone(),
            _ => "other".to_owned(),
        };
        if !here.reported.insert(about) {
            return;
        }
        let message = ErrorChain(error).to_string();
        warn!(
            error = message,
            "a message of the cloud is not understood; the cloud is told"
        );
        let alert = Alert::CoreAlert {
            timestamp: Timestamp::now(),
            node: Identity::codename(self.access.node.as_str()),
            core_component: "CM".to_owned(),
            message,
        };
        let row = Row {
            class: Class::Alerts,
            key: None,
            body: serde_json::to_string(&alert).expect("alerts have text keys"),
        };
        match self.outbox.append(vec![row]).await {
            Ok(()) => here.news(),
            Err(error) => here.store_failed(&error),
        }
    }
}

impl Connection {
    fn news(&mut self) {
        self.more = true;
        self.alerts.0 = true;
        self.monitoring.0 = true;
    }

    fn store_failed(&mut self, error: &StoreError) {
        warn!(error = %ErrorChain(error), "the database failed what is kept for the cloud; it is tried again");
        self.store_again = Some(Instant::now() + STORE_AGAIN);
    }
}

/// Writes until that fails: one message at a time, so that a slow reader is seen.
async fn write(
    mut sink: SplitSink<WebSocketStream<TlsIo>, Message>,
    mut queue: mpsc::Receiver<Message>,
    after: Duration,
) -> SessionError {
    while let Some(message) = queue.recv().await {
        match timeout(after, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return SessionError::WebSocket(Box::new(error)),
            Err(_) => return SessionError::Stalled { after },
        }
    }
    SessionError::Closed
}
