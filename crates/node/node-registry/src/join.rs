//! The Secondary Node's end: joining the Main Node and doing what it asks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use muster_api::domain::{NodeInfo, NodeState};
use muster_rpc::link::Epoch;
use muster_rpc::{
    BoxFuture, Dial, DialError, LinkStatus, Received, StreamBuilder, StreamConfig, StreamHandle,
    StreamIncoming, Transport,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::command::{Answer, CommandKind, NodeCommands};
use crate::protocol::{NodeEnd, to_main};

/// Which of the Main Node's ports a node joins on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinPort {
    /// Without a certificate of its own.
    Public,
    /// With its certificate.
    Protected,
}

impl JoinPort {
    /// Where a node in this state joins.
    pub fn for_state(state: NodeState) -> Self {
        match state {
            NodeState::Unprovisioned => Self::Public,
            NodeState::Provisioned | NodeState::Paused | NodeState::Error => Self::Protected,
        }
    }
}

impl fmt::Display for JoinPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Public => "public",
            Self::Protected => "protected",
        })
    }
}

/// How the Main Node's ports are reached. Each is dialled anew for every attempt, so a certificate
/// that appears or changes later is used by the next.
#[derive(Clone)]
pub struct JoinTargets {
    /// The public port.
    pub public: Arc<dyn Dial>,
    /// The protected port. While there is no certificate its attempts fail, and are repeated.
    pub protected: Arc<dyn Dial>,
}

impl fmt::Debug for JoinTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinTargets")
            .field("public", &self.public.origin())
            .field("protected", &self.protected.origin())
            .finish()
    }
}

/// Everything that can be set about a [`JoinLink`].
#[derive(Clone, Copy, Debug)]
pub struct JoinConfig {
    /// The stream.
    pub stream: StreamConfig,
    /// How long, after a command that moves the node to the other port was answered, the Main Node is
    /// given to end the stream, which shows that it has the answer.
    pub farewell: Duration,
}

impl Default for JoinConfig {
    fn default() -> Self {
        Self {
            stream: StreamConfig {
                incoming: 8,
                commands: 8,
                ..StreamConfig::default()
            },
            farewell: Duration::from_secs(2),
        }
    }
}

/// A node's stream to the Main Node, kept up for ever. Ends when stopped or dropped.
#[derive(Debug)]
pub struct JoinLink {
    stop: CancellationToken,
    status: watch::Receiver<JoinStatus>,
    task: Option<JoinHandle<()>>,
}

/// Where a [`JoinLink`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinStatus {
    /// The port that is used.
    pub port: JoinPort,
    /// Whether there is a stream. The Main Node may still refuse it.
    pub connected: bool,
}

impl JoinLink {
    /// Starts the link's task: it joins, describes the node and every change of it, and carries out
    /// what the Main Node asks, one command at a time. Must be called inside a tokio runtime.
    pub fn start(
        targets: JoinTargets,
        info: watch::Receiver<NodeInfo>,
        commands: Arc<dyn NodeCommands>,
        config: JoinConfig,
    ) -> Self {
        let port = JoinPort::for_state(info.borrow().state);
        let (status_out, status) = watch::channel(JoinStatus {
            port,
            connected: false,
        });
        let stop = CancellationToken::new();
        let task = Task {
            targets,
            info,
            commands,
            config,
            status: status_out,
            at_work: None,
        };
        Self {
            task: Some(tokio::spawn(task.run(stop.clone()))),
            stop,
            status,
        }
    }

    /// Where the link is, and every change of it.
    pub fn status(&self) -> watch::Receiver<JoinStatus> {
        self.status.clone()
    }

    /// Leaves the Main Node. A command that is being carried out goes on; nobody gets its answer.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic has been reported by the runtime, and the link is gone either way.
            let _ = task.await;
        }
    }
}

