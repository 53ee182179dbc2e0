//! `.socket`: listens on behalf of a service that is started when somebody calls.
//!
//! ```text
//!          Start
//!   dead --------> start-pre -> start-chown -> start-post -> listening <--------------+
//!    ^                |             | SocketsOpened              | Incoming, service  | service
//!    |                |             | with an error              v up                 | down
//!    |                v             v                         running ----------------+
//!    |           final-sigterm    stop-post                      | Stop, limits
//!    |           final-sigkill <--------------- stop-pre <-------+
//!    +---- failed / dead <- final-* <- stop-post <- stop-pre-sigterm / -sigkill
//! ```
//!
//! - Accept=no: the first traffic triggers the service, which is handed the listening sockets; the socket unit looks away
//!   until the service is down. The sockets stay open all the while, so that callers queue in the kernel and nothing is
//!   lost while the service restarts.
//! - Accept=yes: every connection is taken by the executor and served by an instance of its own, up to MaxConnections=.
//! - A step with commands runs them one after the other; a step without is passed through at once. start-chown is the
//!   time between asking for the sockets and having them.
//! - A service that hit its start limit, or too many triggers, end the socket: else it would trigger for ever.

mod steps;

use serde::{Deserialize, Serialize};

use super::tools::{Control, Tools};
use crate::protocol::{ActiveState, DeadlineKind, Input, Outcome, Output, Severity};
use crate::spec::SocketSpec;
use crate::state::RateWindow;

/// The step that a socket unit is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketState {
    /// Down.
    #[default]
    Dead,
    /// ExecStartPre= runs.
    StartPre,
    /// The sockets are opened and given to their owner.
    StartChown,
    /// ExecStartPost= runs.
    StartPost,
    /// Traffic is awaited.
    Listening,
    /// The service has the sockets.
    Running,
    /// ExecStopPre= runs.
    StopPre,
    /// ExecStopPre= was told to end.
    StopPreSigterm,
    /// ExecStopPre= was killed.
    StopPreSigkill,
    /// ExecStopPost= runs.
    StopPost,
    /// What runs was told to end.
    FinalSigterm,
    /// What runs was killed.
    FinalSigkill,
    /// Down after a failure.
    Failed,
}

/// A socket unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Socket {
    /// Its step.
    pub state: SocketState,
    /// The first thing that went wrong in this run.
    pub outcome: Outcome,
    /// The command that runs.
    pub control: Control,
    /// The listening sockets are open.
    open: bool,
    /// How many connections are being served (Accept=yes).
    pub connections: u32,
    /// How many were taken over this run.
    pub accepted: u64,
    /// How many were refused.
    pub refused: u64,
    /// How often it has triggered lately.
    triggers: RateWindow,
}

/// A socket unit together with what it needs to act.
struct Act<'a, 'b> {
    socket: &'a mut Socket,
    spec: &'a SocketSpec,
    tools: &'a mut Tools<'b>,
}

