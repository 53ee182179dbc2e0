//! The commands of a socket unit, on the way up and on the way down.

use super::{Act, SocketState};
use crate::protocol::{
    CommandRef, DeadlineKind, ExecKind, ExitStatus, Outcome, Output, Process, Severity, SpawnError,
};
use crate::types::tools::{Force, command_at, judge};

impl Act<'_, '_> {
    pub(super) fn start(&mut self) {
        let connections = self.socket.connections;
        *self.socket = super::Socket {
            // Instances of the run before may still serve.
            connections,
            ..super::Socket::default()
        };
        let taken = self.tools.context.triggered.is_some_and(|service| {
            !service.active.is_down() && service.active != crate::protocol::ActiveState::Activating
        });
        if taken && !self.spec.accept {
            let message = "Its service already runs without it; stop that first.";
            self.tools.log(Severity::Error, message);
            self.socket.outcome = Outcome::Resources;
            self.socket.state = SocketState::Failed;
            return;
        }
        self.socket.state = SocketState::StartPre;
        self.tools.arm(DeadlineKind::Step, self.spec.timeout);
        if !self.run(ExecKind::StartPre, 0) {
            self.enter_start_chown();
        }
    }

    pub(super) fn stop(&mut self) {
        use SocketState::*;
        match self.socket.state {
            StartPre | StartPost if self.socket.control.is_busy() => {
                self.enter_signal(FinalSigterm, Outcome::Success);
            }
            StartPre | StartChown | StartPost => self.enter_stop_post(Outcome::Success),
            Listening | Running => self.enter_stop_pre(Outcome::Success),
            // Down, or on the way.
            Dead | StopPre | StopPreSigterm | StopPreSigkill | StopPost | FinalSigterm
            | FinalSigkill | Failed => {}
        }
    }

    /// Runs line `index` of a list; false if there is none.
    fn run(&mut self, kind: ExecKind, index: u16) -> bool {
        let at = CommandRef { kind, index };
        if command_at(&self.spec.commands, at).is_none() {
            return false;
        }
        self.socket.control.run(at, self.tools);
        true
    }

    fn enter_start_chown(&mut self) {
        self.socket.state = SocketState::StartChown;
        self.socket.open = true;
        self.tools.push(Output::OpenSockets);
    }

    pub(super) fn opened(&mut self) {
        self.socket.state = SocketState::StartPost;
        if !self.run(ExecKind::StartPost, 0) {
            self.enter_listening();
        }
    }

    pub(super) fn spawned(&mut self, process: Process) {
        if !self.socket.control.spawned(process, self.tools) {
            return;
        }
        if let Some(force) = force_of(self.socket.state) {
            self.socket
                .control
                .signal(&self.spec.kill, force, self.tools);
        }
    }

    pub(super) fn spawn_failed(&mut self, error: &SpawnError) {
        if let Some(command) = self.socket.control.take_failure() {
            let message = format!(
                "A command could not be started: {}: errno {}.",
                error.step, error.errno
            );
            self.tools.log(Severity::Error, message);
            self.command_ended(command, ExitStatus::Code(error.exit_code));
        }
    }

    pub(super) fn exited(&mut self, pid: u32, status: ExitStatus) {
        if let Some(command) = self.socket.control.take_exit(pid) {
            self.command_ended(command, status);
        }
    }

    fn command_ended(&mut self, command: CommandRef, status: ExitStatus) {
        use SocketState::*;
        let ignored = command_at(&self.spec.commands, command).is_some_and(|c| c.ignore_failure);
        let outcome = if ignored {
            Outcome::Success
        } else {
            judge(status)
        };
        let well = outcome == Outcome::Success;
        let in_list = matches!(self.socket.state, StartPre | StartPost | StopPre | StopPost);
        if in_list && well && self.run(command.kind, command.index.saturating_add(1)) {
            return;
        }
        match self.socket.state {
            StartPre if well => self.enter_start_chown(),
            StartPre => self.enter_signal(FinalSigterm, outcome),
            StartPost if well => self.enter_listening(),
            StartPost => self.enter_stop_pre(outcome),
            StopPre => self.enter_stop_post(outcome),
            // It was told to end, so how it ended says nothing new.
            StopPreSigterm | StopPreSigkill => self.enter_stop_post(Outcome::Success),
            StopPost => self.enter_dead(outcome),
            FinalSigterm | FinalSigkill => self.enter_dead(Outcome::Success),
            Dead | StartChown | Listening | Running | Failed => {}
        }
    }

