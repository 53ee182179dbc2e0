//! A machine alone in a small world: an executor that keeps processes, deadlines and tables.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{Clock, InvocationId, Span, Time};
use crate::protocol::{
    ActiveState, CommandRef, Context, DeadlineKind, ExecKind, ExitStatus, Input, KillScope,
    Outcome, Output, Process, Role, SpawnError, Triggered,
};
use crate::spec::{CommandSpec, KindSpec, UnitSpec};
use crate::types::Machine;

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) spec: UnitSpec,
    pub(crate) context: Context,
    pub(crate) deadlines: BTreeMap<DeadlineKind, Time>,
    pub(crate) real_deadline: Option<i64>,
    /// Processes that live, with their role.
    pub(crate) processes: Vec<(u32, Role)>,
    /// Commands that were asked for and not answered.
    pub(crate) asked: VecDeque<(Role, CommandRef)>,
    /// Outputs of the last input.
    pub(crate) out: Vec<Output>,
    next_pid: u32,
}

pub(crate) fn commands(kinds: &[ExecKind]) -> Box<[CommandSpec]> {
    let command = |kind: &ExecKind| CommandSpec {
        kind: *kind,
        ignore_failure: false,
    };
    kinds.iter().map(command).collect()
}

impl World {
    pub(crate) fn new(kind: KindSpec) -> Self {
        Self {
            machine: Machine::for_kind(&kind),
            spec: UnitSpec {
                kind,
                ..UnitSpec::default()
            },
            context: Context {
                now: Clock {
                    monotonic: Time(1_000_000_000),
                    real: 1_700_000_000_000_000,
                },
                stop_pending: false,
                start_limit_hit: false,
                shutting_down: false,
                restart_pending: false,
                invocation: InvocationId(1),
                triggered: None,
            },
            deadlines: BTreeMap::new(),
            real_deadline: None,
            processes: Vec::new(),
            asked: VecDeque::new(),
            out: Vec::new(),
            next_pid: 100,
        }
    }

    pub(crate) fn service(change: impl FnOnce(&mut crate::spec::ServiceSpec)) -> Self {
        let mut spec = crate::spec::ServiceSpec {
            commands: commands(&[ExecKind::Start]),
            ..crate::spec::ServiceSpec::default()
        };
        change(&mut spec);
        Self::new(KindSpec::Service(Box::new(spec)))
    }

    /// Hands an input in and notes what comes of it.
    pub(crate) fn give(&mut self, input: Input) -> &mut Self {
        let mut out = Vec::new();
        self.machine
            .handle(Some(&self.spec), &self.context, input, &mut out);
        for output in &out {
            match output {
                Output::Deadline { kind, at: Some(at) } => {
                    self.deadlines.insert(*kind, *at);
                }
                Output::Deadline { kind, at: None } => {
                    self.deadlines.remove(kind);
                }
                Output::RealDeadline { at, .. } => self.real_deadline = *at,
                Output::Spawn { role, command } => self.asked.push_back((*role, *command)),
                _ => {}
            }
        }
        self.out = out;
        self
    }

    pub(crate) fn start(&mut self) -> &mut Self {
        self.context.invocation.0 += 1;
        let invocation = self.context.invocation;
        self.give(Input::Start { invocation })
    }

    pub(crate) fn stop(&mut self) -> &mut Self {
        self.context.stop_pending = true;
        self.give(Input::Stop);
        self
    }

    pub(crate) fn process(&mut self) -> Process {
        self.next_pid += 1;
        Process {
            pid: self.next_pid,
            pidfd_inode: u64::from(self.next_pid),
            cgroup: "/u".into(),
            invocation: self.context.invocation,
        }
    }

    /// The command that is asked for appears as a process.
    pub(crate) fn spawned(&mut self) -> &mut Self {
        let (role, _) = self.asked.pop_front().expect("a command was asked for");
        let process = self.process();
        self.processes.push((process.pid, role));
        self.give(Input::Spawned { role, process })
    }

    /// The command that is asked for appears as a process that is still set up.
    pub(crate) fn delegated(&mut self) -> &mut Self {
        let (role, _) = self.asked.pop_front().expect("a command was asked for");
        let process = self.process();
        self.processes.push((process.pid, role));
        self.give(Input::Delegated {
            role,
            process,
            stands_for: false,
        })
    }