impl Socket {
    pub(super) fn active(&self) -> ActiveState {
        use SocketState::*;
        match self.state {
            Dead => ActiveState::Inactive,
            StartPre | StartChown | StartPost => ActiveState::Activating,
            Listening | Running => ActiveState::Active,
            StopPre | StopPreSigterm | StopPreSigkill | StopPost | FinalSigterm | FinalSigkill => {
                ActiveState::Deactivating
            }
            Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(&self) -> &'static str {
        use SocketState::*;
        match self.state {
            Dead => "dead",
            StartPre => "start-pre",
            StartChown => "start-chown",
            StartPost => "start-post",
            Listening => "listening",
            Running => "running",
            StopPre => "stop-pre",
            StopPreSigterm => "stop-pre-sigterm",
            StopPreSigkill => "stop-pre-sigkill",
            StopPost => "stop-post",
            FinalSigterm => "final-sigterm",
            FinalSigkill => "final-sigkill",
            Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &SocketSpec, input: Input, tools: &mut Tools<'_>) {
        use SocketState::*;
        let state = self.state;
        let mut act = Act {
            socket: self,
            spec,
            tools,
        };
        match (input, state) {
            (Input::Start { .. }, Dead | Failed) => act.start(),
            (Input::Stop, _) => act.stop(),
            (Input::Spawned { process, .. } | Input::Delegated { process, .. }, _) => {
                act.spawned(process)
            }
            (Input::SpawnFailed { error, .. }, _) => act.spawn_failed(&error),
            (Input::Exited { pid, status }, _) => act.exited(pid, status),
            (Input::SocketsOpened { error }, StartChown) => match error {
                None => act.opened(),
                Some(error) => {
                    let message = format!(
                        "Listening line {} cannot be opened: errno {}.",
                        error.index + 1,
                        error.errno
                    );
                    act.tools.log(Severity::Error, message);
                    act.enter_stop_post(Outcome::Resources);
                }
            },
            (Input::Incoming, Listening) if !spec.accept => act.incoming(),
            (Input::Accepted { number }, Listening) if spec.accept => act.accepted(number),
            (Input::Accepted { number }, _) => {
                act.tools.push(Output::DropConnection { number });
            }
            (Input::ConnectionClosed, _) => {
                act.socket.connections = act.socket.connections.saturating_sub(1);
            }
            (
                Input::TriggeredChanged {
                    active,
                    outcome,
                    start_pending,
                },
                Listening | Running,
            ) if !spec.accept => act.service_changed(active, outcome, start_pending),
            (Input::Deadline(DeadlineKind::Step), _) => act.took_too_long(),
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => {
                self.state = Dead;
                self.outcome = Outcome::Success;
            }
            _ => {}
        }
    }
}

impl Act<'_, '_> {
    fn enter_listening(&mut self) {
        if self.spec.flush_pending && !self.spec.accept {
            self.tools.push(Output::FlushSockets);
        }
        self.tools.disarm(DeadlineKind::Step);
        self.tools.push(Output::WatchSockets(true));
        self.socket.state = SocketState::Listening;
    }

    fn incoming(&mut self) {
        if self.tools.context.stop_pending {
            // Nobody will be started any more; what came in must not wake the executor for ever.
            return self.tools.push(Output::WatchSockets(false));
        }
        if !self.may_trigger() {
            return;
        }
        self.tools.push(Output::WatchSockets(false));
        self.tools.push(Output::Trigger { connection: None });
        self.socket.state = SocketState::Running;
    }

    fn accepted(&mut self, number: u64) {
        if self.tools.context.stop_pending {
            return self.tools.push(Output::DropConnection { number });
        }
        if self.socket.connections >= self.spec.max_connections {
            self.socket.refused = self.socket.refused.saturating_add(1);
            let message = format!(
                "Connection {number} is refused: {} are being served.",
                self.socket.connections
            );
            self.tools.log(Severity::Warning, message);
            return self.tools.push(Output::DropConnection { number });
        }
        if !self.may_trigger() {
            return self.tools.push(Output::DropConnection { number });
        }
        self.socket.connections += 1;
        self.socket.accepted = self.socket.accepted.saturating_add(1);
        self.tools.push(Output::Trigger {
            connection: Some(number),
        });
    }

    /// Counts a trigger; one too many ends the socket.
    fn may_trigger(&mut self) -> bool {
        let now = self.tools.context.now.monotonic;
        let limit = self.spec.trigger_limit;
        if self.socket.triggers.would_exceed(limit, now) {
            self.tools
                .log(Severity::Error, "It triggered too often; it is given up.");
            self.enter_stop_pre(Outcome::TriggerLimitHit);
            return false;
        }
        self.socket.triggers.count(limit, now);
        true
    }

    fn service_changed(&mut self, active: ActiveState, outcome: Outcome, start_pending: bool) {
        let running = self.socket.state == SocketState::Running;
        if active == ActiveState::Failed && outcome == Outcome::StartLimitHit {
            self.tools
                .log(Severity::Error, "Its service was started too often.");
            self.enter_stop_pre(Outcome::ServiceStartLimitHit);
        } else if active.is_up() && !running {
            // Somebody else started the service: it has the sockets now.
            self.tools.push(Output::WatchSockets(false));
            self.socket.state = SocketState::Running;
        } else if active.is_down() && !start_pending && running {
            self.enter_listening();
        }
    }
}
