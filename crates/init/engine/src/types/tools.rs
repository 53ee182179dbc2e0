//! What the machines have in common: asking for things, and the one helper process of a step.

use serde::{Deserialize, Serialize};

use crate::ids::Span;
use crate::protocol::{
    CommandRef, Context, DeadlineKind, ExitStatus, KillScope, Outcome, Output, Process, Role,
    Severity,
};
use crate::spec::{CommandSpec, KillMode, KillSpec};

/// The moment of an input, and where the answers to it go.
pub(super) struct Tools<'a> {
    pub(super) context: &'a Context,
    pub(super) out: &'a mut Vec<Output>,
}

impl Tools<'_> {
    pub(super) fn push(&mut self, output: Output) {
        self.out.push(output);
    }

    pub(super) fn log(&mut self, severity: Severity, message: impl Into<Box<str>>) {
        self.out.push(Output::Log(severity, message.into()));
    }

    pub(super) fn arm(&mut self, kind: DeadlineKind, span: Span) {
        let at = self.context.now.monotonic.after(span);
        self.out.push(Output::Deadline { kind, at });
    }

    pub(super) fn disarm(&mut self, kind: DeadlineKind) {
        self.out.push(Output::Deadline { kind, at: None });
    }
}

/// The helper process of a unit whose steps are commands. From the moment a command is asked for until its end is known
/// the helper is busy, and no other is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// The command that is asked for or runs.
    command: Option<CommandRef>,
    /// Its process, once it is there.
    process: Option<Process>,
}

/// A signal of the stop sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Force {
    /// KillSignal=
    Terminate,
    /// FinalKillSignal=
    Kill,
}

impl Control {
    /// Whether a command is asked for or runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.command.is_some()
    }

    /// The process, if it is there.
    #[must_use]
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub(super) fn run(&mut self, command: CommandRef, tools: &mut Tools<'_>) {
        self.command = Some(command);
        self.process = None;
        tools.push(Output::Spawn {
            role: Role::Control,
            command,
        });
    }

    /// Takes a started process in. One that nobody waits for any longer is killed; false says so.
    pub(super) fn spawned(&mut self, process: Process, tools: &mut Tools<'_>) -> bool {
        if self.command.is_none()
            || self.process.is_some()
            || process.invocation != tools.context.invocation
        {
            tools.push(Output::KillStray { pid: process.pid });
            return false;
        }
        self.process = Some(process);
        true
    }

    /// The command whose process this is, if it is the helper: it has ended.
    pub(super) fn take_exit(&mut self, pid: u32) -> Option<CommandRef> {
        if self.process.as_ref().is_none_or(|helper| helper.pid != pid) {
            return None;
        }
        self.process = None;
        self.command.take()
    }

    /// The command that could not be started.
    pub(super) fn take_failure(&mut self) -> Option<CommandRef> {
        if self.process.is_some() {
            return None;
        }
        self.command.take()
    }

    /// Nothing waits for the helper any longer; should it start yet, it is a stray.
    pub(super) fn abandon(&mut self) {
        *self = Self::default();
    }

    /// Sends the helper, and what came of it, a signal.
    pub(super) fn signal(&self, spec: &KillSpec, force: Force, tools: &mut Tools<'_>) {
        let gentle = force == Force::Terminate;
        let scope = match spec.mode {
            KillMode::ControlGroup => KillScope::All,
            KillMode::Mixed if !gentle => KillScope::All,
            KillMode::Mixed | KillMode::Process | KillMode::None => KillScope::Control,
        };
        tools.push(Output::Kill {
            scope,
            signal: if gentle {
                spec.signal
            } else {
                spec.final_signal
            },
            and_continue: gentle,
            and_hangup: gentle && spec.send_sighup,
        });
    }
}

/// What the end of a helper means, without regard to a `-` before the command.
pub(super) fn judge(status: ExitStatus) -> Outcome {
    match status {
        ExitStatus::Code(0) => Outcome::Success,
        ExitStatus::Code(_) => Outcome::ExitCode,
        ExitStatus::Signal(_) => Outcome::Signal,
        ExitStatus::Core(_) => Outcome::CoreDump,
    }
}

/// The command that a reference names.
pub(super) fn command_at(commands: &[CommandSpec], at: CommandRef) -> Option<&CommandSpec> {
    commands
        .iter()
        .filter(|command| command.kind == at.kind)
        .nth(usize::from(at.index))
}
