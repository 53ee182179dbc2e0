//! The task that owns the table, and carries out what the table decides.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{NodeId, NodeInfo};
use muster_api::iamanager::v6 as wire;
use muster_rpc::session::Session;
use muster_rpc::slots::AskError;
use muster_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tracing::{debug, error, info};

use super::{ForgetNodeError, RouteError};
use crate::command::{Answer, Command, CommandKind, NodeCommands, answered_failure};
use crate::fault;
use crate::limits::RegistryLimits;
use crate::protocol::{MainEnd, to_node};
use crate::published::Publisher;
use crate::refusal::JoinRefused;
use crate::stored;
use crate::table::{At, Effect, Event, NodeTable, PeerKind, Route, StreamId};

type Reply = oneshot::Sender<Result<Answer, RouteError>>;

/// What the registry's task is asked for.
pub(super) enum Request {
    Join {
        stream: StreamId,
        peer: PeerKind,
        info: Box<NodeInfo>,
        session: Session<MainEnd>,
    },
    Event(Box<Event>),
    Command {
        node: String,
        command: Box<Command>,
        reply: Reply,
    },
    Ended(Box<Ended>),
    Forget {
        node: String,
        reply: oneshot::Sender<Result<(), ForgetNodeError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
}

/// A command that was answered or given up.
pub(super) struct Ended {
    node: NodeId,
    /// None: the command was for the Main Node itself.
    stream: Option<StreamId>,
    command: CommandKind,
    answer: Result<Answer, AskError>,
    reply: Reply,
}

/// Told when the next write has ended.
type Waiter = Box<dyn FnOnce(Result<(), Arc<StoreError>>) + Send>;
type Write = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

pub(super) struct Actor {
    table: NodeTable,
    store: Store,
    publisher: Publisher,
    local: Arc<dyn NodeCommands>,
    limits: RegistryLimits,
    /// For the tasks that are started here. Weak: the registry ends when nobody else has one.
    requests: mpsc::WeakSender<Request>,
    sessions: HashMap<StreamId, Session<MainEnd>>,
    effects: Vec<Effect>,
    /// Wait for the next write to begin.
    waiting: Vec<Waiter>,
    /// Wait for the present write to end.
    written: Vec<Waiter>,
    started: Instant,
}

impl Actor {
    pub(super) fn new(
        table: NodeTable,
        store: Store,
        publisher: Publisher,
        local: Arc<dyn NodeCommands>,
        limits: RegistryLimits,
        requests: mpsc::WeakSender<Request>,
    ) -> Self {
        Self {
            table,
            store,
            publisher,
            local,
            limits,
            requests,
            sessions: HashMap::new(),
            effects: Vec::new(),
            waiting: Vec::new(),
            written: Vec::new(),
            started: Instant::now(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        mut local_info: watch::Receiver<NodeInfo>,
    ) {
        let mut write: Option<Write> = None;
        let mut local_lives = true;
        loop {
            if write.is_none() {
                write = self.begin_write();
            }
            let due = self.table.next_due();
            tokio::select! {
                result = async {
                    match write.as_mut() {
                        Some(write) => write.await,
                        None => std::future::pending().await,
                    }
                } => {
                    write = None;
                    self.end_write(result);
                }
                changed = local_info.changed(), if local_lives => {
                    local_lives = changed.is_ok();
                    self.look_at_local(&mut local_info);
                }
                request = requests.recv() => match request {
                    Some(Request::Shutdown { reply }) => {
                        self.shut_down(write.take(), &mut requests).await;
                        // The asker may have gone.
                        let _ = reply.send(());
                        return;
                    }
                    Some(request) => self.take(request, &mut local_info),
                    None => return self.shut_down(write.take(), &mut requests).await,
                },
                () = sleep_until(self.started + due.unwrap_or_default()),
                    if due.is_some() && write.is_none() => {}
            }
        }
    }

    fn at(&self) -> At {
        At {
            now: self.started.elapsed(),
            wall: SystemTime::now(),
        }
    }

    fn take(&mut self, request: Request, local_info: &mut watch::Receiver<NodeInfo>) {
        match request {
            Request::Join {
                stream,
                peer,
                info,
                session,
            } => {
                self.sessions.insert(stream, session);
                self.handle(Event::Join {
                    stream,
                    peer,
                    info: *info,
                });
            }
            Request::Event(event) => {
                if let Event::Left { stream } = *event {
                    self.sessions.remove(&stream);
                }
                self.handle(*event);
            }
            Request::Command {
                node,
                command,
                reply,
            } => self.command(&node, *command, reply),
            Request::Ended(ended) => self.ended(*ended, local_info),
            Request::Forget { node, reply } => self.forget(&node, reply),
            Request::Shutdown { .. } => {}
        }
    }

    fn handle(&mut self, event: Event) {
        let at = self.at();
        self.table.handle(at, event, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Admit { stream, node } => info!(%node, ?stream, "a node has joined"),
                Effect::Close(stream, why) => {
                    // Everything else that strangers can cause is limited by this.
                    if why == JoinRefused::TooFast {
                        debug!(?stream, reason = %why, "a node's stream is closed");
                    } else {
                        info!(?stream, reason = %why, "a node's stream is closed");
                    }
                    if let Some(session) = self.sessions.remove(&stream) {
                        session.close(Some(Status::from(&why)));
                    }
                }
                Effect::Probe(stream) => self.probe(stream),
            }
        }
    }

    /// Asks for something that every node can tell at once and that changes nothing.
    fn probe(&self, stream: StreamId) {
        let (Some(session), Some(requests)) =
            (self.sessions.get(&stream).cloned(), self.requests.upgrade())
        else {
            return;
        };
        let patience = self.limits.probe;
        tokio::spawn(async move {
            let question = Command::GetCertTypesRequest(wire::GetCertTypesRequest::default());
            let kind = CommandKind::GetCertTypes.reply_kind();
            let answer = session.ask_within(to_node(question), kind, patience).await;
            let answers = answer.is_ok();
            let probed = Request::Event(Box::new(Event::Probed { stream, answers }));
            // Nobody to tell when the registry has ended.
            let _ = requests.send(probed).await;
        });
    }

    fn command(&mut self, node: &str, command: Command, reply: Reply) {
        let kind = CommandKind::of(&command);
        let route = match self.table.route(node, kind) {
            Ok(route) => route,
            Err(source) => {
                let refused = RouteError::Refused {
                    command: kind,
                    source,
                };
                // The asker may have gone.
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let Some(requests) = self.requests.upgrade() else {
            return;
        };
        match route {
            Route::Local { node } => {
                let local = Arc::clone(&self.local);
                tokio::spawn(async move {
                    let answer = Ok(local.carry_out(command).await);
                    let ended = Ended {
                        node,
                        stream: None,
                        command: kind,
                        answer,
                        reply,
                    };
                    let _ = requests.send(Request::Ended(Box::new(ended))).await;
                });
            }
            Route::Stream { node, stream } => {
                // Every stream that the table knows has its session.
                let Some(session) = self.sessions.get(&stream).cloned() else {
                    return;
                };
                self.handle(Event::Began { stream });
                let patience = kind.deadline(&self.limits.deadlines);
                tokio::spawn(async move {
                    let message = to_node(command);
                    let answer = session
                        .ask_within(message, kind.reply_kind(), patience)
                        .await;
                    // A message without content is of no kind, so it never gets here.
                    let answer = answer.and_then(|answer| {
                        answer.iam_outgoing_message.ok_or(AskError::Disconnected)
                    });
                    let ended = Ended {
                        node,
                        stream: Some(stream),
                        command: kind,
                        answer,
                        reply,
                    };
                    let _ = requests.send(Request::Ended(Box::new(ended))).await;
                });
            }
        }
    }

    fn ended(&mut self, ended: Ended, local_info: &mut watch::Receiver<NodeInfo>) {
        let Ended {
            node,
            stream,
            command,
            answer,
            reply,
        } = ended;
        match stream {
            Some(stream) => {
                let succeeded = matches!(&answer, Ok(answer) if answered_failure(answer).is_none());
                let state = if succeeded { command.leads_to() } else { None };
                self.handle(Event::Ended {
                    node: node.clone(),
                    stream,
                    state,
                });
            }
            None => self.look_at_local(local_info),
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(source) => {
                let _ = reply.send(Err(RouteError::NoAnswer {
                    node,
                    command,
                    source,
                }));
                return;
            }
        };
        if !self.table.is_due(&node, self.started.elapsed()) {
            let _ = reply.send(Ok(answer));
            return;
        }
        self.waiting.push(Box::new(move |stored| {
            let result = stored
                .map(|()| answer)
                .map_err(|source| RouteError::NotStored {
                    node,
                    command,
                    source,
                });
            let _ = reply.send(result);
        }));
    }

    fn look_at_local(&mut self, local_info: &mut watch::Receiver<NodeInfo>) {
        let info = local_info.borrow_and_update().clone();
        self.handle(Event::Local(info));
    }

    fn forget(&mut self, node: &str, reply: oneshot::Sender<Result<(), ForgetNodeError>>) {
        match self.table.forget(node) {
            Ok(()) => self.waiting.push(Box::new(move |stored| {
                let _ = reply.send(stored.map_err(ForgetNodeError::NotStored));
            })),
            Err(refused) => {
                let _ = reply.send(Err(ForgetNodeError::Refused(refused)));
            }
        }
    }

    fn begin_write(&mut self) -> Option<Write> {
        let at = self.at();
        let Some(batch) = self.table.begin_write(at) else {
            // What they waited for has been taken back meanwhile; there is nothing to store.
            for waiter in self.waiting.drain(..) {
                waiter(Ok(()));
            }
            return None;
        };
        self.written = std::mem::take(&mut self.waiting);
        debug!(nodes = batch.store.len(), "storing changes of nodes");
        Some(Box::pin(stored::save(self.store.clone(), batch, at.wall)))
    }

    fn end_write(&mut self, result: Result<(), StoreError>) {
        let at = self.at();
        let result = result.map_err(|failed| {
            error!(
                error = &failed as &dyn StdError,
                "changes of nodes could not be stored and are held back"
            );
            Arc::new(failed)
        });
        let publications = self.table.end_write(at, result.is_ok());
        self.publisher.publish(publications);
        muster_fault::hit(fault::SHOWN);
        for waiter in self.written.drain(..) {
            waiter(result.clone());
        }
    }

    /// Nothing is taken any more, streams are told to end, what is due is stored.
    async fn shut_down(mut self, write: Option<Write>, requests: &mut mpsc::Receiver<Request>) {
        requests.close();
        for session in self.sessions.values() {
            session.close(Some(Status::from(&JoinRefused::ShuttingDown)));
        }
        if let Some(write) = write {
            let result = write.await;
            self.end_write(result);
        }
        if let Some(write) = self.begin_write() {
            let result = write.await;
            self.end_write(result);
        }
    }
}
