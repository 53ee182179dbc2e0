//! One stream of a node: what arrives on it becomes events of the table.

use muster_api::domain::NodeInfo;
use muster_api::iamanager::v6 as wire;
use muster_rpc::session::{Session, SessionIncoming};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use tracing::{debug, info};

use super::actor::Request;
use crate::command::Answer;
use crate::limits::RegistryLimits;
use crate::protocol::MainEnd;
use crate::refusal::JoinRefused;
use crate::table::{Event, PeerKind, StreamId};

pub(super) struct NodeStream {
    pub(super) id: StreamId,
    pub(super) session: Session<MainEnd>,
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) limits: RegistryLimits,
}

impl NodeStream {
    /// Runs until the stream ends. Whatever happens, the table is told.
    pub(super) async fn run(self, peer: PeerKind, mut incoming: SessionIncoming<MainEnd>) {
        let stream = self.id;
        let hello = timeout(self.limits.hello, self.next_info(&mut incoming)).await;
        let hello = hello.unwrap_or(Some(Err(JoinRefused::NoHello {
            within: self.limits.hello,
        })));
        let info = match hello {
            Some(Ok(info)) => info,
            Some(Err(refused)) => {
                // Who needs no certificate to come here could fill the log.
                match peer {
                    PeerKind::Public => debug!(reason = %refused, "a node's stream was refused"),
                    PeerKind::Protected { node } => {
                        info!(%node, reason = %refused, "a node's stream was refused");
                    }
                }
                self.session.close(Some(Status::from(&refused)));
                return;
            }
            None => return,
        };
        let join = Request::Join {
            stream,
            peer,
            info: Box::new(info),
            session: self.session.clone(),
        };
        if self.requests.send(join).await.is_err() {
            return self.close(&JoinRefused::ShuttingDown);
        }
        while let Some(next) = self.next_info(&mut incoming).await {
            let event = match next {
                Ok(info) => Event::Info { stream, info },
                Err(refused) => {
                    info!(?stream, reason = %refused, "a node's stream is closed");
                    self.close(&refused);
                    break;
                }
            };
            if self.tell(event).await.is_err() {
                return self.close(&JoinRefused::ShuttingDown);
            }
        }
        // Nobody to tell when the registry has ended.
        let _ = self.tell(Event::Left { stream }).await;
    }

    async fn tell(&self, event: Event) -> Result<(), mpsc::error::SendError<Request>> {
        self.requests.send(Request::Event(Box::new(event))).await
    }

    fn close(&self, why: &JoinRefused) {
        self.session.close(Some(Status::from(why)));
    }

    /// The next description of the node; nothing when the stream has ended.
    async fn next_info(
        &self,
        incoming: &mut SessionIncoming<MainEnd>,
    ) -> Option<Result<NodeInfo, JoinRefused>> {
        loop {
            match incoming.recv().await?.iam_outgoing_message {
                Some(Answer::NodeInfo(info)) => return Some(self.check(info)),
                // Answers that nobody waits for. Their content may be long, or secret.
                Some(_) => debug!(stream = ?self.id, "threw an answer away that nobody waits for"),
                None => debug!(stream = ?self.id, "threw an empty message away"),
            }
        }
    }

    fn check(&self, info: wire::NodeInfo) -> Result<NodeInfo, JoinRefused> {
        let (len, limit) = (info.encoded_len(), self.limits.info_bytes);
        if len > limit {
            return Err(JoinRefused::InfoTooLong { len, limit });
        }
        NodeInfo::try_from(info).map_err(|problem| JoinRefused::InvalidInfo { problem })
    }
}
