//! One WebSocket of a Unit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use jiff::Timestamp;
use muster_tls::TlsIo;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use uuid::Uuid;

use super::cut::Cut;
use super::{Reaction, Received, Shared, State, TOKEN};
use crate::message::incoming::BlobUrls;
use crate::message::{Body, Envelope, Incoming, Outgoing, ack_data, envelope};

/// When a message that the Unit refused is sent again.
const AGAIN: Duration = Duration::from_millis(50);

#[expect(
    clippy::result_large_err,
    reason = "the library's callback returns responses by value"
)]
pub(super) async fn serve(shared: Arc<Shared>, io: TlsIo) {
    let cut = shared.change(|state| state.behaviour.cut_after.pop_front());
    let mut cuts = shared.cuts.subscribe();
    let handshake = accept_hdr_async(Cut::after(io, cut), |request: &Request, response| {
        check(&shared, request, response)
    });
    let Ok(socket) = handshake.await else {
        return;
    };
    let number = shared.change(|state| {
        state.seen.connections += 1;
        state.seen.connected = true;
        state.seen.connections
    });
    tokio::select! {
        _ = cuts.changed() => {}
        () = talk(&shared, socket, number) => {}
    }
    shared.change(|state| {
        if state.seen.connections == number {
            state.seen.connected = false;
        }
    });
}

#[expect(
    clippy::result_large_err,
    reason = "the library's callback returns responses by value"
)]
fn check(
    shared: &Shared,
    request: &Request,
    response: Response,
) -> Result<Response, ErrorResponse> {
    shared.change(|state| {
        let bearer = request.headers().get("authorization");
        let right = bearer.is_some_and(|it| it.as_bytes() == format!("Bearer {TOKEN}").as_bytes());
        if !right {
            state.seen.problems.push("no token".to_owned());
        }
        let refused = state.behaviour.refuse_websocket.or((!right).then_some(401));
        let Some(status) = refused else {
            return Ok(response);
        };
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
        Err(refusal)
    })
}

/// What a connection knows.
struct Talk<'a> {
    shared: &'a Shared,
    number: u64,
    /// Names of messages that were sent on this connection.
    sent: BTreeSet<String>,
    again_at: Option<Instant>,
}

async fn talk(shared: &Shared, mut socket: WebSocketStream<Cut<TlsIo>>, number: u64) {
    let mut wake = shared.wake.subscribe();
    let mut talk = Talk {
        shared,
        number,
        sent: BTreeSet::new(),
        again_at: None,
    };
    loop {
        wake.mark_unchanged();
        let (messages, deaf) = {
            let mut state = shared.state();
            (talk.for_unit(&mut state), state.behaviour.deaf)
        };
        for bytes in messages {
            if socket.send(Message::Binary(bytes.into())).await.is_err() {
                return;
            }
        }
        let again = talk.again_at.unwrap_or_else(|| Instant::now() + AGAIN * 20);
        tokio::select! {
            frame = socket.next(), if !deaf => match frame {
                Some(Ok(Message::Binary(bytes))) => {
                    for answer in talk.receive(&bytes) {
                        if socket.send(Message::Binary(answer.into())).await.is_err() {
                            return;
                        }
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            _ = wake.changed() => {}
            () = sleep_until(again) => {
                if talk.again_at.take().is_some() {
                    talk.sent.clear();
                }
            }
        }
    }
}

impl Talk<'_> {
    fn for_unit(&mut self, state: &mut State) -> Vec<Vec<u8>> {
        let mut messages: Vec<Vec<u8>> = state.raw.drain(..).collect();
        for (txn, bytes) in &state.for_unit {
            if self.sent.insert(txn.clone()) {
                messages.push(bytes.clone());
            }
        }
        messages
    }

    fn envelope(&self, txn: &str, data: &str) -> Vec<u8> {
        envelope(&self.shared.system_id, txn, Timestamp::now(), data).into_bytes()
    }

    /// Takes a message of the Unit; says what is answered.
    fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let read = Envelope::from_unit(bytes, &self.shared.system_id);
        let (txn, correlation, body) = match read {
            Ok(Envelope {
                txn,
                correlation,
                body: Ok(body),
            }) => (txn, correlation, body),
            Ok(Envelope {
                body: Err(error), ..
            })
            | Err(error) => {
                self.shared
                    .change(|state| state.seen.problems.push(format!("{error:?}")));
                return Vec::new();
            }
        };
        match body {
            Body::Ack => {
                self.shared.change(|state| {
                    state.for_unit.retain(|(name, _)| *name != txn);
                    state.seen.acknowledged.insert(txn);
                });
                Vec::new()
            }
            Body::Nack { .. } => {
                self.again_at = Some(Instant::now() + AGAIN);
                self.shared.change(|state| state.seen.refused.push(txn));
                Vec::new()
            }
            Body::Message(message) => self.message(txn, correlation, message),
        }
    }

    fn message(&self, txn: String, correlation: Option<String>, message: Outgoing) -> Vec<Vec<u8>> {
        let message_type = message.message_type();
        let (reaction, blobs) = self.shared.change(|state| {
            let behaviour = &state.behaviour;
            let own = behaviour.reactions.get(message_type);
            let reaction = own.copied().unwrap_or(behaviour.reaction);
            let blobs = match &message {
                Outgoing::RequestBlobUrls(asked) if !behaviour.keep_blobs => {
                    let known = |digest| behaviour.blobs.get(digest).cloned();
                    Some(asked.digests.iter().filter_map(known).collect())
                }
                _ => None,
            };
            state.seen.received.push(Received {
                txn: txn.clone(),
                correlation: correlation.clone(),
                message,
                connection: self.number,
            });
            (reaction, blobs)
        });
        let mut answers = match reaction {
            Reaction::Ack => vec![self.envelope(&txn, &ack_data())],
            Reaction::Silence => Vec::new(),
            Reaction::Nack { retry_after } => {
                let data = match retry_after {
                    Some(after) => format!(r#"{{"messageType":"nack","retryAfter":{after}}}"#),
                    None => r#"{"messageType":"nack"}"#.to_owned(),
                };
                vec![self.envelope(&txn, &data)]
            }
        };
        if let Some(items) = blobs {
            let data = Incoming::BlobUrls(BlobUrls { items }).data(correlation.as_deref());
            answers.push(self.envelope(&Uuid::new_v4().to_string(), &data));
        }
        answers
    }
}
