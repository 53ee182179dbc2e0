//! What core itself remembers, folded from the same events as the engine's state: so it survives with it.
//!
//! Nothing here decides anything; it is what users are shown: runs of commands, ended jobs, the environment.

use std::collections::{BTreeMap, VecDeque};

use muster_engine::EngineState;
use muster_engine::event::{Action, Do, What};
use muster_engine::ids::{ActionId, Clock, JobId, UnitId};
use muster_engine::job::{JobResult, JobType};
use muster_engine::protocol::{CommandRef, ExitStatus, Input, Output, Role};
use serde::{Deserialize, Serialize};

/// Ended jobs that are remembered for those who ask later.
const ENDED_JOBS: usize = 512;

/// Core's own memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Every action up to this one was carried out when the snapshot was written.
    pub done: ActionId,
    /// When the first core of this machine started.
    pub started: Clock,
    /// When the jobs of the first transaction had ended.
    pub finished: Option<Clock>,
    /// When reading unit files began and ended, last time.
    pub loading: (Clock, Clock),
    /// The unit that was booted.
    pub booted: Box<str>,
    /// Whether the unit to boot was asked for, or need not be because the machine had been up before.
    pub boot_asked: bool,
    /// How often core was started anew.
    pub recoveries: u32,
    /// Why, last time.
    pub last_recovery: Box<str>,
    /// The number of the last change that subscribers were told.
    pub sequence: u64,
    /// What services get in their environment beside their own.
    pub environment: BTreeMap<Box<str>, Box<str>>,
    /// Commands that ran, by unit.
    pub runs: BTreeMap<UnitId, Vec<Run>>,
    /// Jobs that ended, the last ones only.
    pub ended: VecDeque<EndedJob>,
    /// Requests are numbered over the life of the machine.
    pub last_request: u64,
    /// Numbers of connections that were taken, by socket unit.
    pub connections: BTreeMap<UnitId, u64>,
    /// What units asked to be told of, beyond their deadlines.
    pub watches: BTreeMap<UnitId, Watches>,
}

/// What a unit asked to be told of. A core that was started anew sets it up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watches {
    /// Traffic at its listening sockets.
    pub sockets: bool,
    /// Its paths.
    pub paths: bool,
    /// Its PID file.
    pub pid_file: bool,
    /// Its bus name.
    pub bus_name: bool,
    /// Its automount point.
    pub automount: bool,
    /// A moment of real time, in microseconds since 1970, and whether the machine is woken for it.
    pub real_deadline: Option<(i64, bool)>,
}

/// A command's last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which.
    pub command: CommandRef,
    /// What it was to the unit.
    pub role: Role,
    /// Its process; 0 until it started.
    pub pid: u32,
    /// When it began.
    pub start: Clock,
    /// When and how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<(Clock, ExitStatus)>,
}

/// A job that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    /// Its number.
    pub job: JobId,
    /// Its unit.
    pub unit: UnitId,
    /// What it did.
    pub kind: JobType,
    /// How it ended.
    pub result: JobResult,
}

impl Memory {
    /// Takes note of an event, before the engine does.
    pub fn observe(&mut self, clock: Clock, what: &What) {
        let (unit, input) = match what {
            What::Unit { unit, input } => (unit, input),
            What::Request(request) => {
                self.last_request = self.last_request.max(request.id.0);
                self.boot_asked = true;
                return;
            }
            _ => return,
        };
        match input {
            Input::Accepted { number } => {
                let last = self.connections.entry(*unit).or_default();
                *last = (*last).max(*number);
            }
            Input::Start { .. } => {
                self.runs.remove(unit);
            }
            Input::Spawned { role, process } => {
                if let Some(run) = self.open_run(*unit, |run| run.role == *role && run.pid == 0) {
                    run.pid = process.pid;
                    run.start = clock;
                }
            }
            Input::SpawnFailed { role, error } => {
                if let Some(run) = self.open_run(*unit, |run| run.role == *role && run.pid == 0) {
                    run.start = clock;
                    run.exit = Some((clock, ExitStatus::Code(error.exit_code)));
                }
            }
            Input::Exited { pid, status } => {
                if let Some(run) = self.open_run(*unit, |run| run.pid == *pid) {
                    run.exit = Some((clock, *status));
                }
            }
            _ => {}
        }
    }

    fn open_run(&mut self, unit: UnitId, fits: impl Fn(&Run) -> bool) -> Option<&mut Run> {
        let runs = self.runs.get_mut(&unit)?;
        runs.iter_mut()
            .rev()
            .find(|run| run.exit.is_none() && fits(run))
    }

    /// Takes note of an action that the engine asks for.
    pub fn follow(&mut self, clock: Clock, action: &Action, engine: &EngineState) {
        match &action.what {
            Do::Unit {
                unit,
                output: Output::Spawn { role, command },
                ..
            } => {
                let runs = self.runs.entry(*unit).or_default();
                runs.retain(|run| run.command != *command);
                runs.push(Run {
                    command: *command,
                    role: *role,
                    pid: 0,
                    start: clock,
                    exit: None,
                });
            }
            Do::Unit { unit, output, .. } => self.watch(*unit, output),
            Do::JobEnded {
                job,
                unit,
                job_type,
                result,
                ..
            } => {
                self.sequence += 1;
                if self.ended.len() >= ENDED_JOBS {
                    self.ended.pop_front();
                }
                self.ended.push_back(EndedJob {
                    job: *job,
                    unit: *unit,
                    kind: *job_type,
                    result: *result,
                });
                // What the kernel shows has jobs, too, before anything was asked for.
                let asked_for = self.boot_asked && self.finished.is_none();
                if asked_for && engine.jobs().next().is_none() {
                    self.finished = Some(clock);
                }
            }
            Do::JobAdded(_) | Do::StateChanged { .. } => self.sequence += 1,
            _ => {}
        }
    }

    fn watch(&mut self, unit: UnitId, output: &Output) {
        let mut watches = self.watches.get(&unit).copied().unwrap_or_default();
        match output {
            Output::WatchSockets(on) => watches.sockets = *on,
            Output::WatchPaths(on) => watches.paths = *on,
            Output::WatchPidFile(on) => watches.pid_file = *on,
            Output::WatchBusName(on) => watches.bus_name = *on,
            Output::Automount(on) => watches.automount = *on,
            Output::RealDeadline { at, wake } => {
                watches.real_deadline = at.map(|at| (at, *wake));
            }
            Output::CloseSockets => watches.sockets = false,
            _ => return,
        }
        if watches == Watches::default() {
            self.watches.remove(&unit);
        } else {
            self.watches.insert(unit, watches);
        }
    }

    /// Forgets a unit that is not known any more.
    pub fn forget(&mut self, unit: UnitId) {
        self.runs.remove(&unit);
        self.watches.remove(&unit);
        self.connections.remove(&unit);
    }

    /// A job that ended lately.
    #[must_use]
    pub fn ended(&self, job: JobId) -> Option<&EndedJob> {
        self.ended.iter().rev().find(|ended| ended.job == job)
    }
}