    /// The last process runs its program.
    pub(crate) fn executed(&mut self) -> &mut Self {
        let pid = self.processes.last().expect("a process lives").0;
        self.give(Input::Executed {
            pid,
            dropped: Vec::new(),
        })
    }

    /// The command that is asked for cannot be had.
    pub(crate) fn spawn_fails(&mut self) -> &mut Self {
        self.spawn_fails_when(false)
    }

    /// What the command needs cannot even be put together.
    pub(crate) fn spawn_fails_early(&mut self) -> &mut Self {
        self.spawn_fails_when(true)
    }

    fn spawn_fails_when(&mut self, early: bool) -> &mut Self {
        let (role, _) = self.asked.pop_front().expect("a command was asked for");
        let error = SpawnError {
            step: "exec".into(),
            errno: 2,
            exit_code: 203,
            early,
        };
        self.give(Input::SpawnFailed { role, error })
    }

    /// A process of this role ends; the cgroup is reported empty when it was the last.
    pub(crate) fn ends(&mut self, role: Role, status: ExitStatus) -> &mut Self {
        let at = self.processes.iter().position(|(_, of)| *of == role);
        let (pid, _) = self
            .processes
            .remove(at.expect("a process of this role lives"));
        self.give(Input::Exited { pid, status });
        self.report_empty()
    }

    pub(crate) fn report_empty(&mut self) -> &mut Self {
        if self.processes.is_empty() {
            let out = std::mem::take(&mut self.out);
            self.give(Input::CgroupEmpty);
            self.out.splice(0..0, out);
        }
        self
    }

    /// The command that is asked for appears and ends.
    pub(crate) fn runs(&mut self, status: ExitStatus) -> &mut Self {
        self.spawned();
        let (_, role) = *self.processes.last().expect("it was just started");
        self.ends(role, status)
    }

    pub(crate) fn runs_well(&mut self) -> &mut Self {
        self.runs(ExitStatus::Code(0))
    }

    pub(crate) fn pass(&mut self, span: Span) -> &mut Self {
        self.context.now.monotonic.0 += span.0;
        self.context.now.real += i64::try_from(span.0).unwrap();
        self
    }

    /// Lets the nearest deadline of this kind be over.
    pub(crate) fn expire(&mut self, kind: DeadlineKind) -> &mut Self {
        let at = self
            .deadlines
            .remove(&kind)
            .expect("such a deadline is armed");
        let left = at.since(self.context.now.monotonic);
        self.pass(Span(left));
        self.give(Input::Deadline(kind))
    }

    pub(crate) fn triggered(&mut self, active: ActiveState, outcome: Outcome) -> &mut Self {
        let now = self.context.now.monotonic;
        let unit = self
            .context
            .triggered
            .get_or_insert_with(Triggered::default);
        if unit.active.is_down() && !active.is_down() {
            unit.inactive_exit = now;
        }
        if !unit.active.is_down() && active.is_down() {
            unit.inactive_enter = now;
        }
        unit.active = active;
        self.give(Input::TriggeredChanged {
            active,
            outcome,
            start_pending: false,
        })
    }

    pub(crate) fn sub(&self) -> &'static str {
        self.machine.sub_state()
    }

    #[track_caller]
    pub(crate) fn is(&mut self, sub: &str) -> &mut Self {
        assert_eq!(self.sub(), sub, "outputs: {:?}", self.out);
        self
    }

    #[track_caller]
    pub(crate) fn ended(&mut self, sub: &str, outcome: Outcome) -> &mut Self {
        self.is(sub);
        assert_eq!(self.machine.outcome(), outcome);
        self
    }

    #[track_caller]
    pub(crate) fn asks(&mut self, kind: ExecKind, index: u16) -> &mut Self {
        let command = CommandRef { kind, index };
        assert_eq!(
            self.asked.front().map(|(_, command)| *command),
            Some(command)
        );
        self
    }

    #[track_caller]
    pub(crate) fn said(&mut self, output: &Output) -> &mut Self {
        assert!(
            self.out.contains(output),
            "{output:?} is not in {:?}",
            self.out
        );
        self
    }

    /// The signals that were sent by the last input.
    pub(crate) fn kills(&self) -> Vec<(KillScope, u8)> {
        let kill = |output: &Output| match output {
            Output::Kill { scope, signal, .. } => Some((*scope, *signal)),
            _ => None,
        };
        self.out.iter().filter_map(kill).collect()
    }
}
