//! `.automount`: a place where something is mounted as soon as somebody looks.
//!
//! ```text
//!          Start            Waiting, mount up
//!   dead --------> waiting -------------------> running
//!    ^   Stop         ^                            |
//!    +----------------+------- mount down ---------+
//!         AutomountGone, or the mount's start limit: failed
//! ```
//!
//! Whoever looks is held by the kernel until [`Output::AnswerWaiting`]: with 0 when the mount is up, with an error when it
//! could not be had or the automount point goes away. Nobody is ever left waiting in a state that will not answer.

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use crate::ids::Span;
use crate::protocol::{ActiveState, DeadlineKind, Input, Outcome, Output, Severity};
use crate::spec::AutomountSpec;

const ENODEV: i32 = 19;
const EHOSTDOWN: i32 = 112;

/// The step that an automount point is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AutomountState {
    /// Down.
    #[default]
    Dead,
    /// Nobody has looked yet.
    Waiting,
    /// The mount comes up or is up.
    Running,
    /// Down after a failure.
    Failed,
}

/// An automount point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Automount {
    /// Its step.
    pub state: AutomountState,
    /// Why it is down.
    pub outcome: Outcome,
    /// Somebody is held until there is an answer.
    held: bool,
}

impl Automount {
    pub(super) fn active(self) -> ActiveState {
        match self.state {
            AutomountState::Dead => ActiveState::Inactive,
            AutomountState::Waiting | AutomountState::Running => ActiveState::Active,
            AutomountState::Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match self.state {
            AutomountState::Dead => "dead",
            AutomountState::Waiting => "waiting",
            AutomountState::Running => "running",
            AutomountState::Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &AutomountSpec, input: &Input, tools: &mut Tools<'_>) {
        use AutomountState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => {
                *self = Self {
                    state: Waiting,
                    ..Self::default()
                };
                tools.push(Output::Automount(true));
            }
            (Input::Stop, Waiting | Running) => self.enter_dead(Outcome::Success, tools),
            (Input::Waiting { pid }, Waiting | Running) => self.asked(*pid, tools),
            (Input::Waiting { .. }, Dead | Failed) => tools.push(Output::AnswerWaiting(EHOSTDOWN)),
            (
                Input::TriggeredChanged {
                    active,
                    outcome,
                    start_pending,
                },
                Waiting | Running,
            ) => self.mount_changed(*active, *outcome, *start_pending, spec, tools),
            (Input::Deadline(DeadlineKind::Idle), Running) => {
                tools.push(Output::ExpireMounts);
                self.watch_idleness(spec, tools);
            }
            (Input::Expired, Running) => {
                // The kernel holds the mount point until it is told how this went.
                self.held = true;
                tools.push(Output::StopTriggered);
            }
            (Input::AutomountGone { errno }, Waiting | Running) => {
                let outcome = match errno {
                    Some(errno) => {
                        let message = format!("It could not be set up: errno {errno}.");
                        tools.log(Severity::Error, message);
                        Outcome::Resources
                    }
                    None => {
                        tools.log(Severity::Error, "Somebody took it away.");
                        Outcome::Unmounted
                    }
                };
                self.enter_dead(outcome, tools);
            }
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => *self = Self::default(),
            _ => {}
        }
    }

    fn asked(&mut self, pid: u32, tools: &mut Tools<'_>) {
        if tools.context.stop_pending {
            return tools.push(Output::AnswerWaiting(EHOSTDOWN));
        }
        tools.log(Severity::Debug, format!("Process {pid} looks at it."));
        self.state = AutomountState::Running;
        let mounted = tools.context.triggered.map(|mount| mount.active);
        if mounted.is_some_and(ActiveState::is_up) {
            return tools.push(Output::AnswerWaiting(0));
        }
        self.held = true;
        tools.push(Output::Trigger { connection: None });
    }

    fn mount_changed(
        &mut self,
        active: ActiveState,
        outcome: Outcome,
        start_pending: bool,
        spec: &AutomountSpec,
        tools: &mut Tools<'_>,
    ) {
        if active.is_up() {
            self.state = AutomountState::Running;
            self.answer(0, tools);
            self.watch_idleness(spec, tools);
        } else if active.is_down() && !start_pending {
            if outcome == Outcome::StartLimitHit {
                tools.log(Severity::Error, "What it mounts was started too often.");
                return self.enter_dead(Outcome::MountStartLimitHit, tools);
            }
            self.answer(ENODEV, tools);
            tools.disarm(DeadlineKind::Idle);
            self.state = AutomountState::Waiting;
        }
    }

    fn answer(&mut self, errno: i32, tools: &mut Tools<'_>) {
        if std::mem::take(&mut self.held) {
            tools.push(Output::AnswerWaiting(errno));
        }
    }

    /// The kernel is asked for idle mounts a few times within the idle time, so that it is kept within a third.
    fn watch_idleness(&self, spec: &AutomountSpec, tools: &mut Tools<'_>) {
        if let Some(idle) = spec.idle_timeout.finite().filter(|idle| *idle > 0) {
            tools.arm(DeadlineKind::Idle, Span((idle / 3).max(1)));
        }
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.outcome = outcome;
        self.answer(EHOSTDOWN, tools);
        tools.disarm(DeadlineKind::Idle);
        tools.push(Output::Automount(false));
        self.state = match outcome {
            Outcome::Success => AutomountState::Dead,
            _ => AutomountState::Failed,
        };
    }
}