impl Drop for JoinLink {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A command that is being carried out, in a task of its own: it goes on when the stream breaks.
struct AtWork {
    command: CommandKind,
    stream: Epoch,
    answer: JoinHandle<Answer>,
}

struct Task {
    targets: JoinTargets,
    info: watch::Receiver<NodeInfo>,
    commands: Arc<dyn NodeCommands>,
    config: JoinConfig,
    status: watch::Sender<JoinStatus>,
    at_work: Option<AtWork>,
}

impl Task {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let port = self.port();
            let target = match port {
                JoinPort::Public => &self.targets.public,
                JoinPort::Protected => &self.targets.protected,
            };
            info!(%port, main = %target.origin(), "joining the Main Node");
            let latest = self.info.clone();
            let (handle, incoming) =
                StreamBuilder::<NodeEnd>::new(SharedDial(Arc::clone(target)), self.config.stream)
                    .hello(move || {
                        let info = latest.borrow().clone();
                        // By then the node may belong on the other port; it says nothing here.
                        if JoinPort::for_state(info.state) != port {
                            return Vec::new();
                        }
                        vec![to_main(Answer::NodeInfo(info.into()))]
                    })
                    .start();
            let stopped = tokio::select! {
                () = self.stay(port, &handle, incoming) => false,
                () = stop.cancelled() => true,
            };
            handle.stop().await;
            self.show(self.port(), false);
            if stopped {
                return;
            }
        }
    }

    fn show(&self, port: JoinPort, connected: bool) {
        let now = JoinStatus { port, connected };
        self.status
            .send_if_modified(|status| std::mem::replace(status, now) != now);
    }

    fn port(&self) -> JoinPort {
        JoinPort::for_state(self.info.borrow().state)
    }

    /// Serves one port until the node belongs on the other.
    async fn stay(
        &mut self,
        port: JoinPort,
        handle: &StreamHandle<NodeEnd>,
        mut incoming: StreamIncoming<NodeEnd>,
    ) {
        let mut link = handle.status();
        let mut described = true;
        let mut answered: Option<Instant> = None;
        loop {
            let connected = *link.borrow_and_update() == LinkStatus::Connected;
            self.show(port, connected);
            // A node that is to move leaves when its last answer has arrived, of which the end of the
            // stream is the sign, or else time.
            let leaving = self.at_work.is_none() && self.port() != port;
            let leave_at = answered
                .map(|at| at + self.config.farewell)
                .filter(|_| leaving);
            if leaving && (!connected || leave_at.is_none_or(|at| Instant::now() >= at)) {
                return;
            }
            tokio::select! {
                changed = self.info.changed(), if described => {
                    described = changed.is_ok();
                    self.describe(port, handle).await;
                }
                received = incoming.recv(), if self.at_work.is_none() && !leaving => {
                    match received {
                        Some(received) => self.begin(received),
                        None => return,
                    }
                }
                answer = finished(&mut self.at_work), if self.at_work.is_some() => {
                    self.answer(answer, handle).await;
                    answered = Some(Instant::now());
                }
                changed = link.changed() => if changed.is_err() {
                    return;
                },
                () = sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => {}
            }
        }
    }

    async fn describe(&self, port: JoinPort, handle: &StreamHandle<NodeEnd>) {
        let info = self.info.borrow().clone();
        if JoinPort::for_state(info.state) == port {
            // Dropped without a stream: the next one begins with it.
            let sent = handle.send(&to_main(Answer::NodeInfo(info.into()))).await;
            if let Err(failed) = sent {
                warn!(error = %failed, "the Main Node was not told of a change of this node");
            }
        }
    }

    fn begin(&mut self, received: Received<<NodeEnd as muster_rpc::Protocol>::In>) {
        let Some(command) = received.message.iam_incoming_message else {
            warn!("the Main Node sent a message without a command that is known here");
            return;
        };
        let kind = CommandKind::of(&command);
        info!(command = %kind, "carrying out a command of the Main Node");
        let commands = Arc::clone(&self.commands);
        self.at_work = Some(AtWork {
            command: kind,
            stream: received.stream,
            answer: tokio::spawn(async move { commands.carry_out(command).await }),
        });
    }

    async fn answer(&mut self, done: Done, handle: &StreamHandle<NodeEnd>) {
        let Done {
            command,
            stream,
            answer,
        } = done;
        let Some(answer) = answer else {
            error!(%command, "a command of the Main Node was not carried out to its end");
            return;
        };
        if let Err(failed) = handle.reply(stream, &to_main(answer)).await {
            warn!(%command, error = %failed, "the Main Node does not get the answer to its command");
        }
    }
}

struct Done {
    command: CommandKind,
    stream: Epoch,
    /// None when the command panicked.
    answer: Option<Answer>,
}

/// Waits for the command at work. Dropping the future loses nothing.
async fn finished(at_work: &mut Option<AtWork>) -> Done {
    let Some(work) = at_work else {
        return std::future::pending().await;
    };
    let answer = (&mut work.answer).await.ok();
    let done = Done {
        command: work.command,
        stream: work.stream,
        answer,
    };
    *at_work = None;
    done
}

struct SharedDial(Arc<dyn Dial>);

impl Dial for SharedDial {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        self.0.dial()
    }

    fn origin(&self) -> Uri {
        self.0.origin()
    }
}