    pub(super) fn enter_stop_pre(&mut self, outcome: Outcome) {
        self.blame(outcome);
        self.socket.state = SocketState::StopPre;
        self.tools.push(Output::WatchSockets(false));
        self.tools.arm(DeadlineKind::Step, self.spec.timeout);
        if !self.run(ExecKind::StopPre, 0) {
            self.enter_stop_post(Outcome::Success);
        }
    }

    /// The sockets are closed before the last commands run, so that those see the file system as it will be left.
    pub(super) fn enter_stop_post(&mut self, outcome: Outcome) {
        self.blame(outcome);
        self.close();
        self.socket.state = SocketState::StopPost;
        self.tools.arm(DeadlineKind::Step, self.spec.timeout);
        if !self.run(ExecKind::StopPost, 0) {
            self.enter_dead(Outcome::Success);
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.socket.open) {
            self.tools.push(Output::CloseSockets);
        }
    }

    /// Ends the command that runs, or goes on at once where there is none.
    fn enter_signal(&mut self, state: SocketState, outcome: Outcome) {
        use SocketState::*;
        self.blame(outcome);
        self.socket.state = state;
        if !self.socket.control.is_busy() {
            return match state {
                StopPreSigterm | StopPreSigkill => self.enter_stop_post(Outcome::Success),
                _ => self.enter_dead(Outcome::Success),
            };
        }
        self.tools.arm(DeadlineKind::Step, self.spec.timeout);
        if let Some(force) = force_of(state) {
            self.socket
                .control
                .signal(&self.spec.kill, force, self.tools);
        }
    }

    pub(super) fn took_too_long(&mut self) {
        use SocketState::*;
        let state = self.socket.state;
        if matches!(state, Dead | Listening | Running | Failed) {
            return;
        }
        let message = format!("The step {} took too long.", self.socket.sub_state());
        self.tools.log(Severity::Error, message);
        match state {
            StartChown => self.enter_stop_post(Outcome::Timeout),
            StartPre => self.enter_signal(FinalSigterm, Outcome::Timeout),
            StartPost | StopPre => self.enter_signal(StopPreSigterm, Outcome::Timeout),
            StopPost => self.enter_signal(FinalSigterm, Outcome::Timeout),
            StopPreSigterm if self.spec.kill.send_sigkill => {
                self.enter_signal(StopPreSigkill, Outcome::Timeout);
            }
            FinalSigterm if self.spec.kill.send_sigkill => {
                self.enter_signal(FinalSigkill, Outcome::Timeout);
            }
            StopPreSigterm | StopPreSigkill => {
                self.socket.control.abandon();
                self.enter_stop_post(Outcome::Timeout);
            }
            _ => {
                self.socket.control.abandon();
                self.enter_dead(Outcome::Timeout);
            }
        }
    }

    fn blame(&mut self, outcome: Outcome) {
        if self.socket.outcome == Outcome::Success {
            self.socket.outcome = outcome;
        }
    }

    fn enter_dead(&mut self, outcome: Outcome) {
        self.blame(outcome);
        self.close();
        self.tools.disarm(DeadlineKind::Step);
        self.tools.push(Output::ReleaseCgroup);
        self.tools.push(Output::ReleaseResources);
        self.socket.state = match self.socket.outcome {
            Outcome::Success => SocketState::Dead,
            _ => SocketState::Failed,
        };
    }
}

fn force_of(state: SocketState) -> Option<Force> {
    use SocketState::*;
    match state {
        StopPreSigterm | FinalSigterm => Some(Force::Terminate),
        StopPreSigkill | FinalSigkill => Some(Force::Kill),
        _ => None,
    }
}
